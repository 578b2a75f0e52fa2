"""Collect training data: scenes drawn from programs, searched under the training signal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from coda.policy.base import ChunkPolicy
from coda.policy.config import Signal
from coda.policy.lookahead import LookaheadConfig, SearchResult, search
from coda.policy.potential import Potential
from coda.policy.program import LearningTools
from coda.policy.replay import Replay
from coda.policy.state_value import StateValue
from coda.policy.text import TextEncoder
from coda.sim.cameras import Pictures
from coda.sim.engine import CHUNK
from coda.sim.planner import ScriptedPlanner
from coda.sim.program import GenerationProgram
from coda.sim.rollout import EpisodeData, Outcome, run_scenes
from coda.sim.sampling import Rejected, sample_scene
from coda.sim.scene import Scene
from coda.sim.scene_state import SceneState
from coda.sim.splits import Splits
from coda.tools.acting import embed, policy_actor, shown
from coda.tools.combining import combine
from coda.tools.stage_resets import failing_states

OnProgress = Callable[[int, int, str], None]
"""Called with (done, total, label)."""

BATCH = 48
"""Scenes searched at once."""
TOGETHER = 3
"""Other targets whose edits a scene takes over, at most."""
PREFIX_CHUNKS = 6
"""Most chunks that the policy leads before a search, where phi asks for stage resets and nothing
is stored to reset to."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """One thing to train on: where scenes come from and which potential guides them."""

    label: str
    """Mode id, or the program's name."""
    program: GenerationProgram
    potential: Potential
    weight: float = 1.0
    rollouts: Sequence[EpisodeData] = ()
    """The policy's episodes on scenes like these, where failing states may be found."""


@dataclass(frozen=True, kw_only=True)
class RoundBudget:
    """What a round may spend. Counts only."""

    episodes: int
    """Search episodes; 0 for none."""
    candidates: int
    """Candidate chunks at each decision."""
    updates: int
    """Actor updates."""
    rollouts: int = 0
    """Episodes of the policy itself, exploring, on scenes of the targets."""
    compose: float = 0.5
    """Share of the scenes that combine the edits of two or more targets."""
    policy_share: float = 0.3
    """Share of a search's chunks that execute the policy's own sample."""
    rejected: int = 0
    """Candidates of every decision that are kept for the critic, beside the best."""
    explore: float = 0.0
    """Share of the rollouts' chunks that are random motions, at least; phi may ask for more."""


@dataclass(frozen=True, kw_only=True)
class Search:
    """What the search found for one target."""

    label: str
    episodes: int
    solved: int
    labels: int
    stalled: Mapping[str, int] = field(default_factory=dict)
    """Stage names where searches that failed stood."""
    resets: int = 0
    """Searches that began in a stored state of the failing stage …"""
    led: int = 0
    """… and those that the policy led first, because nothing was stored."""


def training_scenes(
    targets: Sequence[Target],
    count: int,
    splits: Splits,
    *,
    compose: float,
    rng: np.random.Generator,
) -> tuple[list[Scene], list[int]]:
    """Scenes for a round, never in a held-out cell, and the index of each one's target.

    Targets are drawn by weight; with probability `compose` the edits of up to `TOGETHER` others are
    added, so that difficulties are also met together. A program that cannot be drawn under the
    guard is skipped for that scene.
    """
    weights = np.array([max(target.weight, 0.0) for target in targets])
    if weights.sum() <= 0:
        weights = np.ones(len(targets))
    scenes: list[Scene] = []
    owners: list[int] = []
    for _ in range(4 * count):
        if len(scenes) == count:
            break
        first = int(rng.choice(len(targets), p=weights / weights.sum()))
        chosen = [first]
        if len(targets) > 1 and rng.random() < compose:
            others = rng.permutation([i for i in range(len(targets)) if i != first])
            most = min(TOGETHER, len(others))
            chosen += others[: int(rng.integers(1, most + 1))].tolist()
        program = combine([targets[i].program for i in chosen], splits)
        try:
            scene = sample_scene(program, rng, guard=splits)
        except Rejected:
            continue
        scenes.append(scene)
        owners.append(first)
    return scenes, owners


