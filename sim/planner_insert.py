"""The planner's skill of insertion: pegs into holes, nuts onto posts.

What is held is brought over the mouth, turned parallel to it, centred by the error that is left
between the *object* and the hole, and lowered little by little. Near the bottom it is let go.
"""

from __future__ import annotations

import numpy as np

from coda.sim.frame import Array, SimFrame
from coda.sim.motion import CLOSED, OPEN, Motion, choose
from coda.sim.planner_transfer import approach, heading, held
from coda.sim.predicates import Bool, depth_below_mouth, evaluate, surface_gap, underside
from coda.sim.roles import ROLES, Role
from coda.sim.terms import PredicateTerm

NARROW_SEAT_M = 0.025
"""A seat below its mouth and at most this wide to either side is a hole or a post [m]."""
OVER_M = 0.020
"""Height of the object's underside over the mouth while it is aligned [m]."""
TRAVEL_M = 0.050
"""The same on the way there [m]."""
CENTRED_M, ALIGNED_RAD = 0.0025, 0.04
"""Errors with which it is lowered into the mouth."""
LOWER_M = 0.018
"""How far it is lowered in one chunk [m]."""
DROP_M = 0.004
"""Height over the seat from which it is let go [m]."""
HAND_M = 0.012
"""Height over a hole's block under which the fingers do not go [m]."""


def inserts(frame: SimFrame, reference: Role) -> Bool:
    """Whether `reference` takes things up in a hole, or on a post, (B,)."""
    j = ROLES.index(reference)
    deep = frame.mouth[:, j] - frame.seat[:, j] > 0.01
    return np.asarray(deep & (frame.seat_half[:, j].max(axis=1) < NARROW_SEAT_M))


def quarter_turn_error(frame: SimFrame, subject: Role, reference: Role) -> Array:
    """Turn (B,) [rad] of the subject that makes its sides parallel to the reference's.

    Sides repeat every quarter turn; of two nearly equal turns, that which unwinds the wrist.
    """
    i, j = ROLES.index(subject), ROLES.index(reference)
    mine, theirs = heading(frame.rot[:, i]), heading(frame.rot[:, j])
    wrist = heading(frame.ee_rot)
    near = np.mod(theirs - mine + np.pi / 4, np.pi / 2) - np.pi / 4
    other = near - np.sign(near) * np.pi / 2
    unwinds = np.abs(other) + np.abs(wrist + other) < np.abs(near) + np.abs(wrist + near)
    return np.asarray(np.where(unwinds, other, near))


def swing(arm: Array, turn: Array) -> Array:
    """How far (B, 2) the end of a horizontal arm (B, 2) moves when it turns by `turn` (B,)."""
    c, s = np.cos(turn), np.sin(turn)
    turned = np.stack((c * arm[:, 0] - s * arm[:, 1], s * arm[:, 0] + c * arm[:, 1]), axis=1)
    return np.asarray(turned - arm)


def insert(frame: SimFrame, subject: Role, reference: Role) -> Motion:
    """Pick `subject` up and insert it into, or put it around, `reference`."""
    i = ROLES.index(subject)
    inside = evaluate(PredicateTerm(name="inserted", subject=subject, reference=reference), frame)[
        0
    ]
    holding = held(frame, subject)
    gap = surface_gap(frame, subject, reference)
    motion = choose(holding, _bring(frame, subject, reference, gap), approach(frame, subject))
    ready = holding & inside & ((gap < DROP_M) | _blocked(frame, subject, reference))
    opened = frame.gripper_width_m > 0.02 + 2 * frame.grip_half[:, i].min(axis=1)
    closing = frame.gripper_command > 0
    stay = (ready | (closing & ~opened))[:, None]
    away = frame.command_pos + np.array([0.0, 0.0, 0.05])
    none = np.zeros(frame.batch)
    let_go = Motion(np.where(stay, frame.command_pos, away), none, none + OPEN)
    return choose(ready | (inside & ~holding), let_go, motion)


def _leading(frame: SimFrame, subject: Role, reference: Role) -> Array:
    """Point (B, 3) on the subject's axis that has to be over the mouth [m].

    Its lower end, as it may hang tilted; once that is in, the point at the height of the mouth.
    """
    i, j = ROLES.index(subject), ROLES.index(reference)
    axis = frame.rot[:, i, :, 2]
    mouth = frame.pos[:, j, 2] + frame.mouth[:, j]
    along = (mouth - frame.pos[:, i, 2]) / np.where(axis[:, 2] > 0.5, axis[:, 2], np.inf)
    along = np.clip(along, -frame.half_size[:, i, 2], 0.0)
    return np.asarray(frame.pos[:, i] + along[:, None] * axis)


def _blocked(frame: SimFrame, subject: Role, reference: Role) -> Bool:
    """Whether the fingers, which hold a peg around its axis, are just over the block (B,)."""
    i, j = ROLES.index(subject), ROLES.index(reference)
    around = np.linalg.norm(frame.pos[:, i, :2] - frame.ee_pos[:, :2], axis=1) < 0.015
    rim = frame.pos[:, j, 2] + frame.mouth[:, j]
    return np.asarray(around & (frame.ee_pos[:, 2] < rim + HAND_M))


def _bring(frame: SimFrame, subject: Role, reference: Role, gap: Array) -> Motion:
    """Lift, carry over the mouth, align, lower."""
    j = ROLES.index(reference)
    turn = quarter_turn_error(frame, subject, reference)
    tip = _leading(frame, subject, reference)
    off = frame.pos[:, j] - tip
    far = np.linalg.norm(off[:, :2], axis=1)
    arm = tip[:, :2] - frame.ee_pos[:, :2]
    over = -depth_below_mouth(frame, subject, reference)
    entered = (over < 0.0) & (far < frame.seat_half[:, j].min(axis=1))
    fits = (far < CENTRED_M) & (np.abs(turn) < ALIGNED_RAD)
    lowers = entered | (fits & (over < OVER_M + 0.012))

    goal = frame.command_pos.copy()
    goal[:, :2] += off[:, :2] - swing(arm, turn)
    near = far < 0.03
    height = np.where(near, OVER_M, TRAVEL_M)
    goal[:, 2] += np.where(lowers, -np.minimum(LOWER_M, gap + 0.002), height - over)
    low = (over < 0.5 * OVER_M) & ~entered & ~lowers & (far > 0.01)
    lift = frame.command_pos.copy()
    lift[:, 2] += np.clip(TRAVEL_M - over, 0.0, 0.15)
    lift_only = low[:, None] & ~near[:, None]
    goal = np.where(lift_only, lift, goal)
    ahead = heading(frame.command_rot) - heading(frame.ee_rot)
    turn = np.where(lift_only[:, 0] & (underside(frame, subject) < 0.03), 0.0, turn - ahead)
    return Motion(goal, turn, np.full(frame.batch, CLOSED))
