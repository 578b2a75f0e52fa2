"""A corpus over all families: each flaw is found by its own code, no sound potential is refused."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import pytest

from coda.agents.rules_potential import RECIPES, compile_potential
from coda.policy.potential_base import base_program
from coda.policy.potential_check import CODES, check_potential
from coda.policy.potential_findings import without_dips
from coda.policy.program import TrainingProgram
from coda.sim.families import FAMILIES
from coda.sim.frame import SimFrame
from coda.sim.planner import ScriptedPlanner
from coda.sim.program import Issue
from coda.sim.rollout import run_scenes
from coda.sim.splits import evaluation_set
from tests.potential_corpus import FLAWED, SOUND, Case, Sound, both
from tests.potential_edits import FAMILIES as EDITED
from tests.potential_edits import Family
from tests.potential_world import never_closing, never_releasing, seed_scenes, successes


def found(case: Case) -> list[Issue]:
    """What the check says about a flawed potential."""
    failures = case.failures(case.family)
    return check_potential(case.program, case.successes(), failures, failed_stage=case.failed_stage)


@pytest.mark.parametrize("case", [pytest.param(c, id=f"{c.family}: {c.title}") for c in FLAWED])
def test_a_flaw_is_found_by_its_code(case: Case) -> None:
    issues = found(case)
    assert case.code in {issue.code for issue in issues}, [issue.line() for issue in issues]
    for issue in issues:
        assert issue.code in CODES
        assert issue.path.startswith("stages")
        assert issue.value
        assert issue.limit
        assert issue.remedy


@pytest.mark.parametrize("case", [pytest.param(c, id=f"{c.family}: {c.title}") for c in SOUND])
def test_a_sound_potential_is_not_refused(case: Sound) -> None:
    issues = check_potential(case.program, successes(case.family), both(case.family))
    assert [issue.line() for issue in issues] == []


def test_the_corpus_is_large_and_covers_families_and_codes() -> None:
    assert len(FLAWED) >= 40
    assert len({(case.family, case.title) for case in FLAWED}) == len(FLAWED)
    unwritable = {"out-of-range"}  # sound shares and progress in [0, 1] cannot leave the range
    for name in FAMILIES:
        assert {case.code for case in FLAWED if case.family == name} == set(CODES) - unwritable


@pytest.mark.parametrize("name", FAMILIES)
def test_the_rollouts_are_of_every_task(name: str) -> None:
    assert len(successes(name)) == len(seed_scenes(name))
    tasks = len(FAMILIES[name].tasks)
    assert len(never_closing(name)) == tasks
    assert len(never_releasing(name)) == tasks


@pytest.mark.parametrize("name", FAMILIES)
def test_a_check_takes_less_than_a_second_and_repeats(name: str) -> None:
    case = next(case for case in FLAWED if case.family == name and case.code == "falls")
    started = time.perf_counter()
    first = found(case)
    assert time.perf_counter() - started < 1.0
    assert found(case) == first


def test_short_drops_are_filled_up_and_lasting_ones_stay() -> None:
    rising = np.linspace(0.0, 1.0, 20)
    np.testing.assert_array_equal(without_dips(rising, 8), rising)
    ones = np.ones(10)
    assert without_dips(np.concatenate([ones, np.zeros(7), ones]), 8).min() == 1.0
    assert without_dips(np.concatenate([ones, np.zeros(8), ones]), 8).min() == 0.0
    assert without_dips(np.concatenate([ones, np.zeros(2)]), 8)[-1] == 0.0
    np.testing.assert_array_equal(without_dips(np.array([0.5]), 8), [0.5])


@pytest.mark.parametrize("f", EDITED, ids=lambda f: f.name)
def test_what_the_offline_rules_compile_is_sound_at_once(f: Family) -> None:
    """Also against failures; every mechanism at three stages."""
    for mechanism, stage in itertools.product(RECIPES, ("grasp", f.main, "release")):
        facts: dict[str, Any] = {
            "base": f.base.model_dump(mode="json"),
            "diagnosis": {"failed_stage": stage, "mechanism": mechanism, "explanation": "it fails"},
            "mode": {"mode_id": "m001"},
            "issues": [],
            "previous": None,
            "attempt": 1,
        }
        program = TrainingProgram.model_validate(compile_potential(facts)["program"])
        issues = check_potential(program, successes(f.name), both(f.name))
        assert [issue.line() for issue in issues] == [], (mechanism, stage)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_the_base_is_sound_on_out_of_distribution_scenes(name: str) -> None:
    scenes = evaluation_set("ood", name).scenes[::7]
    episodes = run_scenes(scenes, ScriptedPlanner(), keep_fine=True)
    by_task: dict[str, list[SimFrame]] = {}
    for episode in episodes:
        if episode.success and episode.fine is not None:
            by_task.setdefault(episode.scene.tau.task, []).append(SimFrame.unpack(episode.fine))
    assert set(by_task) == set(FAMILIES[name].tasks)
    for task, rollouts in by_task.items():
        issues = check_potential(base_program(name), rollouts)
        assert [issue.line() for issue in issues] == [], task
