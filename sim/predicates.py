"""Predicates over a batch of states: a truth value and a signed margin each.

Verifiers, potentials, event timelines, evidence and planners all read the world through these.
The margin is positive exactly where the predicate holds, in the unit named at `PredicateName`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from coda.sim.errors import SceneError
from coda.sim.frame import Array, SimFrame
from coda.sim.roles import ROLES, Role
from coda.sim.terms import PredicateName, PredicateTerm

Bool = npt.NDArray[np.bool_]

GRASP_DEPTH_M = 0.025
"""How far below an object's top the finger tips close on it, at most [m]."""
MAX_GRASP_HALF_M = 0.037
"""Widest half extent that the fingers close on [m]."""
BETWEEN = 0.6
"""Share of an object's width that the fingers stay apart by while they hold it."""
INSERTED_TILT = 0.35
"""Largest tilt of what counts as inserted [rad]."""
TILT_ARM_M = 0.05
"""Turns an excess of tilt into a margin [m / rad]."""
TOUCH_M = 1e-3
"""Margin given to a contact that is true or false without a distance [m]."""

DEFAULT_LIMITS: Mapping[PredicateName, float] = MappingProxyType(
    {
        "near": 0.015,
        "aligned": 0.25,
        "opened": 0.004,
        "grasped": 0.0,
        "lifted": 0.04,
        "above": 0.03,
        "on": 0.008,
        "released": 0.0,
        "settled": 0.05,
        "upright": 0.35,
        "contact": 0.0,
        "inside": 0.02,
        "inserted": 0.015,
        "joint_at": 0.15,
    }
)
"""Thresholds used where a term has no `limit`."""


def grip_center(frame: SimFrame, role: Role) -> Array:
    """Centre (B, 3) [m] of the part of an object that the gripper takes."""
    i = ROLES.index(role)
    return np.asarray(frame.pos[:, i] + (frame.rot[:, i] @ frame.grip[:, i, :, None])[:, :, 0])


def grasp_point(frame: SimFrame, role: Role) -> Array:
    """Where the finger tips close on an object (B, 3) [m]: its grip's centre, or 25 mm deep."""
    i = ROLES.index(role)
    point = grip_center(frame, role)
    up = np.asarray((np.abs(frame.rot[:, i, 2, :]) * frame.grip_half[:, i]).sum(axis=1))
    point[:, 2] += up - np.minimum(up, GRASP_DEPTH_M)
    return point


def vertical_half(frame: SimFrame, role: Role) -> Array:
    """Half of an object's vertical extent as it is turned now (B,) [m]."""
    i = ROLES.index(role)
    return np.asarray((np.abs(frame.rot[:, i, 2, :]) * frame.half_size[:, i]).sum(axis=1))


def graspable(frame: SimFrame, role: Role) -> Bool:
    """Whether a role is there and has a part that the gripper takes, (B,)."""
    i = ROLES.index(role)
    return np.asarray((frame.present[:, i] > 0) & (frame.grip_half[:, i].min(axis=1) > 0))


def grasp_yaw_error(frame: SimFrame, role: Role) -> Array:
    """Signed turn (B,) [rad] that brings the opening axis onto the nearest graspable side.

    An object's horizontal x or y axis is graspable where its half extent fits the gripper.
    """
    i = ROLES.index(role)
    opening = frame.ee_rot[:, :2, 1]
    gripper = np.arctan2(opening[:, 1], opening[:, 0])
    best = np.full(frame.batch, np.inf)
    error = np.zeros(frame.batch)
    half = frame.grip_half[:, i]
    narrow = np.minimum(half[:, 0], half[:, 1])
    for axis in (0, 1):
        direction = frame.rot[:, i, :2, axis]
        angle = np.arctan2(direction[:, 1], direction[:, 0])
        turn = np.mod(angle - gripper + np.pi / 2, np.pi) - np.pi / 2
        fits = half[:, axis] <= np.maximum(np.minimum(MAX_GRASP_HALF_M, 1.25 * narrow), narrow)
        better = fits & (np.abs(turn) < best)
        best = np.where(better, np.abs(turn), best)
        error = np.where(better, turn, error)
    return error


def grasp_width(frame: SimFrame, role: Role) -> Array:
    """Width (B,) of the object between the fingers [m], along its narrow graspable side."""
    half = frame.grip_half[:, ROLES.index(role)]
    return np.asarray(2.0 * np.minimum(half[:, 0], half[:, 1]))


def _near(frame: SimFrame, term: PredicateTerm, limit: float) -> Array:
    gap = np.linalg.norm(frame.ee_pos - grasp_point(frame, term.subject), axis=1)
    return np.asarray(limit - gap)


