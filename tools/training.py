"""Training tools: demonstrations and supervised fine-tuning, then rounds of search and learning.

Every function is a function of its arguments and its seed; nothing depends on the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from coda.policy.config import CriticConfig, LearnerConfig, PolicyConfig, SftConfig
from coda.policy.critic import ChunkCritic
from coda.policy.flow import FlowChunkPolicy
from coda.policy.learner import RoundReport, SftReport, sft, update_round
from coda.policy.lookahead import LookaheadConfig, SearchResult, search
from coda.policy.observation import OBSERVATION_DIM, observe_vector
from coda.policy.potential import Potential
from coda.policy.replay import Replay
from coda.policy.text import TextEncoder
from coda.sim.errors import CodaError
from coda.sim.planner import ScriptedPlanner
from coda.sim.program import Edit, GenerationProgram
from coda.sim.rollout import EpisodeData, Outcome, run_scenes
from coda.sim.sampling import Rejected, sample_scene
from coda.sim.scene import Scene
from coda.sim.splits import Splits

BATCH = 48
"""Scenes searched at once."""
DEMONSTRATION_TRIES = 4
"""Planner rollouts for each wanted demonstration, at most."""

OnProgress = Callable[[int, int, str], None]
"""Called with (done, total, label)."""


class TrainingError(CodaError):
    """Training cannot be carried out as asked."""


@dataclass(frozen=True, kw_only=True)
class SeedResult:
    """A policy fine-tuned on planner demonstrations."""

    policy: FlowChunkPolicy
    replay: Replay
    report: SftReport
    demonstrations: int
    simulated_steps: int


@dataclass(frozen=True, kw_only=True)
class Target:
    """One thing to train on: where scenes come from and which potential guides them."""

    label: str
    """Mode id, or the program's name."""
    program: GenerationProgram
    potential: Potential
    weight: float = 1.0


@dataclass(frozen=True, kw_only=True)
class RoundBudget:
    """What a round may spend. Counts only."""

    episodes: int
    """Search episodes."""
    candidates: int
    """Candidate chunks at each decision."""
    updates: int
    """Actor updates."""
    compose: float = 0.5
    """Share of the scenes that combine the edits of two or more targets."""
    policy_share: float = 0.3
    """Share of a search's chunks that execute the policy's own sample."""


@dataclass(frozen=True, kw_only=True)
class Search:
    """What the search found for one target."""

    label: str
    episodes: int
    solved: int
    labels: int
    stalled: Mapping[str, int] = field(default_factory=dict)
    """Stage names where searches that failed stood."""


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """One round of training."""

    policy: FlowChunkPolicy
    critic: ChunkCritic
    report: RoundReport | None
    """None where nothing could be learned from."""
    searches: tuple[Search, ...]
    simulated_steps: int


def embed(text: TextEncoder, scenes: Sequence[Scene]) -> npt.NDArray[np.float32]:
    """Embeddings (N, E) of the scenes' instructions; equal instructions are encoded once."""
    words = [scene.tau.instruction for scene in scenes]
    unique = list(dict.fromkeys(words))
    rows = np.asarray(text.encode(unique), dtype=np.float32)
    place = {word: i for i, word in enumerate(unique)}
    return rows[[place[word] for word in words]]


def seed_policy(
    program: GenerationProgram,
    text: TextEncoder,
    *,
    demonstrations: int,
    updates: int,
    seed: int,
    threads: int = 1,
    shape: PolicyConfig | None = None,
) -> SeedResult:
    """Planner demonstrations of the seed program, then supervised fine-tuning.

    Raises:
        TrainingError: The planner solves too few scenes of the program.
    """
    rng = np.random.default_rng(seed)
    found: list[EpisodeData] = []
    steps = 0
    for _ in range(DEMONSTRATION_TRIES):
        missing = demonstrations - len(found)
        if missing <= 0:
            break
        scenes = [sample_scene(program, rng) for _ in range(missing)]
        episodes = run_scenes(scenes, ScriptedPlanner(), threads=threads)
        steps += sum(e.steps for e in episodes)
        found += [e for e in episodes if e.success]
    if len(found) < demonstrations:
        raise TrainingError(
            f"the planner gave {len(found)} of {demonstrations} demonstrations of program "
            f"{program.name!r} in {DEMONSTRATION_TRIES} tries; use an easier seed program."
        )
    replay = Replay()
    for episode, row in zip(found, embed(text, [e.scene for e in found]), strict=True):
        replay.add(episode, row, source="planner")
    policy = FlowChunkPolicy(shape or PolicyConfig(), seed=seed % 2**31)
    generator = torch.Generator().manual_seed(seed)
    report = sft(policy, replay, SftConfig(updates=updates), generator=generator)
    return SeedResult(
        policy=policy,
        replay=replay,
        report=report,
        demonstrations=len(found),
        simulated_steps=steps,
    )


def combine(
    programs: Sequence[GenerationProgram], seed: GenerationProgram | None = None
) -> GenerationProgram:
    """One program with the edits of all; of several edits of one path, the first one's stays.

    Programs spell out the seed range of the axes that they leave alone. An edit that is the same
    in `seed` therefore gives way to any other edit of its path.
    """
    narrow = {edit.path: edit.sampler for edit in seed.edits} if seed is not None else {}
    edits: dict[str, Edit] = {}
    for program in programs:
        for edit in program.edits:
            held = edits.get(edit.path)
            if held is None or (held.sampler == narrow.get(edit.path) != edit.sampler):
                edits.pop(edit.path, None)  # keeps the order of the program that it comes from
                edits[edit.path] = edit
    return GenerationProgram(
        name="+".join(program.name for program in programs)[:80],
        family=programs[0].family,
        edits=tuple(edits.values())[:32],
        constraints=tuple(c for program in programs for c in program.constraints)[:8],
    )


