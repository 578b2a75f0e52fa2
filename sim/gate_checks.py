"""Checks of a scene that need no simulator: semantics, placement, instruction, storage."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from pydantic import ValidationError

from coda.sim.agreement import agreement_issues
from coda.sim.assets import ASSETS, half_size, scaled
from coda.sim.assets_insertion import insertion_play
from coda.sim.errors import UnknownName
from coda.sim.factors import missing_package, scene_factors, value_issue
from coda.sim.families import family, task_of
from coda.sim.gate_findings import Finding, finding
from coda.sim.gate_placement import MIN_GAP_M, check_placement, footprint_gap
from coda.sim.mjcf_touch import fixture_role
from coda.sim.paths import read_factor
from coda.sim.plain_data import shown
from coda.sim.predicates import DEFAULT_LIMITS
from coda.sim.roles import DISTRACTORS, ROLES, Role
from coda.sim.scene import Scene
from coda.sim.terms import PredicateName
from coda.sim.wording import ambiguous_roles, bound_roles, phrase

__all__ = [
    "GRASP_WIDTH_M",
    "GRIP_LOAD_KG",
    "MIN_GAP_M",
    "Finding",
    "carried",
    "footprint_gap",
    "separation",
    "static_findings",
]

GRASP_WIDTH_M = 0.072
"""Widest part that the gripper (0.08 m) takes with some room [m]."""
GRIP_LOAD_KG = 2.3
"""Largest mass over friction coefficient that the gripper's force holds while it moves [kg]."""
FIT_M = 0.002
"""Least play on each side of what goes into a container or a hole, or around a post [m]."""
MIN_OPACITY = 0.3
"""Least opacity of an object that the instruction names."""
MAX_NAME = 40
"""Longest name that is looked up."""
PLACING: frozenset[PredicateName] = frozenset({"on", "inside", "inserted"})
"""Predicates that say where a carried object comes to be."""


def carried(scene: Scene) -> tuple[tuple[Role, Role], ...]:
    """What the task has the gripper carry, and where to, in the order in which it must happen."""
    terms = task_of(scene).seed.nu.terms
    pairs = [(t.subject, t.reference) for t in terms if t.name in PLACING and t.reference]
    return tuple(sorted(pairs, key=lambda pair: -ROLES.index(pair[1])))


def check_task(scene: Scene) -> Iterator[Finding]:
    """Family and task exist; the scene has exactly the task's roles, and assets that suit them."""
    tau = scene.tau
    for path, name in (("tau.family", tau.family), ("tau.task", tau.task)):
        if len(name) > MAX_NAME:
            code = "unknown-family" if path == "tau.family" else "unknown-task"
            yield finding(
                code, path, shown(name), f"at most {MAX_NAME} characters", "use a known name"
            )
            return
    try:
        tasks = family(tau.family).tasks
    except UnknownName as error:
        yield finding("unknown-family", "tau.family", tau.family, str(error), "use a known family")
        return
    if tau.task not in tasks:
        limit = "one of " + ", ".join(tasks)
        yield finding("unknown-task", "tau.task", tau.task, limit, "use a task of the family")
        return
    task = tasks[tau.task]
    own = set(task.seed.roles) - set(DISTRACTORS)
    have = set(scene.roles) - set(DISTRACTORS)
    words = "exactly " + ", ".join(role for role in ROLES if role in own) + " beside distractors"
    for role in sorted(own - have):
        yield finding("role-absent", "sigma.poses", role, words, f"add the {role}")
    for role in sorted(have - own):
        yield finding("role-extra", "sigma.poses", role, words, f"leave the {role} out")
    for role in scene.roles:
        name, names = scene.alpha.objects[role].asset, task.assets.get(role, ())
        path = f"alpha.{role}.asset"
        if name in task.optional.get(role, ()):
            missing = missing_package(path, name)
            if missing is not None:
                yield Finding(issue=missing, paths=(path,))
        elif name not in names and role not in have - own:
            code = "wrong-role-asset" if name in ASSETS else "unknown-asset"
            yield finding(
                code, path, name, "one of " + ", ".join(names), f"choose an asset of the {role}"
            )


def check_factors(scene: Scene) -> Iterator[Finding]:
    """Every factor inside the range of its task; then: what is carried fits the gripper."""
    sound = True
    for path, factor in scene_factors(scene).items():
        if factor.kind == "name":
            continue  # checked with the task
        problem = value_issue(factor, read_factor(scene, path))
        if problem is not None:
            code = "off-workspace" if path.endswith(".xy") else problem.code
            yield Finding(issue=problem.model_copy(update={"code": code}), paths=(path,))
            sound = False
    if not sound:
        return
    for role, _ in carried(scene):
        yield from _check_grip(scene, role)
    if fixture_role(scene) is not None:
        yield from _check_handle(scene)


def _check_grip(scene: Scene, role: Role) -> Iterator[Finding]:
    """The gripper can close around a carried object and hold it."""
    record = scene.alpha.objects[role]
    asset = ASSETS[record.asset]
    x, y, _ = scaled(asset.grip_half_m or asset.half_size_m, record.scale)
    width = 2.0 * min(x, y)
    if not width <= GRASP_WIDTH_M:
        yield finding(
            "too-wide", f"alpha.{role}.scale",
            f"{record.asset} at scale {record.scale:.3g} is {width:.3f} m wide",
            f"at most {GRASP_WIDTH_M} m", f"make the {role} smaller",
            f"alpha.{role}.asset",
        )  # fmt: skip
    load = record.mass_kg / record.friction
    if not load <= GRIP_LOAD_KG:
        yield finding(
            "too-heavy", f"alpha.{role}.mass_kg",
            f"{record.mass_kg:.3g} kg at friction {record.friction:.3g} is {load:.2f} kg",
            f"mass over friction at most {GRIP_LOAD_KG} kg", f"make the {role} lighter or rougher",
            f"alpha.{role}.friction",
        )  # fmt: skip


