"""Predicate terms as data: the one vocabulary of verifiers, potentials, events and planners."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from coda.sim.roles import Role

PredicateName = Literal[
    "near",  # gripper to the subject's grasp point [m]
    "aligned",  # gripper yaw to the subject's grasp yaw [rad]
    "opened",  # finger opening beyond the subject's width [m]
    "grasped",  # both fingers touch the subject; margin: finger gap to the subject's width [m]
    "lifted",  # underside of the subject above the table [m]
    "above",  # horizontal distance of subject and reference [m]
    "on",  # subject rests on the reference and within its rim [m]
    "released",  # gripper clear of the subject [m]
    "settled",  # speed of the subject [m/s]
    "upright",  # tilt of the subject's vertical axis [rad]
    "contact",  # subject touches the reference
    "inside",  # subject within the walls and below the rim of the reference [m]
    "inserted",  # upright in the hole, or around the post, of the reference [m]
    "joint_at",  # opening of the fixture to the task's goal opening [share of its travel]
]
"""Names of the predicates; units of their margins beside them."""


class PredicateTerm(BaseModel):
    """One predicate applied to roles, e.g. ``on(target, receptacle)``.

    The truth of a term is ``margin >= 0`` (then flipped by `negate`); the margin is a
    signed distance to the boundary in the predicate's own unit, positive when true.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: PredicateName
    subject: Role = "target"
    reference: Role | None = None
    """Second role: what `above`, `on`, `inside`, `inserted` refer to; `contact` may lack it."""
    limit: float | None = Field(default=None, ge=-1.0, le=3.2)
    """Threshold in the predicate's unit; None takes the predicate's default."""
    negate: bool = False
    if_absent: bool | None = None
    """Truth where a role that it names is not in the scene; None: false, or true if negated."""

    def __str__(self) -> str:
        inner = self.subject if self.reference is None else f"{self.subject}, {self.reference}"
        at = "" if self.limit is None else f"; {self.limit:g}"
        return f"{'not ' if self.negate else ''}{self.name}({inner}{at})"
