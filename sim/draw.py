"""Draw one value from a sampler."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from coda.sim.errors import SceneError
from coda.sim.factors import Factor
from coda.sim.program import (
    Choice,
    Fixed,
    Mixture,
    Normal,
    Polar,
    RelativeToRole,
    Sampler,
    Uniform,
    Value,
    plain,
)
from coda.sim.scene import Scene

DECIMALS = 6
"""Drawn numbers are rounded to so many decimals, so that scenes are short and compare exactly."""
_NORMAL_DRAWS = 64


def rounded(value: Any) -> Value:
    """Round floats and vectors; whole numbers and names stay."""
    item = plain(value)
    if isinstance(item, tuple):
        return tuple(round(float(v), DECIMALS) for v in item)
    return round(item, DECIMALS) if isinstance(item, float) else item


def _pick(count: int, weights: tuple[float, ...] | None, rng: np.random.Generator) -> int:
    if weights is None:
        return int(rng.integers(count))
    edges = np.cumsum(np.asarray(weights, dtype=np.float64))
    return min(int(np.searchsorted(edges, rng.random() * edges[-1], side="right")), count - 1)


def _around(
    center: tuple[float, float],
    radius: tuple[float, float],
    angle: tuple[float, float],
    rng: np.random.Generator,
) -> tuple[float, float]:
    r, a = rng.uniform(*np.add(radius, 0.0)), rng.uniform(*np.add(angle, 0.0))
    return center[0] + r * math.cos(a), center[1] + r * math.sin(a)


def _uniform(sampler: Uniform, f: Factor, rng: np.random.Generator) -> Any:
    if f.kind != "count":
        # adding zero makes -0.0 a plain zero: numpy refuses the range from 0.0 to -0.0
        return rng.uniform(np.add(sampler.low, 0.0), np.add(sampler.high, 0.0))
    low, high = np.atleast_1d(sampler.low)[0], np.atleast_1d(sampler.high)[0]
    return int(rng.integers(math.ceil(low), math.floor(high) + 1))


def _normal(sampler: Normal, rng: np.random.Generator) -> float:
    for _ in range(_NORMAL_DRAWS):
        value = float(rng.normal(sampler.mean, sampler.std))
        if sampler.low <= value <= sampler.high:
            return value
    return min(max(sampler.mean, sampler.low), sampler.high)


def draw(sampler: Sampler, f: Factor, scene: Scene, rng: np.random.Generator) -> Value:
    """A value for factor `f`; `scene` is read by relative-to-role only.

    A uniform sampler of a whole-number factor draws whole numbers, both ends included. Meant for
    programs that passed the semantic checks. Raises `SceneError` where a role is absent.
    """
    if isinstance(sampler, Mixture):
        part = sampler.components[_pick(len(sampler.components), sampler.weights, rng)]
        return draw(part, f, scene, rng)
    if isinstance(sampler, Fixed):
        return rounded(sampler.value)
    if isinstance(sampler, Choice):
        return rounded(sampler.values[_pick(len(sampler.values), sampler.weights, rng)])
    if isinstance(sampler, Uniform):
        return rounded(_uniform(sampler, f, rng))
    if isinstance(sampler, Normal):
        return rounded(_normal(sampler, rng))
    if isinstance(sampler, Polar):
        return rounded(_around(sampler.center, sampler.radius, sampler.angle, rng))
    assert isinstance(sampler, RelativeToRole)
    if sampler.role not in scene.sigma.poses:
        raise SceneError(
            f"{f.path} is relative to {sampler.role}, which the scene lacks "
            f"(tau.distractors = {scene.tau.distractors}); raise tau.distractors first."
        )
    center = scene.sigma.poses[sampler.role].xy
    return rounded(_around(center, sampler.radius, sampler.angle, rng))
