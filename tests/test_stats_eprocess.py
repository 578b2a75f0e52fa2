"""Betting e-processes, confidence sequences, Benjamini-Hochberg and sample sizes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from coda.tools.eprocess import (
    BETS,
    StatisticsError,
    bh,
    confidence_sequence,
    e_process,
    peak,
    sample_size,
)


@pytest.mark.parametrize(
    ("high", "low", "per_arm"), [(0.8, 0.2, 8), (0.6, 0.2, 18), (0.5, 0.2, 31), (0.5, 0.3, 74)]
)
def test_sample_sizes_of_the_design(high: float, low: float, per_arm: int) -> None:
    assert sample_size(high, low) == per_arm


def test_the_mixture_is_a_distribution_of_allowed_bets() -> None:
    assert sum(BETS.weights) == pytest.approx(1.0)
    assert all(0.0 < f <= 1.0 for f in BETS.fractions)


@pytest.mark.parametrize(("mean", "side"), [(0.0, "greater"), (0.15, "less"), (-0.4, "greater")])
def test_expected_evidence_is_exactly_one_at_the_boundary(mean: float, side: str) -> None:
    up = (1.0 + mean) / 2
    total = 0.0
    for signs in product((1.0, -1.0), repeat=5):
        chance = np.prod([up if s > 0 else 1 - up for s in signs])
        total += float(chance) * float(e_process(signs, mean, side)[-1])  # type: ignore[arg-type]
    assert total == pytest.approx(1.0)


def test_evidence_starts_at_one_never_dies_and_five_wins_are_enough() -> None:
    path = e_process([1.0] * 5, 0.0, "greater")
    assert path[0] == 1.0
    assert path[4] < 20.0 <= path[5]
    lost = e_process([-1.0, *[1.0] * 12], 0.0, "greater")
    assert lost[1] > 0.0
    assert lost[-1] >= 20.0
    assert peak(lost) == lost[-1]


@pytest.mark.parametrize("spread", ["binary", "fine"])
def test_type_one_error_under_optional_stopping(spread: str) -> None:
    rng = np.random.default_rng(0)
    n, crossed = 2000, 0
    for _ in range(n):
        if spread == "binary":
            d = rng.choice([-1.0, 0.0, 1.0], p=[0.3, 0.4, 0.3], size=64)
        else:
            d = rng.uniform(-0.5, 0.5, size=64)
        crossed += peak(e_process(d, 0.0, "greater")) >= 20.0
    assert crossed / n <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n)


def test_a_confidence_sequence_covers_at_all_times_and_agrees_with_the_test() -> None:
    rng = np.random.default_rng(1)
    missed_low = missed_high = 0
    for _ in range(400):
        d = rng.choice([-1.0, 0.0, 1.0], p=[0.1, 0.5, 0.4], size=40)  # mean 0.3
        low, high = confidence_sequence(d, 0.05)
        missed_low += low > 0.3
        missed_high += high < 0.3
        assert (low >= 0.0) == (peak(e_process(d, 0.0, "greater")) >= 20.0)
        assert (high <= 0.15) == (peak(e_process(d, 0.15, "less")) >= 20.0)
    assert missed_low <= 33  # 0.05 + 3 standard errors of 400
    assert missed_high <= 33
    assert confidence_sequence([], 0.05) == (-1.0, 1.0)
    low, high = confidence_sequence([1.0] * 60, 0.05)
    assert low > 0.8
    assert high == 1.0


def test_bh_matches_the_worked_example_of_the_paper() -> None:
    # Benjamini and Hochberg 1995, section 3.2: 15 p-values, q = 0.05, the first four rejected.
    p = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
         0.5719, 0.6528, 0.7590, 1.0]  # fmt: skip
    shuffled = np.random.default_rng(0).permutation(15)
    rejected = bh([p[i] for i in shuffled], 0.05)
    assert sorted(shuffled[rejected].tolist()) == [0, 1, 2, 3]
    assert bh([], 0.05) == []
    assert bh([0.04, 0.05], 0.05) == [True, True]


def test_nonsense_is_one_line() -> None:
    with pytest.raises(StatisticsError, match=r"a paired difference is 1.5; outcomes lie in \[0"):
        e_process([0.0, 1.5], 0.0, "greater")
    with pytest.raises(StatisticsError, match="a paired difference is nan"):
        e_process([float("nan")], 0.0, "greater")
    with pytest.raises(StatisticsError, match=r"alpha = 5; give a value in \(0, 1\)"):
        confidence_sequence([0.0], 5)
    with pytest.raises(StatisticsError, match=r"rates 0.2 v 0.8; need 0 <= low < high <= 1"):
        sample_size(0.2, 0.8)
    with pytest.raises(StatisticsError, match=r"leave \[0, 1\]"):
        bh([2.0], 0.05)
