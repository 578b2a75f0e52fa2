"""Touches and displacements in one rollout, as compact facts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from coda.sim.frame import SimFrame
from coda.sim.roles import DISTRACTORS, Role, role_index


def contacts(frames: SimFrame) -> dict[str, Any]:
    """Touches, pushes and how the last grasp ended, over the states of one episode (T,)."""
    held = _held(frames, "target")
    touched = [
        role
        for role in DISTRACTORS
        if (frames.touch_left + frames.touch_right)[:, role_index(role)].any()
    ]
    return {
        "distractors_touched": touched,
        "distractors_grasped": [role for role in DISTRACTORS if _held(frames, role).any()],
        "distractor_moved_m": round(max((_moved(frames, r) for r in DISTRACTORS), default=0.0), 3),
        "target_moved_before_grasp_m": round(_moved_before(frames, held), 3),
        "table_hit": bool(frames.robot_touch_table.any()),
        "fingers_closed": bool((frames.gripper_command > 0.0).any()),
        "held_share": round(float(held.mean()), 2),
        "lost_grasp": _lost(frames, held),
    }


def _held(frames: SimFrame, role: Role) -> npt.NDArray[np.bool_]:
    index = role_index(role)
    both = (frames.touch_left[:, index] > 0.5) & (frames.touch_right[:, index] > 0.5)
    return np.asarray(both, dtype=np.bool_)


def _moved(frames: SimFrame, role: Role) -> float:
    """Largest horizontal displacement of a role from the start [m]; 0 when absent."""
    index = role_index(role)
    if not frames.present[0, index]:
        return 0.0
    way = frames.pos[:, index, :2] - frames.pos[0, index, :2]
    return float(np.linalg.norm(way, axis=1).max())


def _moved_before(frames: SimFrame, held: npt.NDArray[np.bool_]) -> float:
    """How far the target was pushed before it was first held [m]."""
    end = int(held.argmax()) if held.any() else frames.batch
    index = role_index("target")
    way = frames.pos[: max(end, 1), index, :2] - frames.pos[0, index, :2]
    return float(np.linalg.norm(way, axis=1).max())


def _lost(frames: SimFrame, held: npt.NDArray[np.bool_]) -> str:
    """How the last grasp ended: ``never-held``, ``kept``, ``opened`` (fingers were told to open)
    or ``slipped`` (they were told to stay closed)."""
    if not held.any():
        return "never-held"
    last = int(np.flatnonzero(held)[-1])
    if last == frames.batch - 1:
        return "kept"
    return "opened" if frames.gripper_command[last + 1] < 0.0 else "slipped"
