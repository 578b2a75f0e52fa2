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
from coda.sim.roles import ROLES, Role
from coda.sim.terms import PredicateTerm

HOLD_M = 0.035
"""Distance from the grasp point within which fingers as wide apart as the object hold it [m]."""
HOVER_M = 0.06
"""Height above the grasp point from which it descends [m]."""
CARRY_M = 0.06
"""Height of the object's underside over the table, or over the goal's rim, while carried [m]."""


def held(frame: SimFrame, role: Role) -> Bool:
    """Whether the closed fingers hold an object (B,); a contact may be lost for a moment."""
    touched = evaluate(PredicateTerm(name="grasped", subject=role), frame)[0]
    width = grasp_width(frame, role)
    fits = (frame.gripper_width_m > 0.8 * width) & (frame.gripper_width_m < width + 0.004)
    near = np.linalg.norm(frame.ee_pos - grasp_point(frame, role), axis=1) < HOLD_M
    return np.asarray((touched | (fits & near)) & (frame.gripper_command > 0))


def approach(frame: SimFrame, role: Role) -> Motion:
    """Open over the grasp point, go down, close and wait."""
    grip = grasp_point(frame, role)
    yaw = grasp_yaw_error(frame, role)
    beside = np.linalg.norm(frame.ee_pos[:, :2] - grip[:, :2], axis=1)
    over = (beside < 0.012) & (np.abs(yaw) < 0.12)
    at_grasp = over & (frame.ee_pos[:, 2] < grip[:, 2] + 0.008)
    hover = grip + np.array([0.0, 0.0, HOVER_M])
    low = (frame.ee_pos[:, 2] < grip[:, 2] + HOVER_M - 0.02) & (beside > 0.02)
    rise = frame.command_pos.copy()
    rise[:, 2] = hover[:, 2]
    goal = np.where(over[:, None], grip, np.where(low[:, None], rise, hover))
    return Motion(goal, yaw, np.where(at_grasp, CLOSED, OPEN))


def transfer(frame: SimFrame, subject: Role, reference: Role) -> Motion:
    """Pick `subject` up and set it down at the seat of `reference`."""
    i, j = ROLES.index(subject), ROLES.index(reference)
    holding = held(frame, subject)
    closing = frame.gripper_command > 0
    placed = evaluate(PredicateTerm(name="on", subject=subject, reference=reference), frame)[0]
    off = frame.pos[:, j] - frame.pos[:, i]
    far = np.linalg.norm(off[:, :2], axis=1)
    under = underside(frame, subject)
    gap = surface_gap(frame, subject, reference)
    rim = frame.seat_half[:, j].min(axis=1)
    centred = far < np.minimum(0.02, 0.5 * rim)

    carried = choose(centred, _lower(frame, off, gap), _carry(frame, i, j, off, under, far))
    motion = choose(holding, carried, approach(frame, subject))
    ready = holding & centred & (gap < 0.008)
    done = (placed & ~holding) | ready
    away = frame.command_pos + np.array([0.0, 0.0, 0.05])
    opened = frame.gripper_width_m > 0.03 + 2 * frame.half_size[:, i].min(axis=1)
    stay = (ready | (closing & ~opened))[:, None]
    let_go = Motion(np.where(stay, frame.command_pos, away), 0.0 * far, np.full(len(far), OPEN))
    return choose(done, let_go, motion)


def _carry(frame: SimFrame, i: int, j: int, off: Array, under: Array, far: Array) -> Motion:
    """Lift, then carry over the goal, high enough for its rim."""
    rim = np.maximum(frame.pos[:, j, 2] + frame.mouth[:, j] - 0.02, 0.0)
    cruise = CARRY_M + rim + np.maximum(0.0, frame.half_size[:, i, 2] - 0.03)
    lift = frame.command_pos.copy()
    lift[:, 2] += np.clip(cruise - under, 0.0, 0.15)
    carry = frame.command_pos.copy()
    carry[:, :2] += off[:, :2]
    carry[:, 2] += np.clip(cruise - under, -0.05, 0.05)
    low = (under < rim + 0.03) & (far > 0.04)
    goal = np.where(low[:, None], lift, carry)
    return Motion(goal, np.zeros(frame.batch), np.full(frame.batch, CLOSED))


def _lower(frame: SimFrame, off: Array, gap: Array) -> Motion:
    lower = frame.command_pos.copy()
    lower[:, :2] += off[:, :2]
    lower[:, 2] -= np.maximum(gap - 0.002, 0.0)
    return Motion(lower, np.zeros(frame.batch), np.full(frame.batch, CLOSED))