def _store(
    result: SearchResult,
    rows: npt.NDArray[np.float32],
    replay: Replay,
    round_index: int,
    *,
    ranked: bool,
) -> int:
    """Add what a search found, scene by scene; returns the number of labels to imitate.

    Those are every label that gained score or succeeded; where nothing ranks the states, those that
    were executed on the way to a success. What was rejected is for the critic alone.
    """
    kept = [
        label
        for label in result.labels
        if label.gain > 0.0
        or label.success
        or (not ranked and label.executed and result.success[label.scene])
    ]
    for labels, weight in ((kept, 1.0), (result.rejected, 0.0)):
        for scene in sorted({label.scene for label in labels}):
            own = [label for label in labels if label.scene == scene]
            replay.add_transitions(
                np.array([label.frames for label in own]),
                np.array([label.action for label in own]),
                np.array([label.length for label in own], dtype=np.int64),
                np.array([label.success for label in own]),
                rows[scene],
                pictures=_stacked([label.pictures for label in own]),
                source="lookahead",
                round_index=round_index,
                weight=weight,
                episode_success=bool(result.success[scene]),
            )
    return len(kept)


def replay_share(targets: Sequence[Target], usual: float) -> float:
    """Share of old chunks in an actor batch: the targets' own, by weight, `usual` where unsaid."""
    asked = [target.potential.program.tools.replay_share for target in targets]
    weights = np.array([max(target.weight, 0.0) for target in targets])
    if all(share is None for share in asked) or weights.sum() <= 0:
        return usual
    shares = [usual if share is None else share for share in asked]
    return float(np.average(shares, weights=weights))


def _stacked(pictures: Sequence[Pictures | None]) -> Pictures | None:
    """Labels' pictures (M, 2, cameras, 3, h, w), where they have them."""
    there = [picture for picture in pictures if picture is not None]
    return np.stack(there) if there else None


