"""`Stage`: the live scenes of a Gymnasium environment in one batch, each replaced on its own.

The engine's batch has fixed members, but episodes end one by one. So the batch also holds scenes
that lie ready at their start, some for each environment: a new episode only switches to one of
them. When an environment has none left, the batch is built again around the running states, with
every environment's store filled up; scenes seen lately keep their compiled models and starts.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
import numpy.typing as npt

from coda.sim.engine import BatchSim, Snapshot
from coda.sim.frame import Array, SimFrame
from coda.sim.gym_scenes import Drawn, SceneSource
from coda.sim.predicates import Bool

MAX_STARTS = 64
"""Scenes whose compiled model and start state are remembered."""


@dataclass(frozen=True)
class _Start:
    model: mujoco.MjModel
    state: Snapshot
    """One row."""


@dataclass
class _Slot:
    """A member of the batch."""

    drawn: Drawn
    row: int = -1
    """Its row in the batch; -1 before it is in one."""


@dataclass(frozen=True)
class StageStep:
    """What a control step did, one row for each environment."""

    frame: SimFrame
    success: Bool
    crashed: Bool


def join(parts: Sequence[tuple[Snapshot, int]]) -> Snapshot:
    """One snapshot of the named rows of others, in order; shorter physics states end in zeros."""
    physics = np.zeros((len(parts), max(s.physics.shape[1] for s, _ in parts)))
    for i, (s, row) in enumerate(parts):
        physics[i, : s.physics.shape[1]] = s.physics[row]
    return Snapshot(
        physics=physics,
        q_cmd=np.stack([s.q_cmd[row] for s, row in parts]),
        hold=np.stack([s.hold[row] for s, row in parts]),
        frame=np.stack([s.frame[row] for s, row in parts]),
    )


class Stage:
    """The scenes that `envs` environments play at the moment.

    Args:
        source: Draws scenes. Drawing is all that an environment's generator is used for, so
            drawing ahead changes no episode.
        rngs: One generator for each environment; replace one with `seed`.
        ahead: Scenes that lie ready for each environment.
        threads: Worker threads for physics.
    """

    def __init__(
        self,
        source: SceneSource,
        rngs: Sequence[np.random.Generator],
        *,
        ahead: int = 0,
        threads: int = 1,
    ) -> None:
        self._source = source
        self._rngs = list(rngs)
        self._ahead = ahead
        self._threads = threads
        self._live: list[_Slot | None] = [None] * len(rngs)
        self._ready: list[deque[_Slot]] = [deque() for _ in rngs]
        self._sim: BatchSim | None = None
        self._starts: OrderedDict[str, _Start] = OrderedDict()

    @property
    def rngs(self) -> tuple[np.random.Generator, ...]:
        """The environments' generators, which are ahead of their episodes by the ready scenes."""
        return tuple(self._rngs)

    def seed(self, env: int, rng: np.random.Generator) -> None:
        """Draw an environment's scenes from `rng` from now on."""
        self._rngs[env] = rng
        self._ready[env].clear()

    def begin(self, envs: Sequence[int], given: Mapping[int, Drawn] | None = None) -> None:
        """Begin an episode in each of `envs`, in its next scene or in the one `given`.

        Raises `CodaError` if a scene cannot be drawn or built; nobody can step until it works.
        """
        for env in envs:
            self._live[env] = None  # stays so if there is no next scene
            wanted = None if given is None else given.get(env)
            self._live[env] = self._next(env) if wanted is None else _Slot(wanted)
        if not self.ready:
            self._build()

    def _next(self, env: int) -> _Slot:
        ready = self._ready[env]
        return ready.popleft() if ready else _Slot(self._source.draw(self._rngs[env]))

    def _build(self) -> None:
        """Build the batch again around the live scenes, with full stores."""
        for env, ready in enumerate(self._ready):
            while len(ready) < self._ahead:
                ready.append(_Slot(self._source.draw(self._rngs[env])))
        slots = [slot for slot in self._live if slot is not None]
        slots += [slot for ready in self._ready for slot in ready]
        starts = self._find_starts([slot.drawn for slot in slots if slot.row < 0])
        old = self._sim
        now = None if old is None else old.snapshot()
        models: list[mujoco.MjModel] = []
        parts: list[tuple[Snapshot, int]] = []
        for row, slot in enumerate(slots):
            if slot.row < 0 or old is None or now is None:
                start = starts[slot.drawn.digest]
                models.append(start.model)
                parts.append((start.state, 0))
            else:
                models.append(old.models[slot.row])
                parts.append((now, slot.row))
            slot.row = row
        scenes = [slot.drawn.scene for slot in slots]
        self._sim = BatchSim(scenes, threads=self._threads, models=models)
        self._sim.restore(join(parts))
        if old is not None:
            old.close()

    def _find_starts(self, wanted: Sequence[Drawn]) -> dict[str, _Start]:
        """Model and start of every scene in `wanted`, by digest."""
        scenes = {one.digest: one.scene for one in wanted}
        new = {digest: scene for digest, scene in scenes.items() if digest not in self._starts}
        if new:
            sim = BatchSim(list(new.values()), threads=self._threads)
            sim.reset()
            state = sim.snapshot()
            sim.close()
            for row, digest in enumerate(new):
                self._starts[digest] = _Start(sim.models[row], join([(state, row)]))
        for digest in scenes:
            self._starts.move_to_end(digest)
        found = {digest: self._starts[digest] for digest in scenes}
        while len(self._starts) > MAX_STARTS:
            self._starts.popitem(last=False)
        return found

    def _rows(self) -> npt.NDArray[np.int64]:
        """Row of each environment's live scene in the batch (n,)."""
        return np.array([slot.row for slot in self._live if slot is not None], dtype=np.int64)

    @property
    def ready(self) -> bool:
        """Whether every environment has begun an episode."""
        return all(slot is not None and slot.row >= 0 for slot in self._live)

    def _batch(self) -> BatchSim:
        assert self._sim is not None, "begin() every environment first"
        return self._sim

    def drawn(self, env: int) -> Drawn:
        """The scene that an environment plays."""
        slot = self._live[env]
        assert slot is not None, "begin() the environment first"
        return slot.drawn

    def frame(self) -> SimFrame:
        """Present states, one row for each environment."""
        return self._batch().frame()[self._rows()]

    def qpos(self, env: int) -> Array:
        """Generalised positions (nq,) of an environment's scene."""
        return self._batch().qpos(int(self._rows()[env]))

    def step(self, actions: Array, active: Bool) -> StageStep:
        """One control step, actions (n, 7), in the environments of `active` (n,)."""
        sim, rows = self._batch(), self._rows()
        spread = np.zeros((sim.batch, 1, actions.shape[1]))
        spread[rows, 0] = actions
        mask = np.zeros(sim.batch, dtype=np.bool_)
        mask[rows] = active
        result = sim.step_chunk(spread, mask)
        return StageStep(result.frame[rows], result.success[rows], result.crashed[rows])

    def close(self) -> None:
        """Stop the worker threads and drop the batch."""
        if self._sim is not None:
            self._sim.close()
        self._sim = None
        self._live = [None] * len(self._rngs)
        for ready in self._ready:
            ready.clear()
