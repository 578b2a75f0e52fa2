"""The catalogue of factors: every path that a program may write, with its allowed values.

The allowed values are those of one task (`task_factors`); a family's (`factors`) and the whole
catalogue's (`FACTORS`) are the hulls of their tasks'.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any, Literal

from coda.sim.assets import ASSETS
from coda.sim.errors import UnknownName
from coda.sim.families import FAMILIES, Family, TaskSpec, family
from coda.sim.family import opening_range
from coda.sim.gate_codes import make_issue
from coda.sim.libero_assets import installed
from coda.sim.libero_files import INSTALL, PACKAGES
from coda.sim.program import Issue
from coda.sim.roles import DISTRACTORS, PLACED_ROLES, Axis, Role
from coda.sim.scene import Scene

TABLE_X, TABLE_Y = (0.32, 0.66), (-0.28, 0.28)
"""Where distractors may lie in every family, beside the family's own workspace [m]."""
DAMPING = (0.1, 10.0)
"""Damping of a fixture's joint, relative to the catalogue's."""

Kind = Literal["count", "number", "vector", "name"]


@dataclass(frozen=True, kw_only=True)
class Factor:
    """What one path may hold."""

    path: str
    kind: Kind
    axis: Axis
    role: Role | None
    """Role that the factor belongs to; None for the task and the robot."""
    low: tuple[float, ...] = ()
    """Smallest allowed value, elementwise; empty for names."""
    high: tuple[float, ...] = ()
    unit: str = ""
    names: tuple[str, ...] = ()
    """Allowed names of an asset or of a task."""
    optional: tuple[str, ...] = ()
    """More names of assets, allowed where their package is installed."""

    @property
    def size(self) -> int:
        """Number of elements."""
        return max(1, len(self.low))

    def limit(self) -> str:
        """The allowed values in words."""
        if self.kind == "name":
            return "one of " + ", ".join(self.names + (self.optional if installed() else ()))
        unit = f" {self.unit}" if self.unit else ""
        low, high = self.low, self.high
        if self.kind == "count":
            return f"a whole number from {low[0]:g} to {high[0]:g}"
        if self.kind == "number":
            return f"a number from {low[0]:.4g} to {high[0]:.4g}{unit}"
        spans = ", ".join(f"{a:.4g} to {b:.4g}" for a, b in zip(low, high, strict=True))
        return f"{self.size} numbers: {spans}{unit}"


_TARGET_AXES: Mapping[str, Axis] = MappingProxyType(
    {
        "xy": "position",
        "yaw": "yaw",
        "scale": "size",
        "asset": "asset",
        "mass_kg": "mass-friction",
        "friction": "mass-friction",
        "damping": "mass-friction",
        "rgba": "asset",
    }
)
"""Axis of each of the target's factors; other roles' are on the goal or distractors axis."""


def _axis(role: Role, name: str) -> Axis:
    if role == "target":
        return _TARGET_AXES[name]
    return "distractors" if role in DISTRACTORS else "goal"


def _numbers(
    path: str, axis: Axis, role: Role | None, *spans: tuple[float, float], unit: str = ""
) -> Factor:
    return Factor(
        path=path, kind="number" if len(spans) == 1 else "vector", axis=axis, role=role, unit=unit,
        low=tuple(low for low, _ in spans), high=tuple(high for _, high in spans),
    )  # fmt: skip


def _of_role(item: Family, task: TaskSpec, role: Role) -> list[Factor]:
    """The factors of one object."""
    names = task.assets[role]
    x, y = item.workspace_x, item.workspace_y
    if role in DISTRACTORS:
        x, y = _hull(x, TABLE_X), _hull(y, TABLE_Y)

    def numbers(group: str, name: str, *spans: tuple[float, float], unit: str = "") -> Factor:
        return _numbers(f"{group}.{role}.{name}", _axis(role, name), role, *spans, unit=unit)

    found = [
        numbers("sigma", "xy", x, y, unit="m"),
        numbers("sigma", "yaw", (-math.pi, math.pi), unit="rad"),
        Factor(
            path=f"alpha.{role}.asset", kind="name", axis=_axis(role, "asset"), role=role,
            names=names, optional=task.optional.get(role, ()),
        ),
        numbers("alpha", "scale", (0.5, 2.0)),
        numbers("alpha", "mass_kg", (0.01, 2.0), unit="kg"),
        numbers("alpha", "friction", (0.1, 3.0)),
        numbers("alpha", "rgba", *[(0.0, 1.0)] * 4),
    ]  # fmt: skip
    if any(ASSETS[name].joint is not None for name in names):
        found.append(numbers("alpha", "damping", DAMPING))
    return found