class Collector:
    """Searches the scenes of a round and adds the labels to the replay.

    Args:
        policy: Rolls out, and proposes chunks to the search.
        replay: Grows in place.
        budget: Counts.
        text: Sentence encoder.
        round_index: Of the new rows.
        rng: Of everything random here.
        threads: Physics threads.
        signal: Under `sparse` no potential guides the search.
        value: Guides it beside the potential: of the critic of the round before.
    """

    def __init__(
        self,
        policy: ChunkPolicy,
        replay: Replay,
        budget: RoundBudget,
        text: TextEncoder,
        round_index: int,
        rng: np.random.Generator,
        threads: int,
        *,
        signal: Signal = "text2potential",
        value: StateValue | None = None,
    ) -> None:
        self._signal, self._value = signal, value
        self._policy, self._replay, self._budget, self._text = policy, replay, budget, text
        self._round_index, self._rng, self._threads = round_index, rng, threads
        self._rollouts: dict[str, list[EpisodeData]] = {}
        self.searches: list[Search] = []
        self.simulated_steps = 0

    def collect(
        self, targets: Sequence[Target], splits: Splits, on_progress: OnProgress | None
    ) -> None:
        """Search the scenes of every target, one target after the other."""
        budget = self._budget
        count = budget.episodes + budget.rollouts
        scenes, owners = training_scenes(
            targets, count, splits, compose=budget.compose, rng=self._rng
        )
        self._roll_out(targets, scenes[budget.episodes :], owners[budget.episodes :])
        scenes, owners = scenes[: budget.episodes], owners[: budget.episodes]
        done = 0
        for index, target in enumerate(targets):
            own = [scene for scene, owner in zip(scenes, owners, strict=True) if owner == index]
            wanted = target.potential.program.tools.planner_demonstrations
            if wanted:
                self._demonstrate(own[:wanted])
            if own and target.potential.program.tools.lookahead:
                self.searches.append(self._search(target, own))
            done += len(own)
            if on_progress is not None:
                on_progress(done, budget.episodes, target.label)

    def take(self, episodes: Sequence[EpisodeData], *, imitate: bool) -> None:
        """Add episodes of the policy: for the critic, and to be imitated where wanted."""
        rows = embed(self._text, [episode.scene for episode in episodes])
        for episode, row in zip(episodes, rows, strict=True):
            self._replay.add(
                episode,
                row,
                source="policy",
                round_index=self._round_index,
                weight=1.0 if imitate else 0.0,
                crashed=episode.outcome is Outcome.CRASHED,
            )

    def _roll_out(
        self, targets: Sequence[Target], scenes: Sequence[Scene], owners: Sequence[int]
    ) -> None:
        """Episodes of the policy at temperature 1, with random motions between its chunks where
        that is asked for: what it explores feeds critic and actor."""
        lengths = [target.potential.program.tools.chunk_steps or CHUNK for target in targets]
        for chunk_steps in sorted(set(lengths)):
            mine = [i for i, owner in enumerate(owners) if lengths[owner] == chunk_steps]
            for start in range(0, len(mine), BATCH):
                part = mine[start : start + BATCH]
                self._roll_out_batch(
                    [scenes[i] for i in part], [targets[owners[i]] for i in part], chunk_steps
                )

    def _roll_out_batch(
        self, scenes: Sequence[Scene], targets: Sequence[Target], chunk_steps: int
    ) -> None:
        rows = embed(self._text, scenes)
        seed = int(self._rng.integers(2**62))
        tools = [target.potential.program.tools for target in targets]
        actor = policy_actor(
            self._policy,
            rows,
            seed=seed,
            temperature=1.0,
            keep_pictures=True,
            explore=np.array([max(self._budget.explore, t.exploration_noise) for t in tools]),
        )
        episodes = run_scenes(
            scenes,
            actor,
            threads=self._threads,
            batch=BATCH,
            keep_states=any(tool.stage_resets for tool in tools),
            chunk_steps=chunk_steps,
        )
        self.simulated_steps += sum(episode.steps for episode in episodes)
        for episode, target, tool in zip(episodes, targets, tools, strict=True):
            self._rollouts.setdefault(target.label, []).append(episode)
            self.take([episode], imitate=tool.self_imitation)

    def _demonstrate(self, scenes: Sequence[Scene]) -> None:
        """Planner rollouts on some of a target's scenes; those that succeed are imitated."""
        episodes = run_scenes(scenes, ScriptedPlanner(), threads=self._threads)
        self.simulated_steps += sum(episode.steps for episode in episodes)
        solved = shown(self._policy, [e for e in episodes if e.success], threads=self._threads)
        rows = embed(self._text, [episode.scene for episode in solved])
        for episode, row in zip(solved, rows, strict=True):
            self._replay.add(episode, row, source="planner", round_index=self._round_index)

    def _search(self, target: Target, scenes: Sequence[Scene]) -> Search:
        guided = self._signal != "sparse"
        config = search_config(target.potential.program.tools, self._budget, guided=guided)
        ranked = guided or self._value is not None
        states = self._failing_states(target, len(scenes) // 2) if config.prefix_chunks else []
        if states:
            config = replace(config, prefix_chunks=0)
            scenes = [state.scene for state in states] + list(scenes[len(states) :])
        solved = labels = 0
        stalled: dict[str, int] = {}
        for start in range(0, len(scenes), BATCH):
            part = scenes[start : start + BATCH]
            rows = embed(self._text, part)
            result = search(
                part,
                target.potential if guided else None,
                self._policy,
                rows,
                config,
                rng=self._rng,
                value=self._value,
                starts=dict(enumerate(states[start : start + BATCH])),
                threads=self._threads,
            )
            labels += _store(result, rows, self._replay, self._round_index, ranked=ranked)
            solved += int(result.success.sum())
            self.simulated_steps += result.simulated_steps
            for stage in result.stall_stage[~result.success].tolist() if guided else ():
                name = target.potential.stages[stage]
                stalled[name] = stalled.get(name, 0) + 1
        return Search(
            label=target.label,
            episodes=len(scenes),
            solved=solved,
            labels=labels,
            stalled=stalled,
            resets=len(states),
            led=len(scenes) if config.prefix_chunks else 0,
        )

    def _failing_states(self, target: Target, most: int) -> list[SceneState]:
        rollouts = [*target.rollouts, *self._rollouts.get(target.label, ())]
        return failing_states(rollouts, target.potential, most, rng=self._rng)


def search_config(
    tools: LearningTools, budget: RoundBudget, *, guided: bool = True
) -> LookaheadConfig:
    """The search that a training program asks for, within a round's budget.

    `budget.candidates` stands for the default number of candidates; a program that asks for twice
    the default gets twice the budget's. `stage_resets` begins searches where the policy has led
    to, unless states of the failing stage are stored; `exploration_noise` executes random
    candidates; `chunk_steps` decides again before a chunk is over. Without a potential to guide
    it, half of the candidates are the policy's, and no stage is known to be reset to.
    """
    usual = LearningTools().lookahead_candidates
    count = max(2, round(budget.candidates * tools.lookahead_candidates / usual))
    own = max(1, min(2, count // 4)) if guided else count // 2
    return LookaheadConfig(
        policy_candidates=own,
        servo_candidates=max(2, count - own),
        policy_share=budget.policy_share,
        explore_share=tools.exploration_noise,
        prefix_chunks=PREFIX_CHUNKS if tools.stage_resets and guided else 0,
        chunk_steps=tools.chunk_steps or CHUNK,
        rejected=budget.rejected,
    )
