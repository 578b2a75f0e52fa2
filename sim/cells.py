"""The factor space cut into cells, one grid per axis; a scene lies in one cell of each axis.

Grids (metres, radians, kilograms). Values outside a grid belong to its outermost cell.

- position, goal: x of the workspace in 5 parts by y in 7 parts (35 cells, 0.068 m by 0.08 m).
- yaw: folded into the asset's symmetry; the seed cell is |yaw| <= 0.10, then 8 cells a side.
- size: scale; the seed cell is 0.97 to 1.03, then 5 cells below to 0.55 and 17 above to 2.00.
- mass-friction: 7 masses by 6 friction coefficients (42 cells).
- distractors: their number by distance band and direction of the nearest to the target.
- asset: one cell per asset of the target.

`away` tells which scenes lie far enough from the seed range to be asked about as out of
distribution; cells beside the seed range are held out too, but would test little.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from types import MappingProxyType

from coda.sim.assets import ASSETS, half_size
from coda.sim.factors import TARGETS, WORKSPACE_X, WORKSPACE_Y
from coda.sim.roles import DISTRACTORS, Axis
from coda.sim.scene import AssetName, Scene

SEED_TARGET_M = (0.48, -0.10)
"""Centre of the seed range of the target's position [m]."""
SEED_GOAL_M = (0.48, 0.14)
"""Centre of the seed range of the receptacle's position [m]."""
SEED_MASS_KG = 0.12
SEED_YAW = 0.10
"""Half width of the yaw cell around the seed range [rad]."""
SEED_SCALE = (0.97, 1.03)
YAW_CELLS_A_SIDE = 8


def _parts(low: float, high: float, count: int) -> tuple[float, ...]:
    """`count` equal parts as their edges, `count` + 1 numbers."""
    return tuple(low + (high - low) * i / count for i in range(count + 1))


X_EDGES = _parts(*WORKSPACE_X, 5)
Y_EDGES = _parts(*WORKSPACE_Y, 7)
_OUTER_YAW = _parts(SEED_YAW, math.pi / 2, YAW_CELLS_A_SIDE)
YAW_EDGES = tuple(-edge for edge in reversed(_OUTER_YAW)) + _OUTER_YAW
SCALE_EDGES = _parts(0.55, SEED_SCALE[0], 5) + _parts(SEED_SCALE[1], 2.00, 17)
MASS_EDGES = (0.03, 0.06, 0.11, 0.13, 0.25, 0.50, 0.90, 1.50)
FRICTION_EDGES = (0.20, 0.40, 0.60, 0.95, 1.05, 1.25, 1.50)
NEAR_EDGES = (0.0, 0.09, 0.12, 0.16, math.inf)
"""Bands of the nearest distractor's centre distance to the target [m]."""
AWAY_M = 0.14
"""Least distance from the centre of the seed range, of target or receptacle [m]."""
AWAY_YAW = 1.0
"""Least turn of an oblong target [rad]."""
AWAY_WIDTH_M = 0.066
"""Least width between the fingers, which open to 0.08 m [m]."""
AWAY_LOAD_KG = 2.0
"""Least mass over friction coefficient [kg]; the gate's limit is `gate_checks.GRIP_LOAD_KG`."""
AWAY_NEAR_M = 0.12
"""Largest distance of the nearest distractor to the target, centre to centre [m]."""
AWAY_DISTRACTORS = 2
"""Fewest distractors."""
DIRECTIONS = ("front", "left", "back", "right")
"""Direction of the nearest distractor from the target: +x, +y, -x, -y."""


def _bin(edges: tuple[float, ...], value: float) -> int:
    """Index of the part that holds `value`; values outside belong to the outermost part."""
    return min(max(bisect_right(edges, value) - 1, 0), len(edges) - 2)


def symmetry_period(asset: AssetName) -> float:
    """Turn after which an asset's footprint looks the same [rad]: pi/2 if square, else pi."""
    x, y, _ = ASSETS[asset].half_size_m
    return math.pi / 2 if min(x, y) >= 0.95 * max(x, y) else math.pi


def fold_yaw(asset: AssetName, yaw: float) -> float:
    """The equivalent yaw in [-period/2, period/2) [rad]."""
    period = symmetry_period(asset)
    return (yaw + period / 2) % period - period / 2


def _grid(x: float, y: float) -> str:
    return f"x{_bin(X_EDGES, x)}/y{_bin(Y_EDGES, y)}"


def _mass_friction(mass_kg: float, friction: float) -> str:
    return f"m{_bin(MASS_EDGES, mass_kg)}/f{_bin(FRICTION_EDGES, friction)}"


