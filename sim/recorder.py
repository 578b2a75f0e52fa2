"""Turns physics states into the arrays of a `SimFrame`, any scenes of a batch at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from coda.sim import kinematics
from coda.sim.frame import _SHAPES, FRAME_SIZE, N_ROLES, Array, SimFrame
from coda.sim.layout import Layout
from coda.sim.physics import Index, Physics

SLIDE, HINGE = 1, 2
"""Values of `SimFrame.joint_kind`."""
FIELDS = (
    "ee_pos",
    "ee_rot",
    "ee_linvel",
    "command_pos",
    "command_rot",
    "gripper_width_m",
    "gripper_command",
    "pos",
    "rot",
    "linvel",
    "angvel",
    "touch_table",
    "touch_left",
    "touch_right",
    "touch",
    "robot_touch_table",
    "joint_kind",
    "joint_pos",
    "joint_vel",
    "joint_axis",
    "joint_anchor",
    "time_s",
)
"""Fields of a frame that `kernels` knows, in the order of its constants."""
THINGS = ("table", "left", "right", "pair", "robot-table", "free", "joint", "moving")
"""Kinds of things that `kernels.read` knows, in the order of their numbers there."""


class Recorder:
    """Arrays of a batch's frame.

    Args:
        layouts: Where each scene's things are, (B,).
        physics: The batch's states.
        control_dt_s: Time between two records of a scene [s].

    Attributes:
        packed: The present frames (B, F), see `SimFrame.pack`.
        live: The same as a frame whose arrays show every change; for this package's own use.
    """

    def __init__(self, layouts: Sequence[Layout], physics: Physics, *, control_dt_s: float) -> None:
        self._physics = physics
        self._dt_s = control_dt_s
        self.packed: Array = np.zeros((len(layouts), FRAME_SIZE))
        self.live = SimFrame.unpack(self.packed)
        for i, lay in enumerate(layouts):
            for name, value in lay.constants.items():
                getattr(self.live, name)[i] = value
        starts = np.cumsum([0, *(math.prod(shape) for shape in _SHAPES.values())])
        where = dict(zip(_SHAPES, starts.tolist(), strict=False))
        self._field = np.array([where[name] for name in FIELDS])
        sizes = (physics.states.shape[1], physics.touch.shape[1], FRAME_SIZE, N_ROLES)
        self._sizes, self._things = np.array(sizes), _things(layouts)
        self._flat = self.packed.reshape(-1)
        self._goal = where["command_pos"]

    def command(self, rows: Index, actions: Array, scales: Array) -> None:
        """Move the commanded poses of scenes `rows` (n,) by actions (n, 7)."""
        from coda.sim import kernels

        work = np.empty(kernels.SCRATCH)
        flat = actions.reshape(-1)
        kernels.command(rows, flat, self._flat, FRAME_SIZE, self._field, scales, work)

    def descend(self, rows: Index, q: Array) -> None:
        """One step of inverse kinematics towards the commanded poses; changes q (B, 7) [rad]."""
        from coda.sim import kernels

        goal = (self._flat, self._goal, FRAME_SIZE)
        arm, work = kinematics.arm(), np.empty(kernels.SCRATCH)
        kernels.descend(rows, q.reshape(-1), *goal, arm, 1, work)

    def read(self, rows: Index, *, first: bool = False) -> npt.NDArray[np.bool_]:
        """Bring the arrays of scenes `rows` (n,) up to date, outside Python's lock.

        Velocities are means over the control step since the last record: contacts of things at
        rest chatter from one physics step to the next. At the `first` record the gripper's are zero
        and the others those of the state.

        Returns:
            Whether the states are finite and within 10 m, (n,).
        """
        from coda.sim import kernels

        sound = np.empty(len(rows), dtype=np.bool_)
        kernels.read(
            rows,
            self._physics.states.reshape(-1),
            self._physics.touch.reshape(-1),
            self._flat,
            self._sizes,
            self._field,
            *self._things,
            kinematics.arm(),
            0.0 if first else self._dt_s,
            np.empty(kernels.SCRATCH),
            sound,
        )
        return sound

    def frame(self) -> SimFrame:
        """A copy of the present arrays."""
        return SimFrame.unpack(self.packed.copy())

    def chosen(self, rows: Index) -> SimFrame:
        """The present arrays of scenes `rows` (n,), each copied when it is first asked for."""
        return _Chosen(self.live, rows)


class _Chosen(SimFrame):
    """Some scenes of a frame; most readers want few of its arrays."""

    def __init__(self, frame: SimFrame, rows: Index) -> None:
        self.__dict__.update(_frame=frame, _rows=rows)

    def __getattr__(self, name: str) -> Array:
        if name not in _SHAPES:
            raise AttributeError(name)
        value: Array = getattr(self.__dict__["_frame"], name)[self.__dict__["_rows"]]
        self.__dict__[name] = value
        return value


def _things(layouts: Sequence[Layout]) -> tuple[Index, Index, Array]:
    """Tables of what to read: `starts`, `things` and `closed` of `kernels.read`."""
    number = {kind: n for n, kind in enumerate(THINGS)}
    rows: list[tuple[int, int, int, int]] = []
    starts, closed = [0], [np.zeros((0, 3))]
    for lay in layouts:
        rows += [(number[kind], i, j, c) for c, (kind, i, j) in enumerate(lay.touches)]
        rows += [(number["free"], role, q, v) for role, q, v in lay.free]
        if lay.joint_columns:
            q, v = lay.joint_columns
            rows.append((number["joint"], 0, q, v))
        for moving in lay.moving:
            rows.append((number["moving"], moving.role, len(closed) - 1, 0))
            closed.append(np.concatenate((moving.pos[None], moving.rot)))
        starts.append(len(rows))
    things = np.array(rows, dtype=np.int64).reshape(-1)
    return np.array(starts), things, np.concatenate(closed).reshape(-1)
