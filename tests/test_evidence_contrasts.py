"""Contrasts of factors between failures and successes, and how the critic's rule reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coda.agents.rules_critic import axis_scores, diagnose, hinted, symptom
from coda.sim.factors import FACTORS, axis_of
from coda.sim.families import FAMILIES, family
from coda.sim.paths import write_factor
from coda.sim.roles import AXES
from coda.sim.scene import Scene
from coda.tools.contrasts import (
    FEATURES,
    axis_paths,
    compare,
    correlation,
    deviations,
    features,
    hedges_g,
)

SEED = family("pick-place").seed
AXIS_PATHS = axis_paths(SEED)
TASKS = [(name, task) for name, item in FAMILIES.items() for task in item.tasks]


def turned(yaw: float) -> Scene:
    return write_factor(SEED, "sigma.target.yaw", yaw)


@pytest.mark.parametrize(("name", "task"), TASKS)
def test_features_and_paths_agree_with_the_factor_catalogue(name: str, task: str) -> None:
    seed = family(name).tasks[task].seed
    paths = axis_paths(seed)
    assert set(paths) == set(AXES)
    assert all(axis_of(path) == axis for axis, group in paths.items() for path in group)
    assert all(paths.values())
    own = features([seed], seed)
    assert all(FACTORS[feature.path].axis == feature.axis for feature in own)
    assert len({feature.name for feature in own}) == len(own)
    assert {path for group in paths.values() for path in group} <= {f.path for f in own}
    assert deviations(seed, seed) == {}


def test_the_main_path_of_each_axis_comes_first() -> None:
    assert {axis: paths[0] for axis, paths in AXIS_PATHS.items()} == {
        "position": "sigma.target.xy",
        "yaw": "sigma.target.yaw",
        "size": "alpha.target.scale",
        "mass-friction": "alpha.target.mass_kg",
        "distractors": "tau.distractors",
        "goal": "sigma.receptacle.xy",
        "asset": "alpha.target.asset",
    }
    assert all(feature.path in FACTORS for feature in FEATURES)


@pytest.mark.parametrize(
    ("name", "task", "path", "value", "feature", "change"),
    [
        ("articulated", "open-door", "alpha.target.damping", 4.0, "target.damping_log2", 2.0),
        ("articulated", "close-lid", "tau.opening", 0.4, "opening", -0.6),
        ("put-inside", "closed-drawer", "tau.opening", 0.25, "opening", 0.25),
        ("put-inside", "bin", "alpha.receptacle.asset", "crate", "receptacle.asset_changed", 1.0),
        ("stack-insert", "stack-three", "sigma.support.xy", (0.6, 0.12), "support.y", 0.1),
        ("stack-insert", "peg-in-hole", "sigma.receptacle.yaw", 0.5, "receptacle.yaw", 0.5),
    ],
)
def test_features_of_fixtures_containers_and_towers(
    name: str, task: str, path: str, value: Any, feature: str, change: float
) -> None:
    seed = family(name).tasks[task].seed
    scene = write_factor(seed, path, value)
    assert deviations(scene, seed) == {feature: pytest.approx(change)}
    (contrast,) = compare([scene, scene], np.zeros(2, dtype=bool), np.array([0.2, 0.3]), seed)
    assert (contrast.feature, contrast.path) == (feature, path)


def test_deviations_name_only_what_differs() -> None:
    assert deviations(SEED, SEED) == {}
    assert deviations(turned(0.5), SEED) == {"target.yaw": 0.5}


def test_a_two_sided_factor_is_found_by_distance() -> None:
    yaws = [-1.0, 1.0, -0.9, 0.9, 0.0, 0.1, -0.1, 0.05]
    success = np.array([abs(yaw) < 0.5 for yaw in yaws])
    progress = np.array([0.2, 0.2, 0.25, 0.3, 1.0, 1.0, 1.0, 1.0])
    (contrast,) = compare([turned(yaw) for yaw in yaws], success, progress, SEED)
    assert (contrast.axis, contrast.feature) == ("yaw", "target.yaw")
    assert contrast.effect > 3.0
    assert contrast.progress_corr < -0.9
    assert contrast.failures_away == pytest.approx(0.95)
    assert contrast.successes_away == pytest.approx(0.0625)


def test_without_successes_only_distance_is_told() -> None:
    scenes = [turned(1.0), turned(0.8)]
    (contrast,) = compare(scenes, np.zeros(2, dtype=bool), np.array([0.2, 0.2]), SEED)
    assert (contrast.effect, contrast.progress_corr, contrast.successes_mean) == (0.0, 0.0, None)
    assert contrast.deviation > 2.0


numbers = st.lists(st.floats(-10, 10), min_size=2, max_size=12).map(np.array)


@given(numbers, numbers)
def test_hedges_g_is_antisymmetric_and_bounded(a: Any, b: Any) -> None:
    assert hedges_g(a, b) == pytest.approx(-hedges_g(b, a))
    assert abs(hedges_g(a, b)) <= 5.0


@given(numbers)
def test_correlation_with_itself_is_one_or_nothing(a: Any) -> None:
    value = correlation(a, a)
    assert value == pytest.approx(1.0) or value == 0.0


def episode(**changes: Any) -> dict[str, Any]:
    contacts = {
        "about": "target",
        "joint": "hinge",
        "goal_moved_m": 0.0,
        "times_lost": {"opened": 0, "slipped": 0},
        "still_held": [],
        "storey_fell": False,
        "distractors_touched": [],
        "distractors_grasped": [],
        "distractor_moved_m": 0.0,
        "moved_before_grasp_m": 0.0,
        "table_hit": False,
        "fingers_closed": True,
        "held_share": 0.0,
        "lost_grasp": "never-held",
    }
    about = changes.get("about", "target")
    margins = {f"near({about})": 0.0, f"aligned({about})": 0.1, f"above({about}, receptacle)": -0.2}
    contacts |= {k: v for k, v in changes.items() if k in contacts}
    margins |= {k: v for k, v in changes.items() if k in margins}
    return {
        "episode": "e1",
        "success": False,
        "stage": changes.get("stage", "grasp"),
        "events": ["e1:near(target; 0.03)@12"],
        "contacts": contacts,
        "margins": margins,
        "at_goal": changes.get("at_goal", False),
    }


ON = ["on(target, receptacle)"]
MEASURES = {
    "reach": "near(target; 0)",
    "descend": "near(target; 0)",
    "grasp": "grasped(target)",
    "lift": "lifted(target; 0)",
    "carry": "above(target, receptacle; 0)",
    "place": "on(target, receptacle)",
    "release": "released(target)",
    "move": "joint_at(handle; 0)",
}


@pytest.mark.parametrize(
    ("changes", "mechanism"),
    [
        ({"distractors_grasped": ["distractor-1"]}, "wrong-object"),
        ({"distractor_moved_m": 0.05}, "collision"),
        ({"near(target)": -0.2}, "reach-error"),
        ({"near(target)": -0.2, "table_hit": True}, "collision"),
        ({"near(target)": -0.02, "aligned(target)": -0.4}, "misaligned-grasp"),
        ({}, "no-closure"),
        ({"lost_grasp": "slipped", "stage": "lift"}, "slip"),
        ({"lost_grasp": "opened", "stage": "carry"}, "early-release"),
        ({"lost_grasp": "kept", "stage": "carry"}, "transport-error"),
        ({"lost_grasp": "kept", "stage": "place", "at_goal": True}, "no-release"),
        ({"lost_grasp": "kept", "stage": "lift"}, "stall"),
        ({"about": "handle", "near(handle)": -0.2}, "reach-error"),
        ({"about": "handle", "near(handle)": -0.02, "aligned(handle)": -0.4}, "misaligned-grasp"),
        ({"about": "handle", "lost_grasp": "slipped", "stage": "move"}, "slip"),
        ({"about": "handle", "lost_grasp": "kept", "stage": "move"}, "stall"),
        ({"about": "handle", "lost_grasp": "opened", "stage": "move"}, "early-release"),
        ({"goal_moved_m": 0.05}, "collision"),
        ({"still_held": ["handle"], "near(target)": -0.3, "stage": "reach"}, "no-release"),
        (
            {"lost_grasp": "kept", "stage": "carry", "times_lost": {"opened": 3, "slipped": 0}},
            "early-release",
        ),
        (
            {"lost_grasp": "kept", "stage": "carry", "times_lost": {"opened": 0, "slipped": 2}},
            "slip",
        ),
        ({"storey_fell": True, "lost_grasp": "kept", "stage": "carry"}, "collision"),
        ({"storey_fell": True, "about": "receptacle", "lost_grasp": "slipped"}, "slip"),
    ],
)
def test_symptoms(changes: dict[str, Any], mechanism: str) -> None:
    one = episode(**changes)
    assert symptom(one, MEASURES[one["stage"]], ON) == mechanism


def test_a_peg_over_its_hole_that_does_not_go_in_stalls() -> None:
    over = episode(lost_grasp="kept", stage="place", **{"above(target, receptacle)": 0.02})
    assert symptom(over, MEASURES["place"], ["inserted(target, receptacle)"]) == "stall"
    assert symptom(over, MEASURES["place"], ON) == "transport-error"


def test_hints_depend_on_what_is_manipulated() -> None:
    handle, target = episode(about="handle"), episode()
    turn = ["joint_at(handle; 0.15)"]
    assert set(hinted([("stall", handle)], turn)) == {"mass-friction", "size"}
    assert hinted([("stall", target)], ON) == {}
    assert set(hinted([("stall", target)], ["inserted(target, receptacle)"])) == {"size", "yaw"}
    drawer_of_a_cabinet = hinted([("slip", handle)], ["inside(target, receptacle)"])
    assert set(drawer_of_a_cabinet) == {"goal"}
    assert hinted([("slip", target), ("stall", target)], ON) == {"mass-friction": 0.25}


def test_a_storey_that_is_not_taken_is_not_blamed_on_the_target() -> None:
    rows = (row("size", 1.5, 1.0), row("goal", 1.2, 1.0))
    storey = facts(*rows, about="receptacle") | {"goal": ["on(receptacle, support)", *ON]}
    assert diagnose(facts(*rows))["axis"] == "size"
    assert diagnose(storey)["axis"] == "goal"


def row(axis: str, effect: float, deviation: float, corr: float = 0.0) -> dict[str, Any]:
    return {
        "feature": axis,
        "path": f"of.{axis}",
        "axis": axis,
        "unit": "1",
        "failures_mean": 1.0,
        "successes_mean": 0.0,
        "failures_away": 1.0,
        "successes_away": 0.1,
        "seed": 0.0,
        "effect": effect,
        "progress_corr": corr,
        "deviation": deviation,
    }


def facts(*rows: dict[str, Any], successes: int = 4, **changes: Any) -> dict[str, Any]:
    return {
        "edited_axes": list(AXES),
        "contrasts": list(rows),
        "group": {"rollouts": 12, "successes": successes, "failed_at": {"grasp": 12 - successes}},
        "episodes": [episode(**changes)],
        "stages": ["reach", "descend", "grasp"],
        "measures": MEASURES,
        "goal": ON,
    }


def test_seed_range_noise_is_not_blamed() -> None:
    noisy = facts(row("goal", 2.0, 0.1), row("size", 1.5, 1.5))
    assert diagnose(noisy)["axis"] == "size"


def test_a_symptom_decides_between_close_contrasts() -> None:
    close = (row("size", 1.2, 1.0), row("mass-friction", 1.1, 1.0))
    assert diagnose(facts(*close))["axis"] == "size"
    slip = facts(*close, lost_grasp="slipped", stage="lift")
    assert diagnose(slip)["axis"] == "mass-friction"


def test_an_axis_that_does_not_vary_is_never_blamed_by_a_symptom() -> None:
    scores = axis_scores(facts(row("size", 0.5, 1.0)), {"mass-friction": 0.5})
    assert scores["mass-friction"] == 0.0


def test_confidence_falls_when_two_axes_fit_alike() -> None:
    clear = diagnose(facts(row("size", 3.0, 2.0)))
    unclear = diagnose(facts(row("size", 1.5, 1.0), row("yaw", 1.5, 1.0)))
    assert (clear["confidence"], clear["expected_effect"]) == ("high", "large")
    assert unclear["confidence"] in ("low", "medium")
    assert clear["evidence"] == ["e1:near(target; 0.03)@12"]


def test_without_successes_the_farthest_axis_is_blamed_with_words_that_say_so() -> None:
    answer = diagnose(facts(row("size", 0.0, 0.5), row("position", 0.0, 2.5), successes=0))
    assert answer["axis"] == "position"
