"""Scalar features of a scene's factors, and how they differ between failures and successes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from coda.sim.assets import ASSETS
from coda.sim.factors import scene_factors
from coda.sim.families import family
from coda.sim.roles import AXES, Axis, Role
from coda.sim.scene import Scene

Array = npt.NDArray[np.float64]

OTHERS: tuple[Role, ...] = ("receptacle", "support")
"""Roles of a task beside its target; all of their factors are on the goal axis."""


@dataclass(frozen=True)
class Feature:
    """One number read from a scene."""

    name: str
    path: str
    axis: Axis
    unit: str
    scale: float
    """A change that a policy may notice, in `unit`; makes deviations comparable across axes."""
    read: Callable[[Scene, Scene], float]
    """(scene, seed scene) -> value."""
    role: Role = "target"
    """Role that the scene needs to have this feature."""
    jointed: bool = False
    """Whether that role has to be a fixture with a joint."""

    def of(self, scene: Scene) -> bool:
        """Whether a scene has this feature."""
        record = scene.alpha.objects.get(self.role)
        if record is None:
            return False
        return not self.jointed or ASSETS[record.asset].joint is not None


def wrap_angle(angle_rad: float) -> float:
    """The angle in [-pi, pi)."""
    return (angle_rad + math.pi) % (2.0 * math.pi) - math.pi


def _clearance(scene: Scene, seed: Scene) -> float:
    """Distance from the target to the nearest distractor [m]; 0.5 without distractors."""
    del seed
    target = scene.sigma.poses["target"].xy
    others = [pose.xy for role, pose in scene.sigma.poses.items() if role.startswith("distractor")]
    return min((math.dist(target, xy) for xy in others), default=0.5)


def _opening(scene: Scene, seed: Scene) -> float:
    del seed
    return scene.tau.opening


def _xy(role: Role, axis: Axis) -> tuple[Feature, ...]:
    """Where a role stands."""

    def read(index: int) -> Callable[[Scene, Scene], float]:
        return lambda scene, _: scene.sigma.poses[role].xy[index]

    path = f"sigma.{role}.xy"
    return (
        Feature(f"{role}.x", path, axis, "m", 0.06, read(0), role),
        Feature(f"{role}.y", path, axis, "m", 0.06, read(1), role),
    )


def _yaw(role: Role, axis: Axis) -> Feature:
    """How far a role is turned from the seed scene."""

    def read(scene: Scene, seed: Scene) -> float:
        return wrap_angle(scene.sigma.poses[role].yaw - seed.sigma.poses[role].yaw)

    return Feature(f"{role}.yaw", f"sigma.{role}.yaw", axis, "rad", 0.4, read, role)


def _number(role: Role, name: str, axis: Axis, scale: float, *, jointed: bool = False) -> Feature:
    """An attribute of a role."""
    path = f"alpha.{role}.{name}"

    def read(scene: Scene, seed: Scene) -> float:
        del seed
        return float(getattr(scene.alpha.objects[role], name))

    return Feature(f"{role}.{name}", path, axis, "1", scale, read, role, jointed)


def _doublings(
    role: Role, name: str, field: str, axis: Axis, unit: str, *, jointed: bool = False
) -> Feature:
    """An attribute of a role as its binary logarithm."""

    def read(scene: Scene, seed: Scene) -> float:
        del seed
        return math.log2(getattr(scene.alpha.objects[role], field))

    path = f"alpha.{role}.{field}"
    return Feature(f"{role}.{name}_log2", path, axis, unit, 1.0, read, role, jointed)


def _asset(role: Role, axis: Axis) -> Feature:
    """Whether a role has another asset than in the seed scene."""

    def read(scene: Scene, seed: Scene) -> float:
        return float(scene.alpha.objects[role].asset != seed.alpha.objects[role].asset)

    return Feature(f"{role}.asset_changed", f"alpha.{role}.asset", axis, "0/1", 1.0, read, role)


def _crowd(scene: Scene, seed: Scene) -> float:
    del seed
    return float(scene.tau.distractors)


FEATURES: tuple[Feature, ...] = (
    *_xy("target", "position"),
    _yaw("target", "yaw"),
    _number("target", "scale", "size", 0.15),
    _doublings("target", "mass", "mass_kg", "mass-friction", "log2 kg"),
    _number("target", "friction", "mass-friction", 0.4),
    _doublings("target", "damping", "damping", "mass-friction", "log2", jointed=True),
    Feature("distractors", "tau.distractors", "distractors", "count", 1.0, _crowd),
    Feature("distractor.clearance", "tau.distractors", "distractors", "m", 0.2, _clearance),
    Feature("opening", "tau.opening", "goal", "share of travel", 0.2, _opening, jointed=True),
    Feature(
        "opening", "tau.opening", "goal", "share of travel", 0.2, _opening, "receptacle",
        jointed=True,
    ),
    *(
        feature
        for role in OTHERS
        for feature in (
            *_xy(role, "goal"),
            _yaw(role, "goal"),
            _number(role, "scale", "goal", 0.15),
            _number(role, "friction", "goal", 0.4),
            _asset(role, "goal"),
        )
    ),
    _doublings("receptacle", "damping", "damping", "goal", "log2", jointed=True),
    _asset("target", "asset"),
)  # fmt: skip
"""Every feature that contrasts compare; a scene has those of its roles and joints."""


def axis_paths(seed: Scene) -> dict[Axis, tuple[str, ...]]:
    """The factor paths that its family edits on each axis in a task, the main one first.

    Args:
        seed: The task's seed scene.
    """
    wide, here = family(seed.tau.family).wide, scene_factors(seed)
    return {axis: tuple(path for path in wide.get(axis, ()) if path in here) for axis in AXES}


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """One feature, failures against successes of the same policy on the same program."""

    feature: str
    path: str
    axis: Axis
    unit: str
    failures_mean: float | None
    successes_mean: float | None
    seed_value: float
    failures_away: float | None
    """Mean distance from the seed scene's value, in `unit`."""
    successes_away: float | None
    effect: float
    """Hedges' g of the distance from the seed scene (or of the value, where that separates more);
    positive: failures are farther out. 0 with fewer than two of either."""
    progress_corr: float
    """Correlation of the distance from the seed scene with the progress reached; negative: the
    farther out, the less progress."""
    deviation: float
    """Mean distance of failures from the seed scene, in units of the feature's scale."""

    def facts(self) -> dict[str, Any]:
        """Compact JSON with rounded numbers."""
        return {
            "feature": self.feature,
            "path": self.path,
            "axis": self.axis,
            "unit": self.unit,
            "failures_mean": _round(self.failures_mean),
            "successes_mean": _round(self.successes_mean),
            "seed": _round(self.seed_value),
            "failures_away": _round(self.failures_away),
            "successes_away": _round(self.successes_away),
            "effect": _round(self.effect),
            "progress_corr": _round(self.progress_corr),
            "deviation": _round(self.deviation),
        }


