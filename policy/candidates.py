"""Candidate chunks that servo towards the geometric arguments of a potential's predicates.

A predicate names a place or a gripper state: `near` the grasp point, `above` and `on` a point over
the reference, `lifted` a height, `aligned` a turn, `grasped` and `released` the fingers, `joint_at`
a way along the fixture's joint. For the stage that a state is in, the terms of its progress and of
the next stage's entry give a few straight chunks. No task-specific rule enters: what a diagnosis
adds to phi adds candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coda.policy.potential import Potential
from coda.sim.frame import Array, SimFrame
from coda.sim.motion import CLOSED, OPEN, servo_chunk
from coda.sim.planner_handle import lead
from coda.sim.planner_insert import inserts, quarter_turn_error, swing
from coda.sim.planner_transfer import rim_height, walled
from coda.sim.predicates import grasp_point, grasp_yaw_error, surface_gap, underside
from coda.sim.roles import ROLES
from coda.sim.terms import PredicateTerm

HOVER_M = 0.06
LIFT_M = 0.07
RETREAT_M = 0.08


@dataclass(frozen=True)
class Primitive:
    """A servo motion derived from a term, with a gripper command."""

    kind: str
    term: PredicateTerm
    gripper: float


def primitives(terms: Sequence[PredicateTerm]) -> tuple[Primitive, ...]:
    """Motions that may make the terms true, without repeats, in order."""
    found: dict[Primitive, None] = {}
    for term in terms:
        for kind, gripper in _KINDS[term.name]:
            flipped = -gripper if term.negate else gripper
            found[Primitive(kind, _key(kind, term), flipped)] = None
    return tuple(found)


_KINDS: dict[str, tuple[tuple[str, float], ...]] = {
    "near": (("hover", OPEN), ("reach", OPEN)),
    "aligned": (("hover", OPEN), ("reach", OPEN)),
    "opened": (("stay", OPEN), ("hover", OPEN)),
    "grasped": (("reach", CLOSED), ("reach", OPEN)),
    "lifted": (("lift", CLOSED),),
    "above": (("carry", CLOSED), ("lift", CLOSED)),
    "on": (("lower", CLOSED), ("lower", OPEN), ("stay", OPEN)),
    "released": (("stay", OPEN), ("retreat", OPEN)),
    "settled": (("stay", OPEN), ("retreat", OPEN)),
    "upright": (("stay", OPEN), ("retreat", OPEN)),
    "contact": (("reach", OPEN), ("lower", CLOSED)),
    "inside": (("lower", CLOSED), ("lower", OPEN), ("stay", OPEN)),
    "inserted": (("lower", CLOSED), ("lower", OPEN), ("stay", OPEN)),
    "joint_at": (("operate", CLOSED), ("stay", OPEN)),
}


def _key(kind: str, term: PredicateTerm) -> PredicateTerm:
    """Only the roles matter to a motion, so that equal motions are found equal."""
    reference = (term.reference or "receptacle") if kind in ("carry", "lower") else None
    return PredicateTerm(name=term.name if kind == "stay" else "near", subject=term.subject,
                         reference=reference)  # fmt: skip


def primitive_goal(primitive: Primitive, frame: SimFrame) -> tuple[Array, Array]:
    """Goal point (B, 3) [m] and turn (B,) [rad] of a primitive in B states."""
    subject = primitive.term.subject
    goal = frame.command_pos.copy()
    turn = np.zeros(frame.batch)
    up = np.array([0.0, 0.0, 1.0])
    match primitive.kind:
        case "reach" | "hover":
            goal = grasp_point(frame, subject)
            turn = grasp_yaw_error(frame, subject)
            if primitive.kind == "hover":
                goal = goal + HOVER_M * up
        case "operate":
            motion = lead(frame)
            goal, turn = motion.goal, motion.turn
        case "lift":
            goal = goal + LIFT_M * up
        case "retreat":
            goal = goal + RETREAT_M * up
        case "carry" | "lower":
            goal, turn = _towards(primitive, frame)
    return goal, turn


def _towards(primitive: Primitive, frame: SimFrame) -> tuple[Array, Array]:
    """Carry the subject over its goal, high enough for the rim, or lower it there."""
    subject, reference = primitive.term.subject, primitive.term.reference or "receptacle"
    i, j = ROLES.index(subject), ROLES.index(reference)
    off = frame.pos[:, j] - frame.pos[:, i]
    narrow = inserts(frame, reference)
    turn = np.where(narrow, quarter_turn_error(frame, subject, reference), 0.0)
    goal = frame.command_pos.copy()
    goal[:, :2] += off[:, :2] - swing(frame.pos[:, i, :2] - frame.ee_pos[:, :2], turn)
    if primitive.kind == "carry":
        under = underside(frame, subject)
        rim = np.where(walled(frame, reference) | narrow, rim_height(frame, reference), 0.0)
        goal[:, 2] += np.clip(LIFT_M + rim - under, 0.0, LIFT_M + rim)
    else:
        goal[:, 2] -= np.maximum(surface_gap(frame, subject, reference) - 0.002, 0.0)
    return goal, turn


class ServoCandidates:
    """Servo chunks for the stage of each state, padded with noisy copies.

    Args:
        potential: Its stages name the motions.
        count: Candidates per state, at least the number of clean motions of any stage.
        noise_m: Spread of the goal point of noisy copies [m].
    """

    def __init__(self, potential: Potential, count: int, *, noise_m: float = 0.015) -> None:
        stages = potential.program.stages
        self._by_stage: list[tuple[Primitive, ...]] = []
        for k, stage in enumerate(stages):
            following = stages[k + 1].entry if k + 1 < len(stages) else ()
            own = primitives((stage.progress.term, *following))
            self._by_stage.append(own or (Primitive("stay", stage.progress.term, OPEN),))
        self.count = count
        self._noise_m = noise_m
        self.clean = np.array([min(len(p), count) for p in self._by_stage])
        """Clean (noise-free) candidates of every stage; they come first."""

    def propose(self, frame: SimFrame, stage: Array, rng: np.random.Generator) -> Array:
        """Chunks (B, count, H, 7) for B states in their stages (B,)."""
        batch = frame.batch
        goals = np.zeros((batch, self.count, 3))
        turns = np.zeros((batch, self.count))
        grippers = np.zeros((batch, self.count))
        funnels = np.zeros((batch, self.count))
        for k, own in enumerate(self._by_stage):
            rows = np.flatnonzero(stage == k)
            if not rows.size:
                continue
            part = frame[rows]
            for c in range(self.count):
                primitive = own[c % len(own)]
                goal, turn = primitive_goal(primitive, part)
                goals[rows, c], turns[rows, c] = goal, turn
                grippers[rows, c] = primitive.gripper
                funnels[rows, c] = HOVER_M if primitive.kind in ("reach", "lower") else 0.0
        spread = rng.normal(0.0, self._noise_m, goals.shape)
        noisy = np.arange(self.count)[None, :] >= self.clean[np.asarray(stage, dtype=int)][:, None]
        goals = goals + spread * noisy[:, :, None]
        flat = frame[np.repeat(np.arange(batch), self.count)]
        chunks = servo_chunk(
            flat,
            goals.reshape(-1, 3),
            turns.reshape(-1),
            grippers.reshape(-1),
            funnel_m=funnels.reshape(-1),
        )
        return chunks.reshape(batch, self.count, *chunks.shape[1:])
