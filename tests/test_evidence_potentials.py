"""Potentials that the offline rule compiles: every family, failed stage and mechanism."""

from __future__ import annotations

from typing import Any

import pytest

from coda.agents.curriculum import potential_problems
from coda.agents.rules_potential import RECIPES, compile_potential
from coda.policy.potential_base import base_program
from coda.policy.potential_check import check_potential
from coda.policy.program import TrainingProgram
from coda.sim.families import FAMILIES
from coda.sim.frame import SimFrame
from coda.sim.program import Issue
from tests.families_world import successes

MOST_ATTEMPTS = 4


def compiled(
    family: str,
    stage: str,
    mechanism: str,
    issues: list[Issue] | None = None,
    previous: TrainingProgram | None = None,
    attempt: int = 1,
) -> TrainingProgram:
    facts: dict[str, Any] = {
        "base": base_program(family).model_dump(mode="json"),
        "diagnosis": {
            "failed_stage": stage,
            "mechanism": mechanism,
            "explanation": "it fails there",
        },
        "mode": {"mode_id": "m001"},
        "issues": [issue.model_dump() for issue in issues or []],
        "previous": None if previous is None else previous.model_dump(mode="json"),
        "attempt": attempt,
    }
    return TrainingProgram.model_validate(compile_potential(facts)["program"])


def accepted(
    family: str, stage: str, mechanism: str, rollouts: tuple[SimFrame, ...]
) -> tuple[TrainingProgram, list[Issue]]:
    """The first answer that its check accepts, as a round asks for it, or the last one."""
    program, issues = None, None
    for attempt in range(1, MOST_ATTEMPTS + 1):
        program = compiled(family, stage, mechanism, issues, program, attempt)
        issues = check_potential(program, rollouts)
        if not issues:
            break
    assert program is not None
    assert issues is not None
    return program, issues


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("mechanism", sorted(RECIPES))
def test_every_stage_and_mechanism_compiles_to_a_sound_potential(
    family: str, mechanism: str
) -> None:
    base = base_program(family)
    assert check_potential(base, successes(family)) == []
    for stage in base.stages:
        program, issues = accepted(family, stage.name, mechanism, successes(family))
        assert [issue.line() for issue in issues] == [], stage.name
        assert potential_problems(program, base) == []
        more = {s.name: s.share for s in program.stages}[stage.name] > stage.share
        assert more or len(program.stages) > len(base.stages), stage.name


@pytest.mark.parametrize(
    ("family", "stage", "mechanism", "new", "subject"),
    [
        ("pick-place", "lift", "slip", ["steady"], "target"),
        ("articulated", "reach", "reach-error", ["approach"], "handle"),
        ("articulated", "move", "slip", ["near-goal"], "handle"),
        ("put-inside", "open", "early-release", ["centre"], "handle"),
        ("put-inside", "carry", "transport-error", ["near-goal"], "target"),
        ("put-inside", "find-handle", "misaligned-grasp", ["align", "close-in"], "handle"),
        ("stack-insert", "take-storey", "misaligned-grasp", ["align", "close-in"], "receptacle"),
        ("stack-insert", "carry-storey", "slip", ["near-goal"], "receptacle"),
        ("stack-insert", "place", "early-release", ["centre"], "target"),
    ],
)
def test_inserted_stages_are_about_what_fails(
    family: str, stage: str, mechanism: str, new: list[str], subject: str
) -> None:
    base = {s.name for s in base_program(family).stages}
    program = compiled(family, stage, mechanism)
    inserted = [s for s in program.stages if s.name not in base]
    assert [s.name for s in inserted] == new
    assert {s.progress.term.subject for s in inserted} == {subject}
    assert all(t.subject == subject for s in inserted for t in s.entry if t.if_absent is None)


@pytest.mark.parametrize("family", ["put-inside", "stack-insert"])
@pytest.mark.parametrize("mechanism", sorted(RECIPES))
def test_inserted_stages_wait_for_what_comes_first(family: str, mechanism: str) -> None:
    base = base_program(family)
    names = {s.name for s in base.stages}
    waits = {t for s in base.stages for t in s.entry if t.if_absent is not None}
    assert len(waits) == 1
    for stage in compiled(family, "grasp", mechanism).stages:
        if stage.name not in names:
            assert waits <= set(stage.entry)
            assert len(stage.entry) <= 4


@pytest.mark.parametrize("family", FAMILIES)
def test_a_potential_must_end_at_its_familys_goal(family: str) -> None:
    base = base_program(family)
    assert potential_problems(base, base) == []
    last = base.stages[-1]
    entry = tuple(t for t in last.entry if t.name not in ("on", "inside", "inserted", "joint_at"))
    cut = base.model_copy(
        update={"stages": (*base.stages[:-1], last.model_copy(update={"entry": entry}))}
    )
    (problem,) = potential_problems(cut, base)
    assert "the last stage, 'rest', must be entered by" in problem


def test_what_cannot_be_mended_loses_its_insertion() -> None:
    first = compiled("articulated", "reach", "reach-error")
    dead = Issue(
        code="dead-progress", path="stages.0.progress", value="reach: tau stays at 1.00",
        limit="varies", remedy="move it",
    )  # fmt: skip
    mended = compiled("articulated", "reach", "reach-error", [dead], first, attempt=2)
    assert "approach" in {s.name for s in mended.stages}
    given_up = compiled("articulated", "reach", "reach-error", [dead], mended, attempt=4)
    assert {s.name for s in given_up.stages} == {s.name for s in base_program("articulated").stages}
