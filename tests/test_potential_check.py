"""Every flaw of a potential is found by its own code, and no sound potential is rejected."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coda.policy.potential_base import base_program
from coda.policy.potential_check import CODES, check_potential
from coda.policy.program import Progress, Stage, TrainingProgram
from coda.sim.program import Issue
from coda.sim.terms import PredicateTerm
from tests.policy_world import fine, never_closing, never_releasing, successes

BASE = base_program("pick-place")
NAMES = [stage.name for stage in BASE.stages]
Make = Callable[[], TrainingProgram]


def term(text: str, *, limit: float | None = None, negate: bool = False) -> PredicateTerm:
    """``on(target, receptacle)`` as a term."""
    name, _, roles = text.rstrip(")").partition("(")
    subject, _, reference = roles.partition(", ")
    return PredicateTerm.model_validate(
        {
            "name": name,
            "subject": subject,
            "reference": reference or None,
            "limit": limit,
            "negate": negate,
        }
    )


def index(name: str) -> int:
    return NAMES.index(name)


def stages(*items: Stage, **fields: object) -> TrainingProgram:
    """The base program with other stages, unchecked: pydantic must not hide a flaw."""
    return BASE.model_copy(update={"stages": items, **fields})


def scaled(*items: Stage) -> TrainingProgram:
    """Other stages, shares rescaled to sum to 1."""
    total = sum(stage.share for stage in items)
    return stages(*(s.model_copy(update={"share": s.share / total}) for s in items))


def changed(name: str, **fields: object) -> TrainingProgram:
    """The base program with one stage changed."""
    items = list(BASE.stages)
    items[index(name)] = items[index(name)].model_copy(update=fields)
    return stages(*items)


def progress(name: str, start: float, end: float, other: PredicateTerm | None = None) -> Progress:
    return Progress(term=other or BASE.stages[index(name)].progress.term, start=start, end=end)


def shares(**given: float) -> TrainingProgram:
    """The base program with some shares given and the rest scaled to what is left."""
    rest = sum(s.share for s in BASE.stages if s.name not in given)
    left = 1.0 - sum(given.values())
    return stages(
        *(
            s.model_copy(update={"share": given.get(s.name, s.share * left / rest)})
            for s in BASE.stages
        )
    )


def without(*names: str) -> TrainingProgram:
    return scaled(*(s for s in BASE.stages if s.name not in names))


def swapped(one: str, other: str) -> TrainingProgram:
    items = list(BASE.stages)
    i, j = index(one), index(other)
    items[i], items[j] = items[j], items[i]
    return stages(*items)


def about(role: str, name: str) -> TrainingProgram:
    """One stage's progress about another role."""
    old = BASE.stages[index(name)].progress
    return changed(
        name,
        progress=old.model_copy(update={"term": old.term.model_copy(update={"subject": role})}),
    )


def entry(name: str, *terms: PredicateTerm) -> TrainingProgram:
    return changed(name, entry=terms)


def only(make: Stage) -> TrainingProgram:
    """One stage that is all of the potential."""
    return stages(make.model_copy(update={"entry": (), "share": 1.0}))


REACH, DESCEND, GRASP, LIFT, CARRY, PLACE = BASE.stages[:6]
ON = term("on(target, receptacle)")