def features(scenes: Sequence[Scene], seed: Scene) -> tuple[Feature, ...]:
    """The features that the seed scene and all of the scenes have."""
    return tuple(f for f in FEATURES if f.of(seed) and all(f.of(scene) for scene in scenes))


def deviations(scene: Scene, seed: Scene) -> dict[str, float]:
    """Differences from the seed scene by feature name, only those that differ."""
    found: dict[str, float] = {}
    for feature in features([scene], seed):
        delta = feature.read(scene, seed) - feature.read(seed, seed)
        if abs(delta) > 1e-9:
            found[feature.name] = round(delta, 4)
    return found


def compare(
    scenes: Sequence[Scene], success: npt.NDArray[np.bool_], progress: Array, seed: Scene
) -> tuple[Contrast, ...]:
    """Contrasts of every feature that varies or differs from the seed, strongest effect first.

    Args:
        scenes: N scenes.
        success: Whether each episode succeeded, (N,).
        progress: Staged progress reached in each, (N,), in [0, 1].
        seed: The task's seed scene.
    """
    found = []
    for feature in features(scenes, seed):
        value = np.array([feature.read(scene, seed) for scene in scenes], dtype=np.float64)
        origin = feature.read(seed, seed)
        away = np.abs(value - origin)
        if not scenes or away.max() < 1e-9:
            continue
        far, near = away[~success], away[success]
        by_distance = hedges_g(far, near)
        by_value = abs(hedges_g(value[~success], value[success]))
        effect = by_distance if abs(by_distance) >= by_value else by_value
        found.append(
            Contrast(
                feature=feature.name,
                path=feature.path,
                axis=feature.axis,
                unit=feature.unit,
                failures_mean=float(value[~success].mean()) if far.size else None,
                successes_mean=float(value[success].mean()) if near.size else None,
                seed_value=origin,
                failures_away=float(far.mean()) if far.size else None,
                successes_away=float(near.mean()) if near.size else None,
                effect=effect,
                progress_corr=correlation(away, progress),
                deviation=float(far.mean()) / feature.scale if far.size else 0.0,
            )
        )
    order = {axis: i for i, axis in enumerate(AXES)}
    return tuple(sorted(found, key=lambda c: (-c.effect, -c.deviation, order[c.axis], c.feature)))


def hedges_g(first: Array, second: Array) -> float:
    """Standardised mean difference (first minus second), small-sample corrected.

    0 with fewer than two samples of either, limited to [-5, 5] so that samples without spread
    stay comparable.
    """
    n1, n2 = first.size, second.size
    if n1 < 2 or n2 < 2:
        return 0.0
    pooled = ((n1 - 1) * first.var(ddof=1) + (n2 - 1) * second.var(ddof=1)) / (n1 + n2 - 2)
    difference = float(first.mean() - second.mean())
    if abs(difference) < 1e-12:
        return 0.0
    correction = 1.0 - 3.0 / (4.0 * (n1 + n2) - 9.0)
    return float(np.clip(correction * difference / math.sqrt(max(pooled, 1e-12)), -5.0, 5.0))


def correlation(x: Array, y: Array) -> float:
    """Pearson correlation of (N,) and (N,); 0 where either is constant or N < 3."""
    if x.size < 3 or x.std() < 1e-12 or y.std() < 1e-12:
        return 0.0
    return float(np.corrcoef(x, y)[0, 1])


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
