"""Turns physics states into the arrays of a `SimFrame`, for the whole batch at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np
import numpy.typing as npt

from coda.sim import kinematics
from coda.sim.frame import _SHAPES, Array, SimFrame
from coda.sim.layout import Layout
from coda.sim.physics import Index, Physics

SLIDE, HINGE = 1, 2
"""Values of `SimFrame.joint_kind`."""


class Recorder:
    """Arrays of a batch's frame.

    Args:
        layouts: Where each scene's things are, (B,).
        physics: The batch's states.
        control_dt_s: Time between two records of a scene [s].
    """

    ee_pos: Array
    command_pos: Array
    command_rot: Array
    gripper_command: Array

    def __init__(self, layouts: Sequence[Layout], physics: Physics, *, control_dt_s: float) -> None:
        batch = len(layouts)
        self._physics = physics
        self._dt_s = control_dt_s
        self._arrays = {name: np.zeros((batch, *shape)) for name, shape in _SHAPES.items()}
        for name in ("ee_pos", "command_pos", "command_rot", "gripper_command"):
            setattr(self, name, self._arrays[name])
        for i, lay in enumerate(layouts):
            for name, value in lay.constants.items():
                self._arrays[name][i] = value
        free = [(i, *body) for i, lay in enumerate(layouts) for body in lay.free]
        self._free = np.array(free, dtype=np.int64).reshape(-1, 4)
        moving = [(i, lay.joint_columns, m) for i, lay in enumerate(layouts) for m in lay.moving]
        self._moving = np.array([(i, m.role) for i, _, m in moving], dtype=np.int64).reshape(-1, 2)
        self._moving_pos = np.array([m.pos for *_, m in moving]).reshape(-1, 3)
        self._moving_rot = np.array([m.rot for *_, m in moving]).reshape(-1, 3, 3)
        jointed = [(i, *lay.joint_columns) for i, lay in enumerate(layouts) if lay.joint_columns]
        self._joints = np.array(jointed, dtype=np.int64).reshape(-1, 3)
        self._touch = _touch_groups(layouts)

    def read(self, rows: Index, *, first: bool = False) -> None:
        """Bring the arrays of scenes `rows` (n,) up to date.

        Velocities are means over the control step since the last record: contacts of things at
        rest chatter from one physics step to the next. At the `first` record the gripper's are zero
        and the others those of the state.
        """
        a, states = self._arrays, self._physics.states
        pos, rot = kinematics.forward_pose(states[rows, 1 : 1 + kinematics.N_JOINTS])
        a["ee_linvel"][rows] = 0.0 if first else (pos - a["ee_pos"][rows]) / self._dt_s
        a["ee_pos"][rows], a["ee_rot"][rows] = pos, rot
        left, right = 1 + kinematics.N_JOINTS, 2 + kinematics.N_JOINTS
        a["gripper_width_m"][rows] = states[rows, left] - states[rows, right]
        a["time_s"][rows] = states[rows, 0]
        chosen = np.zeros(len(states), dtype=np.bool_)
        chosen[rows] = True
        self._read_free(chosen, first=first)
        self._read_joints(chosen, first=first)
        self._read_touch(chosen)

    def _read_free(self, chosen: npt.NDArray[np.bool_], *, first: bool) -> None:
        a, states = self._arrays, self._physics.states
        here = self._free[chosen[self._free[:, 0]]]
        if not len(here):
            return
        scene, role, q, v = here.T
        pose = states[scene[:, None], q[:, None] + np.arange(7)]
        pos, rot = pose[:, :3], kinematics.quats_to_rots(pose[:, 3:])
        if first:
            speed = states[scene[:, None], v[:, None] + np.arange(6)]
            linear, angular = speed[:, :3], (rot @ speed[:, 3:, None])[:, :, 0]
        else:
            linear = (pos - a["pos"][scene, role]) / self._dt_s
            turned = rot @ a["rot"][scene, role].transpose(0, 2, 1)
            angular = kinematics.rotvec(turned) / self._dt_s
        a["pos"][scene, role], a["rot"][scene, role] = pos, rot
        a["linvel"][scene, role], a["angvel"][scene, role] = linear, angular

    def _read_joints(self, chosen: npt.NDArray[np.bool_], *, first: bool) -> None:
        a, states = self._arrays, self._physics.states
        here = self._joints[chosen[self._joints[:, 0]]]
        if not len(here):
            return
        scene, q, v = here.T
        moved = (states[scene, q] - a["joint_pos"][scene]) / self._dt_s
        a["joint_vel"][scene] = states[scene, v] if first else moved
        a["joint_pos"][scene] = states[scene, q]
        mask = chosen[self._moving[:, 0]]
        scene, role = self._moving[mask].T
        axis, anchor = a["joint_axis"][scene], a["joint_anchor"][scene]
        value, rate = a["joint_pos"][scene][:, None], a["joint_vel"][scene][:, None]
        turns = (a["joint_kind"][scene] == HINGE)[:, None]
        turn = kinematics.exp_rot(axis * np.where(turns, value, 0.0))
        arm = (turn @ (self._moving_pos[mask] - anchor)[:, :, None])[:, :, 0]
        a["pos"][scene, role] = np.where(turns, anchor + arm, self._moving_pos[mask] + axis * value)
        a["rot"][scene, role] = turn @ self._moving_rot[mask]
        a["linvel"][scene, role] = np.where(turns, np.cross(axis, arm) * rate, axis * rate)
        a["angvel"][scene, role] = np.where(turns, axis * rate, 0.0)

    def _read_touch(self, chosen: npt.NDArray[np.bool_]) -> None:
        a, sensed = self._arrays, self._physics.touch
        for members, parts in self._touch:
            rows = members[chosen[members]]
            if not rows.size:
                continue
            for name, columns, first, second in parts:
                value = (sensed[rows[:, None], columns] > 0).astype(np.float64)
                if name == "robot_touch_table":
                    a[name][rows] = value[:, 0]
                elif name == "touch":
                    a[name][rows[:, None], first, second] = value
                    a[name][rows[:, None], second, first] = value
                else:
                    a[name][rows[:, None], first] = value

    def finite(self, rows: Index) -> npt.NDArray[np.bool_]:
        """Whether the states of scenes `rows` are finite and within 10 m, (n,)."""
        a = self._arrays
        reach = np.abs(a["pos"][rows]).max(axis=(1, 2)) + np.abs(a["ee_pos"][rows]).max(axis=1)
        return np.asarray(np.isfinite(reach) & (reach < 10.0))

    def frame(self, rows: Index | None = None) -> SimFrame:
        """A copy of the present arrays, of scenes `rows` (n,) only where given."""
        if rows is None:
            return SimFrame(**{f.name: self._arrays[f.name].copy() for f in fields(SimFrame)})
        return SimFrame(**{f.name: self._arrays[f.name][rows] for f in fields(SimFrame)})

    def load(self, frame: SimFrame) -> None:
        """Overwrite the arrays, after a restore."""
        for f in fields(SimFrame):
            self._arrays[f.name][:] = getattr(frame, f.name)


_Part = tuple[str, Index, Index, Index]
_FIELDS = {
    "left": "touch_left",
    "right": "touch_right",
    "table": "touch_table",
    "pair": "touch",
    "robot-table": "robot_touch_table",
}


def _touch_groups(layouts: Sequence[Layout]) -> list[tuple[Index, list[_Part]]]:
    """Scenes with the same contact sensors, and which column of them goes where."""
    members: dict[tuple[tuple[str, int, int], ...], list[int]] = {}
    for i, lay in enumerate(layouts):
        members.setdefault(lay.touches, []).append(i)
    groups = []
    for plan, rows in members.items():
        parts: list[_Part] = []
        for kind, name in _FIELDS.items():
            columns = [c for c, touch in enumerate(plan) if touch[0] == kind]
            if columns:
                first = np.array([plan[c][1] for c in columns])
                second = np.array([plan[c][2] for c in columns])
                parts.append((name, np.array(columns), first, second))
        groups.append((np.array(rows), parts))
    return groups
