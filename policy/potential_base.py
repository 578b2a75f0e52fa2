"""Base potentials: compiled from the task's description, before any diagnosis.

One for each family, shared by its tasks: a stage about a role that a task lacks is passed from the
start (`PredicateTerm.if_absent`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from coda.policy.program import LearningTools, Progress, Stage, TrainingProgram
from coda.sim.errors import UnknownName
from coda.sim.roles import Role
from coda.sim.terms import PredicateName, PredicateTerm


def _term(
    name: PredicateName,
    limit: float | None = None,
    reference: Role | None = None,
    *,
    of: Role = "target",
    if_absent: bool | None = None,
) -> PredicateTerm:
    return PredicateTerm(
        name=name, subject=of, limit=limit, reference=reference, if_absent=if_absent
    )


def _stage(
    name: str, share: float, term: PredicateTerm, start: float, end: float, *entry: PredicateTerm
) -> Stage:
    return Stage(
        name=name, share=share, entry=entry, progress=Progress(term=term, start=start, end=end)
    )


def _transfer(
    shares: tuple[float, float, float, float, float, float, float, float],
    *first: PredicateTerm,
    there: tuple[PredicateTerm, ...],
) -> tuple[Stage, ...]:
    """Stages of taking the target to the receptacle; `first` must hold before any of them.

    Args:
        shares: Of reach, descend, grasp, lift, carry, place, release, rest.
        first: What has to be done before, at most one term (stages enter on four terms at most).
        there: What says that the target has arrived, at most three terms.
    """
    near, above = _term("near", 0.0), _term("above", 0.0, "receptacle")
    held = (_term("grasped"), _term("near", 0.035))
    on, free = _term("on", reference="receptacle"), _term("released")
    close = (_term("near", 0.10), _term("aligned"), _term("opened"))
    over = _term("above", 0.04, "receptacle")
    return (
        _stage("reach", shares[0], near, -0.45, -0.10, *first),
        _stage("descend", shares[1], near, -0.10, -0.015, *close, *first),
        _stage(
            "grasp", shares[2], _term("grasped"), -0.06, -0.002, *close[1:2], _term("near"), *first
        ),
        _stage("lift", shares[3], _term("lifted", 0.0), 0.0, 0.06, *held, *first),
        _stage("carry", shares[4], above, -0.45, -0.03, *held, _term("lifted", 0.05), *first),
        _stage("place", shares[5], on, -0.12, 0.0, *held, over, *first),
        _stage("release", shares[6], free, -0.004, 0.002, *there),
        _stage("rest", shares[7], _term("settled"), -0.2, 0.0, *there, free),
    )


STANDING = (_term("on", reference="receptacle"), _term("upright"))
"""The target has arrived at its place and stands."""
SEATED = (_term("on", 0.02, "receptacle"), _term("upright"))
"""The same for what may come to rest a little askew, as a nut does on its post."""


HANDLE_SLACK_M = 0.012
"""A handle that is being moved counts as held so far off [m]: while a fixture moves, its handle has
play between the fingers, and one of them loses touch for a control step now and then."""


def _handle_held() -> tuple[PredicateTerm, PredicateTerm]:
    """The fingers are closed around the handle."""
    return _term("grasped", -HANDLE_SLACK_M, of="handle"), _term("near", 0.035, of="handle")


def _pick_place() -> TrainingProgram:
    return TrainingProgram(
        name="pick-place-base",
        family="pick-place",
        source_text="reach the target, grasp it, lift it, carry it over the receptacle, "
        "put it down, let go and leave it at rest",
        stages=_transfer((0.20, 0.15, 0.10, 0.10, 0.20, 0.15, 0.05, 0.05), there=STANDING),
        tools=LearningTools(),
    )


def _articulated() -> TrainingProgram:
    near, at_goal = _term("near", 0.0, of="handle"), _term("joint_at", 0.06, of="handle")
    aligned, free = _term("aligned", of="handle"), _term("released", of="handle")
    held = _handle_held()
    return TrainingProgram(
        name="articulated-base",
        family="articulated",
        source_text="reach the handle, grasp it, move it until the fixture is as far open or "
        "closed as the task says, let go and leave it at rest",
        stages=(
            _stage("reach", 0.20, near, -0.45, -0.10),
            _stage(
                "descend", 0.15, near, -0.10, -0.015,
                _term("near", 0.10, of="handle"), aligned, _term("opened", of="handle"),
            ),
            _stage(
                "grasp", 0.10, _term("grasped", of="handle"), -0.06, -0.002,
                _term("near", of="handle"), aligned,
            ),
            _stage("move", 0.40, _term("joint_at", 0.0, of="handle"), -1.0, -0.05, *held),
            _stage("release", 0.10, free, -0.004, 0.002, at_goal),
            _stage("rest", 0.05, _term("settled", of="handle"), -0.2, 0.0, at_goal, free),
        ),
        tools=LearningTools(),
    )  # fmt: skip


OPEN_ENOUGH = 0.35
"""Share of a drawer's travel that may be missing when things are put inside."""