def _aligned(frame: SimFrame, term: PredicateTerm, limit: float) -> Array:
    return np.asarray(limit - np.abs(grasp_yaw_error(frame, term.subject)))


def _opened(frame: SimFrame, term: PredicateTerm, limit: float) -> Array:
    return np.asarray(frame.gripper_width_m - grasp_width(frame, term.subject) - limit)


def _grasped(frame: SimFrame, term: PredicateTerm, limit: float) -> Array:
    i = ROLES.index(term.subject)
    # fingers that press on the object from above touch it too, but are closed further
    between = frame.gripper_width_m > BETWEEN * grasp_width(frame, term.subject)
    held = (frame.touch_left[:, i] > 0) & (frame.touch_right[:, i] > 0) & between
    gap = np.abs(frame.gripper_width_m - grasp_width(frame, term.subject))
    away = np.linalg.norm(frame.ee_pos - grasp_point(frame, term.subject), axis=1)
    return np.asarray(np.where(held, TOUCH_M, -np.maximum(gap + away, TOUCH_M))) - limit


def _lifted(frame: SimFrame, term: PredicateTerm, limit: float) -> Array:
    return np.asarray(underside(frame, term.subject) - limit)


def _horizontal(frame: SimFrame, term: PredicateTerm) -> Array:
    i, j = ROLES.index(term.subject), ROLES.index(_reference(term))
    return np.asarray(np.linalg.norm(frame.pos[:, i, :2] - frame.pos[:, j, :2], axis=1))


def _above(frame: SimFrame, term: PredicateTerm, limit: float) -> Array:
    return np.asarray(limit - _horizontal(frame, term))


def underside(frame: SimFrame, role: Role) -> Array:
    """Height (B,) of an object's lowest point over the table [m]."""
    return np.asarray(frame.pos[:, ROLES.index(role), 2] - vertical_half(frame, role))


def surface_gap(frame: SimFrame, subject: Role, reference: Role) -> Array:
    """Height (B,) of the subject's underside over the reference's seat [m].

    The seat is a plate's top, a bin's or a hole's floor, a post's foot. What was tipped over offers
    its side instead.
    """
    j = ROLES.index(reference)
    stands = frame.rot[:, j, 2, 2] > 0.9
    seat = np.where(stands, frame.seat[:, j], vertical_half(frame, reference))
    return np.asarray(underside(frame, subject) - frame.pos[:, j, 2] - seat)


def depth_below_mouth(frame: SimFrame, subject: Role, reference: Role) -> Array:
    """How far (B,) the subject's underside is below the reference's rim or tip [m]."""
    j = ROLES.index(reference)
    return np.asarray(frame.pos[:, j, 2] + frame.mouth[:, j] - underside(frame, subject))


def seat_clearance(frame: SimFrame, subject: Role, reference: Role) -> Array:
    """How far (B,) the subject's centre is within the reference's seat [m]; negative outside."""
    i, j = ROLES.index(subject), ROLES.index(reference)
    off = frame.pos[:, i] - frame.pos[:, j]
    local = (frame.rot[:, j].transpose(0, 2, 1) @ off[:, :, None])[:, :2, 0]
    return np.asarray((frame.seat_half[:, j] - np.abs(local)).min(axis=1))


def _on(frame: SimFrame, term: PredicateTerm, limit: float) -> Array:
    reference = _reference(term)
    i, j = ROLES.index(term.subject), ROLES.index(reference)
    rim = frame.seat_half[:, j].min(axis=1) - _horizontal(frame, term)
    height = limit - np.abs(surface_gap(frame, term.subject, reference))
    margin = np.minimum(rim, height)
    return np.asarray(np.where(frame.touch[:, i, j] > 0, margin, np.minimum(margin, -TOUCH_M)))


def _within(frame: SimFrame, term: PredicateTerm, limit: float) -> Array:
    reference = _reference(term)
    side = seat_clearance(frame, term.subject, reference)
    return np.minimum(side, depth_below_mouth(frame, term.subject, reference) - limit)


def _inside(frame: SimFrame, term: PredicateTerm, limit: float) -> Array:
    """`_within`, and the subject's centre is over the floor: not under a drawer that stands out."""
    i, j = ROLES.index(term.subject), ROLES.index(_reference(term))
    over_floor = frame.pos[:, i, 2] - frame.pos[:, j, 2] - frame.seat[:, j]
    return np.minimum(_within(frame, term, limit), over_floor)