FLAWED: tuple[tuple[str, str, Make], ...] = (
    ("shares above one", "bad-shares", lambda: changed("carry", share=0.6)),
    ("shares below one", "bad-shares", lambda: changed("carry", share=0.05)),
    ("share of zero", "bad-shares", lambda: shares(lift=0.0)),
    ("negative share", "bad-shares", lambda: shares(lift=-0.1)),
    ("reach for a distractor", "wrong-object", lambda: about("distractor-1", "reach")),
    ("grasp of the plate", "wrong-object", lambda: about("receptacle", "grasp")),
    ("lift of a distractor", "wrong-object", lambda: about("distractor-2", "lift")),
    ("release of a distractor", "wrong-object", lambda: about("distractor-1", "release")),
    (
        "onto a distractor",
        "wrong-object",
        lambda: changed(
            "place", progress=progress("place", -0.12, 0.0, term("on(target, distractor-1)"))
        ),
    ),
    (
        "plate onto target",
        "wrong-object",
        lambda: changed(
            "place", progress=progress("place", -0.12, 0.0, term("on(receptacle, target)"))
        ),
    ),
    (
        "entry about a distractor",
        "wrong-object",
        lambda: entry("lift", term("grasped(distractor-1)")),
    ),
    (
        "plate must be lifted",
        "wrong-object",
        lambda: entry("carry", term("lifted(receptacle)")),
    ),
    ("reach and grasp only", "goal-missing", lambda: scaled(REACH, DESCEND, GRASP)),
    ("reach only", "goal-missing", lambda: only(REACH)),
    ("stops at the lift", "goal-missing", lambda: scaled(REACH, DESCEND, GRASP, LIFT)),
    (
        "margin out of range below",
        "constant",
        lambda: only(changed("place", progress=progress("place", 1.0, 2.0)).stages[5]),
    ),
    (
        "margin out of range above",
        "constant",
        lambda: only(changed("place", progress=progress("place", -3.0, -2.0)).stages[5]),
    ),
    ("reach is nearly all", "floods", lambda: shares(reach=0.9)),
    ("descend is nearly all", "floods", lambda: shares(descend=0.85)),
    (
        "reach done at once",
        "floods",
        lambda: stages(
            *(
                shares(reach=0.5)
                .stages[0]
                .model_copy(update={"progress": progress("reach", -2.0, -1.0)}),
                *shares(reach=0.5).stages[1:],
            )
        ),
    ),
    ("one stage switches", "jump", lambda: changed_share("lift", 0.6, -0.5, -0.4)),
    ("release is a switch", "jump", lambda: shares(release=0.5)),
    ("carry begins half done", "jump", lambda: changed_share("carry", 0.6, -2.0, -1.0)),
    (
        "no carry, all for the lift",
        "falls",
        lambda: scaled(REACH, DESCEND, with_share(LIFT, 0.6), PLACE),
    ),
    (
        "place only while lifted",
        "falls",
        lambda: entry("place", *PLACE.entry, term("lifted(target)", limit=0.05)),
    ),
    (
        "carry higher than it is carried",
        "unreachable-stage",
        lambda: entry("carry", term("lifted(target)", limit=0.2)),
    ),
    (
        "carry only while fast",
        "falls",
        lambda: entry("place", *PLACE.entry, term("settled(target)", limit=0.2, negate=True)),
    ),
    (
        "held on release",
        "unreachable-stage",
        lambda: entry("release", ON, term("grasped(target)")),
    ),
    ("away from the goal", "no-rise", lambda: in_name_only(runs_away())),
    ("lifted says it all", "no-rise", lambda: in_name_only(LIFT)),
    (
        "last stage out of reach",
        "unfinished",
        lambda: changed_share("rest", 0.3, 0.5, 1.0),
    ),
    (
        "half of it for staying an hour",
        "unfinished",
        lambda: changed_share("rest", 0.5, 0.06, 0.2),
    ),
    (
        "release while lifted",
        "unreachable-stage",
        lambda: entry("release", ON, term("lifted(target)", limit=0.5)),
    ),
    (
        "lift half a metre",
        "unreachable-stage",
        lambda: entry("carry", term("lifted(target)", limit=0.5)),
    ),
    (
        "descend while closed",
        "unreachable-stage",
        lambda: entry(
            "descend",
            term("near(target)"),
            term("grasped(target)"),
            term("opened(target)", limit=0.03),
        ),
    ),
    (
        "grasp and let go at once",
        "unreachable-stage",
        lambda: entry("lift", term("grasped(target)"), term("released(target)")),
    ),
    (
        "near by less than nothing",
        "unreachable-stage",
        lambda: entry("grasp", term("near(target)", limit=-0.01)),
    ),
    ("descend overruled by grasp", "shadowed-stage", lambda: entry("grasp", *DESCEND.entry)),
    ("place overruled by release", "shadowed-stage", lambda: entry("release", *PLACE.entry)),
    (
        "reach overruled at once",
        "shadowed-stage",
        lambda: entry("descend", term("near(target)", limit=2.0)),
    ),
    ("lift and carry swapped", "shadowed-stage", lambda: swapped("lift", "carry")),
    ("descend and grasp swapped", "stage-order", lambda: swapped("descend", "grasp")),
    ("carry and place swapped", "stage-order", lambda: swapped("carry", "place")),
    (
        "reach never scored",
        "dead-progress",
        lambda: changed("reach", progress=progress("reach", 0.5, 1.0)),
    ),
    (
        "carry always done",
        "dead-progress",
        lambda: changed("carry", progress=progress("carry", -3.0, -2.0)),
    ),
    (
        "reach measured by the wrong margin",
        "dead-progress",
        lambda: changed("reach", progress=progress("reach", 0.0, 0.2, term("lifted(target)"))),
    ),
    (
        "reach backwards",
        "falling-progress",
        lambda: changed("reach", progress=progress("reach", -0.10, -0.45)),
    ),
    (
        "carry backwards",
        "falling-progress",
        lambda: changed("carry", progress=progress("carry", -0.03, -0.45)),
    ),
    (
        "carry away",
        "falling-progress",
        lambda: changed(
            "carry",
            progress=progress(
                "carry", 0.03, 0.45, term("above(target, receptacle)", limit=0.0, negate=True)
            ),
        ),
    ),
)


