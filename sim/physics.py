"""Physics of a batch: the protocol every backend follows, and the one on MuJoCo's rollout library.

A backend owns the states of B scenes and advances them under joint commands. It sees no tasks.
"""

from __future__ import annotations

import atexit
import functools
from collections.abc import Sequence
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

    def step(self, rows: Index, ctrl: Array, substeps: int) -> None:
        """Advance scenes `rows` (n,) by `substeps` physics steps under commands (n, nu).

        A scene that diverges stays where its clock stopped.
        """
        ...

    def branch(self, rows: Index) -> Physics:
        """A batch of scenes `rows` (may repeat) of this one, with states of its own."""
        ...


@functools.cache
def _rollout(threads: int) -> Rollout:
    """The pool of worker threads of a size; made once, joined at exit."""
    pool = Rollout(nthread=threads if threads > 1 else 0)
    atexit.register(pool.close)
    return pool


class RolloutPhysics:
    """MuJoCo's native rollout over the whole batch, without Python between physics steps.

    Every control step starts with a cold solver, so that a state holds all that matters.

    Args:
        models: Compiled models, one a scene; may repeat.
        threads: Worker threads.
    """

    def __init__(self, models: Sequence[mujoco.MjModel], *, threads: int = 1) -> None:
        self._models = list(models)
        self._threads = max(1, threads)
        self._pool = _rollout(self._threads)
        self._workers: dict[int, list[mujoco.MjData]] = {}
        self._arrange()

    def _arrange(self) -> None:
        members: dict[int, list[int]] = {}
        for i, model in enumerate(self._models):
            members.setdefault(int(model.signature), []).append(i)
        self._groups = [(key, np.array(rows)) for key, rows in members.items()]
        first = [self._models[int(rows[0])] for _, rows in self._groups]
        self._sizes = [mujoco.mj_stateSize(model, STATE) for model in first]
        for (key, _), model in zip(self._groups, first, strict=True):
            if key not in self._workers:
                self._workers[key] = [mujoco.MjData(model) for _ in range(self._threads)]
        batch = len(self._models)
        self.states: Array = np.zeros((batch, max(self._sizes)))
        self.touch: Array = np.zeros((batch, max(m.nsensordata for m in first)))

    def branch(self, rows: Index) -> RolloutPhysics:
        """A batch of scenes `rows`; models, worker threads and scratch memory are shared."""
        other = RolloutPhysics.__new__(RolloutPhysics)
        other._models = [self._models[i] for i in rows.tolist()]
        other._threads, other._pool = self._threads, self._pool
        other._workers = self._workers
        other._arrange()
        other.states[:, : self.states.shape[1]] = self.states[rows][:, : other.states.shape[1]]
        return other

    def step(self, rows: Index, ctrl: Array, substeps: int) -> None:
        """Advance scenes; see `Physics.step`. Raises `SimulationError` for duplicate rows."""
        place = np.full(len(self._models), -1)
        place[rows] = np.arange(len(rows))
        if int((place >= 0).sum()) != len(rows):
            raise SimulationError(f"rows to step repeat: {rows.tolist()!r:.80}.")
        for (key, members), size in zip(self._groups, self._sizes, strict=True):
            chosen = members if len(rows) == len(place) else members[place[members] >= 0]
            if not chosen.size:
                continue
            workers = self._workers[key]
            start = self.states[chosen, :size]
            command = ctrl[place[chosen]][:, None, :]
            after, sensed = self._pool.rollout(
                [self._models[i] for i in chosen.tolist()],
                workers if self._threads > 1 else workers[0],
                start,
                command,
                nstep=substeps,
            )
            self.states[chosen, :size] = after[:, -1]
            self.touch[chosen, : sensed.shape[2]] = sensed[:, -1]
