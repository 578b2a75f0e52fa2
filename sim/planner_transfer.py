"""The planner's skill of moving an object: hover, descend, close, lift, carry, lower, let go."""

from __future__ import annotations

import numpy as np

from coda.sim.frame import Array, SimFrame
from coda.sim.motion import CLOSED, OPEN, Motion, choose
from coda.sim.predicates import (
    Bool,
    evaluate,
    grasp_point,
    grasp_width,
    grasp_yaw_error,
    surface_gap,
    underside,
)
from coda.sim.recorder import SLIDE
from coda.sim.roles import ROLES, Role
from coda.sim.terms import PredicateTerm

HOLD_M = 0.035
"""Distance from the grasp point within which fingers as wide apart as the object hold it [m]."""
HOVER_M = 0.06
"""Height above the grasp point from which it descends [m]."""
STUCK_M = 0.016
"""Height over the grasp point at which fingers that get no lower close all the same [m]."""
CARRY_M = 0.06
"""Height of the object's underside over the table, or over the goal's rim, while carried [m]."""
WALLED_M = 0.02
"""A seat at least so far below the rim is the floor of a container [m]."""
HAND_M = 0.030
"""How far the finger tips may go below a rim before the hand touches it [m]."""
WRIST_RAD = 1.75
"""Furthest that the gripper is turned from its yaw at home to take something."""
AHEAD_M = 0.008
"""A command further ahead of the hand than this is a motion that is under way [m]."""
SKY_M = 0.04
"""Height of the finger tips over a rim on the way across [m]."""


def held(frame: SimFrame, role: Role) -> Bool:
    """Whether the closed fingers hold an object (B,); a contact may be lost for a moment."""
    touched = evaluate(PredicateTerm(name="grasped", subject=role), frame)[0]
    width = grasp_width(frame, role)
    fits = (frame.gripper_width_m > 0.8 * width) & (frame.gripper_width_m < width + 0.004)
    near = np.linalg.norm(frame.ee_pos - grasp_point(frame, role), axis=1) < HOLD_M
    return np.asarray((touched | (fits & near)) & (frame.gripper_command > 0))


def heading(rot: Array) -> Array:
    """Yaw (B,) [rad] of rotations (B, 3, 3): of their x axis."""
    return np.asarray(np.arctan2(rot[:, 1, 0], rot[:, 0, 0]))


def grasp_turn(frame: SimFrame, role: Role) -> Array:
    """Turn (B,) [rad] from the commanded yaw, ahead of the real one, to the nearest grasp's.

    Half a turn away is the same grasp: that one, where the wrist would turn too far.
    """
    yaw = heading(frame.ee_rot) + grasp_yaw_error(frame, role)
    far = np.abs(yaw) > WRIST_RAD
    yaw = np.where(far, yaw - np.pi * np.round(yaw / np.pi), yaw)
    return np.asarray(yaw - heading(frame.command_rot))


def walled(frame: SimFrame, role: Role) -> Bool:
    """Whether things go into a role, between walls, and not only onto it (B,)."""
    j = ROLES.index(role)
    deep = frame.mouth[:, j] - frame.seat[:, j] > WALLED_M
    return np.asarray((frame.present[:, j] > 0) & deep)


def rim_height(frame: SimFrame, role: Role) -> Array:
    """Height of a role's rim over the table (B,) [m]."""
    j = ROLES.index(role)
    return np.asarray(frame.pos[:, j, 2] + frame.mouth[:, j])


def obstacle_height(frame: SimFrame, role: Role) -> Array:
    """Height (B,) [m] of what stands in the way into a role: its rim, and its drawer's handle."""
    handle = ROLES.index("handle")
    top = frame.pos[:, handle, 2] + frame.half_size[:, handle, 2]
    return np.maximum(rim_height(frame, role), np.where(frame.present[:, handle] > 0, top, 0.0))


def approach(frame: SimFrame, role: Role, over_m: Array | None = None) -> Motion:
    """Open over the grasp point, go down, close and wait.

    Args:
        frame: B states.
        role: What to take.
        over_m: Heights (B,) over the table to keep on the way there [m], above walls.
    """
    grip = grasp_point(frame, role)
    yaw = grasp_yaw_error(frame, role)
    beside = np.linalg.norm(frame.ee_pos[:, :2] - grip[:, :2], axis=1)
    over = (beside < 0.012) & (np.abs(yaw) < 0.12)
    above = frame.ee_pos[:, 2] - grip[:, 2]
    stuck = (frame.command_pos[:, 2] < grip[:, 2] + 0.002) & (above < STUCK_M)  # on a neighbour
    stuck &= np.linalg.norm(frame.ee_linvel, axis=1) < 0.01
    at_grasp = over & ((above < 0.008) | stuck)
    hover = grip + np.array([0.0, 0.0, HOVER_M])
    if over_m is not None:
        hover[:, 2] = np.where(beside > 0.05, np.maximum(hover[:, 2], over_m), hover[:, 2])
    low = (frame.ee_pos[:, 2] < grip[:, 2] + HOVER_M - 0.02) & (beside > 0.02)
    if over_m is not None:
        low |= (frame.ee_pos[:, 2] < over_m - 0.01) & (beside > 0.05)
    rise = frame.command_pos.copy()
    rise[:, 2] = hover[:, 2]
    goal = np.where(over[:, None], grip, np.where(low[:, None], rise, hover))
    return Motion(goal, grasp_turn(frame, role), np.where(at_grasp, CLOSED, OPEN))


