"""Evidence of every family, and what the critic's and the refuter's rules make of it."""

from __future__ import annotations

import pytest

from coda.agents import critic, refuter
from coda.agents.prompting import facts_block
from coda.sim.factors import axis_of
from coda.sim.families import family
from coda.tools.evidence import Evidence
from tests.agents_world import by_rules
from tests.families_world import evidence, program

CASES = (
    ("pick-place", "place", "never-closing", "grasp", "no-closure", "target"),
    ("pick-place", "place", "opening-early", "carry", "early-release", "target"),
    ("articulated", "open-drawer", "never-closing", "grasp", "no-closure", "handle"),
    ("articulated", "close-lid", "weak", "move", "stall", "handle"),
    ("articulated", "open-lid", "opening-early", "move", "early-release", "handle"),
    ("articulated", "turn-knob", "never-opening", "release", "no-release", "handle"),
    ("put-inside", "bin", "opening-early", "carry", "early-release", "target"),
    ("put-inside", "basket", "never-opening", "release", "no-release", "target"),
    ("put-inside", "closed-drawer", "never-closing", "take-handle", "no-closure", "handle"),
    ("put-inside", "closed-drawer", "weak", "open", "stall", "handle"),
    ("put-inside", "closed-drawer", "never-opening", "reach", "no-release", "target"),
    ("stack-insert", "stack-three", "never-closing", "take-storey", "no-closure", "receptacle"),
    ("stack-insert", "stack-three", "opening-early", "carry-storey", "early-release", "receptacle"),
    ("stack-insert", "peg-in-hole", "never-closing", "grasp", "no-closure", "target"),
    ("stack-insert", "peg-in-hole", "weak", "lift", "stall", "target"),
)


@pytest.mark.parametrize(("name", "task", "how", "stage", "mechanism", "about"), CASES)
def test_the_rule_names_stage_and_mechanism_in_every_family(
    name: str, task: str, how: str, stage: str, mechanism: str, about: str
) -> None:
    found = evidence(name, task, how)
    assert len(found.failures) == len(found.episodes)
    diagnosis = critic.diagnose(by_rules(), found, "r01:d01", 1)
    assert (diagnosis.failed_stage, diagnosis.mechanism) == (stage, mechanism)
    assert {e.contacts["about"] for e in found.failures} == {about}
    assert set(diagnosis.evidence) <= found.references()
    assert diagnosis.axis in found.edited_axes
    assert axis_of(diagnosis.factor_path) == diagnosis.axis
    assert "tau.task" not in {edit.path for edit in diagnosis.cure}
    assert len(facts_block("diagnose", found.facts())) < 12_000
    seed = family(name).tasks[task].seed
    plan = refuter.design_controls(by_rules(), diagnosis, program(name, task), seed)
    assert {axis_of(edit.path) for edit in plan.control} == {diagnosis.axis}
    assert plan.placebo_axis != diagnosis.axis


def told(found: Evidence) -> set[str]:
    return {event.predicate for episode in found.episodes for event in episode.events}


def test_a_fixtures_facts_are_about_its_handle_and_its_opening() -> None:
    (first, _) = evidence("articulated", "close-lid", "weak").episodes
    opening = first.contacts["opening"]
    assert first.contacts["joint"] == "hinge"
    assert opening["start"] > opening["end"] > opening["goal"] == 0.0
    assert opening["best"] == pytest.approx(opening["end"], abs=0.01)
    assert first.margins["grasped(handle)"] > 0 > first.margins["joint_at(handle; 0.06)"]
    said = (*first.margins, *(event.predicate for event in first.events))
    assert not any("target" in term for term in said)


def test_what_the_goal_asks_for_is_followed() -> None:
    assert "inside(target, receptacle)" in told(evidence("put-inside", "basket", "never-opening"))
    turned = evidence("articulated", "turn-knob", "never-opening")
    assert "joint_at(handle; 0.15)" in told(turned)
    assert all(e.at_goal for e in turned.failures)
    assert turned.facts()["goal"] == ["joint_at(handle; 0.15)"]
    drawer = evidence("put-inside", "closed-drawer", "never-opening")
    assert {"grasped(handle)", "joint_at(handle)"} <= told(drawer)
    assert all(e.contacts["still_held"] == ["handle"] for e in drawer.failures)


def test_a_storey_is_followed_from_the_grasp_to_its_place() -> None:
    early = evidence("stack-insert", "stack-three", "opening-early")
    assert {"grasped(receptacle)", "near(receptacle; 0.03)"} <= told(early)
    assert "above(receptacle, support)" in early.failures[0].margins
    assert early.failures[0].contacts["times_lost"]["opened"] >= 2
    assert not early.failures[0].contacts["storey_stood"]


def test_stages_say_what_they_measure_and_the_task_is_no_axis() -> None:
    found = evidence("stack-insert", "peg-in-hole", "weak")
    facts = found.facts()
    assert facts["measures"]["lift"] == "lifted(target; 0)"
    assert facts["measures"].keys() == set(facts["stages"])
    assert (facts["family"], facts["family_task"]) == ("stack-insert", "peg-in-hole")
    only = found.program.model_copy(update={"edits": found.program.edits[:1]})
    assert [edit.path for edit in only.edits] == ["tau.task"]
    assert Evidence(**{**vars(found), "program": only}).edited_axes == ()
