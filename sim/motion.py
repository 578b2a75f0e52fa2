"""Straight motions of the gripper as action chunks: what planners and candidates are made of."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from coda.sim.engine import ACTION_DIM, CHUNK, POS_SCALE_M, ROT_SCALE_RAD
from coda.sim.frame import Array, SimFrame
from coda.sim.predicates import Bool

STEP_M = 0.018
"""Fastest commanded motion in one control step [m]."""
TURN_RAD = 0.12
"""Fastest commanded turn in one control step [rad]."""
FUNNEL_SLOPE = 2.5
"""Height kept per metre of horizontal distance on the way into a goal."""
FUNNEL_MOUTH_M = 0.006
OPEN, CLOSED = -1.0, 1.0


class Motion(NamedTuple):
    """Where the grip should go in B states."""

    goal: Array
    """Goal point of the grip (B, 3) [m]."""
    turn: Array
    """Turn about the vertical (B,) [rad]."""
    gripper: Array
    """Gripper command (B,), -1 open to +1 closed."""


def choose(mask: Bool, first: Motion, second: Motion) -> Motion:
    """`first` where `mask` (B,), else `second`."""
    return Motion(
        np.where(mask[:, None], first.goal, second.goal),
        np.where(mask, first.turn, second.turn),
        np.where(mask, first.gripper, second.gripper),
    )


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