def _hull(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
    return min(a[0], b[0]), max(a[1], b[1])


def _of_task(item: Family, task: TaskSpec) -> Iterable[Factor]:
    if len(item.tasks) > 1:
        yield Factor(path="tau.task", kind="name", axis="goal", role=None, names=tuple(item.tasks))
    crowd = float(sum(role in task.assets for role in DISTRACTORS))
    yield Factor(
        path="tau.distractors", kind="count", axis="distractors", role=None, low=(0.0,),
        high=(crowd,),
    )  # fmt: skip
    own = [name for role in task.seed.roles for name in task.assets[role]]
    if any(ASSETS[name].joint is not None for name in own):
        yield _numbers("tau.opening", "goal", None, opening_range(task))
    yield _numbers(
        "sigma.robot.xyz", "position", None, (0.32, 0.60), (-0.25, 0.25), (0.14, 0.40), unit="m"
    )
    yield _numbers("sigma.robot.yaw", "yaw", None, (-math.pi / 2, math.pi / 2), unit="rad")
    for role in PLACED_ROLES:
        if role in task.assets:
            yield from _of_role(item, task, role)


def joined(parts: Iterable[Mapping[str, Factor]]) -> Mapping[str, Factor]:
    """The hull of several catalogues: paths of any of them, the widest ranges, all names."""
    found: dict[str, Factor] = {}
    for part in parts:
        for path, f in part.items():
            had = found.get(path, f)
            found[path] = replace(
                had,
                low=tuple(map(min, had.low, f.low)),
                high=tuple(map(max, had.high, f.high)),
                names=tuple(dict.fromkeys((*had.names, *f.names))),
                optional=tuple(dict.fromkeys((*had.optional, *f.optional))),
            )
    order = {path: i for i, path in enumerate(_ORDER)}
    return MappingProxyType(
        {path: found[path] for path in sorted(found, key=lambda p: order.get(_kind(p), len(order)))}
    )


_ORDER = ("tau.task", "tau.distractors", "tau.opening", "sigma.robot", *PLACED_ROLES)


def _kind(path: str) -> str:
    """What a path is sorted by: itself, the robot, or its role."""
    group, middle, *_ = path.split(".")
    return path if group == "tau" else "sigma.robot" if middle == "robot" else middle


@cache
def task_factors(family_name: str, task_name: str) -> Mapping[str, Factor]:
    """Every path that an edit may write in one task. Raises `UnknownName`."""
    item = family(family_name)
    if task_name not in item.tasks:
        raise UnknownName(f"{family_name} task", task_name, item.tasks)
    found = _of_task(item, item.tasks[task_name])
    return MappingProxyType({f.path: f for f in found})


@cache
def factors(family_name: str) -> Mapping[str, Factor]:
    """Every path that a family's programs may write, over all its tasks. Raises `UnknownName`."""
    return joined(task_factors(family_name, task) for task in family(family_name).tasks)


def scene_factors(scene: Scene) -> Mapping[str, Factor]:
    """The factors of a scene's own task whose role is in the scene. Raises `UnknownName`."""
    own = task_factors(scene.tau.family, scene.tau.task)
    return {p: f for p, f in own.items() if f.role is None or f.role in scene.sigma.poses}


FACTORS: Mapping[str, Factor] = joined(factors(name) for name in FAMILIES)
"""Every path that an edit may write in any family, with the hull of the allowed values."""


def factor(path: str, family_name: str | None = None) -> Factor:
    """Look a path up, in one family where given. Raises `UnknownName` with the nearest match."""
    table = FACTORS if family_name is None else factors(family_name)
    try:
        return table[path]
    except KeyError:
        kind = "factor path" if family_name is None else f"{family_name} factor path"
        raise UnknownName(kind, path, table) from None


def axis_of(path: str) -> Axis:
    """The axis under which a path's effect is reported. Raises `UnknownName`."""
    return factor(path).axis


def check_value(path: str, value: Any, family: str | None = None) -> Issue | None:
    """What is wrong with writing `value` to a known `path`, in one family where given, or None."""
    return value_issue(factor(path, family), value)


def missing_package(path: str, name: str) -> Issue | None:
    """What is wrong with an optional asset: its package is not installed; or None."""
    if installed():
        return None
    limit = f"assets of installed packages; this one is of {PACKAGES}"
    return make_issue("missing-package", path, name, limit, INSTALL)


def value_issue(f: Factor, value: Any) -> Issue | None:
    """What is wrong with writing `value` to a factor, or None."""
    shown = f"{value!r:.60}"
    remedy = "choose a value in the allowed range"

    def bad(code: str) -> Issue:
        return make_issue(code, f.path, shown, f.limit(), remedy)

    if f.kind == "name":
        if isinstance(value, str) and value in f.optional:
            return missing_package(f.path, value)
        return None if isinstance(value, str) and value in f.names else bad("value-type")
    numbers = tuple(value) if isinstance(value, tuple | list) else (value,)
    if (f.kind == "vector") != isinstance(value, tuple | list) or len(numbers) != f.size:
        return bad("value-type")
    if any(isinstance(n, bool) or not isinstance(n, int | float) for n in numbers):
        return bad("value-type")
    if f.kind == "count" and numbers[0] != numbers[0] // 1:  # NaN is unequal to itself
        return bad("value-type")
    inside = (a - 1e-9 <= n <= b + 1e-9 for n, a, b in zip(numbers, f.low, f.high, strict=True))
    return None if all(inside) else bad("value-range")
