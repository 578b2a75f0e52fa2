"""The planner's skill of working a fixture: take the handle, lead it along its joint, let go."""

from __future__ import annotations

import numpy as np

from coda.sim.frame import Array, SimFrame
from coda.sim.kinematics import exp_rot
from coda.sim.motion import CLOSED, OPEN, Motion, choose
from coda.sim.planner_transfer import held
from coda.sim.predicates import MAX_GRASP_HALF_M, Bool, grasp_point, grasp_width, graspable
from coda.sim.recorder import HINGE
from coda.sim.roles import ROLES

HOVER_M = 0.06
"""Height above the grasp point from which it descends [m]."""
NEAR_M = 0.15
"""Nearer than this, it rises before it comes over the handle [m]."""
LEAVE_M = 0.08
"""How far it rises in one chunk after letting go [m]."""
LEAD_M = 0.10
"""Furthest that the goal runs ahead of a handle that slides [m]."""
ARC_LEAD_M = 0.05
"""The same for a handle on an arc: the gripper takes the chord [m]."""
TURN_LEAD_RAD = 0.6
"""Furthest that the goal runs ahead of a joint that turns [rad]."""
SLIP_M = 0.014
"""Furthest that the handle may have slipped from the middle of the pads; then it grips anew [m]."""
KEEP = 0.5
"""Share of a slip along the way that the lead is put on top of, so as not to be used up by it."""
BEYOND = 0.03
"""Share of the travel that it aims past the goal: the joint's stop takes the rest."""
AT_GOAL = {True: 0.06, False: 0.04}
"""Largest distance from the goal opening at which it lets go, to open and to close."""
ROOM = 0.25
"""Share of the travel that a container may lack and still take something up."""

_HANDLE = ROLES.index("handle")


def at_goal(frame: SimFrame) -> Bool:
    """Whether the fixture is where the task wants it, closely enough to let go (B,)."""
    limit = np.where(frame.joint_goal > 0.5, AT_GOAL[True], AT_GOAL[False])
    return np.asarray(np.abs(frame.opening - frame.joint_goal) <= limit)


def moved_by(frame: SimFrame, delta: Array) -> Array:
    """Where the handle's centre comes to (B, 3) [m] when the joint moves by `delta` (B,)."""
    pos = frame.pos[:, _HANDLE]
    turns = (frame.joint_kind == HINGE)[:, None]
    arm = pos - frame.joint_anchor
    turned = exp_rot(frame.joint_axis * np.where(turns[:, 0], delta, 0.0)[:, None])
    on_arc = frame.joint_anchor + (turned @ arm[:, :, None])[:, :, 0]
    return np.where(turns, on_arc, pos + frame.joint_axis * delta[:, None])


def _left(frame: SimFrame) -> Array:
    """What the joint still has to move (B,) [m or rad], a little past the goal."""
    goal = frame.joint_goal + np.where(frame.joint_goal > 0.5, BEYOND, -BEYOND)
    return np.asarray(goal * frame.joint_span - frame.joint_pos)


def _turning(frame: SimFrame) -> Array:
    """Turn of the handle about the vertical (B,) for each unit of the joint's motion."""
    return np.where(frame.joint_kind == HINGE, frame.joint_axis[:, 2], 0.0)


def grasp_yaw(frame: SimFrame, holding: Bool) -> Array:
    """Yaw (B,) [rad] of the gripper that takes the handle.

    Of the ways to take it, the nearest while holding; before, the one whose whole way from here to
    the goal keeps the wrist closest to its middle.
    """
    gripper = _yaw(frame.ee_rot)
    ahead = 0.5 * _left(frame) * _turning(frame)
    half = frame.grip_half[:, _HANDLE]
    narrow = np.minimum(half[:, 0], half[:, 1])
    fitting = np.maximum(np.minimum(MAX_GRASP_HALF_M, 1.25 * narrow), narrow)
    best = np.full(frame.batch, np.inf)
    yaw = np.zeros(frame.batch)
    for axis in (0, 1):
        side = frame.rot[:, _HANDLE, :2, axis]
        angle = np.arctan2(side[:, 1], side[:, 0])
        for half_turns in (-1.5, -0.5, 0.5, 1.5):  # the fingers open along the gripper's y
            wanted = angle + half_turns * np.pi
            cost = np.where(holding, np.abs(_wrapped(wanted - gripper)), np.abs(wanted + ahead))
            better = (half[:, axis] <= fitting) & (cost < best)
            best = np.where(better, cost, best)
            yaw = np.where(better, wanted, yaw)
    return yaw