def training_scenes(
    targets: Sequence[Target],
    count: int,
    splits: Splits,
    *,
    compose: float,
    rng: np.random.Generator,
) -> tuple[list[Scene], list[int]]:
    """Scenes for a round, never in a held-out cell, and the index of each one's target.

    Targets are drawn by weight; with probability `compose` the edits of some other targets are
    added, so that difficulties are also met together. A program that cannot be drawn under the
    guard is skipped for that scene.
    """
    weights = np.array([max(target.weight, 0.0) for target in targets])
    if weights.sum() <= 0:
        weights = np.ones(len(targets))
    narrow = splits.seed_program()
    scenes: list[Scene] = []
    owners: list[int] = []
    for _ in range(4 * count):
        if len(scenes) == count:
            break
        first = int(rng.choice(len(targets), p=weights / weights.sum()))
        chosen = [first]
        if len(targets) > 1 and rng.random() < compose:
            others = rng.permutation([i for i in range(len(targets)) if i != first])
            chosen += others[: int(rng.integers(1, len(others) + 1))].tolist()
        program = combine([targets[i].program for i in chosen], narrow)
        try:
            scene = sample_scene(program, rng, guard=splits)
        except Rejected:
            continue
        scenes.append(scene)
        owners.append(first)
    return scenes, owners


def _store(
    result: SearchResult, rows: npt.NDArray[np.float32], replay: Replay, round_index: int
) -> int:
    """Add the labels that gained potential, scene by scene; returns their number."""
    kept = [label for label in result.labels if label.gain > 0.0 or label.success]
    for scene in sorted({label.scene for label in kept}):
        own = [label for label in kept if label.scene == scene]
        replay.add_transitions(
            np.array([label.frames for label in own]),
            np.array([label.action for label in own]),
            np.array([label.length for label in own], dtype=np.int64),
            np.array([label.success for label in own]),
            rows[scene],
            source="lookahead",
            round_index=round_index,
            episode_success=bool(result.success[scene]),
        )
    return len(kept)


def train_round(
    policy: FlowChunkPolicy,
    critic: ChunkCritic | None,
    replay: Replay,
    targets: Sequence[Target],
    budget: RoundBudget,
    *,
    text: TextEncoder,
    splits: Splits,
    base: Potential,
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
        base: Potential of the value learning: one Phi for every stored state.
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
    for episode, row in zip(rollouts, embed(text, [e.scene for e in rollouts]), strict=True):
        crashed = episode.outcome is Outcome.CRASHED
        replay.add(episode, row, source="policy", round_index=round_index, crashed=crashed)
    searches: list[Search] = []
    steps = 0
    scenes, owners = training_scenes(
        targets, budget.episodes, splits, compose=budget.compose, rng=rng
    )
    done = 0
    for index, target in enumerate(targets):
        own = [scene for scene, owner in zip(scenes, owners, strict=True) if owner == index]
        found, spent = _search_target(
            target, own, policy, replay, budget, text, round_index, rng, threads
        )
        steps += spent
        done += len(own)
        if found is not None:
            searches.append(found)
        if on_progress is not None:
            on_progress(done, len(scenes), target.label)
    config = learner or LearnerConfig()
    config = config.model_copy(update={"actor_updates": -(-budget.updates // config.cycles)})
    if critic is None:
        # the demonstrations' narrow statistics do not fit what the search found; measured on the
        # OOD file after one round, 3,000 updates: .64 with new statistics, .56 with the old
        _refit(policy, replay)
        critic = ChunkCritic(
            critic_shape or CriticConfig(),
            obs_dim=OBSERVATION_DIM,
            chunk_dim=policy.basis.size,
            seed=seed % 2**31,
        )
    report = None
    if len(replay):
        report = update_round(policy, critic, replay, base, config, generator=generator)
    return TrainResult(
        policy=policy,
        critic=critic,
        report=report,
        searches=tuple(searches),
        simulated_steps=steps,
    )


def _refit(policy: FlowChunkPolicy, replay: Replay) -> None:
    """Take normalisation statistics from everything in the replay."""
    if not len(replay):
        return
    vectors = observe_vector(replay.frames())[replay["state"]]
    policy.fit_normalisers(
        torch.from_numpy(vectors),
        torch.from_numpy(replay["actions"]),
        torch.from_numpy(replay.valid()),
    )


def _search_target(
    target: Target,
    scenes: Sequence[Scene],
    policy: FlowChunkPolicy,
    replay: Replay,
    budget: RoundBudget,
    text: TextEncoder,
    round_index: int,
    rng: np.random.Generator,
    threads: int,
) -> tuple[Search | None, int]:
    if not scenes or not target.potential.program.tools.lookahead:
        return None, 0
    own = max(1, min(2, budget.candidates // 4))
    config = LookaheadConfig(
        policy_candidates=own,
        servo_candidates=max(2, budget.candidates - own),
        policy_share=budget.policy_share,
    )
    solved = labels = steps = 0
    stalled: dict[str, int] = {}
    for start in range(0, len(scenes), BATCH):
        part = scenes[start : start + BATCH]
        rows = embed(text, part)
        result = search(part, target.potential, policy, rows, config, rng=rng, threads=threads)
        labels += _store(result, rows, replay, round_index)
        solved += int(result.success.sum())
        steps += result.simulated_steps
        for stage in result.stall_stage[~result.success].tolist():
            name = target.potential.stages[stage]
            stalled[name] = stalled.get(name, 0) + 1
    found = Search(
        label=target.label, episodes=len(scenes), solved=solved, labels=labels, stalled=stalled
    )
    return found, steps
