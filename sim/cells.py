"""The factor space cut into cells, one grid per axis and family; a scene lies in one cell of each.

Grids (metres, radians, kilograms). Values outside a grid belong to its outermost cell.

- position: x of the family's workspace in 5 parts by y in 7 parts.
- yaw: folded into the asset's symmetry; the cell around 0 is |yaw| <= 0.10, then 8 cells a side to
  the end of the family's wide range.
- size: scale; the seed range is a cell, with cells below and above to the ends of the wide range.
- mass-friction: masses (of fixtures: relative damping of the joint) by friction coefficients.
- distractors: their number by distance band and direction of the nearest to the target.
- goal: the receptacle's place on the grid of positions, by the initial opening in parts where that
  varies; without a receptacle, the task by the initial opening.
- asset: one cell per asset of the target.

Seed cells are those that a task's seed range touches. `away` tells which scenes lie far enough from
the seed range to be asked about as out of distribution; cells beside the seed range are held out
too, but would test little. `CUTS` holds every family's numbers.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType

from coda.sim.assets import ASSETS, half_size
from coda.sim.cuts import CUTS, Cuts
from coda.sim.factors import Factor, factors, task_factors
from coda.sim.families import family
from coda.sim.paths import narrowed, put
from coda.sim.program import Choice, Fixed, Sampler, Uniform, Value
from coda.sim.roles import AXES, DISTRACTORS, Axis, Role
from coda.sim.scene import Scene

SEED_YAW = 0.10
"""Half width of the yaw cell around the seed range [rad]."""
YAW_CELLS_A_SIDE = 8
X_PARTS, Y_PARTS = 5, 7
DIRECTIONS = ("front", "left", "back", "right")
"""Direction of the nearest distractor from the target: +x, +y, -x, -y."""
_INSIDE = 1e-6
"""Share of a range by which its corners are drawn in, so that they lie in the cells they touch."""

Edges = tuple[float, ...]


def _parts(low: float, high: float, count: int) -> Edges:
    """`count` equal parts as their edges, `count` + 1 numbers."""
    return tuple(low + (high - low) * i / count for i in range(count + 1))


def _bin(edges: Edges, value: float) -> int:
    """Index of the part that holds `value`; values outside belong to the outermost part."""
    return min(max(bisect_right(edges, value) - 1, 0), len(edges) - 2)


def symmetry_period(asset: str) -> float:
    """Turn after which an asset looks the same [rad].

    pi/2 with a square footprint, pi with an oblong one, 2 pi with a joint or a handle at one side.
    """
    item = ASSETS[asset]
    if item.joint is not None or any(abs(offset) > 1e-6 for offset in item.grip_m[:2]):
        return 2 * math.pi
    x, y, _ = item.half_size_m
    return math.pi / 2 if min(x, y) >= 0.95 * max(x, y) else math.pi


def fold_yaw(asset: str, yaw: float) -> float:
    """The equivalent yaw in [-period/2, period/2) [rad]."""
    period = symmetry_period(asset)
    return (yaw + period / 2) % period - period / 2


def _bounds(family_name: str, axis: Axis, path: str) -> tuple[float, float]:
    """Ends of a number's wide range."""
    sampler = family(family_name).wide[axis][path]
    assert isinstance(sampler, Uniform), path
    assert isinstance(sampler.low, int | float), path
    assert isinstance(sampler.high, int | float), path
    return float(sampler.low), float(sampler.high)


@cache
def _xy_edges(family_name: str) -> tuple[Edges, Edges]:
    item = family(family_name)
    return _parts(*item.workspace_x, X_PARTS), _parts(*item.workspace_y, Y_PARTS)


@cache
def _yaw_edges(family_name: str) -> Edges:
    outer = max(map(abs, _bounds(family_name, "yaw", "sigma.target.yaw")))
    side = _parts(SEED_YAW, outer, YAW_CELLS_A_SIDE)
    return tuple(-edge for edge in reversed(side)) + side


@cache
def _scale_edges(family_name: str) -> Edges:
    path, cuts = "alpha.target.scale", CUTS[family_name]
    narrow = family(family_name).narrow["size"][path]
    assert isinstance(narrow, Uniform)
    (low, high), below = _bounds(family_name, "size", path), float(_first(narrow.low))
    return _parts(low, below, cuts.scale_parts[0]) + _parts(
        float(_first(narrow.high)), high, cuts.scale_parts[1]
    )


def _first(value: float | tuple[float, ...]) -> float:
    return value[0] if isinstance(value, tuple) else value


def _grid(family_name: str, xy: tuple[float, float]) -> str:
    x, y = _xy_edges(family_name)
    return f"x{_bin(x, xy[0])}/y{_bin(y, xy[1])}"


def _load(scene: Scene, cuts: Cuts) -> float:
    return float(getattr(scene.alpha.objects["target"], cuts.load))


def _opening_edges(scene: Scene) -> Edges:
    """Parts of the initial opening that the scene's task allows; empty if it has none."""
    f = task_factors(scene.tau.family, scene.tau.task).get("tau.opening")
    return () if f is None else _parts(f.low[0], f.high[0], CUTS[scene.tau.family].opening_parts)


