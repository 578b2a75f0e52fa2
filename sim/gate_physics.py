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
from coda.sim.engine import ACTION_DIM, CHUNK, BatchSim
from coda.sim.errors import SimulationError
from coda.sim.frame import Array, SimFrame
from coda.sim.gate_codes import make_issue
from coda.sim.gate_view import view_issues
from coda.sim.mjcf import compile_scene
from coda.sim.predicates import Bool, grasp_point, grasp_yaw_error, vertical_half
from coda.sim.program import Issue
from coda.sim.roles import ROLES, Role
from coda.sim.scene import Scene

MAX_DRIFT_M = 0.01
"""Furthest that an object may move while settling [m]."""
MAX_TURN_RAD = 0.15
"""Furthest that an object may turn or tip while settling [rad]."""
MAX_DEPTH_M = 0.002
"""Deepest overlap of two bodies at the start [m]."""
REACH_TOLERANCE_M = 0.012
"""Largest remaining IK error, metres plus 0.1 m per rad."""
HOVER_M = 0.06
"""Height above grasp and goal that must be reachable too [m]."""
GOAL_STEPS = 16
"""Control steps in which the verifier must come to hold at the goal state."""

_T, _R = ROLES.index("target"), ROLES.index("receptacle")
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
            for i, found in zip(alive, _simulate(sim), strict=True):
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


def _simulate(sim: BatchSim) -> Issues:
    """Run the stages in order on compiled scenes."""
    sim.reset(settle_steps=0)
    overlaps = [_overlap_issues(sim, i) for i in range(sim.batch)]
    views = [view_issues(sim, i) for i in range(sim.batch)]
    at_reset = sim.reset()
    early = sim.verified_now()
    result = sim.step_chunk(_idle(sim.batch, CHUNK))
    early |= result.success | sim.verified_now()
    finite = np.isfinite(result.frame.pack()).all(axis=1) & ~result.crashed
    issues = [[] if ok else [_unstable()] for ok in finite]
    settled = np.flatnonzero(finite)
    for i in settled:
        issues[i] += _drift_issues(sim.scenes[i], result.frame, int(i))
        issues[i] += overlaps[i]
    for i, found in zip(settled, _reach_issues(at_reset[settled]), strict=True):
        issues[i] += found
    for i in settled:
        issues[i] += views[i]
        if early[i]:
            issues[i].append(_solved())
    goal = _goal_reached(sim)
    for i in settled:
        if not goal[i]:
            issues[i].append(_not_recognised(sim.scenes[i]))
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


def _solved() -> Issue:
    return make_issue(
        "solved-at-reset", "sigma.target.xy", "the verifier holds before any action", "false",
        "start the target away from the receptacle",
    )  # fmt: skip


def _not_recognised(scene: Scene) -> Issue:
    terms = ", ".join(str(term) for term in scene.nu.terms)
    return make_issue(
        "goal-not-recognised", "nu", terms, "true with the target at rest on the receptacle",
        "make the target fit on the receptacle, or correct the verifier",
    )  # fmt: skip


def _drift_issues(scene: Scene, frame: SimFrame, i: int) -> list[Issue]:
    found = []
    for role in scene.roles:
        r, pose = ROLES.index(role), scene.sigma.poses[role]
        moved = float(np.linalg.norm(frame.pos[i, r, :2] - np.asarray(pose.xy)))
        if moved > MAX_DRIFT_M:
            found.append(
                make_issue(
                    "drift", f"sigma.{role}.xy", f"moved {moved:.3f} m while settling",
                    f"at most {MAX_DRIFT_M} m", "keep objects apart and upright",
                )
            )  # fmt: skip
        start = kinematics.exp_rot(np.array([[0.0, 0.0, pose.yaw]]))
        turn = kinematics.rotvec(frame.rot[i, r][None] @ start.transpose(0, 2, 1))
        angle = float(np.linalg.norm(turn))
        if angle > MAX_TURN_RAD:
            found.append(
                make_issue(
                    "rotation-drift", f"sigma.{role}.yaw", f"turned {angle:.2f} rad",
                    f"at most {MAX_TURN_RAD} rad", "use a steadier asset or more friction",
                )
            )  # fmt: skip
    return found


def _overlap_issues(sim: BatchSim, i: int) -> list[Issue]:
    """Contacts of the start state that lie too deep."""
    model, data = sim.models[i], sim.data(i)
    mujoco.mj_forward(model, data)
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


def _reach_issues(frame: SimFrame) -> Issues:
    """IK of hover and grasp at the target, and of hover and place at the receptacle."""
    if not frame.batch:
        return []
    grasp = grasp_point(frame, "target")
    turn = np.zeros((frame.batch, 3))
    turn[:, 2] = grasp_yaw_error(frame, "target")
    rot = kinematics.exp_rot(turn) @ kinematics.down_rot(_yaw_of(frame))
    under = frame.pos[:, _T, 2] - vertical_half(frame, "target")
    place = frame.pos[:, _R].copy()
    place[:, 2] += vertical_half(frame, "receptacle") + grasp[:, 2] - under
    up = np.array([0.0, 0.0, HOVER_M])
    points = np.concatenate((grasp, grasp + up, place, place + up))
    _, error = kinematics.solve_ik(points, np.tile(rot, (4, 1, 1)))
    worst = error.reshape(2, 2, frame.batch).max(axis=1)
    issues: Issues = []
    kinds: tuple[tuple[str, Role], ...] = (
        ("unreachable-grasp", "target"),
        ("unreachable-goal", "receptacle"),
    )
    for i in range(frame.batch):
        found = []
        for row, (code, role) in zip(worst, kinds, strict=True):
            if not row[i] <= REACH_TOLERANCE_M:
                where = ", ".join(f"{v:.3f}" for v in frame.pos[i, ROLES.index(role), :2])
                found.append(
                    make_issue(
                        code, f"sigma.{role}.xy", f"({where}) with IK error {row[i]:.3f} m",
                        f"at most {REACH_TOLERANCE_M} m", f"move the {role} towards the robot",
                    )
                )  # fmt: skip
        issues.append(found)
    return issues


def _yaw_of(frame: SimFrame) -> Array:
    """Turn of the gripper about the vertical (B,) [rad], inverse of `kinematics.down_rot`."""
    return np.arctan2(frame.ee_rot[:, 1, 0], frame.ee_rot[:, 0, 0])


def _goal_reached(sim: BatchSim) -> Bool:
    """Whether the verifier comes to hold with the goal's subject set down on its reference."""
    frame = sim.reset()
    for i, scene in enumerate(sim.scenes):
        goal = scene.tau.goal
        free = {body[0]: body for body in sim.layout(i).free}
        subject = free.get(ROLES.index(goal.subject))
        if subject is None or goal.reference is None:
            continue
        _, q, v = subject
        reference = ROLES.index(goal.reference)
        up = float(frame.seat[i, reference] + vertical_half(frame, goal.subject)[i])
        state = sim.state(i)
        state[q : q + 3] = frame.pos[i, reference] + (0.0, 0.0, up + 0.0005)
        state[v : v + 6] = 0.0
        sim.set_state(i, state)
    return sim.step_chunk(_idle(sim.batch, GOAL_STEPS)).success
