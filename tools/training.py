"""Training tools: demonstrations and supervised fine-tuning, then rounds of search and learning.

Every function is a function of its arguments and its seed; nothing depends on the clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from coda.policy.backbones import make_policy
from coda.policy.base import ChunkPolicy
from coda.policy.batches import policy_vectors
from coda.policy.config import CriticConfig, LearnerConfig, PolicyConfig, SftConfig
from coda.policy.critic import ChunkCritic
from coda.policy.device import DeviceName
from coda.policy.learner import RoundReport, SftReport, sft, update_round
from coda.policy.observation import OBSERVATION_DIM
from coda.policy.potential import Potential, StatePotential
from coda.policy.replay import Replay
from coda.policy.state_value import search_value
from coda.policy.text import TextEncoder
from coda.sim.errors import CodaError
from coda.sim.planner import ScriptedPlanner
from coda.sim.program import GenerationProgram
from coda.sim.rollout import EpisodeData, run_scenes
from coda.sim.sampling import sample_scene
from coda.sim.splits import Splits
from coda.tools.acting import embed, shown
from coda.tools.collecting import Collector, OnProgress, RoundBudget, Search, Target, replay_share
from coda.tools.targets_file import value_potential

DEMONSTRATION_TRIES = 4
"""Planner rollouts for each wanted demonstration, at most."""


class TrainingError(CodaError):
    """Training cannot be carried out as asked."""


@dataclass(frozen=True, kw_only=True)
class SeedResult:
    """A policy fine-tuned on planner demonstrations."""

    policy: ChunkPolicy
    replay: Replay
    report: SftReport
    demonstrations: int
    simulated_steps: int


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """One round of training."""

    policy: ChunkPolicy
    critic: ChunkCritic
    report: RoundReport | None
    """None where nothing could be learned from."""
    searches: tuple[Search, ...]
    simulated_steps: int


def seed_policy(
    programs: Sequence[GenerationProgram],
    text: TextEncoder,
    *,
    demonstrations: int,
    updates: int,
    seed: int,
    threads: int = 1,
    shape: PolicyConfig | None = None,
    backbone: str = "flow",
    device: DeviceName = "cpu",
) -> SeedResult:
    """Planner demonstrations of the seed programs, then supervised fine-tuning.

    Args:
        programs: Seed range of every task.
        text: Sentence encoder.
        demonstrations: Of every program.
        updates: Gradient updates.
        seed: Of everything random here.
        threads: Physics threads.
        shape: Of the policy.
        backbone: Of the policy, one of `coda.policy.backbones.BACKBONES`.
        device: Where the policy lives and learns.

    Raises:
        TrainingError: The planner solves too few scenes of a program.
    """
    rng = np.random.default_rng(seed)
    found: list[EpisodeData] = []
    steps = 0
    for program in programs:
        own, used = _demonstrate(program, demonstrations, rng, threads)
        found += own
        steps += used
    policy = make_policy(backbone, shape or PolicyConfig(), seed=seed % 2**31, device=device)
    found = shown(policy, found, threads=threads)
    replay = Replay()
    for episode, row in zip(found, embed(text, [e.scene for e in found]), strict=True):
        replay.add(episode, row, source="planner")
    generator = torch.Generator().manual_seed(seed)
    report = sft(policy, replay, SftConfig(updates=updates), generator=generator)
    return SeedResult(
        policy=policy,
        replay=replay,
        report=report,
        demonstrations=len(found),
        simulated_steps=steps,
    )


def _demonstrate(
    program: GenerationProgram, wanted: int, rng: np.random.Generator, threads: int
) -> tuple[list[EpisodeData], int]:
    """Planner rollouts of a program that succeed, and the control steps that all of them took."""
    found: list[EpisodeData] = []
    steps = 0
    for _ in range(DEMONSTRATION_TRIES):
        missing = wanted - len(found)
        if missing <= 0:
            break
        scenes = [sample_scene(program, rng) for _ in range(missing)]
        episodes = run_scenes(scenes, ScriptedPlanner(), threads=threads)
        steps += sum(e.steps for e in episodes)
        found += [e for e in episodes if e.success]
    if len(found) < wanted:
        raise TrainingError(
            f"the planner gave {len(found)} of {wanted} demonstrations of program "
            f"{program.name!r} in {DEMONSTRATION_TRIES} tries; use an easier seed program."
        )
    return found, steps


def train_round(
    policy: ChunkPolicy,
    critic: ChunkCritic | None,
    replay: Replay,
    targets: Sequence[Target],
    budget: RoundBudget,
    *,
    text: TextEncoder,
    splits: Splits,
    base: Potential,
    previous: StatePotential | None = None,
    rollouts: Sequence[EpisodeData] = (),
    round_index: int,
    seed: int,
    threads: int = 1,
    learner: LearnerConfig | None = None,
    critic_shape: CriticConfig | None = None,
    on_progress: OnProgress | None = None,
) -> TrainResult:
    """One round: search the targets' scenes, add what was found to the replay, update the policy.

    Args:
        policy: Trained in place.
        critic: Of the round before, trained in place; a fresh one where None.
        replay: Grows in place; its new rows carry `round_index`.
        targets: What to train on.
        budget: Counts.
        text: Sentence encoder.
        splits: Guard of the held-out cells.
        base: The family's own potential; with those of the targets it shapes the value learning
            (`coda.tools.targets_file.value_potential`).
        previous: Potential that `critic` was trained under; `base` where None.
        rollouts: The policy's own episodes of this round, for the critic and self-imitation.
        round_index: Number of the round, from 1.
        seed: Of everything random here.
        threads: Physics threads.
        learner: Settings of the update; updates are taken from `budget`.
        critic_shape: Of a fresh critic.
        on_progress: Told how far the search is.
    """
    rng = np.random.default_rng(seed)
    generator = torch.Generator().manual_seed(seed)
    config = learner or LearnerConfig()
    collector = Collector(
        policy,
        replay,
        budget,
        text,
        round_index,
        rng,
        threads,
        signal=config.signal,
        value=search_value(policy, critic, previous or base, config.signal),
    )
    imitate = any(t.potential.program.tools.self_imitation for t in targets)
    collector.take(shown(policy, rollouts, threads=threads), imitate=imitate)
    collector.collect(targets, splits, on_progress)
    fresh = critic is None
    if critic is None:
        critic = _start(policy, replay, config, critic_shape, seed)
    report = None
    if len(replay):
        report = update_round(
            policy,
            critic,
            replay,
            value_potential(targets, base),
            _for_round(config, targets, budget),
            generator=generator,
            previous=None if fresh else previous or base,
            imitate_first=fresh,
        )
    return TrainResult(
        policy=policy,
        critic=critic,
        report=report,
        searches=tuple(collector.searches),
        simulated_steps=collector.simulated_steps,
    )


def _for_round(
    config: LearnerConfig, targets: Sequence[Target], budget: RoundBudget
) -> LearnerConfig:
    """The learner's settings with the round's updates and its targets' share of replay."""
    return config.model_copy(
        update={
            "actor_updates": -(-budget.updates // config.cycles),
            "replay_share": replay_share(targets, config.replay_share),
        }
    )


def _start(
    policy: ChunkPolicy,
    replay: Replay,
    config: LearnerConfig,
    shape: CriticConfig | None,
    seed: int,
) -> ChunkCritic:
    """A fresh critic, and for a policy that will be trained fresh normalisation statistics.

    The demonstrations' narrow ones do not fit what was collected since.
    """
    if config.trains_actor:
        _refit(policy, replay)
    return ChunkCritic(
        shape or CriticConfig(),
        obs_dim=OBSERVATION_DIM,
        chunk_dim=policy.chunk_dim,
        seed=seed % 2**31,
        device=policy.device.torch.type,
    )


def _refit(policy: ChunkPolicy, replay: Replay) -> None:
    """Take normalisation statistics from everything in the replay."""
    if not len(replay):
        return
    policy.fit_normalisers(
        policy_vectors(policy, replay)[torch.from_numpy(replay["state"])],
        torch.from_numpy(replay["actions"]),
        torch.from_numpy(replay.valid()),
    )
