"""Rollouts: whole chunks until success, the step limit or a crash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import numpy.typing as npt

from coda.sim.cameras import Cameras, Pictures, View
from coda.sim.engine import CHUNK, BatchSim
from coda.sim.errors import SimulationError
from coda.sim.families import step_limits
from coda.sim.frame import Array, SimFrame
from coda.sim.predicates import Bool
from coda.sim.scene import Scene
from coda.sim.scene_state import state_rows

Actor = Callable[[SimFrame, Bool], Array]
"""Maps states and the mask of live scenes to chunks (B, H, 7)."""


@dataclass(frozen=True, kw_only=True)
class Seeing:
    """An actor that is shown pictures of the live scenes too."""

    view: View
    act: Callable[[SimFrame, Bool, Pictures], Array]
    """As `Actor`; pictures (B, cameras, 3, h, w), black where a scene is over."""
    keep: bool = False
    """Whether the episodes hold the pictures."""


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
    states: Array | None = None
    """Simulator states at the start of every chunk, (T, n), where kept; see `SceneState`."""
    pictures: Pictures | None = None
    """Pictures of `frames`, (T + 1, cameras, 3, h, w), where kept."""

    @property
    def success(self) -> bool:
        """Whether the verifier was met."""
        return self.outcome is Outcome.SUCCESS


def run_episodes(
    sim: BatchSim,
    actor: Actor | Seeing,
    *,
    max_steps: int | None = None,
    keep_fine: bool = False,
    keep_states: bool = False,
    chunk_steps: int = CHUNK,
    reset: bool = True,
) -> list[EpisodeData]:
    """Run one episode in every scene of a batch.

    Args:
        sim: B scenes.
        actor: The policy.
        max_steps: Step limit beside the tasks' own; whole chunks, so a multiple of H.
        keep_fine: Keep the state after every control step, for timelines and films.
        keep_states: Keep what the simulator needs to go on from the start of every chunk.
        chunk_steps: Actions of a chunk that are executed before the next is chosen; divides H.
        reset: Reset first; False continues from the present states.
    """
    frame = sim.reset() if reset else sim.frame()
    with _Watch(sim, actor) as watch:
        return _run(
            sim,
            watch,
            frame,
            step_limits(sim.scenes, max_steps),
            keep_fine=keep_fine,
            keep_states=keep_states,
            chunk_steps=chunk_steps,
        )


class _Watch:
    """Asks the actor for chunks, with pictures where it sees them, and keeps what it has seen."""

    def __init__(self, sim: BatchSim, actor: Actor | Seeing) -> None:
        self._sim, self._actor = sim, actor
        self._cameras = Cameras(sim.scenes, actor.view) if isinstance(actor, Seeing) else None
        self._seen: list[list[Pictures]] = [[] for _ in range(sim.batch)]

    def __enter__(self) -> _Watch:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._cameras is not None:
            self._cameras.close()

    def chunks(self, frame: SimFrame, active: Bool) -> Array:
        """The actor's chunks (B, H, 7)."""
        if not isinstance(self._actor, Seeing):
            return self._actor(frame, active)
        pictures = self._look(np.flatnonzero(active))
        return self._actor.act(frame, active, pictures)

    def pictures(self, index: int) -> Pictures | None:
        """What was seen of one scene, and its present state, which is its last."""
        if not isinstance(self._actor, Seeing) or not self._actor.keep:
            return None
        self._look(np.array([index]))
        return np.stack(self._seen[index])

    def _look(self, rows: npt.NDArray[np.int64]) -> Pictures:
        assert self._cameras is not None
        assert isinstance(self._actor, Seeing)
        pictures = self._cameras.look(self._sim, rows)
        for b in rows.tolist() if self._actor.keep else ():
            self._seen[b].append(pictures[b])
        return pictures


