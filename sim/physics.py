"""Physics of a batch: the protocol every backend follows, and the one on MuJoCo's rollout library.

A backend owns the states of B scenes and advances them under joint commands. It sees no tasks.
"""

from __future__ import annotations

import functools
import queue
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import mujoco
import numpy as np
import numpy.typing as npt
from mujoco.rollout import Rollout

from coda.sim.errors import SimulationError
from coda.sim.frame import Array

Index = npt.NDArray[np.int64]
STATE = mujoco.mjtState.mjSTATE_FULLPHYSICS
"""What a state holds: time, generalised positions and velocities."""


class Physics(Protocol):
    """States of B scenes and the means to advance them.

    A step depends on the scene's state and command alone: not on other scenes, on threads, or on
    what was simulated before. Rows of scenes with fewer numbers are padded with zeros.
    """

    states: Array
    """(B, S): time, qpos, qvel of every scene. May be written to between steps."""
    touch: Array
    """(B, N): readings of every scene's contact sensors in its last physics step."""
    kind: Index
    """(B,): scenes of one kind are stepped together at the least cost."""
    threads: int
    """How many threads may call `step` at once, for different scenes."""

    def step(self, rows: Index, ctrl: Array, substeps: int) -> None:
        """Advance scenes `rows` (n,) by `substeps` physics steps under commands (n, nu).

        A scene that diverges stays where its clock stopped.
        """
        ...

    def branch(self, rows: Index) -> Physics:
        """A batch of scenes `rows` (may repeat) of this one, with states of its own."""
        ...


@functools.cache
def _rollout() -> Rollout:
    """MuJoCo's rollout in the calling thread; it holds no state and releases the lock."""
    return Rollout(nthread=0)


_Sizes = tuple[int, ...]
_SIZE_FIELDS = ("signature", "narena", "nsensordata", "nbvh", "nM", "nB", "nC", "nD", "nJmom")


def _sizes(model: mujoco.MjModel) -> _Sizes:
    """What two models must share to share working memory.

    The signature alone does not tell: a body whose centre of mass is off its origin has a denser
    inertia matrix under the same signature, and would be written past the end of its memory.
    """
    return tuple(int(getattr(model, name)) for name in _SIZE_FIELDS)


@dataclass(frozen=True)
class _Group:
    """Scenes whose models have the same sizes, so that one native call can step them."""

    state_size: int
    sensor_size: int
    scratch: queue.SimpleQueue[mujoco.MjData]
    """Working memory, one for each worker thread."""


class RolloutPhysics:
    """MuJoCo's native rollout over the whole batch, without Python between physics steps.

    Every control step starts with a cold solver, so that a state holds all that matters.

    Args:
        models: Compiled models, one a scene; may repeat.
        threads: How many threads may call `step` at once.
    """

    def __init__(self, models: Sequence[mujoco.MjModel], *, threads: int = 1) -> None:
        self._models = list(models)
        self.threads = max(1, threads)
        self._scratch: dict[_Sizes, queue.SimpleQueue[mujoco.MjData]] = {}
        self._arrange()

    def _arrange(self) -> None:
        members: dict[_Sizes, list[int]] = {}
        for i, model in enumerate(self._models):
            members.setdefault(_sizes(model), []).append(i)
        self._groups = [self._group(key, rows[0]) for key, rows in members.items()]
        batch = len(self._models)
        self.kind: Index = np.zeros(batch, dtype=np.int64)
        for number, rows in enumerate(members.values()):
            self.kind[rows] = number
        self.states: Array = np.zeros((batch, max(g.state_size for g in self._groups)))
        self.touch: Array = np.zeros((batch, max(g.sensor_size for g in self._groups)))

    def _group(self, key: _Sizes, first: int) -> _Group:
        model = self._models[first]
        if key not in self._scratch:
            self._scratch[key] = queue.SimpleQueue()
            for _ in range(self.threads):
                self._scratch[key].put(mujoco.MjData(model))
        size = mujoco.mj_stateSize(model, STATE)
        return _Group(size, model.nsensordata, self._scratch[key])

    def branch(self, rows: Index) -> RolloutPhysics:
        """A batch of scenes `rows`; models and scratch memory are shared."""
        other = RolloutPhysics.__new__(RolloutPhysics)
        other._models = [self._models[i] for i in rows.tolist()]
        other.threads, other._scratch = self.threads, self._scratch
        other._arrange()
        width = other.states.shape[1]
        other.states[:] = self.states[rows][:, :width]
        return other

    def step(self, rows: Index, ctrl: Array, substeps: int) -> None:
        """Advance scenes; see `Physics.step`. Raises `SimulationError` for duplicate rows."""
        wanted = rows.tolist()
        if len(set(wanted)) != len(wanted):
            raise SimulationError(f"rows to step repeat: {wanted!r:.80}.")
        kinds = self.kind[rows]
        if (kinds == kinds[:1]).all():
            self._run(self._groups[int(kinds[0])], rows, ctrl, substeps)
            return
        for number in np.unique(kinds).tolist():
            chosen = kinds == number
            self._run(self._groups[number], rows[chosen], ctrl[chosen], substeps)

    def _run(self, group: _Group, rows: Index, ctrl: Array, substeps: int) -> None:
        """Step scenes of one group in the calling thread; they write to their own rows only."""
        after = np.empty((len(rows), substeps, group.state_size))
        sensed = np.empty((len(rows), substeps, group.sensor_size))
        data = group.scratch.get()
        try:
            _rollout().rollout(
                [self._models[i] for i in rows.tolist()],
                [data],
                self.states[rows, : group.state_size],
                np.repeat(ctrl[:, None, :], substeps, axis=1),
                nstep=substeps,
                skip_checks=True,
                state=after,
                sensordata=sensed,
            )
        finally:
            group.scratch.put(data)
        self.states[rows, : group.state_size] = after[:, -1]
        self.touch[rows, : group.sensor_size] = sensed[:, -1]