_AFTER = (0.17, 0.12, 0.10, 0.08, 0.16, 0.11, 0.03, 0.03)
"""Shares of taking the target to the receptacle, where something else may have to come first."""


def _put_inside() -> TrainingProgram:
    near = _term("near", 0.0, of="handle")
    held = _handle_held()
    ready = _term("joint_at", OPEN_ENOUGH, of="handle", if_absent=True)
    inside = (_term("inside", reference="receptacle"),)  # as the verifier has it: drawers are flat
    return TrainingProgram(
        name="put-inside-base",
        family="put-inside",
        source_text="open the container where it is closed, then reach the target, grasp it, lift "
        "it, carry it over the container, lower it, let go and leave it at rest",
        stages=(
            _stage("find-handle", 0.06, near, -0.45, -0.015),
            _stage(
                "take-handle", 0.04, _term("grasped", of="handle"), -0.06, -0.002,
                _term("near", of="handle"), _term("aligned", of="handle"),
            ),
            _stage("open", 0.10, _term("joint_at", 0.0, of="handle"), -1.0, -0.25, *held),
            *_transfer(_AFTER, ready, there=inside),
        ),
        tools=LearningTools(),
    )  # fmt: skip


def _stack_insert() -> TrainingProgram:
    near = _term("near", 0.0, of="receptacle")
    above = _term("above", 0.0, "support", of="receptacle")
    held = (_term("grasped", of="receptacle"), _term("near", 0.035, of="receptacle"))
    on = _term("on", reference="support", of="receptacle")
    built = _term("on", reference="support", of="receptacle", if_absent=True)
    return TrainingProgram(
        name="stack-insert-base",
        family="stack-insert",
        source_text="set the middle storey on its support where there is one, then reach the "
        "target, grasp it, lift it, carry it over the receptacle, set it down or insert it, let go "
        "and leave it at rest",
        stages=(
            _stage("find-storey", 0.06, near, -0.45, -0.015),
            _stage(
                "take-storey", 0.03, _term("grasped", of="receptacle"), -0.06, -0.002,
                _term("near", of="receptacle"), _term("aligned", of="receptacle"),
            ),
            _stage("carry-storey", 0.07, above, -0.45, -0.03, *held),
            _stage(
                "place-storey", 0.04, on, -0.12, 0.0,
                *held, _term("above", 0.04, "support", of="receptacle"),
            ),
            *_transfer(_AFTER, built, there=SEATED),
        ),
        tools=LearningTools(),
    )  # fmt: skip


BASE_PROGRAMS: Mapping[str, Callable[[], TrainingProgram]] = MappingProxyType(
    {
        "pick-place": _pick_place,
        "articulated": _articulated,
        "put-inside": _put_inside,
        "stack-insert": _stack_insert,
    }
)


def base_program(family: str) -> TrainingProgram:
    """The potential of a family's task description. Raises `UnknownName`."""
    try:
        make = BASE_PROGRAMS[family]
    except KeyError:
        raise UnknownName("task family with a base potential", family, BASE_PROGRAMS) from None
    return make()
