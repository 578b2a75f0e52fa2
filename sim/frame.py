"""`SimFrame`: what predicates, potentials and observations read of a batch of states."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from coda.sim.roles import ROLES

Array = npt.NDArray[np.float64]
N_ROLES = len(ROLES)

_SHAPES: dict[str, tuple[int, ...]] = {
    "ee_pos": (3,),
    "ee_rot": (3, 3),
    "ee_linvel": (3,),
    "command_pos": (3,),
    "command_rot": (3, 3),
    "gripper_width_m": (),
    "gripper_command": (),
    "pos": (N_ROLES, 3),
    "rot": (N_ROLES, 3, 3),
    "linvel": (N_ROLES, 3),
    "angvel": (N_ROLES, 3),
    "half_size": (N_ROLES, 3),
    "grip": (N_ROLES, 3),
    "grip_half": (N_ROLES, 3),
    "seat": (N_ROLES,),
    "seat_half": (N_ROLES, 2),
    "mouth": (N_ROLES,),
    "present": (N_ROLES,),
    "touch_left": (N_ROLES,),
    "touch_right": (N_ROLES,),
    "touch_table": (N_ROLES,),
    "touch": (N_ROLES, N_ROLES),
    "robot_touch_table": (),
    "joint_kind": (),
    "joint_pos": (),
    "joint_vel": (),
    "joint_span": (),
    "joint_axis": (3,),
    "joint_anchor": (3,),
    "joint_goal": (),
    "time_s": (),
}
FRAME_SIZE = sum(int(np.prod(shape)) for shape in _SHAPES.values())
"""Length F of a packed frame."""


@dataclass(frozen=True, kw_only=True)
class SimFrame:
    """A batch of states, role axis in the order of `ROLES` (absent roles are zero).

    Base frame, metres, radians, seconds. `touch*` and `present` are 0 or 1. `pos` is the centre
    of the object's bounding box, `half_size` its half extents along the object's own axes.
    """

    ee_pos: Array
    """Grasp point between the finger tips, (B, 3)."""
    ee_rot: Array
    """Gripper rotation, columns are its axes, (B, 3, 3). Fingers along +z, opening along y."""
    ee_linvel: Array
    command_pos: Array
    """Commanded grasp point of the controller, (B, 3)."""
    command_rot: Array
    gripper_width_m: Array
    """Gap between the fingers, (B,), 0 to 0.08."""
    gripper_command: Array
    """Last gripper action, (B,), -1 open to +1 closed."""
    pos: Array
    rot: Array
    linvel: Array
    angvel: Array
    """Angular velocity [rad/s]. Velocities are means over the last control step."""
    half_size: Array
    grip: Array
    """Centre of the part that the gripper takes, from `pos`, along the object's own axes."""
    grip_half: Array
    """Half extents of that part; zero where the gripper cannot take the object."""
    seat: Array
    """Height over `pos` of the surface that takes things up: a plate's top, a bin's floor."""
    seat_half: Array
    """Half extents of that surface along the object's x and y."""
    mouth: Array
    """Height over `pos` of the rim that things pass on the way to the seat."""
    present: Array
    touch_left: Array
    touch_right: Array
    touch_table: Array
    touch: Array
    """Contact between roles, (B, R, R), symmetric."""
    robot_touch_table: Array
    joint_kind: Array
    """The fixture's joint, (B,): 0 there is none, 1 it slides, 2 it turns."""
    joint_pos: Array
    """Displacement from closed [m or rad]."""
    joint_vel: Array
    joint_span: Array
    """Travel from closed to fully open [m or rad]; 1 where there is no joint."""
    joint_axis: Array
    """Direction of the joint's motion, or of its axis, (B, 3)."""
    joint_anchor: Array
    """A point on the axis of a joint that turns, (B, 3)."""
    joint_goal: Array
    """Opening that the task wants, as a share of the travel."""
    time_s: Array

    @property
    def opening(self) -> Array:
        """How far the fixture is open, (B,): 0 closed, 1 fully open."""
        return self.joint_pos / self.joint_span

    @property
    def batch(self) -> int:
        """Number of states B."""
        return int(self.ee_pos.shape[0])

    def pack(self) -> Array:
        """Flatten to (B, F), F = `FRAME_SIZE`."""
        parts = [getattr(self, f.name).reshape(self.batch, -1) for f in fields(self)]
        return np.concatenate(parts, axis=1)

    @classmethod
    def unpack(cls, packed: npt.NDArray[Any]) -> Self:
        """Inverse of `pack`; leading shape (B, F). Fields of float64 are views."""
        values = np.asarray(packed, dtype=np.float64)
        parts: dict[str, Array] = {}
        start = 0
        for name, shape in _SHAPES.items():
            stop = start + math.prod(shape)
            parts[name] = values[:, start:stop].reshape(len(values), *shape)
            start = stop
        return cls(**parts)

    def __getitem__(self, index: Any) -> Self:
        """Select states by an index array, a mask or a slice (the batch axis stays)."""
        return replace(self, **{f.name: getattr(self, f.name)[index] for f in fields(self)})


def concat(frames: list[SimFrame]) -> SimFrame:
    """Join frames along the batch axis."""
    return SimFrame(
        **{f.name: np.concatenate([getattr(x, f.name) for x in frames]) for f in fields(SimFrame)}
    )
