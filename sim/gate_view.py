"""Visibility of the objects of a task from the agent camera, by projection and ray casts.

Rays meet collision shapes, so no graphics driver is needed.
"""

from __future__ import annotations

import itertools
import math

import mujoco
import numpy as np

from coda.sim.engine import BatchSim
from coda.sim.frame import Array, SimFrame
from coda.sim.gate_codes import make_issue
from coda.sim.mjcf_touch import fixture_role
from coda.sim.program import Issue
from coda.sim.roles import DISTRACTORS, ROLES, Role

CAMERA = "agentview"
MIN_POINTS_IN_VIEW = 7
"""Of the nine sample points of an object, so many must project into the picture."""
MIN_POINTS_SEEN = 2
"""Of the nine sample points of an object, so many must not be hidden."""
_SPREAD = 0.6

_GRID = np.array([(0.0, 0.0, 0.0), *itertools.product((-_SPREAD, _SPREAD), repeat=3)])


def _points(frame: SimFrame, i: int, role: Role) -> Array:
    """Nine points inside an object's bounding box (9, 3) [m]."""
    r = ROLES.index(role)
    return np.asarray(
        frame.pos[i, r] + (_GRID * frame.half_size[i, r]) @ frame.rot[i, r].T, dtype=np.float64
    )


def _in_picture(sim: BatchSim, i: int, data: mujoco.MjData, points: Array) -> int:
    """How many points project into the square picture."""
    model = sim.models[i]
    camera = model.camera(CAMERA).id
    local = (points - data.cam_xpos[camera]) @ data.cam_xmat[camera].reshape(3, 3)
    extent = math.tan(math.radians(float(model.cam_fovy[camera])) / 2)
    depth = -local[:, 2]
    inside = (depth > 0) & (np.abs(local[:, :2]).max(axis=1) <= extent * depth)
    return int(inside.sum())


def _seen(sim: BatchSim, i: int, data: mujoco.MjData, role: Role, points: Array) -> int:
    """How many points have nothing but the object itself before them."""
    model = sim.models[i]
    origin = data.cam_xpos[model.camera(CAMERA).id].copy()
    body = sim.layout(i).bodies[role]
    own = {body} if role == "handle" else _family_of(model, body)
    hit = np.zeros(1, dtype=np.int32)
    count = 0
    for point in points:
        mujoco.mj_ray(model, data, origin, point - origin, None, 1, -1, hit)
        count += int(hit[0] >= 0 and int(model.geom_bodyid[hit[0]]) in own)
    return count


def _family_of(model: mujoco.MjModel, body: int) -> set[int]:
    """A body and everything that hangs on it."""
    return {b for b in range(model.nbody) if model.body_rootid[b] == model.body_rootid[body]}


def view_issues(sim: BatchSim, frame: SimFrame, i: int, data: mujoco.MjData) -> list[Issue]:
    """What keeps the agent camera from seeing the objects of a scene's task in a state."""
    for role in (role for role in sim.layout(i).bodies if role not in DISTRACTORS):
        points = _points(frame, i, role)
        # a fixture's handle has no place of its own
        moved = fixture_role(sim.scenes[i]) if role == "handle" else role
        path = f"sigma.{moved}.xy"
        inside = _in_picture(sim, i, data, points)
        if inside < MIN_POINTS_IN_VIEW:
            return [
                make_issue(
                    "out-of-view", path, f"{inside} of 9 points of the {role} in the picture",
                    f"at least {MIN_POINTS_IN_VIEW}", f"move the {moved} into the workspace",
                )
            ]  # fmt: skip
        seen = _seen(sim, i, data, role, points)
        if seen < MIN_POINTS_SEEN:
            return [
                make_issue(
                    "hidden", path, f"{seen} of 9 points of the {role} visible",
                    f"at least {MIN_POINTS_SEEN}", "move what stands before it, or the robot",
                )
            ]  # fmt: skip
    return []
