"""Factor paths: the addresses through which programs read and write a scene.

A path names a factor of a role, e.g. ``sigma.target.xy``; `FACTORS` lists every path with its
kind, unit, allowed range and the axis under which its effect is reported.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, cast

from coda.sim.errors import SceneError, UnknownName
from coda.sim.gate_codes import make_issue
from coda.sim.program import Issue, Value, plain
from coda.sim.roles import DISTRACTORS, ROLES, Axis, Role
from coda.sim.scene import (
    AssetName,
    Attributes,
    ObjectAttributes,
    Pose,
    RobotStart,
    Scene,
    Spatial,
)

WORKSPACE_X = (0.32, 0.66)
"""Where centres of target and receptacle may lie, forward of the robot's base [m]."""
WORKSPACE_Y = (-0.28, 0.28)
"""Where centres of target and receptacle may lie, to the left of the robot's base [m]."""

RECEPTACLES: tuple[AssetName, ...] = ("plate", "tray")
"""Assets that may be the receptacle."""
OBJECTS: tuple[AssetName, ...] = (
    "cube",
    "block",
    "cylinder",
    "can",
    "milk",
    "bread",
    "lemon",
    "cereal",
)
"""Assets that may be the target or a distractor."""

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
    names = RECEPTACLES if role == "receptacle" else OBJECTS
    asset = Factor(
        path=f"alpha.{role}.asset", kind="asset", axis=axis("asset"), role=role, names=names
    )
    return [
        numbers("sigma", "xy", (x0, y0), (x1, y1), "m"),
        numbers("sigma", "yaw", (-math.pi,), (math.pi,), "rad"),
        asset,
        numbers("alpha", "scale", (0.5,), (1.6,)),
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

_COLOURS = ((0.15, 0.3, 0.85, 1.0), (0.15, 0.6, 0.25, 1.0), (0.9, 0.8, 0.15, 1.0))
_SLOTS = ((0.36, 0.02), (0.60, 0.02), (0.36, -0.20))


def default_distractor(role: Role) -> tuple[Pose, ObjectAttributes]:
    """Pose and attributes of a distractor that was switched on and not described further."""
    index = DISTRACTORS.index(role)
    return Pose(xy=_SLOTS[index]), ObjectAttributes(asset="cube", rgba=_COLOURS[index])


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


def _require(scene: Scene, f: Factor) -> None:
    if f.role is not None and f.role not in scene.sigma.poses:
        raise SceneError(
            f"{f.path}: the scene has no {f.role} (tau.distractors = {scene.tau.distractors}); "
            "raise tau.distractors first."
        )


def read_factor(scene: Scene, path: str) -> Value:
    """The value at `path`. Raises `UnknownName`, or `SceneError` if the role is absent."""
    f = factor(path)
    _require(scene, f)
    name = path.rsplit(".", 1)[1]
    if path == "tau.distractors":
        return scene.tau.distractors
    if f.role is None:
        return plain(getattr(scene.sigma.robot, name))
    record: Any = (
        scene.sigma.poses[f.role] if path.startswith("sigma.") else scene.alpha.objects[f.role]
    )
    return plain(getattr(record, name))


def write_factor(scene: Scene, path: str, value: Any) -> Scene:
    """A copy of `scene` with `value` at `path`; the instruction is left as it is.

    Raises `UnknownName` for a path that does not exist, and `SceneError` for a value that it
    cannot hold or a role that the scene lacks.
    """
    f = factor(path)
    _require(scene, f)
    problem = check_value(path, value)
    if problem is not None:
        raise SceneError(f"{problem.line()}.")
    return put(scene, f, value)


def put(scene: Scene, f: Factor, value: Any) -> Scene:
    """`write_factor` without its checks, for values that were checked already."""
    if f.path == "tau.distractors":
        return _with_distractors(scene, int(value))
    name = f.path.rsplit(".", 1)[1]
    held = tuple(float(v) for v in value) if f.kind == "vector" else value
    if f.kind == "number":
        held = float(value)
    sigma, alpha = scene.sigma, scene.alpha
    if f.role is None:
        robot = cast(RobotStart, sigma.robot.model_copy(update={name: held}))
        return scene.model_copy(update={"sigma": Spatial(poses=sigma.poses, robot=robot)})
    if f.path.startswith("sigma."):
        pose = sigma.poses[f.role].model_copy(update={name: held})
        poses = sigma.model_copy(update={"poses": {**sigma.poses, f.role: pose}})
        return scene.model_copy(update={"sigma": poses})
    record = alpha.objects[f.role].model_copy(update={name: held})
    objects = alpha.model_copy(update={"objects": {**alpha.objects, f.role: record}})
    return scene.model_copy(update={"alpha": objects})


def _with_distractors(scene: Scene, count: int) -> Scene:
    """Switch distractors on (with defaults) or off so that `count` are left."""
    poses = {r: p for r, p in scene.sigma.poses.items() if r not in DISTRACTORS}
    objects = {r: o for r, o in scene.alpha.objects.items() if r not in DISTRACTORS}
    for role in DISTRACTORS[:count]:
        pose, record = default_distractor(role)
        poses[role] = scene.sigma.poses.get(role, pose)
        objects[role] = scene.alpha.objects.get(role, record)
    return scene.model_copy(
        update={
            "tau": scene.tau.model_copy(update={"distractors": count}),
            "sigma": Spatial(poses=poses, robot=scene.sigma.robot),
            "alpha": Attributes(objects=objects),
        }
    )
