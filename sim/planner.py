"""A closed-loop scripted planner for every family, from privileged state, without memory.

What there is to do is read off the state alone: a tower's middle storey first, then the target.
"""

from __future__ import annotations

import numpy as np

from coda.sim.frame import Array, SimFrame
from coda.sim.motion import Motion, choose, servo_chunk
from coda.sim.planner_handle import operate, operates
from coda.sim.planner_insert import insert, inserts
from coda.sim.planner_transfer import held, transfer
from coda.sim.predicates import Bool, evaluate, grasp_point
from coda.sim.roles import ROLES
from coda.sim.terms import PredicateTerm

__all__ = ["ScriptedPlanner"]

_SUPPORT = ROLES.index("support")
_STOREY = PredicateTerm(name="on", subject="receptacle", reference="support")
_TOP = PredicateTerm(name="on", subject="target", reference="receptacle")
AROUND_M, RETREAT_M = 0.05, 0.06
"""Beside and over the grasp point of a middle storey: there the fingers may touch it [m]."""


def _amid(frame: SimFrame) -> Bool:
    """Whether the open fingers are still around the middle storey that they set down (B,)."""
    off = frame.ee_pos - grasp_point(frame, "receptacle")
    around = (np.linalg.norm(off[:, :2], axis=1) < AROUND_M) & (off[:, 2] < RETREAT_M)
    return np.asarray(around & ~held(frame, "target") & ~evaluate(_TOP, frame)[0])


class ScriptedPlanner:
    """Maps states to chunks by rules."""

    def __call__(self, frame: SimFrame, active: Bool) -> Array:
        """Chunks (B, H, 7) for every state; `active` is not needed."""
        del active  # Unused.
        return servo_chunk(frame, *self.targets(frame))

    def targets(self, frame: SimFrame) -> Motion:
        """Goal point (B, 3), turn (B,) and gripper command (B,) of each state's rule."""
        motion = transfer(frame, "target", "receptacle")
        into = inserts(frame, "receptacle")
        if np.any(into):
            motion = choose(into, insert(frame, "target", "receptacle"), motion)
        tower = (frame.present[:, _SUPPORT] > 0) & (~evaluate(_STOREY, frame)[0] | _amid(frame))
        if np.any(tower):
            motion = choose(tower, transfer(frame, "receptacle", "support"), motion)
        handle = operates(frame)
        if np.any(handle):
            motion = choose(handle, operate(frame), motion)
        return motion