def _inserted(frame: SimFrame, term: PredicateTerm, limit: float) -> Array:
    # depth along the subject's own axis: a corner of what hangs tilted does not count
    reference = _reference(term)
    i, j = ROLES.index(term.subject), ROLES.index(reference)
    axis = np.clip(frame.rot[:, i, 2, 2], -1.0, 1.0)
    bottom = frame.pos[:, i, 2] - np.abs(axis) * frame.half_size[:, i, 2]
    depth = frame.pos[:, j, 2] + frame.mouth[:, j] - bottom
    straight = TILT_ARM_M * (INSERTED_TILT - np.arccos(axis))
    side = seat_clearance(frame, term.subject, reference)
    return np.minimum(np.minimum(side, depth - limit), straight)


def _joint_at(frame: SimFrame, term: PredicateTerm, limit: float) -> Array:
    margin = limit - np.abs(frame.opening - frame.joint_goal)
    return np.where(frame.joint_kind > 0, margin, -1.0)  # without a joint there is no opening


def _released(frame: SimFrame, term: PredicateTerm, limit: float) -> Array:
    i = ROLES.index(term.subject)
    touched = (frame.touch_left[:, i] > 0) | (frame.touch_right[:, i] > 0)
    side = (frame.gripper_width_m - grasp_width(frame, term.subject)) / 2 - 0.002
    away = np.linalg.norm(frame.ee_pos - grasp_point(frame, term.subject), axis=1) - 0.03
    clear = np.maximum(side, away)
    return np.asarray(np.where(touched, np.minimum(clear, -TOUCH_M), clear)) - limit


def _settled(frame: SimFrame, term: PredicateTerm, limit: float) -> Array:
    i = ROLES.index(term.subject)
    linear = np.linalg.norm(frame.linvel[:, i], axis=1)
    angular = np.linalg.norm(frame.angvel[:, i], axis=1)
    return np.asarray(limit - linear - 0.03 * angular)


def _upright(frame: SimFrame, term: PredicateTerm, limit: float) -> Array:
    up = frame.rot[:, ROLES.index(term.subject), 2, 2]
    return np.asarray(limit - np.arccos(np.clip(up, -1.0, 1.0)))


def _contact(frame: SimFrame, term: PredicateTerm, limit: float) -> Array:
    i = ROLES.index(term.subject)
    if term.reference is None:
        touching = frame.touch_table[:, i] > 0
        gap = np.abs(underside(frame, term.subject))
    else:
        touching = frame.touch[:, i, ROLES.index(term.reference)] > 0
        gap = np.abs(surface_gap(frame, term.subject, term.reference))
    return np.asarray(np.where(touching, TOUCH_M, -np.maximum(gap, TOUCH_M))) - limit


def _reference(term: PredicateTerm) -> Role:
    if term.reference is None:
        raise SceneError(f"predicate {term.name!r} needs a reference role; got {term}.")
    return term.reference


_MARGINS: Mapping[PredicateName, Callable[[SimFrame, PredicateTerm, float], Array]] = (
    MappingProxyType(
        {
            "near": _near,
            "aligned": _aligned,
            "opened": _opened,
            "grasped": _grasped,
            "lifted": _lifted,
            "above": _above,
            "on": _on,
            "released": _released,
            "settled": _settled,
            "upright": _upright,
            "contact": _contact,
            "inside": _inside,
            "inserted": _inserted,
            "joint_at": _joint_at,
        }
    )
)


def present(term: PredicateTerm, frame: SimFrame) -> Bool:
    """Whether the roles that a term names are in the scene, (B,)."""
    here = frame.present[:, ROLES.index(term.subject)] > 0
    if term.reference is not None:
        here = here & (frame.present[:, ROLES.index(term.reference)] > 0)
    return np.asarray(here)


def evaluate(term: PredicateTerm, frame: SimFrame) -> tuple[Bool, Array]:
    """Truth (B,) and signed margin (B,) of a term; the margin is >= 0 exactly where it is true.

    A term that names an absent role has margin 1 or -1, as its `if_absent` says.
    """
    limit = DEFAULT_LIMITS[term.name] if term.limit is None else term.limit
    margin = _MARGINS[term.name](frame, term, limit)
    if term.negate:
        margin = np.where(margin >= 0, -np.maximum(margin, 1e-9), -margin)
    here = present(term, frame)
    absent = term.negate if term.if_absent is None else term.if_absent
    margin = np.where(here, margin, 1.0 if absent else -1.0)
    return margin >= 0, margin


def holds(terms: tuple[PredicateTerm, ...], frame: SimFrame) -> Bool:
    """Truth (B,) of a conjunction."""
    result = np.ones(frame.batch, dtype=np.bool_)
    for term in terms:
        result &= evaluate(term, frame)[0]
        if not result.any():
            break
    return result