def varied_opening(scene: Scene) -> bool:
    """Whether the initial opening of the scene's task is a factor that makes a difference."""
    edges = _opening_edges(scene)
    return bool(edges) and edges[-1] - edges[0] >= CUTS[scene.tau.family].away_opening


def _goal_cell(scene: Scene) -> str:
    name, edges = scene.tau.family, _opening_edges(scene)
    part = f"o{_bin(edges, scene.tau.opening)}" if edges else ""
    if "receptacle" not in scene.sigma.poses:
        return f"{scene.tau.task}/{part}"
    place = _grid(name, scene.sigma.poses["receptacle"].xy)
    return f"{place}/{part}" if varied_opening(scene) else place


def _distractor_cell(scene: Scene) -> str:
    roles = DISTRACTORS[: scene.tau.distractors]
    if not roles:
        return "none"
    tx, ty = scene.sigma.poses["target"].xy
    offsets = [(scene.sigma.poses[r].xy[0] - tx, scene.sigma.poses[r].xy[1] - ty) for r in roles]
    dx, dy = min(offsets, key=lambda o: math.hypot(*o))
    quarter = math.floor(math.atan2(dy, dx) / (math.pi / 2) + 0.5) % 4
    band = _bin(CUTS[scene.tau.family].near_edges, math.hypot(dx, dy))
    return f"n{len(roles)}/near{band}/{DIRECTIONS[quarter]}"


def cell(axis: Axis, scene: Scene) -> str:
    """Name of the cell of `axis` in which `scene` lies."""
    name = scene.tau.family
    target, pose, cuts = scene.alpha.objects["target"], scene.sigma.poses["target"], CUTS[name]
    if axis == "position":
        return _grid(name, pose.xy)
    if axis == "goal":
        return _goal_cell(scene)
    if axis == "yaw":
        return f"w{_bin(_yaw_edges(name), fold_yaw(target.asset, pose.yaw))}"
    if axis == "size":
        return f"s{_bin(_scale_edges(name), target.scale)}"
    if axis == "mass-friction":
        load = _bin(cuts.load_edges, _load(scene, cuts))
        return f"m{load}/f{_bin(cuts.friction_edges, target.friction)}"
    if axis == "distractors":
        return _distractor_cell(scene)
    return target.asset


def cell_paths(axis: Axis, scene: Scene) -> tuple[str, ...]:
    """Paths that move a scene to another cell of `axis`, the most direct first."""
    if axis == "asset":
        return ("alpha.target.asset",)
    if axis == "distractors":
        tx = scene.sigma.poses["target"].xy
        present: list[Role] = [role for role in scene.roles if role in DISTRACTORS]
        present.sort(key=lambda role: math.dist(tx, scene.sigma.poses[role].xy))
        return (*(f"sigma.{role}.xy" for role in present), "tau.distractors")
    if axis == "mass-friction":
        load = CUTS[scene.tau.family].load
        return (f"alpha.target.{load}", "alpha.target.friction")
    if axis == "goal":
        place = ("sigma.receptacle.xy",) if "receptacle" in scene.sigma.poses else ()
        return (*place, "tau.opening") if varied_opening(scene) else place
    return {
        "position": ("sigma.target.xy",),
        "yaw": ("sigma.target.yaw",),
        "size": ("alpha.target.scale",),
    }[axis]


def away(axis: Axis, scene: Scene) -> bool:
    """Whether `scene` lies away from its task's seed range on `axis`; numbers in `Cuts`.

    - position, goal: centre at least so far from the seed range's centre; or the
      initial opening, where it varies, at least so far from the seed's;
    - yaw: turned at least so far after folding, or half of what a square's symmetry leaves;
    - size: at least so wide between the fingers (small objects are no harder), or scaled so far;
    - mass-friction: heavy and slippery, close to what the gripper can hold; of fixtures, stiff;
    - distractors: two or more, the nearest near the target, centre to centre (one alone is hardly
      harder than none);
    - asset: any but a seed scene's.
    """
    cuts, seed = CUTS[scene.tau.family], seed_centre(scene.tau.family, scene.tau.task)
    target, pose = scene.alpha.objects["target"], scene.sigma.poses["target"]
    if axis == "position":
        return math.dist(pose.xy, seed.sigma.poses["target"].xy) >= cuts.away_m
    if axis == "goal":
        if varied_opening(scene) and abs(scene.tau.opening - seed.tau.opening) >= cuts.away_opening:
            return True
        if "receptacle" not in scene.sigma.poses:
            return False
        place = scene.sigma.poses["receptacle"].xy
        return math.dist(place, seed.sigma.poses["receptacle"].xy) >= cuts.away_m
    if axis == "yaw":
        least = min(cuts.away_yaw, symmetry_period(target.asset) / 4)
        return abs(fold_yaw(target.asset, pose.yaw)) >= least
    if axis == "size":
        if cuts.away_width_m is not None:
            x, y, _ = half_size(target)
            return 2 * min(x, y) >= cuts.away_width_m
        low, high = cuts.away_scale
        return target.scale <= low or target.scale >= high
    if axis == "mass-friction":
        divisor = float(target.friction**cuts.friction_power)
        return _load(scene, cuts) / divisor >= cuts.away_load
    if axis == "distractors":
        others = [scene.sigma.poses[role].xy for role in DISTRACTORS[: scene.tau.distractors]]
        near = any(math.dist(pose.xy, xy) <= cuts.away_near_m for xy in others)
        return near and len(others) >= cuts.away_distractors
    return target.asset != seed.alpha.objects["target"].asset


