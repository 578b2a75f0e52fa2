"""Touches and displacements in one rollout, as compact facts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from coda.sim.frame import SimFrame
from coda.sim.predicates import evaluate, graspable
from coda.sim.recorder import HINGE, SLIDE
from coda.sim.roles import DISTRACTORS, Role, role_index
from coda.sim.terms import PredicateTerm

BRIEF_STEPS = 4
"""A grasp that comes back within so many control steps was not lost: one finger lost touch."""
_STOREY = PredicateTerm(name="on", subject="receptacle", reference="support")


def manipulated(frames: SimFrame) -> tuple[Role, ...]:
    """What the task has the gripper take, in the task's order.

    A fixture's handle, the middle storey of a tower, then the target where it can be taken.
    """
    storey = frames.present[0, role_index("support")] > 0
    found: list[Role] = ["handle"] if graspable(frames, "handle")[0] else []
    found += ["receptacle"] if storey and graspable(frames, "receptacle")[0] else []
    found += ["target"] if graspable(frames, "target")[0] else []
    return tuple(found)


def contacts(frames: SimFrame, about: Role | None = None) -> dict[str, Any]:
    """Touches, pushes and how the last grasp ended, over the states of one episode (T,).

    Args:
        frames: The episode's states.
        about: The manipulated role that the grasp is told of; the last one by default.
    """
    roles = manipulated(frames)
    about = about if about in roles else roles[-1] if roles else "target"
    held = _held(frames, about)
    touched = [
        role
        for role in DISTRACTORS
        if (frames.touch_left + frames.touch_right)[:, role_index(role)].any()
    ]
    return {
        "about": about,
        "distractors_touched": touched,
        "distractors_grasped": [role for role in DISTRACTORS if _held(frames, role).any()],
        "distractor_moved_m": round(max((_moved(frames, r) for r in DISTRACTORS), default=0.0), 3),
        "goal_moved_m": round(_goal_moved(frames, roles), 3),
        "moved_before_grasp_m": round(_moved_before(frames, held, about), 3),
        "table_hit": bool(frames.robot_touch_table.any()),
        "fingers_closed": bool((frames.gripper_command > 0.0).any()),
        "held_share": round(float(held.mean()), 2),
        "lost_grasp": _lost(frames, held),
        "times_lost": _times_lost(frames, held),
        "still_held": [role for role in roles if role != about and _held(frames, role)[-1]],
        **_storey(frames),
        **_opening(frames),
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


def _goal_moved(frames: SimFrame, roles: tuple[Role, ...]) -> float:
    """Largest displacement [m] of what is not to be moved: a support, a receptacle.

    A drawer is left out: it moves with its handle.
    """
    fixed: list[Role] = ["support"]
    if "receptacle" not in roles and "handle" not in roles:
        fixed.append("receptacle")
    return max(_moved(frames, role) for role in fixed)


def _moved_before(frames: SimFrame, held: npt.NDArray[np.bool_], role: Role) -> float:
    """How far a role was pushed before it was first held [m]."""
    end = int(held.argmax()) if held.any() else frames.batch
    index = role_index(role)
    way = frames.pos[: max(end, 1), index, :2] - frames.pos[0, index, :2]
    return float(np.linalg.norm(way, axis=1).max())


def _lost(frames: SimFrame, held: npt.NDArray[np.bool_]) -> str:
    """How the last grasp ended: ``never-held``, ``kept``, ``opened`` (fingers were told to open)
    or ``slipped`` (they were told to stay closed)."""
    if not held.any():
        return "never-held"
    last = int(np.flatnonzero(held)[-1])
    return "kept" if _lasts(frames, last) else _ended(frames, last)


def _lasts(frames: SimFrame, last: int) -> bool:
    """Whether a grasp seen last in state `last` was kept to the end, but for one finger's touch."""
    after = frames.gripper_command[last + 1 :]
    return len(after) <= BRIEF_STEPS and not bool((after < 0.0).any())


def _ended(frames: SimFrame, last: int) -> str:
    """How a grasp ended that held in state `last` and not in the next: two states tell, since a
    finger may lose touch just before it opens."""
    return "opened" if (frames.gripper_command[last + 1 : last + 3] < 0.0).any() else "slipped"


def _times_lost(frames: SimFrame, held: npt.NDArray[np.bool_]) -> dict[str, int]:
    """How often it was let go and how often it slipped, to be held again or not."""
    counts = {"opened": 0, "slipped": 0}
    steps = np.flatnonzero(held)
    for last, again in zip(steps, [*steps[1:], frames.batch + BRIEF_STEPS], strict=False):
        if again - last > BRIEF_STEPS and not _lasts(frames, int(last)):
            counts[_ended(frames, int(last))] += 1
    return counts


def _storey(frames: SimFrame) -> dict[str, Any]:
    """Of a tower of three: whether its middle storey stood on the support, and fell off again."""
    if not frames.present[0, role_index("support")]:
        return {}
    stood, _ = evaluate(_STOREY, frames)
    return {"storey_stood": bool(stood.any()), "storey_fell": bool(stood.any() and not stood[-1])}


def _opening(frames: SimFrame) -> dict[str, Any]:
    """Of a fixture: the kind of its joint, and its opening (0 closed, 1 open) at the start, at the
    end, closest to the goal, and wanted."""
    if not frames.present[0, role_index("handle")]:
        return {}
    opening, goal = frames.opening, float(frames.joint_goal[0])
    best = float(opening[int(np.abs(opening - goal).argmin())])
    kind = {SLIDE: "slide", HINGE: "hinge"}[int(frames.joint_kind[0])]
    values = {"start": float(opening[0]), "end": float(opening[-1]), "best": best, "goal": goal}
    return {"joint": kind, "opening": {name: round(value, 3) for name, value in values.items()}}