def _yaw(rot: Array) -> Array:
    return np.arctan2(rot[:, 1, 0], rot[:, 0, 0])


def _wrapped(angle: Array) -> Array:
    return np.asarray(np.mod(angle + np.pi, 2 * np.pi) - np.pi)


def _approach(frame: SimFrame) -> Motion:
    """Open over the handle, go down, close and wait."""
    grip = grasp_point(frame, "handle")
    yaw = grasp_yaw(frame, np.zeros(frame.batch, dtype=np.bool_))
    turned = np.abs(_wrapped(yaw - _yaw(frame.ee_rot))) < 0.10
    beside = np.linalg.norm(frame.ee_pos[:, :2] - grip[:, :2], axis=1)
    over = (beside < 0.010) & turned
    at_grasp = over & (frame.ee_pos[:, 2] < grip[:, 2] + 0.008)
    hover = grip + np.array([0.0, 0.0, HOVER_M])
    low = (frame.ee_pos[:, 2] < hover[:, 2] - 0.02) & ~over & (beside < NEAR_M)
    rise = frame.command_pos.copy()
    rise[:, 2] = hover[:, 2]
    goal = np.where(over[:, None], grip, np.where(low[:, None], rise, hover))
    turn = yaw - _yaw(frame.command_rot)  # the real gripper may still be on its way
    return Motion(goal, np.where(low, 0.0, turn), np.where(at_grasp, CLOSED, OPEN))


def lead(frame: SimFrame) -> Motion:
    """Closed on the handle: go ahead of it along its path."""
    left = _left(frame)
    arm = frame.pos[:, _HANDLE] - frame.joint_anchor
    radius = np.linalg.norm(np.cross(frame.joint_axis, arm), axis=1)
    on_arc = np.minimum(TURN_LEAD_RAD, ARC_LEAD_M / np.maximum(radius, 1e-3))
    most = np.where(frame.joint_kind == HINGE, on_arc, LEAD_M)
    delta = np.clip(left, -most, most)
    grip = grasp_point(frame, "handle")
    ahead = moved_by(frame, delta) - frame.pos[:, _HANDLE]
    way = ahead / np.maximum(np.linalg.norm(ahead, axis=1), 1e-9)[:, None]
    slipped = (way * (frame.ee_pos - grip)).sum(axis=1)
    goal = grip + ahead + KEEP * slipped[:, None] * way
    yaw = grasp_yaw(frame, np.ones(frame.batch, dtype=np.bool_)) + delta * _turning(frame)
    return Motion(goal, _wrapped(yaw - _yaw(frame.command_rot)), np.full(frame.batch, CLOSED))


def operate(frame: SimFrame) -> Motion:
    """Bring the fixture to the task's opening, let go and leave upwards."""
    slipped = np.linalg.norm(frame.ee_pos - grasp_point(frame, "handle"), axis=1)
    holding = held(frame, "handle") & (slipped < SLIP_M)
    motion = choose(holding, lead(frame), _approach(frame))
    clear = frame.gripper_width_m > grasp_width(frame, "handle") + 0.03
    away = frame.command_pos + np.array([0.0, 0.0, LEAVE_M])
    goal = np.where(clear[:, None], away, frame.command_pos)
    let_go = Motion(goal, np.zeros(frame.batch), np.full(frame.batch, OPEN))
    return choose(at_goal(frame), let_go, motion)


def operates(frame: SimFrame) -> Bool:
    """Whether the handle comes first (B,).

    Always where the fixture is what the task is about; where it is the receptacle, while it is
    too little open to take something up, or still held by its handle.
    """
    here = frame.present[:, _HANDLE] > 0
    itself = ~graspable(frame, "target")
    narrow = np.abs(frame.opening - frame.joint_goal) > ROOM
    return np.asarray(here & (itself | narrow | held(frame, "handle")))