def with_share(stage: Stage, share: float) -> Stage:
    return stage.model_copy(update={"share": share})


def changed_share(name: str, share: float, start: float, end: float) -> TrainingProgram:
    """One stage with another share and another range."""
    program = shares(**{name: share})
    items = list(program.stages)
    items[index(name)] = items[index(name)].model_copy(
        update={"progress": progress(name, start, end)}
    )
    return stages(*items)


def runs_away() -> Stage:
    """Progress is the distance from the goal."""
    away = term("above(target, receptacle)", limit=0.0, negate=True)
    return CARRY.model_copy(update={"progress": Progress(term=away, start=0.0, end=0.5)})


def in_name_only(stage: Stage) -> TrainingProgram:
    """One stage that is nearly all, and a goal that is never reached."""
    goal = Stage(
        name="goal",
        entry=(term("on(target, receptacle)"), term("lifted(target)", limit=0.3)),
        progress=Progress(term=ON, start=-0.1, end=0.0),
        share=0.05,
    )
    return stages(stage.model_copy(update={"entry": (), "share": 0.95}), goal)


def found(program: TrainingProgram, **options: object) -> list[Issue]:
    failures = [*fine(never_closing()), *fine(never_releasing())]
    return check_potential(program, fine(successes()), failures, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(("code", "make"), [pytest.param(c, m, id=n) for n, c, m in FLAWED])
def test_a_flaw_is_found_by_its_code(code: str, make: Make) -> None:
    issues = found(make())
    assert code in {issue.code for issue in issues}, [issue.line() for issue in issues]
    assert all(issue.code in CODES and issue.remedy for issue in issues)


def test_the_corpus_is_large_and_covers_the_codes() -> None:
    assert len(FLAWED) >= 40
    by_failures = {"no-separation", "rewards-failure", "plateau-elsewhere"}
    guarded = {"not-finite", "out-of-range"}  # cannot be written with sound shares
    assert {code for _, code, _ in FLAWED} == set(CODES) - by_failures - guarded


SOUND: tuple[tuple[str, Make], ...] = (
    ("base", lambda: BASE),
    ("more for the grasp", lambda: shares(grasp=0.25)),
    ("more for the carry", lambda: shares(carry=0.3)),
    ("less for the reach", lambda: shares(reach=0.1)),
    ("more for the release", lambda: shares(release=0.15)),
    ("reach from farther", lambda: changed("reach", progress=progress("reach", -0.6, -0.10))),
    ("strict alignment", lambda: entry("grasp", term("near(target)"), term("aligned(target)"))),
    ("no descend", lambda: without("descend")),
    ("no lift", lambda: without("lift")),
    ("higher carry", lambda: changed("lift", progress=progress("lift", 0.0, 0.05))),
    ("no rest", lambda: without("rest")),
    (
        "spare the distractors",
        lambda: entry("carry", *CARRY.entry, term("contact(distractor-1)", negate=True)),
    ),
)


@pytest.mark.parametrize("make", [pytest.param(m, id=n) for n, m in SOUND])
def test_a_sound_potential_is_not_rejected(make: Make) -> None:
    assert [issue.line() for issue in found(make())] == []


def test_failures_that_end_as_high_as_successes_are_found() -> None:
    to_the_goal = scaled(*BASE.stages[:6])
    issues = check_potential(to_the_goal, fine(successes()), fine(never_releasing()))
    assert "rewards-failure" in {issue.code for issue in issues}


def test_a_potential_that_cannot_tell_them_apart_is_found() -> None:
    failures = [*fine(never_closing())[:3], *fine(successes())[:3]]
    issues = check_potential(BASE, fine(successes()), failures)
    assert {issue.code for issue in issues} == {"no-separation"}


@pytest.mark.parametrize(("stage", "sound"), [("descend", True), ("carry", False)])
def test_failures_must_stop_where_the_diagnosis_says(stage: str, sound: bool) -> None:
    where = check_potential(BASE, fine(successes()), fine(never_closing()), failed_stage=stage)
    codes = {issue.code for issue in where}
    if sound:
        assert codes <= {"plateau-elsewhere"}
    else:
        assert codes == {"plateau-elsewhere"}


def test_without_rollouts_the_text_is_checked() -> None:
    assert check_potential(BASE, []) == []
    issues = check_potential(about("distractor-1", "reach"), [])
    assert [issue.code for issue in issues] == ["wrong-object"]
    assert issues[0].line().startswith("wrong-object: stages.0.progress = near(distractor-1")
