"""Reach: IK of every grasp, of the goal, and of a handle on its way, each at its own turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coda.sim import kinematics
from coda.sim.frame import Array, SimFrame
from coda.sim.gate_checks import carried
from coda.sim.gate_codes import make_issue
from coda.sim.gate_goal import grip_yaw
from coda.sim.mjcf_touch import fixture_role
from coda.sim.predicates import grasp_point, grasp_yaw_error
from coda.sim.program import Issue
from coda.sim.roles import ROLES, Role
from coda.sim.scene import Scene

REACH_TOLERANCE_M = 0.012
"""Largest remaining IK error, metres plus 0.1 m per rad."""
HOVER_M = 0.06
"""Height above grasp and goal that must be reachable too [m]."""
RIM_M = 0.02
"""Height over a container's rim at which things are let go at the latest [m]."""
TRIES = ((0.0, 32), (0.0, 80), (np.pi, 80), (-np.pi, 80))
"""Turns between which a parallel gripper may choose [rad], and iterations of IK: the next try is
for what the last did not reach."""


@dataclass(frozen=True, kw_only=True)
class Need:
    """Poses that one motion of the gripper passes through."""

    scene: int
    code: str
    role: Role
    """Whose pose an issue names."""
    points: Array
    """Grip positions (P, 3) [m]."""
    yaws: Array
    """Turns of the gripper about the vertical (P,) [rad]."""


def needs(scene: Scene, i: int, start: SimFrame, half: SimFrame, goal: SimFrame) -> list[Need]:
    """What the gripper has to reach in a scene; frames of the start, half way, and the goal."""
    up = np.array([0.0, 0.0, HOVER_M])
    found: list[Need] = []
    hand = float(grip_yaw(start[[i]])[0])

    def grasp(frame: SimFrame, role: Role) -> tuple[Array, float]:
        one = frame[[i]]
        error = grasp_yaw_error(one, role) + grip_yaw(one) - hand
        turn = hand + np.remainder(error + np.pi / 2, np.pi) - np.pi / 2
        return grasp_point(one, role)[0], float(turn[0])

    for subject, reference in carried(scene):
        point, yaw = grasp(start, subject)
        found.append(
            Need(
                scene=i, code="unreachable-grasp", role=subject,
                points=np.stack((point, point + up)), yaws=np.full(2, yaw),
            )
        )  # fmt: skip
        point, yaw = grasp(goal, subject)
        if scene.tau.goal.relation == "inside":
            j = ROLES.index(reference)
            point[2] = max(point[2], goal.pos[i, j, 2] + goal.mouth[i, j] + RIM_M)
        found.append(
            Need(
                scene=i, code="unreachable-goal", role=reference,
                points=np.stack((point, point + up)), yaws=np.full(2, yaw),
            )
        )  # fmt: skip
    fixture = fixture_role(scene)
    if fixture is not None and abs(float(start.opening[i] - start.joint_goal[i])) > 0.02:
        way = [grasp(frame, "handle") for frame in (start, half, goal)]
        yaws = np.unwrap([yaw for _, yaw in way], period=np.pi)
        points = np.stack([way[0][0] + up, *(point for point, _ in way), way[-1][0] + up])
        found.append(
            Need(
                scene=i, code="unreachable-handle", role=fixture, points=points,
                yaws=yaws[[0, 0, 1, 2, 2]],
            )
        )  # fmt: skip
    return found


def _errors(wanted: list[Need], turn: float, iterations: int) -> Array:
    """Worst IK error of each need (n,) with the gripper turned by `turn` besides."""
    points = np.concatenate([need.points for need in wanted])
    yaws = np.concatenate([need.yaws for need in wanted]) + turn
    _, error = kinematics.solve_ik(points, kinematics.down_rot(yaws), iterations=iterations)
    ends = np.cumsum([len(need.points) for need in wanted])
    return np.array([part.max() for part in np.split(error, ends[:-1])])


def reach_issues(wanted: list[Need], batch: int) -> list[list[Issue]]:
    """Issues of a batch of scenes, in the order of their needs; at most one per code and role."""
    issues: list[list[Issue]] = [[] for _ in range(batch)]
    if not wanted:
        return issues
    best = np.full(len(wanted), np.inf)
    for turn, iterations in TRIES:
        left = np.flatnonzero(~(best <= REACH_TOLERANCE_M))
        if left.size:
            best[left] = np.minimum(
                best[left], _errors([wanted[k] for k in left], turn, iterations)
            )
    for need, error in zip(wanted, best.tolist(), strict=True):
        if error <= REACH_TOLERANCE_M:
            continue
        where = ", ".join(f"{v:.3f}" for v in need.points[0])
        issue = make_issue(
            need.code, f"sigma.{need.role}.xy", f"({where}) with IK error {error:.3f} m",
            f"at most {REACH_TOLERANCE_M} m", f"move the {need.role} towards the robot",
        )  # fmt: skip
        issues[need.scene].append(issue)
    return issues
