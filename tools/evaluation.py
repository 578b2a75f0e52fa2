"""Evaluate a policy on scenes, and journal the episodes.

The policy's noise depends on the seed, on the place of a scene in the call and on the chunk's
number only. So calls with equal seeds and equally many scenes are paired: scene i of one and scene
i of the other see the same noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from coda.memory.progress import Count
from coda.memory.rows import EpisodeRow, SceneRow
from coda.memory.rundb import RunDb
from coda.policy.potential import Potential
from coda.policy.text import TextEncoder
from coda.sim.engine import CONTROL_HZ, BatchSim
from coda.sim.frame import SimFrame
from coda.sim.rollout import EpisodeData, Outcome, run_episodes
from coda.sim.scene import Scene
from coda.tools.acting import Acting, embed, policy_actor

BATCH = 64
"""Scenes simulated at once."""

OnBatch = Callable[[int, int], None]
"""Called with (episodes done, episodes in all)."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One episode of an evaluation, judged by the family's base potential."""

    episode_id: str
    episode: EpisodeData
    progress: float
    """Largest staged progress Phi over the episode; 1 for a success."""
    stage: str
    """Stage at that point: the one that was not completed."""

    @property
    def success(self) -> bool | None:
        """Whether the verifier was met; None for a crash, which says nothing of the policy."""
        return None if self.episode.outcome is Outcome.CRASHED else self.episode.success


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where episodes come from, for the journal."""

    node_key: str
    purpose: str
    """``diagnose``, ``validate``, ``probe``, ``evaluate`` …"""
    prefix: str
    """Start of the episode ids, unique within the run, e.g. ``r02:rollout``."""


@dataclass(frozen=True, kw_only=True)
class Label:
    """What one episode belongs to, for the journal."""

    axis: str = ""
    program: str = ""
    """Name or id of the generation program that the scene was drawn from."""
    mode_id: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)


class Evaluator:
    """Runs policies on scenes. (Compiling one again takes milliseconds; keeping it, 3 MB.)"""

    def __init__(
        self, db: RunDb, text: TextEncoder, base: Potential, *, threads: int, max_steps: int
    ) -> None:
        self._db = db
        self._text = text
        self._base = base
        self._threads = threads
        self._max_steps = max_steps

    def evaluate(
        self,
        policy: Acting,
        scenes: Sequence[Scene],
        *,
        seed: int,
        origin: Origin,
        labels: Sequence[Label] | Label = Label(),
        keep_fine: bool = False,
        keep_states: bool = False,
        on_batch: OnBatch | None = None,
    ) -> list[Trial]:
        """Run one episode in every scene and journal it.

        Args:
            policy: Sampled once at each chunk; or a policy with its critic, which chooses.
            scenes: N scenes; results come in their order.
            seed: Of the policy's noise.
            origin: For the journal; episode i gets the id ``<prefix>:<i>``.
            labels: Of every scene, or of all of them.
            keep_fine: Keep the state after every control step.
            keep_states: Keep what the simulator needs to go on from every chunk's start.
            on_batch: Told of progress.
        """
        trials: list[Trial] = []
        for start in range(0, len(scenes), BATCH):
            part = scenes[start : start + BATCH]
            sim = BatchSim(part, threads=self._threads)
            actor = policy_actor(policy, embed(self._text, part), seed=seed + start)
            episodes = run_episodes(
                sim,
                actor,
                max_steps=self._max_steps,
                keep_fine=keep_fine,
                keep_states=keep_states,
            )
            sim.close()
            trials += [
                self._judge(f"{origin.prefix}:{start + i:04d}", episode)
                for i, episode in enumerate(episodes)
            ]
            if on_batch:
                on_batch(len(trials), len(scenes))
        self._journal(trials, origin, labels)
        return trials

    def _judge(self, episode_id: str, episode: EpisodeData) -> Trial:
        progress, stage = staged_progress(self._base, episode)
        return Trial(episode_id=episode_id, episode=episode, progress=progress, stage=stage)

    def _journal(
        self, trials: Sequence[Trial], origin: Origin, labels: Sequence[Label] | Label
    ) -> None:
        steps = 0
        each = [labels] * len(trials) if isinstance(labels, Label) else labels
        for trial, label in zip(trials, each, strict=True):
            scene = trial.episode.scene
            steps += trial.episode.steps
            self._db.add(
                SceneRow(digest=scene.digest(), node_key=origin.node_key, scene=scene),
                EpisodeRow(
                    episode_id=trial.episode_id,
                    node_key=origin.node_key,
                    purpose=origin.purpose,
                    scene_digest=scene.digest(),
                    success=trial.success,
                    steps=trial.episode.steps,
                    progress=trial.progress,
                    axis=label.axis,
                    program=label.program,
                    mode_id=label.mode_id,
                    detail={**label.detail, "stage": trial.stage},
                ),
            )
        self._db.charge(origin.node_key, "sim_steps", float(steps))
        self._db.charge(origin.node_key, "sim_s", steps / CONTROL_HZ)


def staged_progress(base: Potential, episode: EpisodeData) -> tuple[float, str]:
    """Largest Phi over an episode's chunk boundaries, and the stage it was reached in."""
    value = base.evaluate(SimFrame.unpack(episode.frames))
    best = int(np.argmax(value.phi))
    stage = base.stages[int(value.stage[best])]
    return (1.0 if episode.success else float(value.phi[best])), stage


def tally(trials: Sequence[Trial]) -> Count:
    """Successes in trials; crashes are left out."""
    return Count.of([trial.success for trial in trials])
