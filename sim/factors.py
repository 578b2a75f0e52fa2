"""The catalogue of factors: every path that a program may write, with its allowed values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from coda.sim.errors import UnknownName
from coda.sim.gate_codes import make_issue
from coda.sim.program import Issue
from coda.sim.roles import DISTRACTORS, ROLES, Axis, Role
from coda.sim.scene import AssetName

WORKSPACE_X = (0.32, 0.66)
"""Where centres of target and receptacle may lie, forward of the robot's base [m]."""
WORKSPACE_Y = (-0.28, 0.28)
"""Where centres of target and receptacle may lie, to the left of the robot's base [m]."""

RECEPTACLES: tuple[AssetName, ...] = ("plate", "tray")
"""Assets that may be the receptacle."""
TARGETS: tuple[AssetName, ...] = ("cube", "block", "cylinder", "can", "milk", "bread", "cereal")
"""Assets that may be the target."""
OBJECTS: tuple[AssetName, ...] = (*TARGETS, "lemon")
"""Assets that may be a distractor; a lemon rolls to its own rest and rarely passes the gate."""

Kind = Literal["count", "number", "vector", "asset"]


@dataclass(frozen=True, kw_only=True)
class Factor:
    """What one path may hold."""

    path: str
    kind: Kind
    axis: Axis
    role: Role | None
    """Role that the factor belongs to; None for the task and the robot."""
    low: tuple[float, ...] = ()
    """Smallest allowed value, elementwise; empty for assets."""
    high: tuple[float, ...] = ()
    unit: str = ""
    names: tuple[str, ...] = ()
    """Allowed names of an asset factor."""

    @property
    def size(self) -> int:
        """Number of elements."""
        return max(1, len(self.low))

    def limit(self) -> str:
        """The allowed values in words."""
        if self.kind == "asset":
            return "one of " + ", ".join(self.names)
        unit = f" {self.unit}" if self.unit else ""
        low, high = self.low, self.high
        if self.kind == "count":
            return f"a whole number from {low[0]:g} to {high[0]:g}"
        if self.kind == "number":
            return f"a number from {low[0]:.4g} to {high[0]:.4g}{unit}"
        spans = ", ".join(f"{a:.4g} to {b:.4g}" for a, b in zip(low, high, strict=True))
        return f"{self.size} numbers: {spans}{unit}"


def _of_role(role: Role) -> list[Factor]:
    """The factors of one object."""
    own: dict[str, Axis] = {"xy": "position", "yaw": "yaw", "scale": "size", "asset": "asset"}
    own |= {"mass_kg": "mass-friction", "friction": "mass-friction", "rgba": "asset"}

    def axis(name: str) -> Axis:
        if role == "target":
            return own[name]
        return "goal" if role == "receptacle" else "distractors"

    def numbers(
        group: str, name: str, low: tuple[float, ...], high: tuple[float, ...], unit: str = ""
    ) -> Factor:
        kind: Kind = "number" if len(low) == 1 else "vector"
        path = f"{group}.{role}.{name}"
        return Factor(
            path=path, kind=kind, axis=axis(name), role=role, low=low, high=high, unit=unit
        )

    (x0, x1), (y0, y1) = WORKSPACE_X, WORKSPACE_Y
    names = {"receptacle": RECEPTACLES, "target": TARGETS}.get(role, OBJECTS)
    asset = Factor(
        path=f"alpha.{role}.asset", kind="asset", axis=axis("asset"), role=role, names=names
    )
    return [
        numbers("sigma", "xy", (x0, y0), (x1, y1), "m"),
        numbers("sigma", "yaw", (-math.pi,), (math.pi,), "rad"),
        asset,
        numbers("alpha", "scale", (0.5,), (2.0,)),
        numbers("alpha", "mass_kg", (0.01,), (2.0,), "kg"),
        numbers("alpha", "friction", (0.1,), (3.0,)),
        numbers("alpha", "rgba", (0.0,) * 4, (1.0,) * 4),
    ]


def _catalogue() -> dict[str, Factor]:
    factors = [
        Factor(
            path="tau.distractors",
            kind="count",
            axis="distractors",
            role=None,
            low=(0.0,),
            high=(float(len(DISTRACTORS)),),
        ),
        Factor(
            path="sigma.robot.xyz",
            kind="vector",
            axis="position",
            role=None,
            low=(0.32, -0.25, 0.14),
            high=(0.60, 0.25, 0.40),
            unit="m",
        ),
        Factor(
            path="sigma.robot.yaw",
            kind="number",
            axis="yaw",
            role=None,
            low=(-math.pi / 2,),
            high=(math.pi / 2,),
            unit="rad",
        ),
    ]
    for role in ROLES:
        factors += _of_role(role)
    return {factor.path: factor for factor in factors}


FACTORS: Mapping[str, Factor] = MappingProxyType(_catalogue())
"""Every path that an edit may write."""


def factor(path: str) -> Factor:
    """Look a path up. Raises `UnknownName` with the nearest match."""
    try:
        return FACTORS[path]
    except KeyError:
        raise UnknownName("factor path", path, FACTORS) from None


def axis_of(path: str) -> Axis:
    """The axis under which a path's effect is reported. Raises `UnknownName`."""
    return factor(path).axis


def check_value(path: str, value: Any) -> Issue | None:
    """What is wrong with writing `value` to a known `path`, or None."""
    f = factor(path)
    shown = f"{value!r:.60}"
    remedy = "choose a value in the allowed range"

    def bad(code: str) -> Issue:
        return make_issue(code, path, shown, f.limit(), remedy)

    if f.kind == "asset":
        return None if value in f.names else bad("value-type")
    numbers = tuple(value) if isinstance(value, tuple | list) else (value,)
    if (f.kind == "vector") != isinstance(value, tuple | list) or len(numbers) != f.size:
        return bad("value-type")
    if any(isinstance(n, bool) or not isinstance(n, int | float) for n in numbers):
        return bad("value-type")
    if f.kind == "count" and numbers[0] != numbers[0] // 1:  # NaN is unequal to itself
        return bad("value-type")
    inside = (a - 1e-9 <= n <= b + 1e-9 for n, a, b in zip(numbers, f.low, f.high, strict=True))
    return None if all(inside) else bad("value-range")
