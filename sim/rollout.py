"""Rollouts: whole chunks until success, the step limit or a crash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from coda.sim.engine import CHUNK, BatchSim
from coda.sim.families import step_limits
from coda.sim.frame import Array, SimFrame
from coda.sim.predicates import Bool
from coda.sim.scene import Scene

Actor = Callable[[SimFrame, Bool], Array]
"""Maps states and the mask of live scenes to chunks (B, H, 7)."""


class Outcome(Enum):
    """How an episode ended. A crash is not a failure: it says nothing about the policy."""

    SUCCESS = "success"
    TIMEOUT = "timeout"
    CRASHED = "crashed"


@dataclass(frozen=True, kw_only=True)
class EpisodeData:
    """One rollout of T chunks and S control steps."""

    scene: Scene
    outcome: Outcome
    steps: int
    """Control steps S."""
    frames: Array
    """Packed frames at the start of every chunk and at the end, (T + 1, F)."""
    actions: Array
    """Chunks (T, H, 7)."""
    lengths: npt.NDArray[np.int64]
    """Control steps executed of each chunk, (T,)."""
    fine: Array | None = None
    """Packed frames after every control step, (S, F), where kept."""

    @property
    def success(self) -> bool:
        """Whether the verifier was met."""
        return self.outcome is Outcome.SUCCESS


def run_episodes(
    sim: BatchSim,
    actor: Actor,
    *,
    max_steps: int | None = None,
    keep_fine: bool = False,
    reset: bool = True,
) -> list[EpisodeData]:
    """Run one episode in every scene of a batch.

    Args:
        sim: B scenes.
        actor: The policy.
        max_steps: Step limit beside the tasks' own; whole chunks, so a multiple of H.
        keep_fine: Keep the state after every control step, for timelines and films.
        reset: Reset first; False continues from the present states.
    """
    frame = sim.reset() if reset else sim.frame()
    active = np.ones(sim.batch, dtype=np.bool_)
    outcome = [Outcome.TIMEOUT] * sim.batch
    frames: list[list[Array]] = [[row] for row in frame.pack()]
    actions: list[list[Array]] = [[] for _ in range(sim.batch)]
    lengths: list[list[int]] = [[] for _ in range(sim.batch)]
    fine: list[list[Array]] = [[] for _ in range(sim.batch)]
    limit = step_limits(sim.scenes, max_steps)
    for done in range(0, int(limit.max()), CHUNK):
        active &= done < limit
        chunk = actor(frame, active)
        result = sim.step_chunk(chunk, active, keep=keep_fine)
        packed = result.frame.pack()
        inner = [f.pack() for f in result.frames]
        for b in np.flatnonzero(active).tolist():
            frames[b].append(packed[b])
            actions[b].append(np.clip(chunk[b], -1.0, 1.0))
            lengths[b].append(int(result.steps[b]))
            fine[b].extend(step[b] for step in inner[: int(result.steps[b])])
            if result.success[b]:
                outcome[b] = Outcome.SUCCESS
            elif result.crashed[b]:
                outcome[b] = Outcome.CRASHED
        active &= ~(result.success | result.crashed)
        frame = result.frame
        if not (active & (done + CHUNK < limit)).any():
            break
    return [
        EpisodeData(
            scene=sim.scenes[b],
            outcome=outcome[b],
            steps=sum(lengths[b]),
            frames=np.array(frames[b]),
            actions=np.array(actions[b]).reshape(-1, CHUNK, 7),
            lengths=np.array(lengths[b], dtype=np.int64),
            fine=np.array(fine[b]) if keep_fine else None,
        )
        for b in range(sim.batch)
    ]


def run_scenes(
    scenes: Sequence[Scene],
    actor: Actor,
    *,
    threads: int = 1,
    batch: int = 64,
    max_steps: int | None = None,
    keep_fine: bool = False,
) -> list[EpisodeData]:
    """Run many scenes in batches of at most `batch`; results in the order of `scenes`."""
    episodes: list[EpisodeData] = []
    for start in range(0, len(scenes), batch):
        sim = BatchSim(scenes[start : start + batch], threads=threads)
        episodes += run_episodes(sim, actor, max_steps=max_steps, keep_fine=keep_fine)
        sim.close()
    return episodes
