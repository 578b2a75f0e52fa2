"""Checks of the validity gate that need the simulator, for a batch of scenes at once.

Settling, interpenetration, reach, visibility, and the verifier before anything was done and at a
constructed goal state.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import mujoco
import numpy as np

from coda.sim import kinematics
from coda.sim.assets import ASSETS
from coda.sim.engine import ACTION_DIM, CHUNK, CONTROL_HZ, BatchSim
from coda.sim.errors import SimulationError
from coda.sim.frame import Array, SimFrame
from coda.sim.gate_checks import carried
from coda.sim.gate_codes import make_issue
from coda.sim.gate_goal import goal_sim, reach_goal, set_opening
from coda.sim.gate_reach import needs, reach_issues
from coda.sim.gate_view import view_issues
from coda.sim.layout import base_pose
from coda.sim.mjcf import compile_scene
from coda.sim.mjcf_touch import fixture_role
from coda.sim.program import Issue
from coda.sim.roles import ROLES
from coda.sim.scene import Scene

MAX_DRIFT_M = 0.01
"""Furthest that an object may move while settling [m]."""
MAX_TURN_RAD = 0.15
"""Furthest that an object may turn or tip while settling [rad]."""
MAX_OPENING_DRIFT = 0.03
"""Furthest that a fixture may open or close by itself, as a share of its travel."""
MAX_DEPTH_M = 0.002
"""Deepest overlap of two bodies at the start, and of what has reached its goal [m]."""
MAX_SQUEEZE_M = 0.0005
"""Deepest overlap with an upright wall at the goal: what needs force does not fit [m]."""
GOAL_STEPS = 12
"""Control steps that the goal state has to settle in, beside those that it must hold for."""

Issues = list[list[Issue]]


def physics_issues(scenes: Sequence[Scene], *, threads: int = 1) -> list[tuple[Issue, ...]]:
    """Every problem of scenes that passed the static checks; one tuple a scene.

    A scene that does not compile, or diverges, is not looked at further.
    """
    issues: Issues = [[] for _ in scenes]
    models = _compile_all(scenes, issues, threads)
    alive = [i for i, model in enumerate(models) if model is not None]
    if alive:
        sim = BatchSim(
            [scenes[i] for i in alive], threads=threads, models=[models[i] for i in alive]
        )
        try:
            for i, found in zip(alive, _simulate(sim, threads), strict=True):
                issues[i] += found
        finally:
            sim.close()
    return [tuple(found) for found in issues]


def _compile_all(
    scenes: Sequence[Scene], issues: Issues, threads: int
) -> list[mujoco.MjModel | None]:
    def build(scene: Scene) -> mujoco.MjModel | str:
        try:
            return compile_scene(scene)
        except SimulationError as error:
            return str(error)

    with ThreadPoolExecutor(max(1, threads)) as pool:
        built = list(pool.map(build, scenes))
    for found, model in zip(issues, built, strict=True):
        if isinstance(model, str):
            remedy = "use sizes and masses closer to the catalogue's"
            found.append(make_issue("compile", "(whole)", model, "a model that compiles", remedy))
    return [None if isinstance(model, str) else model for model in built]


def _simulate(sim: BatchSim, threads: int) -> Issues:
    """Run the stages in order on compiled scenes."""
    unsettled = sim.reset(settle_steps=0)
    overlaps, views = [], []
    for i in range(sim.batch):
        data = sim.data(i)
        overlaps.append(_overlap_issues(sim.models[i], data))
        views.append(view_issues(sim, unsettled, i, data))
    at_reset = sim.reset()
    early = sim.verified_now()
    result = sim.step_chunk(_idle(sim.batch, CHUNK))
    early |= result.success | sim.verified_now()
    finite = np.isfinite(result.frame.pack()).all(axis=1) & ~result.crashed
    reach, goals = _goal_issues(sim, at_reset, threads)
    issues: Issues = []
    for i, scene in enumerate(sim.scenes):
        if not finite[i]:
            issues.append([_unstable()])
            continue
        found = _drift_issues(scene, result.frame, i)
        found += _opening_issues(scene, result.frame, i)
        found += overlaps[i] + reach[i] + views[i]
        if early[i]:
            found.append(_solved(scene))
        issues.append(found + goals[i])
    return issues


def _idle(batch: int, steps: int) -> Array:
    """Actions (B, H, 7) that hold still with the gripper open."""
    actions = np.zeros((batch, steps, ACTION_DIM))
    actions[:, :, 6] = -1.0
    return actions


def _unstable() -> Issue:
    return make_issue(
        "unstable", "(whole)", "state not finite or beyond 10 m", "a state that stays finite",
        "use moderate masses and sizes, and keep objects apart",
    )  # fmt: skip


def _solved(scene: Scene) -> Issue:
    jointed = scene.tau.goal.relation in ("open", "closed")
    return make_issue(
        "solved-at-reset", "tau.opening" if jointed else "sigma.target.xy",
        "the verifier holds before any action", "false",
        "start the task away from its goal",
    )  # fmt: skip


def _drift_issues(scene: Scene, frame: SimFrame, i: int) -> list[Issue]:
    found = []
    for role in scene.roles:
        asset = ASSETS[scene.alpha.objects[role].asset]
        if asset.fixed:
            continue
        r = ROLES.index(role)
        pos, rot = base_pose(asset, scene.alpha.objects[role], scene.sigma.poses[role])
        moved = float(np.linalg.norm(frame.pos[i, r] - pos))
        if moved > MAX_DRIFT_M:
            found.append(
                make_issue(
                    "drift", f"sigma.{role}.xy", f"moved {moved:.3f} m while settling",
                    f"at most {MAX_DRIFT_M} m", "keep objects apart and upright",
                )
            )  # fmt: skip
        angle = float(np.linalg.norm(kinematics.rotvec((frame.rot[i, r] @ rot.T)[None])))
        if angle > MAX_TURN_RAD:
            found.append(
                make_issue(
                    "rotation-drift", f"sigma.{role}.yaw", f"turned {angle:.2f} rad",
                    f"at most {MAX_TURN_RAD} rad", "use a steadier asset or more friction",
                )
            )  # fmt: skip
    return found


def _opening_issues(scene: Scene, frame: SimFrame, i: int) -> list[Issue]:
    fixture = fixture_role(scene)
    moved = abs(float(frame.opening[i]) - scene.tau.opening)
    if fixture is None or moved <= MAX_OPENING_DRIFT:
        return []
    return [
        make_issue(
            "joint-drift", "tau.opening", f"{scene.tau.opening:.3f} became {frame.opening[i]:.3f}",
            f"a change of at most {MAX_OPENING_DRIFT}",
            f"start the {fixture} at an opening that it keeps, or with more damping",
        )
    ]  # fmt: skip


def _overlap_issues(model: mujoco.MjModel, data: mujoco.MjData) -> list[Issue]:
    """Contacts of the start state that lie too deep."""
    if not data.ncon:
        return []
    deepest = int(np.argmin(data.contact.dist))
    depth = -float(data.contact.dist[deepest])
    if depth <= MAX_DEPTH_M:
        return []
    pair = [int(g) for g in data.contact.geom[deepest]]
    names = [_body_name(model, int(model.geom_bodyid[g])) for g in pair]
    role = next((name for name in names if name in ROLES), None)
    path = f"sigma.{role}.xy" if role else "sigma.robot.xyz"
    return [
        make_issue(
            "penetration", path, f"{depth:.4f} m between {' and '.join(names)}",
            f"at most {MAX_DEPTH_M} m", "move the two apart",
        )
    ]  # fmt: skip


def _body_name(model: mujoco.MjModel, body: int) -> str:
    name = mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_BODY, body) or "world"
    return "table" if name == "world" else str(name)


def _goal_issues(sim: BatchSim, start: SimFrame, threads: int) -> tuple[Issues, Issues]:
    """What cannot be reached, and goals that do not fit or that the verifier does not see."""
    done = goal_sim(sim.scenes, sim.models, threads=threads)
    try:
        half = set_opening(done, 0.5)
        goal = reach_goal(done)
        wanted = [
            need
            for i, scene in enumerate(sim.scenes)
            for need in needs(scene, i, start, half, goal)
        ]
        hold = max(scene.nu.hold_s for scene in sim.scenes)
        result = done.step_chunk(_idle(sim.batch, GOAL_STEPS + round(hold * CONTROL_HZ)))
        issues: Issues = []
        for i, scene in enumerate(sim.scenes):
            fit = _fit_issues(done, i)
            seen = [] if result.success[i] or fit else [_not_recognised(scene)]
            issues.append([*fit, *seen])
        return reach_issues(wanted, sim.batch), issues
    finally:
        done.close()


def _fit_issues(sim: BatchSim, i: int) -> list[Issue]:
    """Objects that have reached their goal, but overlap with what took them up."""
    model, scene = sim.models[i], sim.scenes[i]
    pairs = carried(scene)
    if not pairs:
        return []
    data = sim.data(i)
    bodies = sim.layout(i).bodies
    root = model.body_rootid[model.geom_bodyid[data.contact.geom]] if data.ncon else ()
    upright = np.abs(data.contact.frame[:, 2]) < 0.5 if data.ncon else ()
    for subject, reference in pairs:
        both = {int(model.body_rootid[bodies[role]]) for role in (subject, reference)}
        for dist, ab, wall in zip(data.contact.dist, root, upright, strict=True):
            limit = MAX_SQUEEZE_M if wall else MAX_DEPTH_M
            if set(ab) == both and -dist > limit:
                return [
                    make_issue(
                        "no-fit", f"alpha.{subject}.scale",
                        f"{-dist:.4f} m into the {reference} at the goal",
                        f"at most {limit} m", f"make the {subject} fit the {reference}",
                    )
                ]  # fmt: skip
    return []


def _not_recognised(scene: Scene) -> Issue:
    terms = ", ".join(str(term) for term in scene.nu.terms)
    return make_issue(
        "goal-not-recognised", "nu", terms, "true in a state in which the goal is reached",
        "make the subject fit where it should go, or correct the verifier",
    )  # fmt: skip
