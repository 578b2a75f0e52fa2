"""Constructed states of a scene: the fixture half way and at its goal, and the goal reached."""

from __future__ import annotations

import math
from collections.abc import Sequence

import mujoco
import numpy as np

from coda.sim.engine import BatchSim
from coda.sim.frame import Array, SimFrame
from coda.sim.gate_checks import carried
from coda.sim.predicates import vertical_half
from coda.sim.roles import ROLES, Role
from coda.sim.scene import RobotStart, Scene

CLEAR = RobotStart(xyz=(0.36, 0.0, 0.48))
"""Where the hand is out of the way of every goal [m]."""
LIFT_M = 0.0005
"""Height over the seat at which a subject is set down [m]."""
TURNED = frozenset({"inside", "inserted"})
"""Relations for which the subject is turned to fit what takes it up."""


def goal_sim(
    scenes: Sequence[Scene], models: Sequence[mujoco.MjModel], *, threads: int = 1
) -> BatchSim:
    """A batch of scenes at their unsettled start, with the hand out of the way."""
    apart = [
        scene.model_copy(update={"sigma": scene.sigma.model_copy(update={"robot": CLEAR})})
        for scene in scenes
    ]
    sim = BatchSim(apart, threads=threads, models=models)
    sim.reset(settle_steps=0)
    return sim


def set_opening(sim: BatchSim, share: float) -> SimFrame:
    """Every fixture that far on its way from the start to the goal opening: 0 start, 1 goal."""
    frame = sim.frame()
    for i, scene in enumerate(sim.scenes):
        columns = sim.layout(i).joint_columns
        if columns:
            start, goal = scene.tau.opening, float(frame.joint_goal[i])
            state = sim.state(i)
            state[columns[0]] = (start + share * (goal - start)) * float(frame.joint_span[i])
            state[columns[1]] = 0.0
            sim.set_state(i, state)
    return sim.frame()


def reach_goal(sim: BatchSim) -> SimFrame:
    """Put every scene into a state in which its task is done: joints first, then storeys."""
    frame = set_opening(sim, 1.0)
    pairs = [carried(scene) for scene in sim.scenes]
    for storey in range(max(map(len, pairs))):
        for i, own in enumerate(pairs):
            if storey < len(own):
                _set_down(sim, frame, i, *own[storey])
        frame = sim.frame()
    return frame


def _set_down(sim: BatchSim, frame: SimFrame, i: int, subject: Role, reference: Role) -> None:
    """Move a free body onto the seat of another role, turned to fit where it has to."""
    body = next((b for b in sim.layout(i).free if ROLES[b[0]] == subject), None)
    if body is None:
        return  # an object that does not move: the verifier will say so
    _, q, v = body
    j = ROLES.index(reference)
    up = float(frame.seat[i, j] + vertical_half(frame[[i]], subject)[0]) + LIFT_M
    state = sim.state(i)
    state[q : q + 3] = frame.pos[i, j] + (0.0, 0.0, up)
    if sim.scenes[i].tau.goal.relation in TURNED:
        yaw = fitting_yaw(frame, i, subject, reference)
        state[q + 3 : q + 7] = (math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2))
    state[v : v + 6] = 0.0
    sim.set_state(i, state)


def yaw_of(rot: Array) -> float:
    """Turn about the vertical of a rotation (3, 3) [rad]."""
    return math.atan2(float(rot[1, 0]), float(rot[0, 0]))


def fitting_yaw(frame: SimFrame, i: int, subject: Role, reference: Role) -> float:
    """The turn nearest to the subject's own in which it fits between the reference's walls [rad].

    Its own where it fits so; else along the walls, with its long side along the seat's where only
    that fits.
    """
    s, r = ROLES.index(subject), ROLES.index(reference)
    own, wall = yaw_of(frame.rot[i, s]), yaw_of(frame.rot[i, r])
    half, seat = frame.half_size[i, s, :2], frame.seat_half[i, r]

    def fits(yaw: float) -> bool:
        c, n = abs(math.cos(yaw - wall)), abs(math.sin(yaw - wall))
        return bool(c * half[0] + n * half[1] <= seat[0] and n * half[0] + c * half[1] <= seat[1])

    if fits(own):
        return own
    turns = [wall + k * math.pi / 2 for k in range(4)]
    turns.sort(key=lambda yaw: abs(math.remainder(yaw - own, 2 * math.pi)))
    return next((yaw for yaw in turns if fits(yaw)), turns[0])


def grip_yaw(frame: SimFrame) -> Array:
    """Turn of the gripper about the vertical (B,) [rad], inverse of `kinematics.down_rot`."""
    return np.arctan2(frame.ee_rot[:, 1, 0], frame.ee_rot[:, 0, 0])
