"""`SimFrame`: what predicates, potentials and observations read of a batch of states."""

from __future__ import annotations

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
    "present": (N_ROLES,),
    "touch_left": (N_ROLES,),
    "touch_right": (N_ROLES,),
    "touch_table": (N_ROLES,),
    "touch_receptacle": (N_ROLES,),
    "robot_touch_table": (),
    "time_s": (),
}
FRAME_SIZE = sum(int(np.prod(shape)) for shape in _SHAPES.values())
"""Length F of a packed frame."""


@dataclass(frozen=True, kw_only=True)
class SimFrame:
    """A batch of states, role axis in the order of `ROLES` (absent roles are zero).

    Base frame, metres, radians, seconds. `touch_*` and `present` are 0 or 1. `pos` is the centre
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
    half_size: Array
    present: Array
    touch_left: Array
    touch_right: Array
    touch_table: Array
    touch_receptacle: Array
    robot_touch_table: Array
    time_s: Array

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
        """Inverse of `pack`; leading shape (B, F)."""
        values: dict[str, Array] = {}
        start = 0
        for f in fields(cls):
            shape = _SHAPES[f.name]
            size = int(np.prod(shape))
            values[f.name] = np.asarray(
                packed[:, start : start + size].reshape(-1, *shape), dtype=np.float64
            )
            start += size
        return cls(**values)

    def __getitem__(self, index: Any) -> Self:
        """Select states by an index array, a mask or a slice (the batch axis stays)."""
        return replace(self, **{f.name: getattr(self, f.name)[index] for f in fields(self)})


def concat(frames: list[SimFrame]) -> SimFrame:
    """Join frames along the batch axis."""
    return SimFrame(
        **{f.name: np.concatenate([getattr(x, f.name) for x in frames]) for f in fields(SimFrame)}
    )
