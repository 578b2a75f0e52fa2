"""Scalar features of a scene's factors, and how they differ between failures and successes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from coda.sim.roles import AXES, Axis
from coda.sim.scene import Scene

Array = npt.NDArray[np.float64]

AXIS_PATHS: Mapping[Axis, tuple[str, ...]] = MappingProxyType(
    {
        "position": ("sigma.target.xy",),
        "yaw": ("sigma.target.yaw",),
        "size": ("alpha.target.scale",),
        "mass-friction": ("alpha.target.mass_kg", "alpha.target.friction"),
        "distractors": ("tau.distractors",),
        "goal": ("sigma.receptacle.xy",),
        "asset": ("alpha.target.asset",),
    }
)
"""The factor paths that a person or an agent edits on each axis, the main one first."""


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


def wrap_angle(angle_rad: float) -> float:
    """The angle in [-pi, pi)."""
    return (angle_rad + math.pi) % (2.0 * math.pi) - math.pi


def _clearance(scene: Scene, seed: Scene) -> float:
    """Distance from the target to the nearest distractor [m]; 0.5 without distractors."""
    del seed
    target = scene.sigma.poses["target"].xy
    others = [pose.xy for role, pose in scene.sigma.poses.items() if role.startswith("distractor")]
    return min((math.dist(target, xy) for xy in others), default=0.5)


FEATURES: tuple[Feature, ...] = (
    Feature(
        "target.x", "sigma.target.xy", "position", "m", 0.06,
        lambda s, _: s.sigma.poses["target"].xy[0],
    ),
    Feature(
        "target.y", "sigma.target.xy", "position", "m", 0.06,
        lambda s, _: s.sigma.poses["target"].xy[1],
    ),
    Feature(
        "target.yaw", "sigma.target.yaw", "yaw", "rad", 0.4,
        lambda s, seed: wrap_angle(s.sigma.poses["target"].yaw - seed.sigma.poses["target"].yaw),
    ),
    Feature(
        "target.scale", "alpha.target.scale", "size", "1", 0.15,
        lambda s, _: s.alpha.objects["target"].scale,
    ),
    Feature(
        "target.mass_log2", "alpha.target.mass_kg", "mass-friction", "log2 kg", 1.0,
        lambda s, _: math.log2(s.alpha.objects["target"].mass_kg),
    ),
    Feature(
        "target.friction", "alpha.target.friction", "mass-friction", "1", 0.4,
        lambda s, _: s.alpha.objects["target"].friction,
    ),
    Feature(
        "distractors", "tau.distractors", "distractors", "count", 1.0,
        lambda s, _: float(s.tau.distractors),
    ),
    Feature("distractor.clearance", "tau.distractors", "distractors", "m", 0.2, _clearance),
    Feature(
        "receptacle.x", "sigma.receptacle.xy", "goal", "m", 0.06,
        lambda s, _: s.sigma.poses["receptacle"].xy[0],
    ),
    Feature(
        "receptacle.y", "sigma.receptacle.xy", "goal", "m", 0.06,
        lambda s, _: s.sigma.poses["receptacle"].xy[1],
    ),
    Feature(
        "target.asset_changed", "alpha.target.asset", "asset", "0/1", 1.0,
        lambda s, seed: float(
            s.alpha.objects["target"].asset != seed.alpha.objects["target"].asset
        ),
    ),
)  # fmt: skip
"""Every feature that contrasts compare."""


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


def deviations(scene: Scene, seed: Scene) -> dict[str, float]:
    """Differences from the seed scene by feature name, only those that differ."""
    found: dict[str, float] = {}
    for feature in FEATURES:
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
        seed: The family's seed scene.
    """
    found = []
    for feature in FEATURES:
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
