"""Bounded placement: footprints keep their distance, with room for what moves and for the hand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import numpy as np

from coda.sim.asset import Asset, Part
from coda.sim.assets import ASSETS, half_size
from coda.sim.frame import Array
from coda.sim.gate_findings import Finding, finding
from coda.sim.kinematics import exp_rot
from coda.sim.mjcf import TABLE_CENTER_M, TABLE_HALF_M
from coda.sim.mjcf_objects import joint_travel
from coda.sim.mjcf_touch import fixture_role
from coda.sim.roles import Role
from coda.sim.scene import Relation, Scene

MIN_GAP_M = 0.008
"""Least gap between the footprints of two objects [m]."""
HAND_ROOM_M = 0.055
"""Radius around a handle, along its way, that is left to the open fingers [m]."""
FINGERS_M = (0.012, 0.060)
"""Half extents of the open fingers along the gripper's x and y [m]."""
PALM_M = (0.035, 0.105)
"""Half extents of the hand over the fingers [m]."""
PALM_Z_M = 0.045
"""Height of the hand over the finger tips [m]."""
GOAL_OPENING: Mapping[Relation, float] = MappingProxyType({"open": 1.0, "closed": 0.0})
"""Opening that a goal wants of a fixture; whatever takes things up has to be open."""
SWEEP_STEPS = 8
"""Parts into which the way of a part that swings about the vertical is cut."""


@dataclass(frozen=True)
class Outline:
    """A convex outline on the table: points (N, 2) [m] widened by a radius [m]."""

    points: Array
    radius_m: float = 0.0


def gap_of(a: Outline, b: Outline) -> float:
    """Gap of two outlines [m]; negative if they overlap, and never more than the true one."""
    directions = [_normals(a.points), _normals(b.points)]
    if a.radius_m or b.radius_m:
        between = (b.points[None] - a.points[:, None]).reshape(-1, 2)
        directions.append(between)
    normal = np.concatenate(directions)
    length = np.hypot(normal[:, 0], normal[:, 1])
    normal = normal[length > 1e-9] / length[length > 1e-9, None]
    if not len(normal):
        return -a.radius_m - b.radius_m
    pa, pb = a.points @ normal.T, b.points @ normal.T
    ahead = pb.min(axis=0) - pa.max(axis=0)
    behind = pa.min(axis=0) - pb.max(axis=0)
    return float(max(ahead.max(), behind.max())) - a.radius_m - b.radius_m


def _normals(points: Array) -> Array:
    side = np.roll(points, -1, axis=0) - points
    return np.stack((side[:, 1], -side[:, 0]), axis=1)


def _hull(points: Array) -> Array:
    """Convex hull of points (N, 2), counter-clockwise."""
    order = sorted({(round(x, 6), round(y, 6)) for x, y in points.tolist()})
    if len(order) < 3:
        return np.array(order)

    def chain(items: list[tuple[float, float]]) -> list[tuple[float, float]]:
        out: list[tuple[float, float]] = []
        for p in items:
            while len(out) > 1 and _turn(out[-2], out[-1], p) <= 0:
                out.pop()
            out.append(p)
        return out[:-1]

    return np.array(chain(order) + chain(order[::-1]))


