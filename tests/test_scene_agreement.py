"""Instruction, goal and verifier say the same for every scene that a program can make."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coda.sim.agreement import VERBS, agreement_issues, telling_words
from coda.sim.families import FAMILIES, family
from coda.sim.predicates import DEFAULT_LIMITS
from coda.sim.program import GenerationProgram
from coda.sim.sampling import Rejected, sample_scene
from coda.sim.scene import Scene
from coda.sim.splits import Splits, evaluation_set
from coda.sim.terms import PredicateTerm
from coda.sim.wording import ambiguous_roles, made_by, phrase, reword, say
from tests.program_strategies import programs

TASKS = [(name, task) for name, item in FAMILIES.items() for task in item.tasks]
CONTRARY = [
    (name, one, two)
    for name, item in FAMILIES.items()
    for one, a in item.tasks.items()
    for two, b in item.tasks.items()
    if a.seed.tau.goal.relation != b.seed.tau.goal.relation
    and {*a.assets["target"]} & {*b.assets["target"]}
]
"""Tasks of the same objects with different goals, e.g. opening and closing a drawer."""


def saying(scene: Scene, text: str) -> Scene:
    return scene.model_copy(update={"tau": scene.tau.model_copy(update={"instruction": text})})


def aiming(scene: Scene, **goal: Any) -> Scene:
    changed = scene.tau.goal.model_copy(update=goal)
    return scene.model_copy(update={"tau": scene.tau.model_copy(update={"goal": changed})})


def verified_by(scene: Scene, *terms: PredicateTerm, hold_s: float = 0.25) -> Scene:
    nu = scene.nu.model_copy(update={"terms": terms, "hold_s": hold_s})
    return scene.model_copy(update={"nu": nu})


def codes(scene: Scene) -> list[str]:
    return [issue.code for issue in agreement_issues(scene)]


def seed(name: str, task: str) -> Scene:
    return family(name).tasks[task].seed


@settings(max_examples=60, deadline=None)
@given(drawn=programs(), number=st.integers(0, 2**32 - 1), wording=st.integers(0, 3))
def test_every_scene_that_a_program_makes_agrees_with_itself(
    drawn: GenerationProgram, number: int, wording: int
) -> None:
    try:
        scene = sample_scene(drawn, np.random.default_rng(number))
    except Rejected:
        return
    task = family(scene.tau.family).tasks[scene.tau.task]
    other = reword(scene, wording % len(task.wordings))
    for one in (scene, other):
        assert agreement_issues(one) == ()
        assert ambiguous_roles(one) == ()
        assert (one.tau.goal, one.nu) == (task.seed.tau.goal, task.seed.nu)
        assert sum(say(w, one.alpha.objects) == one.tau.instruction for w in task.wordings) == 1


@pytest.mark.parametrize("name", FAMILIES)
def test_every_reference_and_frozen_scene_agrees_with_itself(name: str) -> None:
    splits = Splits(family=name)
    scenes = [sample_scene(splits.wide_program(), np.random.default_rng(i)) for i in range(20)]
    scenes += [*evaluation_set("in", name).scenes, *evaluation_set("ood", name).scenes]
    assert [issue for scene in scenes for issue in agreement_issues(scene)] == []


@pytest.mark.parametrize(("name", "task"), TASKS)
def test_seed_scenes_and_all_their_wordings_agree(name: str, task: str) -> None:
    scene, spec = seed(name, task), family(name).tasks[task]
    assert spec.seed.tau.family == name
    assert spec.seed.tau.task == task
    for index in range(len(spec.wordings)):
        assert codes(reword(scene, index)) == []
    goal = scene.tau.goal
    named = {term.subject for term in scene.nu.terms} | {term.reference for term in scene.nu.terms}
    assert goal.subject in named or {"handle"} <= named
    assert goal.reference is None or goal.reference in named
    places = {"on": "on", "inside": "inside", "inserted": "inserted"}
    tests = places.get(goal.relation, "joint_at")
    assert tests in {term.name for term in scene.nu.terms}


def test_opening_and_closing_are_contrary_tasks() -> None:
    assert ("articulated", "open-drawer", "close-drawer") in CONTRARY
    assert len(CONTRARY) >= 8


@pytest.mark.parametrize(("name", "one", "two"), CONTRARY)
def test_an_instruction_for_the_contrary_task_is_refused(name: str, one: str, two: str) -> None:
    scene = seed(name, one)
    for wording in family(name).tasks[two].wordings:
        text = say(wording, scene.alpha.objects)
        assert not any(made_by(own, text) for own in family(name).tasks[one].wordings)
        assert "instruction" in codes(saying(scene, text))


def test_free_instructions_name_the_objects_and_ask_for_nothing_else() -> None:
    place, drawer = seed("pick-place", "place"), seed("articulated", "open-drawer")
    fixture = phrase(drawer.alpha.objects["target"])
    good = [
        saying(place, "Could you get the red block onto the white plate in the corner, please?"),
        saying(drawer, f"Please OPEN the {fixture} for me."),
        saying(drawer, f"I need what is in the {fixture}; get it open."),
    ]
    assert [codes(scene) for scene in good] == [[], [], []]
    bad = [
        saying(place, "put the block on the plate"),
        saying(place, "put the red block on the plate"),
        saying(place, "put the red blocks on the white plate"),
        saying(place, "open the red block on the white plate"),
        saying(place, "insert the red block into the white plate"),
        saying(drawer, f"close the {fixture}"),
        saying(drawer, f"Shut the {fixture}!"),
        saying(drawer, f"open and then close the {fixture}"),
        saying(drawer, "open it"),
    ]
    assert all(set(codes(scene)) == {"instruction"} for scene in bad)
    text = agreement_issues(bad[5])[0].line()
    assert "must not say 'close'" in text
    assert f"the task is to open the {fixture}" in text


def test_an_object_may_be_called_what_another_task_does() -> None:
    assert "close" in telling_words("articulated", "open-drawer")
    assert "open" not in telling_words("articulated", "open-drawer")
    assert "open" not in telling_words("put-inside", "closed-drawer")
    assert set(telling_words("pick-place", "place")) <= {w for v in VERBS.values() for w in v}


@pytest.mark.parametrize(("name", "task"), TASKS)
def test_another_goal_is_found(name: str, task: str) -> None:
    scene = seed(name, task)
    relation = "closed" if scene.tau.goal.relation != "closed" else "open"
    assert codes(aiming(scene, relation=relation)) == ["goal-mismatch"]
    assert codes(aiming(scene, subject="distractor-1")) == ["goal-mismatch"]
    assert codes(aiming(scene, reference="distractor-1")) == ["goal-mismatch"]


@pytest.mark.parametrize(("name", "task"), TASKS)
def test_another_verifier_is_found(name: str, task: str) -> None:
    scene = seed(name, task)
    terms = scene.nu.terms
    assert codes(verified_by(scene, *reversed(terms))) == []
    for k, term in enumerate(terms):
        rest = (*terms[:k], *terms[k + 1 :])
        assert codes(verified_by(scene, *rest)) == ["verifier-mismatch"]
        assert codes(verified_by(scene, *terms, term)) == ["verifier-mismatch"]
        for change in ({"negate": True}, {"if_absent": True}, {"subject": "distractor-3"}):
            other = term.model_copy(update=change)
            assert codes(verified_by(scene, *rest, other)) == ["verifier-mismatch"]
        limit = DEFAULT_LIMITS[term.name] if term.limit is None else term.limit
        near = term.model_copy(update={"limit": limit * 1.5})
        assert codes(verified_by(scene, *rest, near)) == []
        for far in (limit * 3 + 0.01, limit / 3 - 0.01):
            other = term.model_copy(update={"limit": far})
            assert codes(verified_by(scene, *rest, other)) == ["verifier-mismatch"]
    assert codes(verified_by(scene, *terms, hold_s=1.9)) == ["verifier-mismatch"]
