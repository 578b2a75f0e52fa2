"""Checks of a scene that need no simulator: semantics, placement, instruction, storage."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from pydantic import ValidationError

from coda.sim.assets import ASSETS, half_size
from coda.sim.errors import UnknownName
from coda.sim.factors import FACTORS, check_value
from coda.sim.families import family
from coda.sim.gate_codes import make_issue
from coda.sim.paths import read_factor
from coda.sim.program import Issue
from coda.sim.roles import Role
from coda.sim.scene import Scene
from coda.sim.wording import ambiguous_roles, phrase, unnamed_roles

GRASP_WIDTH_M = 0.072
"""Widest target that the gripper (0.08 m) takes with some room [m]."""
GRIP_LOAD_KG = 2.3
"""Largest mass over friction coefficient that the gripper's force holds while it moves [kg]."""
MIN_GAP_M = 0.008
"""Least gap between the footprints of two objects [m]."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """An issue, and the paths through which another draw could cure it, best first."""

    issue: Issue
    paths: tuple[str, ...]


def _finding(
    code: str, path: str, value: str, limit: str, remedy: str, *other_paths: str
) -> Finding:
    return Finding(issue=make_issue(code, path, value, limit, remedy), paths=(path, *other_paths))


def check_task(scene: Scene) -> Iterator[Finding]:
    """Family, and roles named by goal and verifier."""
    try:
        family(scene.tau.family)
    except UnknownName as error:
        yield _finding(
            "unknown-family", "tau.family", scene.tau.family, str(error), "use a known family"
        )
        return
    goal = scene.tau.goal
    named = [("tau.goal.subject", goal.subject)]
    if goal.reference is not None:
        named.append(("tau.goal.reference", goal.reference))
    for i, term in enumerate(scene.nu.terms):
        named.append((f"nu.terms.{i}.subject", term.subject))
        if term.reference is not None:
            named.append((f"nu.terms.{i}.reference", term.reference))
    for path, role in named:
        if role not in scene.roles:
            present = "roles present: " + ", ".join(scene.roles)
            yield _finding("role-absent", path, role, present, "name a role of the scene")
    if goal.reference is not None and goal.subject == goal.reference:
        yield _finding(
            "role-absent", "tau.goal.reference", goal.reference, "another role than the subject",
            "let the goal relate two roles",
        )  # fmt: skip


def check_factors(scene: Scene) -> Iterator[Finding]:
    """Every factor inside its range; assets fit their roles and the gripper."""
    for path, factor in FACTORS.items():
        if factor.role is not None and factor.role not in scene.sigma.poses:
            continue
        problem = check_value(path, read_factor(scene, path))
        if problem is None:
            continue
        code = problem.code
        if path.endswith(".xy"):
            code = "off-workspace"
        elif path.endswith(".asset"):
            code = "wrong-role-asset"
        yield Finding(issue=problem.model_copy(update={"code": code}), paths=(path,))
    target = scene.alpha.objects["target"]
    x, y, _ = half_size(target)
    width = 2.0 * min(x, y)
    if not width <= GRASP_WIDTH_M:
        yield _finding(
            "too-wide", "alpha.target.scale",
            f"{target.asset} at scale {target.scale:.3g} is {width:.3f} m wide",
            f"at most {GRASP_WIDTH_M} m", "make the target smaller",
            "alpha.target.asset",
        )  # fmt: skip
    load = target.mass_kg / target.friction
    if not load <= GRIP_LOAD_KG:
        yield _finding(
            "too-heavy", "alpha.target.mass_kg",
            f"{target.mass_kg:.3g} kg at friction {target.friction:.3g} is {load:.2f} kg",
            f"mass over friction at most {GRIP_LOAD_KG} kg", "make the target lighter or rougher",
            "alpha.target.friction",
        )  # fmt: skip


def _corners_local(scene: Scene, a: Role, b: Role) -> tuple[float, float]:
    """Centre of `b` in the frame of `a` [m]."""
    pa, pb = scene.sigma.poses[a], scene.sigma.poses[b]
    dx, dy = pb.xy[0] - pa.xy[0], pb.xy[1] - pa.xy[1]
    c, s = math.cos(pa.yaw), math.sin(pa.yaw)
    return c * dx + s * dy, -s * dx + c * dy


def footprint_gap(scene: Scene, a: Role, b: Role) -> float:
    """Gap between two objects' footprints [m]; negative if they overlap.

    Exact for round-round and round-box pairs; between two boxes the largest gap along their four
    side directions, which is never more than the true one.
    """
    records = scene.alpha.objects
    round_a = ASSETS[records[a].asset].shape == "cylinder"
    round_b = ASSETS[records[b].asset].shape == "cylinder"
    if round_a and not round_b:
        return footprint_gap(scene, b, a)
    half_a, half_b = half_size(records[a]), half_size(records[b])
    x, y = _corners_local(scene, a, b)
    if round_a:
        return math.hypot(x, y) - half_a[0] - half_b[0]
    if round_b:
        ex, ey = abs(x) - half_a[0], abs(y) - half_a[1]
        outside = math.hypot(max(ex, 0.0), max(ey, 0.0))
        return (outside if outside > 0.0 else max(ex, ey)) - half_b[0]
    return max(_box_gap(scene, a, b), _box_gap(scene, b, a))


def _box_gap(scene: Scene, a: Role, b: Role) -> float:
    """Largest gap of two boxes along the side directions of `a` [m]."""
    half_a = half_size(scene.alpha.objects[a])
    half_b = half_size(scene.alpha.objects[b])
    turn = scene.sigma.poses[b].yaw - scene.sigma.poses[a].yaw
    c, s = abs(math.cos(turn)), abs(math.sin(turn))
    x, y = _corners_local(scene, a, b)
    return max(
        abs(x) - half_a[0] - (c * half_b[0] + s * half_b[1]),
        abs(y) - half_a[1] - (s * half_b[0] + c * half_b[1]),
    )


def check_placement(scene: Scene) -> Iterator[Finding]:
    """Footprints keep their distance."""
    for a, b in itertools.combinations(scene.roles, 2):
        gap = footprint_gap(scene, a, b)
        if not gap >= MIN_GAP_M:
            yield _finding(
                "too-close", f"sigma.{b}.xy", f"{gap:+.3f} m to {a}",
                f"a gap of at least {MIN_GAP_M} m", f"move {b} away from {a}", f"sigma.{a}.xy",
            )  # fmt: skip


def check_instruction(scene: Scene) -> Iterator[Finding]:
    """The instruction names the bound objects, and its words fit nothing else."""
    text = scene.tau.instruction
    for role in unnamed_roles(scene):
        words = phrase(scene.alpha.objects[role])
        yield _finding(
            "instruction", "tau.instruction", text, f"must say {words!r} for the {role}",
            f"write an instruction that names the {words}",
        )  # fmt: skip
    for role in ambiguous_roles(scene):
        words = phrase(scene.alpha.objects[role])
        yield _finding(
            "ambiguous-instruction", f"alpha.{role}.rgba", f"{role} is a {words} too",
            "colour and noun differ from the target's and the receptacle's",
            f"give {role} another colour or asset", f"alpha.{role}.asset",
        )  # fmt: skip


def check_reload(scene: Scene) -> Iterator[Finding]:
    """Saving and loading gives an equal scene."""
    text = scene.canonical()
    try:
        same = Scene.model_validate_json(text) == scene
    except ValidationError as error:
        same = False
        text = str(error.errors(include_url=False)[0]["msg"])
    if not same:
        yield _finding(
            "reload", "(whole)", text, "an equal scene after saving and loading",
            "use plain finite numbers",
        )  # fmt: skip


def static_findings(scene: Scene) -> list[Finding]:
    """Every problem that shows without a simulator, cheapest stage first.

    A scene whose task or factors are wrong is not looked at further.
    """
    found = list(check_task(scene)) + list(check_factors(scene))
    if found:
        return found
    found += check_placement(scene)
    found += check_instruction(scene)
    found += check_reload(scene)
    return found


def separation(scene: Scene, a: Role, b: Role) -> float:
    """Distance of two roles' centres [m]."""
    pa, pb = scene.sigma.poses[a].xy, scene.sigma.poses[b].xy
    return float(np.hypot(pa[0] - pb[0], pa[1] - pb[1]))