def _check_handle(scene: Scene) -> Iterator[Finding]:
    """The gripper can close around a fixture's handle."""
    fixture = fixture_role(scene)
    assert fixture is not None
    record = scene.alpha.objects[fixture]
    joint = ASSETS[record.asset].joint
    assert joint is not None
    width = 2.0 * min(joint.handle_half_m[:2]) * record.scale
    if not width <= GRASP_WIDTH_M:
        yield finding(
            "too-wide", f"alpha.{fixture}.scale",
            f"the handle of {record.asset} at scale {record.scale:.3g} is {width:.3f} m wide",
            f"at most {GRASP_WIDTH_M} m", f"make the {fixture} smaller", f"alpha.{fixture}.asset",
        )  # fmt: skip


def check_agreement(scene: Scene) -> Iterator[Finding]:
    """Instruction, goal and verifier say the task's own goal."""
    for issue in agreement_issues(scene):
        yield Finding(issue=issue, paths=(issue.path,))


def check_fit(scene: Scene) -> Iterator[Finding]:
    """What goes into a container, a hole or around a post is narrow or wide enough for it."""
    goal = scene.tau.goal
    if goal.relation == "inserted":
        yield from _check_play(scene)
    if goal.relation != "inside" or goal.reference is None:
        return
    record, taker = (scene.alpha.objects[role] for role in (goal.subject, goal.reference))
    asset = ASSETS[taker.asset]
    seat = sorted(v * taker.scale for v in asset.seat_half_m or asset.half_size_m[:2])
    own = sorted(half_size(record)[:2])
    play = min(a - b for a, b in zip(seat, own, strict=True))
    deep = DEFAULT_LIMITS["inside"]
    mouth = asset.half_size_m[2] if asset.mouth_m is None else asset.mouth_m
    floor = asset.half_size_m[2] if asset.seat_m is None else asset.seat_m
    depth = (mouth - floor) * taker.scale
    if not (play >= FIT_M and depth >= deep):
        size = " by ".join(f"{2 * v:.3f}" for v in own)
        room = " by ".join(f"{2 * v:.3f}" for v in seat)
        yield finding(
            "no-fit", f"alpha.{goal.subject}.scale", f"{size} m into {room} m, {depth:.3f} m deep",
            f"{FIT_M} m of play on each side and a depth of {deep} m",
            f"make the {goal.subject} smaller or the {goal.reference} larger",
            f"alpha.{goal.reference}.scale", f"alpha.{goal.subject}.asset",
        )  # fmt: skip


def _check_play(scene: Scene) -> Iterator[Finding]:
    """A peg has room in its hole, or a nut around its post, once it is turned parallel."""
    goal = scene.tau.goal
    if goal.reference is None:
        return
    record, taker = (scene.alpha.objects[role] for role in (goal.subject, goal.reference))
    room = insertion_play(record, taker)
    if room is None or not room >= FIT_M:
        shown = "no such pair" if room is None else f"{room:+.4f} m of play"
        pair = f"{record.asset} at {record.scale:.3g}, {taker.asset} at {taker.scale:.3g}"
        yield finding(
            "no-fit", f"alpha.{goal.subject}.scale",
            f"{pair}: {shown}",
            f"{FIT_M} m of play on each side", f"change the size or asset of the {goal.subject}",
            f"alpha.{goal.subject}.asset", f"alpha.{goal.reference}.scale",
        )  # fmt: skip


def check_colours(scene: Scene) -> Iterator[Finding]:
    """The objects that the instruction names are not see-through."""
    for role in bound_roles(scene):
        opacity = scene.alpha.objects[role].rgba[3]
        if not opacity >= MIN_OPACITY:
            yield finding(
                "hidden", f"alpha.{role}.rgba", f"opacity {opacity:.3g}",
                f"at least {MIN_OPACITY}", f"make the {role} opaque",
            )  # fmt: skip


def check_names(scene: Scene) -> Iterator[Finding]:
    """The instruction's words fit the bound objects only."""
    for role in ambiguous_roles(scene):
        words = phrase(scene.alpha.objects[role])
        yield finding(
            "ambiguous-instruction", f"alpha.{role}.rgba", f"{role} is a {words} too",
            "colour and noun differ from those of the objects that the instruction names",
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
        yield finding(
            "reload", "(whole)", text, "an equal scene after saving and loading",
            "use plain finite numbers",
        )  # fmt: skip


def static_findings(scene: Scene) -> list[Finding]:
    """Every problem that shows without a simulator, cheapest stage first.

    A scene whose task, factors or agreement are wrong is not looked at further.
    """
    found = list(check_task(scene))
    if found:
        return found
    found = [*check_factors(scene), *check_agreement(scene)]
    if any(one.issue.code != "instruction" for one in found):
        return found
    found += check_fit(scene)
    found += check_placement(scene)
    found += check_colours(scene)
    found += check_names(scene)
    found += check_reload(scene)
    return found


def separation(scene: Scene, a: Role, b: Role) -> float:
    """Distance of two roles' centres [m]."""
    pa, pb = scene.sigma.poses[a].xy, scene.sigma.poses[b].xy
    return float(np.hypot(pa[0] - pb[0], pa[1] - pb[1]))
