"""Roles bind objects to their part in a task; programs name roles, never literal objects."""

from __future__ import annotations

from typing import Literal

Role = Literal["target", "receptacle", "distractor-1", "distractor-2", "distractor-3"]
"""The roles of the pick-place family."""

ROLES: tuple[Role, ...] = (
    "target",
    "receptacle",
    "distractor-1",
    "distractor-2",
    "distractor-3",
)
"""Every role, in the order of all arrays with a role axis (R = 5)."""

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
