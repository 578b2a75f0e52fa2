"""A closed-loop scripted planner for pick-place, from privileged state, without memory."""

from __future__ import annotations

import numpy as np

from coda.sim.engine import ACTION_DIM, CHUNK, POS_SCALE_M, ROT_SCALE_RAD
from coda.sim.frame import Array, SimFrame
from coda.sim.predicates import (
    Bool,
    evaluate,
    grasp_point,
    grasp_width,
    grasp_yaw_error,
    surface_gap,
    vertical_half,
)
from coda.sim.roles import ROLES
from coda.sim.terms import PredicateTerm

STEP_M = 0.018
"""Fastest commanded motion in one control step [m]."""
TURN_RAD = 0.12
HOLD_M = 0.035
"""Distance from the grasp point within which fingers as wide apart as the target hold it [m]."""
HOVER_M = 0.06
"""Height above the grasp point from which it descends [m]."""
CARRY_M = 0.06
"""Height of the target's underside over the table while carried [m]."""
FUNNEL_SLOPE = 2.5
"""Height kept per metre of horizontal distance on the way into a goal."""
FUNNEL_MOUTH_M = 0.006
OPEN, CLOSED = -1.0, 1.0

_T, _R = ROLES.index("target"), ROLES.index("receptacle")


def servo_chunk(
    frame: SimFrame,
    goal: Array,
    turn: Array,
    gripper: Array,
    *,
    horizon: int = CHUNK,
    step_m: float = STEP_M,
    funnel_m: Array | None = None,
) -> Array:
    """Chunks towards points at constant speed, then hold.

    Args:
        frame: B states; motion starts at the commanded pose.
        goal: Goal points of the grip (B, 3) [m].
        turn: Turns about the vertical (B,) [rad], spread evenly over the motion.
        gripper: Gripper commands (B,), -1 open to +1 closed.
        funnel_m: Heights (B,) [m] above the goal to keep until over it: the way in is a funnel
            of slope `FUNNEL_SLOPE`. Straight where None or 0.

    Returns:
        Actions (B, H, 7).
    """
    batch = frame.batch
    actions = np.zeros((batch, horizon, ACTION_DIM))
    left = goal - frame.command_pos
    angle = turn.copy()
    for h in range(horizon):
        aim = left
        if funnel_m is not None:
            beside = np.maximum(np.linalg.norm(left[:, :2], axis=1) - FUNNEL_MOUTH_M, 0.0)
            aim = left.copy()
            aim[:, 2] += np.minimum(funnel_m, FUNNEL_SLOPE * beside)
        distance = np.linalg.norm(aim, axis=1)
        move = aim * np.minimum(1.0, step_m / np.maximum(distance, 1e-9))[:, None]
        rotate = np.clip(angle, -TURN_RAD, TURN_RAD)
        actions[:, h, :3] = move / POS_SCALE_M
        actions[:, h, 5] = rotate / ROT_SCALE_RAD
        left = left - move
        angle = angle - rotate
    actions[:, :, 6] = gripper[:, None]
    return actions


def _held(frame: SimFrame) -> Bool:
    """Whether the closed fingers hold the target (B,); a contact may be lost for a moment."""
    touched = evaluate(PredicateTerm(name="grasped"), frame)[0]
    width = grasp_width(frame, "target")
    fits = (frame.gripper_width_m > 0.8 * width) & (frame.gripper_width_m < width + 0.004)
    near = np.linalg.norm(frame.ee_pos - grasp_point(frame, "target"), axis=1) < HOLD_M
    return np.asarray((touched | (fits & near)) & (frame.gripper_command > 0))


class ScriptedPlanner:
    """Maps states to chunks by rules: hover, descend, close, lift, carry, lower, open, retreat."""

    def __call__(self, frame: SimFrame, active: Bool) -> Array:
        """Chunks (B, H, 7) for every state; `active` is not needed."""
        del active  # Unused.
        return servo_chunk(frame, *self.targets(frame))

    def targets(self, frame: SimFrame) -> tuple[Array, Array, Array]:
        """Goal point (B, 3), turn (B,) and gripper command (B,) of each state's rule."""
        grip = grasp_point(frame, "target")
        yaw = grasp_yaw_error(frame, "target")
        held = _held(frame)
        closing = frame.gripper_command > 0
        placed = evaluate(PredicateTerm(name="on", reference="receptacle"), frame)[0]
        off = frame.pos[:, _R] - frame.pos[:, _T]
        far = np.linalg.norm(off[:, :2], axis=1)
        under = frame.pos[:, _T, 2] - vertical_half(frame, "target")
        gap = surface_gap(frame, "target", "receptacle")
        rim = np.minimum(frame.half_size[:, _R, 0], frame.half_size[:, _R, 1])

        tool = frame.ee_pos[:, :2] - grip[:, :2]
        beside = np.linalg.norm(tool, axis=1)
        over = (beside < 0.012) & (np.abs(yaw) < 0.12)
        at_grasp = over & (frame.ee_pos[:, 2] < grip[:, 2] + 0.008)

        hover = grip + np.array([0.0, 0.0, HOVER_M])
        low = (frame.ee_pos[:, 2] < grip[:, 2] + HOVER_M - 0.02) & (beside > 0.02)
        rise = frame.command_pos.copy()
        rise[:, 2] = hover[:, 2]

        def pick(mask: Bool, value: Array, other: Array) -> Array:
            return np.where(mask[:, None] if value.ndim == 2 else mask, value, other)

        goal = pick(over, grip, pick(low, rise, hover))
        turn = yaw.copy()
        gripper = np.full(frame.batch, OPEN)
        # at the grasp point: close and wait
        goal = pick(at_grasp, grip, goal)
        gripper = np.where(at_grasp, CLOSED, gripper)
        # held: lift, carry, lower, let go
        cruise = CARRY_M + np.maximum(0.0, frame.half_size[:, _T, 2] - 0.03)
        lift = frame.command_pos.copy()
        lift[:, 2] += np.clip(cruise - under, 0.0, 0.15)
        carry = frame.command_pos.copy()
        carry[:, :2] += off[:, :2]
        carry[:, 2] += np.clip(cruise - under, -0.05, 0.05)
        lower = frame.command_pos.copy()
        lower[:, :2] += off[:, :2]
        lower[:, 2] -= np.maximum(gap - 0.002, 0.0)
        centred = far < np.minimum(0.02, 0.5 * rim)
        held_goal = pick(centred, lower, pick((under < 0.03) & (far > 0.04), lift, carry))
        goal = pick(held, held_goal, goal)
        gripper = np.where(held, CLOSED, gripper)
        turn = np.where(held, 0.0, turn)
        ready = held & centred & (gap < 0.008)
        done = (placed & ~held) | ready
        away = frame.command_pos + np.array([0.0, 0.0, 0.05])
        opened = frame.gripper_width_m > 0.03 + 2 * frame.half_size[:, _T].min(axis=1)
        goal = pick(done, pick(ready | (closing & ~opened), frame.command_pos, away), goal)
        gripper = np.where(done, OPEN, gripper)
        turn = np.where(done, 0.0, turn)
        return goal, turn, gripper