def _distractor_cell(scene: Scene) -> str:
    roles = DISTRACTORS[: scene.tau.distractors]
    if not roles:
        return "none"
    tx, ty = scene.sigma.poses["target"].xy
    offsets = [(scene.sigma.poses[r].xy[0] - tx, scene.sigma.poses[r].xy[1] - ty) for r in roles]
    dx, dy = min(offsets, key=lambda o: math.hypot(*o))
    quarter = math.floor(math.atan2(dy, dx) / (math.pi / 2) + 0.5) % 4
    band = _bin(NEAR_EDGES, math.hypot(dx, dy))
    return f"n{len(roles)}/near{band}/{DIRECTIONS[quarter]}"


def cell(axis: Axis, scene: Scene) -> str:
    """Name of the cell of `axis` in which `scene` lies."""
    target, pose = scene.alpha.objects["target"], scene.sigma.poses["target"]
    if axis == "position":
        return _grid(*pose.xy)
    if axis == "goal":
        return _grid(*scene.sigma.poses["receptacle"].xy)
    if axis == "yaw":
        return f"w{_bin(YAW_EDGES, fold_yaw(target.asset, pose.yaw))}"
    if axis == "size":
        return f"s{_bin(SCALE_EDGES, target.scale)}"
    if axis == "mass-friction":
        return _mass_friction(target.mass_kg, target.friction)
    if axis == "distractors":
        return _distractor_cell(scene)
    return target.asset


def away(axis: Axis, scene: Scene) -> bool:
    """Whether `scene` lies away from the seed range on `axis`.

    - position, goal: centre at least `AWAY_M` from the seed range's centre;
    - yaw: at least `AWAY_YAW` after folding, or half of what a square's symmetry leaves;
    - size: at least `AWAY_WIDTH_M` wide between the fingers (small objects are no harder);
    - mass-friction: a mass over friction of at least `AWAY_LOAD_KG`: heavy and slippery, close to
      what the gripper can hold;
    - distractors: two or more, the nearest within `AWAY_NEAR_M` of the target, centre to centre
      (one alone is hardly harder than none);
    - asset: any but the seed's.
    """
    target, pose = scene.alpha.objects["target"], scene.sigma.poses["target"]
    if axis == "position":
        return math.dist(pose.xy, SEED_TARGET_M) >= AWAY_M
    if axis == "goal":
        return math.dist(scene.sigma.poses["receptacle"].xy, SEED_GOAL_M) >= AWAY_M
    if axis == "yaw":
        least = min(AWAY_YAW, symmetry_period(target.asset) / 4)
        return abs(fold_yaw(target.asset, pose.yaw)) >= least
    if axis == "size":
        x, y, _ = half_size(target)
        return 2 * min(x, y) >= AWAY_WIDTH_M
    if axis == "mass-friction":
        return target.mass_kg / target.friction >= AWAY_LOAD_KG
    if axis == "distractors":
        others = [scene.sigma.poses[role].xy for role in DISTRACTORS[: scene.tau.distractors]]
        near = any(math.dist(pose.xy, xy) <= AWAY_NEAR_M for xy in others)
        return near and len(others) >= AWAY_DISTRACTORS
    return target.asset != SEED_CELLS["asset"]


def _all_cells() -> dict[Axis, tuple[str, ...]]:
    table = tuple(f"x{i}/y{j}" for i in range(len(X_EDGES) - 1) for j in range(len(Y_EDGES) - 1))
    bodies = tuple(
        f"m{i}/f{j}" for i in range(len(MASS_EDGES) - 1) for j in range(len(FRICTION_EDGES) - 1)
    )
    crowds = tuple(
        f"n{n}/near{band}/{direction}"
        for n in range(1, len(DISTRACTORS) + 1)
        for band in range(len(NEAR_EDGES) - 1)
        for direction in DIRECTIONS
    )
    return {
        "position": table,
        "yaw": tuple(f"w{i}" for i in range(len(YAW_EDGES) - 1)),
        "size": tuple(f"s{i}" for i in range(len(SCALE_EDGES) - 1)),
        "mass-friction": bodies,
        "distractors": ("none", *crowds),
        "goal": table,
        "asset": tuple(TARGETS),
    }


CELLS: Mapping[Axis, tuple[str, ...]] = MappingProxyType(_all_cells())
"""Every cell of every axis."""

SEED_CELLS: Mapping[Axis, str] = MappingProxyType(
    {
        "position": _grid(*SEED_TARGET_M),
        "yaw": f"w{YAW_CELLS_A_SIDE}",
        "size": f"s{_bin(SCALE_EDGES, 1.0)}",
        "mass-friction": _mass_friction(SEED_MASS_KG, 1.0),
        "distractors": "none",
        "goal": _grid(*SEED_GOAL_M),
        "asset": "block",
    }
)
"""The one cell of each axis that contains the seed range."""
