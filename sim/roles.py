"""Roles bind objects to their part in a task; programs name roles, never literal objects."""

from __future__ import annotations

from typing import Literal

Role = Literal[
    "target", "receptacle", "support", "handle", "distractor-1", "distractor-2", "distractor-3"
]
"""The parts that things play in a task.

`target` is what the task is about: the object to move, or the articulated fixture. `receptacle`
takes it up: a plate, a bin, a hole, another block. `support` carries the receptacle where a tower
has three storeys. `handle` is the part of an articulated fixture that the gripper takes; it has no
pose or attributes of its own in a scene, they come from its fixture.
"""

ROLES: tuple[Role, ...] = (
    "target",
    "receptacle",
    "support",
    "handle",
    "distractor-1",
    "distractor-2",
    "distractor-3",
)
"""Every role, in the order of all arrays with a role axis (R = 7)."""

PLACED_ROLES: tuple[Role, ...] = tuple(role for role in ROLES if role != "handle")
"""Roles that have a pose and attributes in a scene."""

DISTRACTORS: tuple[Role, ...] = ("distractor-1", "distractor-2", "distractor-3")
"""The roles that `tau.distractors` switches on, first to last."""

Axis = Literal["position", "yaw", "size", "mass-friction", "distractors", "goal", "asset"]
"""A factor axis along which scenes vary and results are reported."""

AXES: tuple[Axis, ...] = (
    "position",
    "yaw",
    "size",
    "mass-friction",
    "distractors",
    "goal",
    "asset",
)


def role_index(role: Role) -> int:
    """Index of a role on the role axis."""
    return ROLES.index(role)