def _centre(sampler: Sampler) -> Value | None:
    """A sampler's middle or first value; None for one that depends on other roles."""
    if isinstance(sampler, Fixed):
        return sampler.value
    if isinstance(sampler, Choice):
        return sampler.values[0]
    if isinstance(sampler, Uniform):
        ends = zip(_tuple(sampler.low), _tuple(sampler.high), strict=True)
        middle = tuple((low + high) / 2 for low, high in ends)
        return middle if isinstance(sampler.low, tuple) else middle[0]
    return None


def _tuple(value: float | tuple[float, ...]) -> tuple[float, ...]:
    return value if isinstance(value, tuple) else (value,)


@cache
def seed_centre(family_name: str, task: str) -> Scene:
    """The middle of a task's seed range."""
    item = family(family_name)
    scene, table = item.tasks[task].seed, task_factors(family_name, task)
    for ranges in item.narrow.values():
        for f, sampler in _of_task(ranges, table, scene):
            value = _centre(sampler)
            scene = scene if value is None else put(scene, f, value)
    return scene


def _of_task(
    ranges: Mapping[str, Sampler], table: Mapping[str, Factor], scene: Scene
) -> Iterator[tuple[Factor, Sampler]]:
    """Factors and samplers that a task has, narrowed to what it allows."""
    for path, sampler in ranges.items():
        f = table.get(path)
        if f is None or (f.role is not None and f.role not in scene.sigma.poses):
            continue
        part = narrowed(sampler, f)
        if part is not None:
            yield f, part


def _corners(sampler: Sampler) -> list[Value]:
    """Values at the ends of a sampler's range, drawn in a little."""
    if isinstance(sampler, Uniform):
        low, high = _tuple(sampler.low), _tuple(sampler.high)
        ends = [
            (a + _INSIDE * (b - a), b - _INSIDE * (b - a)) for a, b in zip(low, high, strict=True)
        ]
        corners = list(itertools.product(*ends))
        return list(corners) if isinstance(sampler.low, tuple) else [c[0] for c in corners]
    if isinstance(sampler, Choice):
        return list(sampler.values)
    value = _centre(sampler)
    return [] if value is None else [value]


@cache
def seed_cells(axis: Axis, family_name: str) -> frozenset[str]:
    """Cells of `axis` that the seed range of any of the family's tasks touches."""
    item, found = family(family_name), set()
    for task in item.tasks:
        table = task_factors(family_name, task)
        scenes = [seed_centre(family_name, task)]
        for f, sampler in _of_task(item.narrow.get(axis, {}), table, scenes[0]):
            scenes = [put(scene, f, value) for scene in scenes for value in _corners(sampler)]
        found |= {cell(axis, scene) for scene in scenes}
    return frozenset(found)


@cache
def cells(axis: Axis, family_name: str) -> tuple[str, ...]:
    """Every cell of an axis of a family."""
    return _all_cells(family_name)[axis]


@cache
def _all_cells(family_name: str) -> Mapping[Axis, tuple[str, ...]]:
    cuts, item = CUTS[family_name], family(family_name)
    table = tuple(f"x{i}/y{j}" for i in range(X_PARTS) for j in range(Y_PARTS))
    bodies = tuple(
        f"m{i}/f{j}"
        for i in range(len(cuts.load_edges) - 1)
        for j in range(len(cuts.friction_edges) - 1)
    )
    crowds = tuple(
        f"n{n}/near{band}/{direction}"
        for n in range(1, len(DISTRACTORS) + 1)
        for band in range(len(cuts.near_edges) - 1)
        for direction in DIRECTIONS
    )
    goals: list[str] = []
    for task, spec in item.tasks.items():
        places = table if "receptacle" in spec.seed.sigma.poses else (task,)
        parts = range(cuts.opening_parts) if varied_opening(spec.seed) else ()
        goals += [f"{place}/o{part}" for place in places for part in parts] or places
    found: dict[Axis, tuple[str, ...]] = {
        "position": table,
        "yaw": tuple(f"w{i}" for i in range(len(_yaw_edges(family_name)) - 1)),
        "size": tuple(f"s{i}" for i in range(len(_scale_edges(family_name)) - 1)),
        "mass-friction": bodies,
        "distractors": ("none", *crowds),
        "goal": tuple(dict.fromkeys(goals)),
        "asset": factors(family_name)["alpha.target.asset"].names,
    }
    assert set(found) == set(AXES)
    return MappingProxyType(found)