def _run(
    sim: BatchSim,
    watch: _Watch,
    frame: SimFrame,
    limit: npt.NDArray[np.int64],
    *,
    keep_fine: bool,
    keep_states: bool,
    chunk_steps: int,
) -> list[EpisodeData]:
    """Run until every scene has ended or reached its limit (B,) of control steps."""
    active = np.ones(sim.batch, dtype=np.bool_)
    outcome = [Outcome.TIMEOUT] * sim.batch
    frames: list[list[Array]] = [[row] for row in frame.pack()]
    actions: list[list[Array]] = [[] for _ in range(sim.batch)]
    lengths: list[list[int]] = [[] for _ in range(sim.batch)]
    fine: list[list[Array]] = [[] for _ in range(sim.batch)]
    states: list[list[Array]] = [[] for _ in range(sim.batch)]
    for done in range(0, int(limit.max()), chunk_steps):
        active &= done < limit
        chunk = watch.chunks(frame, active)
        kept = state_rows(sim.snapshot()) if keep_states else None
        result = sim.step_chunk(chunk[:, :chunk_steps], active, keep=keep_fine)
        packed = result.frame.pack()
        inner = [f.pack() for f in result.frames]
        for b in np.flatnonzero(active).tolist():
            if kept is not None:
                states[b].append(kept[b])
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
        if not (active & (done + chunk_steps < limit)).any():
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
            states=np.array(states[b]) if keep_states else None,
            pictures=watch.pictures(b),
        )
        for b in range(sim.batch)
    ]


def run_scenes(
    scenes: Sequence[Scene],
    actor: Actor | Seeing,
    *,
    threads: int = 1,
    batch: int = 64,
    max_steps: int | None = None,
    keep_fine: bool = False,
    keep_states: bool = False,
    chunk_steps: int = CHUNK,
) -> list[EpisodeData]:
    """Run many scenes in batches of at most `batch`; results in the order of `scenes`."""
    episodes: list[EpisodeData] = []
    for start in range(0, len(scenes), batch):
        sim = BatchSim(scenes[start : start + batch], threads=threads)
        episodes += run_episodes(
            sim,
            actor,
            max_steps=max_steps,
            keep_fine=keep_fine,
            keep_states=keep_states,
            chunk_steps=chunk_steps,
        )
        sim.close()
    return episodes


def with_pictures(
    episodes: Sequence[EpisodeData], view: View, *, threads: int = 1, batch: int = 64
) -> list[EpisodeData]:
    """The same episodes with pictures, simulated again from their chunks where they have none.

    Raises:
        SimulationError: An episode does not come out as it was recorded.
    """
    out = list(episodes)
    executed = [int(episode.lengths.max(initial=1)) for episode in episodes]
    for steps in sorted(set(executed)):
        rows = [k for k, e in enumerate(episodes) if e.pictures is None and executed[k] == steps]
        for start in range(0, len(rows), batch):
            part = rows[start : start + batch]
            again = run_scenes(
                [episodes[k].scene for k in part],
                Seeing(view=view, act=_Replaying([episodes[k] for k in part]), keep=True),
                threads=threads,
                batch=batch,
                max_steps=steps * max(len(episodes[k].lengths) for k in part),
                chunk_steps=steps,
            )
            for k, shown in zip(part, again, strict=True):
                out[k] = _matched(episodes[k], shown)
    return out


class _Replaying:
    """Acts out recorded chunks of a batch of episodes, one after the other."""

    def __init__(self, episodes: Sequence[EpisodeData]) -> None:
        self._episodes, self._next = episodes, 0

    def __call__(self, frame: SimFrame, active: Bool, pictures: Pictures) -> Array:
        chunks = np.zeros((frame.batch, CHUNK, 7))
        for b, episode in enumerate(self._episodes):
            if self._next < len(episode.actions):
                chunks[b] = episode.actions[self._next]
        self._next += 1
        return chunks


def _matched(episode: EpisodeData, shown: EpisodeData) -> EpisodeData:
    """`episode` with the pictures of its repetition `shown`, which may have gone on after it."""
    count = len(episode.frames)
    assert shown.pictures is not None
    if len(shown.frames) < count or not np.array_equal(
        shown.frames[:count], episode.frames, equal_nan=True
    ):
        raise SimulationError(
            f"an episode in scene {episode.scene.digest()} does not repeat itself; it was recorded "
            "by another version of the simulator. Collect it again."
        )
    return replace(episode, pictures=shown.pictures[:count])
