"""Intervals, band membership, topping up, learning progress and mode weights."""

from __future__ import annotations

from collections.abc import Callable
from math import comb

import numpy as np
import pytest

from coda.memory.progress import (
    Band,
    Count,
    ModeSignal,
    ProgressError,
    band_mass,
    jeffreys,
    learning_progress,
    membership,
    mode_weights,
    teaching_value,
    top_up,
    wilson,
)


def count(successes: int, trials: int) -> Count:
    return Count(successes=successes, trials=trials)


def test_intervals_match_published_values() -> None:
    # Newcombe 1998, table I: 81/263 by the score method; Brown, Cai, DasGupta 2001 for Jeffreys.
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)
    assert jeffreys(0, 10)[0] == 0.0
    assert jeffreys(10, 10)[1] == 1.0
    low, high = jeffreys(5, 10)
    assert low == pytest.approx(1 - high)
    assert wilson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize("interval", [wilson, jeffreys])
def test_intervals_cover_as_promised_on_average(
    interval: Callable[[int, int], tuple[float, float]],
) -> None:
    trials = 32
    spans = [interval(k, trials) for k in range(trials + 1)]
    coverage = [
        sum(
            comb(trials, k) * rate**k * (1 - rate) ** (trials - k)
            for k, (low, high) in enumerate(spans)
            if low <= rate <= high
        )
        for rate in np.linspace(0.02, 0.98, 97)
    ]
    assert np.mean(coverage) == pytest.approx(0.95, abs=0.01)
    assert min(coverage) > 0.85


def test_band_masses_sum_to_one_and_agree_with_sampling() -> None:
    mass = band_mass(count(2, 8), Band())
    assert mass.below + mass.inside + mass.above == pytest.approx(1.0)
    draws = np.random.default_rng(1).beta(2.5, 6.5, size=200_000)
    assert mass.below == pytest.approx(float(np.mean(draws < 0.1)), abs=4e-3)
    assert mass.above == pytest.approx(float(np.mean(draws > 0.9)), abs=4e-3)


@pytest.mark.parametrize(
    ("successes", "trials", "expected"),
    [
        (4, 8, "inside"),
        (0, 8, "undecided"),
        (0, 16, "below"),
        (8, 8, "undecided"),
        (16, 16, "above"),
        (1, 8, "undecided"),
        (4, 16, "inside"),
        (0, 0, "undecided"),
    ],
)
def test_membership(successes: int, trials: int, expected: str) -> None:
    assert membership(count(successes, trials), Band()).membership == expected


def test_a_narrower_band_moves_the_decision() -> None:
    assert membership(count(28, 32), Band(low=0.3, high=0.6)).membership == "above"


def test_only_the_undecided_are_topped_up() -> None:
    asked: list[range] = []

    def run(outcomes: list[bool | None]) -> int:
        asked.clear()

        def evaluate(indices: range) -> list[bool | None]:
            asked.append(indices)
            return [outcomes[i] for i in indices]

        return top_up(evaluate, Band()).count.trials

    assert run([True, False] * 16) == 8
    assert run([False] * 32) == 16
    assert asked == [range(8), range(8, 16)]
    assert run([None] * 8 + [False] * 24) == 24  # crashes count for nothing: 32 asked, 24 held
    assert asked == [range(8), range(8, 16), range(16, 32)]


def test_topping_up_goes_on_from_what_is_known() -> None:
    asked: list[range] = []

    def evaluate(indices: range) -> list[bool | None]:
        asked.append(indices)
        return [False] * len(indices)

    assert top_up(evaluate, Band(), start=count(0, 8)).membership == "below"
    assert asked == [range(8, 16)]


def test_learning_progress_matches_newcombe() -> None:
    # Newcombe 1998 (Stat Med 17:873), example (a), 56/70 - 48/80 at 95 %: 0.0524 to 0.3339.
    progress = learning_progress(count(48, 80), count(56, 70), 0.95)
    assert (progress.low, progress.high) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    assert progress.value == pytest.approx(0.2)
    assert progress.is_rise
    assert not learning_progress(count(4, 16), count(6, 16)).is_rise
    empty = learning_progress(count(0, 0), count(4, 8))
    assert empty.low < 0 < empty.high


def test_teaching_value_is_largest_in_the_middle() -> None:
    values = [teaching_value(count(s, 16)) for s in range(17)]
    assert int(np.argmax(values)) == 8
    assert values[8] < 0.25
    draws = np.random.default_rng(2).beta(3.5, 13.5, size=200_000)
    assert teaching_value(count(3, 16)) == pytest.approx(
        float(np.mean(draws * (1 - draws))), abs=1e-3
    )


def test_weights_rank_over_a_floor() -> None:
    signals = [
        ModeSignal(mode_id="m001", count=count(16, 16)),
        ModeSignal(mode_id="m002", count=count(8, 16)),
        ModeSignal(mode_id="m003", count=count(16, 16), learning_progress=-0.4),
        ModeSignal(mode_id="m004", count=count(16, 16)),
    ]
    weights = mode_weights(signals)
    assert sum(weights.values()) == pytest.approx(1.0)
    assert weights["m003"] > weights["m002"] > weights["m001"] == weights["m004"] >= 0.05
    stale = mode_weights(
        [*signals[:3], ModeSignal(mode_id="m004", count=count(16, 16), staleness=3)]
    )
    assert stale["m004"] > stale["m001"]
    assert set(mode_weights(signals, floor=1.0).values()) == {0.25}
    assert mode_weights([]) == {}


def test_nonsense_is_one_line() -> None:
    with pytest.raises(ProgressError, match=r"band \[0.9, 0.1\] is empty or leaves \[0, 1\]"):
        Band(low=0.9, high=0.1)
    with pytest.raises(ProgressError, match="9 successes in 8 trials"):
        count(9, 8)
    with pytest.raises(ProgressError, match=r"level = 95; give a value in \(0, 1\)"):
        wilson(1, 2, 95)
    with pytest.raises(ProgressError, match="mode m1: learning progress is nan"):
        mode_weights([ModeSignal(mode_id="m1", count=count(0, 0), learning_progress=float("nan"))])
