"""Contrasts of factors between failures and successes, and how the critic's rule reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coda.agents.rules_critic import axis_scores, diagnose, symptom
from coda.sim.factors import FACTORS, axis_of
from coda.sim.families import family
from coda.sim.paths import write_factor
from coda.sim.roles import AXES
from coda.sim.scene import Scene
from coda.tools.contrasts import AXIS_PATHS, FEATURES, compare, correlation, deviations, hedges_g

SEED = family("pick-place").seed


def turned(yaw: float) -> Scene:
    return write_factor(SEED, "sigma.target.yaw", yaw)


def test_features_and_paths_agree_with_the_factor_catalogue() -> None:
    assert set(AXIS_PATHS) == set(AXES)
    assert all(axis_of(path) == axis for axis, paths in AXIS_PATHS.items() for path in paths)
    assert all(FACTORS[feature.path].axis == feature.axis for feature in FEATURES)


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
        "distractors_touched": [],
        "distractors_grasped": [],
        "distractor_moved_m": 0.0,
        "target_moved_before_grasp_m": 0.0,
        "table_hit": False,
        "fingers_closed": True,
        "held_share": 0.0,
        "lost_grasp": "never-held",
    }
    margins = {"near(target)": 0.0, "aligned(target)": 0.1, "on(target, receptacle)": -0.2}
    contacts |= {k: v for k, v in changes.items() if k in contacts}
    margins |= {k: v for k, v in changes.items() if k in margins}
    return {
        "episode": "e1",
        "success": False,
        "stage": changes.get("stage", "grasp"),
        "events": ["e1:near(target; 0.03)@12"],
        "contacts": contacts,
        "margins": margins,
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
        ({"lost_grasp": "kept", "stage": "place", "on(target, receptacle)": 0.001}, "no-release"),
        ({"lost_grasp": "kept", "stage": "lift"}, "stall"),
    ],
)
def test_symptoms(changes: dict[str, Any], mechanism: str) -> None:
    assert symptom(episode(**changes)) == mechanism


def row(axis: str, effect: float, deviation: float, corr: float = 0.0) -> dict[str, Any]:
    return {
        "feature": axis,
        "path": AXIS_PATHS[axis][0],  # type: ignore[index]
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
    scores = axis_scores(facts(row("size", 0.5, 1.0)), {"slip": 1.0})
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