def transfer(frame: SimFrame, subject: Role, reference: Role) -> Motion:
    """Pick `subject` up and set it down at the seat of `reference`: on a plate, in a bin."""
    i, j = ROLES.index(subject), ROLES.index(reference)
    holding = held(frame, subject)
    closing = frame.gripper_command > 0
    deep = walled(frame, reference)
    placed = _placed(frame, subject, reference, deep)
    off = frame.pos[:, j] - frame.pos[:, i]
    far = np.linalg.norm(off[:, :2], axis=1)
    under = underside(frame, subject)
    gap = surface_gap(frame, subject, reference)
    rim = frame.seat_half[:, j].min(axis=1)
    centred = far < np.minimum(np.where(deep, 0.012, 0.02), 0.5 * rim)
    lowest = np.where(deep, rim_height(frame, reference) - HAND_M, -1.0)

    lower = _lower(frame, j, off, gap, lowest)
    carried = choose(centred, lower, _carry(frame, i, j, off, under, far))
    over = np.where(deep, obstacle_height(frame, reference) + SKY_M, 0.0)
    motion = choose(holding, carried, approach(frame, subject, over))
    ready = holding & centred & ((gap < 0.008) | (frame.ee_pos[:, 2] < lowest + 0.005))
    done = (placed & ~holding) | ready
    away = frame.command_pos + np.array([0.0, 0.0, 0.05])
    opened = frame.gripper_width_m > 0.03 + 2 * frame.half_size[:, i].min(axis=1)
    stay = (ready | (closing & ~opened))[:, None]
    let_go = Motion(np.where(stay, frame.command_pos, away), 0.0 * far, np.full(len(far), OPEN))
    return choose(done, let_go, motion)


def _placed(frame: SimFrame, subject: Role, reference: Role, deep: Bool) -> Bool:
    """Whether the object is where it should be (B,)."""
    on = evaluate(PredicateTerm(name="on", subject=subject, reference=reference), frame)[0]
    term = PredicateTerm(name="inside", subject=subject, reference=reference)
    return np.asarray(np.where(deep, evaluate(term, frame)[0], on))


def _carry(frame: SimFrame, i: int, j: int, off: Array, under: Array, far: Array) -> Motion:
    """Lift, then carry over the goal, high enough for its rim."""
    rim = np.maximum(obstacle_height(frame, ROLES[j]) - 0.02, 0.0)
    cruise = CARRY_M + rim + np.maximum(0.0, frame.half_size[:, i, 2] - 0.03)
    lift = frame.command_pos.copy()
    lift[:, 2] += np.clip(cruise - under, 0.0, 0.15)
    carry = frame.command_pos.copy()
    carry[:, :2] = _hand(frame)[:, :2] + off[:, :2]
    carry[:, 2] += np.clip(cruise - under, -0.05, 0.05)
    low = (under < rim + 0.03) & (far > 0.04)
    goal = np.where(low[:, None], lift, carry)
    return Motion(goal, _along(frame, j), np.full(frame.batch, CLOSED))


def _hand(frame: SimFrame) -> Array:
    """Where the hand is, for a motion that starts from there (B, 3) [m].

    On the move the command runs ahead of the hand; at rest what is left of the difference is the
    servos' own error, which the command has to make up for.
    """
    ahead = np.linalg.norm(frame.command_pos - frame.ee_pos, axis=1) > AHEAD_M
    return np.where(ahead[:, None], frame.ee_pos, frame.command_pos)


def _along(frame: SimFrame, j: int) -> Array:
    """Turn (B,) [rad] that lays the hand across a drawer, clear of its front and of its chest."""
    turn = heading(frame.rot[:, j]) - heading(frame.command_rot)
    turn = np.mod(turn + np.pi / 2, np.pi) - np.pi / 2
    drawer = (frame.joint_kind == SLIDE) & (frame.mouth[:, j] - frame.seat[:, j] > WALLED_M)
    return np.where(drawer, turn, 0.0)


def _lower(frame: SimFrame, j: int, off: Array, gap: Array, lowest: Array) -> Motion:
    """Lower until just over the seat, or until the hand would touch the rim at `lowest` (B,)."""
    lower = _hand(frame)
    lower[:, :2] += off[:, :2]
    lower[:, 2] = np.maximum(lower[:, 2] - np.maximum(gap - 0.002, 0.0), lowest)
    return Motion(lower, _along(frame, j), np.full(frame.batch, CLOSED))