def _turn(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _corners(part: Part) -> Array:
    """Corners (8, 3) of a part's bounding box in the asset's frame."""
    half = np.array(part.half_m)
    if part.shape == "cylinder" and part.axis != "z":
        half = half[[2, 1, 0]] if part.axis == "x" else half[[0, 2, 1]]
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
    turn = exp_rot(np.array([[0.0, 0.0, part.yaw]]))[0]
    return np.asarray((signs * half) @ turn.T + np.array(part.pos_m))


def moved(asset: Asset, points: Array, opening: float) -> Array:
    """Points (N, 3) of the moving part when the joint is open by a share of its travel."""
    joint = asset.joint
    assert joint is not None
    value = opening * joint_travel(joint, 1.0)
    axis = np.array(joint.axis) / np.linalg.norm(joint.axis)
    if joint.kind == "slide":
        return np.asarray(points + axis * value)
    anchor = np.array(joint.anchor_m)
    return np.asarray((points - anchor) @ exp_rot(axis[None] * value)[0].T + anchor)


@lru_cache(maxsize=512)
def swept(name: str, start: float, goal: float) -> tuple[tuple[Array, ...], Array]:
    """What a fixture's moving part sweeps, at scale 1 in its own frame.

    Returns:
        Convex outlines (N, 2) of the swept area, and points (K, 2) of the handle's way.
    """
    asset = ASSETS[name]
    joint = asset.joint
    assert joint is not None
    parts = np.concatenate([_corners(p) for p in (*joint.moving, *joint.handle) if not p.visual])
    center = np.array([joint.handle_center_m])
    ways = np.linspace(start, goal, SWEEP_STEPS + 1)
    stages = [moved(asset, parts, way)[:, :2] for way in ways]
    handle = np.concatenate([moved(asset, center, way)[:, :2] for way in ways])
    if joint.kind == "slide" or abs(joint.axis[2]) < 0.5:
        return (_hull(np.concatenate(stages)),), handle
    pairs = itertools.pairwise(stages)
    return tuple(_hull(np.concatenate(pair)) for pair in pairs), handle


def _world(scene: Scene, role: Role, points: Array) -> Array:
    """Points (N, 2) of an asset's frame at scale 1, on the table."""
    pose, scale = scene.sigma.poses[role], scene.alpha.objects[role].scale
    c, s = math.cos(pose.yaw), math.sin(pose.yaw)
    return np.asarray(scale * points @ np.array([[c, s], [-s, c]]) + np.array(pose.xy))


def _box(half: tuple[float, float]) -> Array:
    x, y = half
    return np.array([(-x, -y), (x, -y), (x, y), (-x, y)])


def base_outline(scene: Scene, role: Role) -> Outline:
    """What an object covers where it stands; a fixture: when closed."""
    asset = ASSETS[scene.alpha.objects[role].asset]
    if asset.round:
        radius = asset.half_size_m[0] * scene.alpha.objects[role].scale
        return Outline(np.array([scene.sigma.poses[role].xy]), radius)
    return Outline(_world(scene, role, _box(asset.half_size_m[:2])))


def moving_outlines(scene: Scene, role: Role) -> list[Outline]:
    """What a fixture's moving part sweeps from its start to its goal, and the hand with it."""
    record = scene.alpha.objects[role]
    if ASSETS[record.asset].joint is None:
        return []
    start, goal = scene.tau.opening, GOAL_OPENING.get(scene.tau.goal.relation, 1.0)
    areas, handle = swept(record.asset, start, goal)
    found = [Outline(_world(scene, role, area)) for area in areas]
    if start != goal:
        room = HAND_ROOM_M - MIN_GAP_M
        found += [Outline(p[None], room) for p in _world(scene, role, handle)]
    return found


def footprint_gap(scene: Scene, a: Role, b: Role) -> float:
    """Gap between two objects' footprints [m]; negative if they overlap.

    Exact where one is round; between two boxes the largest gap along their four side directions,
    which is never more than the true one. A fixture covers what its moving part sweeps too; what is
    clearly far from it is not measured exactly.
    """
    if fixture_role(scene) not in (a, b):
        return _still_gap(scene, a, b)
    all_a = [base_outline(scene, a), *moving_outlines(scene, a)]
    all_b = [base_outline(scene, b), *moving_outlines(scene, b)]
    apart = math.dist(scene.sigma.poses[a].xy, scene.sigma.poses[b].xy)
    far = apart - _radius(scene, a, all_a) - _radius(scene, b, all_b)
    if far > MIN_GAP_M:
        return far
    return min(gap_of(x, y) for x in all_a for y in all_b)


def _radius(scene: Scene, role: Role, outlines: list[Outline]) -> float:
    """Radius around a role's centre that holds all its outlines [m]."""
    center = np.array(scene.sigma.poses[role].xy)
    return max(
        float(np.sqrt(((one.points - center) ** 2).sum(axis=1).max())) + one.radius_m
        for one in outlines
    )


def _still_gap(scene: Scene, a: Role, b: Role) -> float:
    """`footprint_gap` of two objects without a joint, in plain numbers."""
    records = scene.alpha.objects
    round_a, round_b = (ASSETS[records[role].asset].round for role in (a, b))
    if round_a and not round_b:
        return _still_gap(scene, b, a)
    half_a, half_b = half_size(records[a]), half_size(records[b])
    x, y = _local(scene, a, b)
    if round_a:
        return math.hypot(x, y) - half_a[0] - half_b[0]
    if round_b:
        ex, ey = abs(x) - half_a[0], abs(y) - half_a[1]
        outside = math.hypot(max(ex, 0.0), max(ey, 0.0))
        return (outside if outside > 0.0 else max(ex, ey)) - half_b[0]
    return max(_box_gap(scene, a, b), _box_gap(scene, b, a))


def _local(scene: Scene, a: Role, b: Role) -> tuple[float, float]:
    """Centre of `b` in the frame of `a` [m]."""
    pa, pb = scene.sigma.poses[a], scene.sigma.poses[b]
    dx, dy = pb.xy[0] - pa.xy[0], pb.xy[1] - pa.xy[1]
    c, s = math.cos(pa.yaw), math.sin(pa.yaw)
    return c * dx + s * dy, -s * dx + c * dy


def _box_gap(scene: Scene, a: Role, b: Role) -> float:
    """Largest gap of two boxes along the side directions of `a` [m]."""
    half_a = half_size(scene.alpha.objects[a])
    half_b = half_size(scene.alpha.objects[b])
    turn = scene.sigma.poses[b].yaw - scene.sigma.poses[a].yaw
    c, s = abs(math.cos(turn)), abs(math.sin(turn))
    x, y = _local(scene, a, b)
    return max(
        abs(x) - half_a[0] - (c * half_b[0] + s * half_b[1]),
        abs(y) - half_a[1] - (s * half_b[0] + c * half_b[1]),
    )


def check_placement(scene: Scene) -> Iterator[Finding]:
    """Footprints lie on the table, keep their distance, and leave the robot's start free."""
    yield from _check_table(scene)
    for a, b in itertools.combinations(scene.roles, 2):
        gap = footprint_gap(scene, a, b)
        if not gap >= MIN_GAP_M:
            what = "a gap" if fixture_role(scene) not in (a, b) else "a gap, also while it opens,"
            yield finding(
                "too-close", f"sigma.{b}.xy", f"{gap:+.3f} m to {a}",
                f"{what} of at least {MIN_GAP_M} m", f"move {b} away from {a}", f"sigma.{a}.xy",
            )  # fmt: skip
    yield from _check_start(scene)


def _check_table(scene: Scene) -> Iterator[Finding]:
    center, half = np.array(TABLE_CENTER_M[:2]), np.array(TABLE_HALF_M[:2])
    for role in scene.roles:
        outline = base_outline(scene, role)
        over = float((np.abs(outline.points - center) - half).max()) + outline.radius_m
        if not over <= 0.0:
            yield finding(
                "off-table", f"sigma.{role}.xy", f"{over:.3f} m over the table's edge",
                "the whole footprint on the table", f"move {role} inwards",
            )  # fmt: skip


def _check_start(scene: Scene) -> Iterator[Finding]:
    """No object where the open hand stands at the start."""
    robot = scene.sigma.robot
    c, s = math.cos(robot.yaw), math.sin(robot.yaw)
    turn = np.array([[c, s], [-s, c]])
    hand = [
        (Outline(_box(half) @ turn + np.array(robot.xyz[:2])), robot.xyz[2] + rise)
        for half, rise in ((FINGERS_M, 0.0), (PALM_M, PALM_Z_M))
    ]
    for role in scene.roles:
        top = 2.0 * half_size(scene.alpha.objects[role])[2]
        if top <= robot.xyz[2]:
            continue
        shapes = [base_outline(scene, role), *_open_now(scene, role)]
        if any(top > low and gap_of(x, area) < 0.0 for area, low in hand for x in shapes):
            yield finding(
                "start-blocked", "sigma.robot.xyz", f"{role}, {top:.3f} m high, is in the hand",
                "a start pose free of objects", f"raise the start pose, or move {role} away",
                f"sigma.{role}.xy",
            )  # fmt: skip


def _open_now(scene: Scene, role: Role) -> list[Outline]:
    """The moving part of a fixture as it stands at the start."""
    record = scene.alpha.objects[role]
    if ASSETS[record.asset].joint is None:
        return []
    areas, _ = swept(record.asset, scene.tau.opening, scene.tau.opening)
    return [Outline(_world(scene, role, area)) for area in areas]
