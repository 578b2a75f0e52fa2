"""The control test: verdicts, arms, crashes, error rates under optional stopping, and power."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from coda.memory.records import ControlTest, Verdict
from coda.tools.control_test import (
    ARMS,
    ArmName,
    PairOutcome,
    correct_round,
    run_control_test,
)
from coda.tools.eprocess import StatisticsError

ALPHA = 0.05
Rates = Mapping[str, float]


class World:
    """Arms with given success rates, and the progress of failures; keeps what was asked."""

    def __init__(
        self,
        rates: Rates,
        rng: np.random.Generator,
        *,
        progress: Rates | None = None,
        crash: float = 0.0,
        shared: float = 0.0,
    ) -> None:
        self.rates, self.progress, self.crash, self.shared = rates, progress, crash, shared
        self.rng = rng
        self.asked: list[tuple[ArmName, range]] = []
        self.draws: dict[int, Mapping[str, tuple[float, float, float]]] = {}

    def __call__(self, arm: ArmName, pairs: range) -> list[PairOutcome]:
        self.asked.append((arm, pairs))
        return [self._one(arm, pair) for pair in pairs]

    def _one(self, arm: ArmName, pair: int) -> PairOutcome:
        if pair not in self.draws:  # the same whichever arms are looked at
            common = self.rng.random() if self.rng.random() < self.shared else None
            self.draws[pair] = {
                a: (common or self.rng.random(), self.rng.random(), self.rng.normal()) for a in ARMS
            }
        luck, crash, noise = self.draws[pair][arm]
        success = bool(luck < self.rates[arm])
        mean = self.progress[arm] if self.progress else 0.3
        progress = 1.0 if success else float(np.clip(mean + 0.2 * noise, 0.0, 1.0))
        return PairOutcome(
            success=None if crash < self.crash else success,
            progress=progress,
            episode_id=f"{arm}-{pair}",
        )


def rates(target: float, control: float, placebo: float) -> Rates:
    return {"target": target, "control": control, "placebo": placebo}


def scripted(arm: ArmName, pair: int, *, success: bool | None) -> PairOutcome:
    return PairOutcome(success=success, progress=0.5, episode_id=f"{arm}-{pair}")


def run(evaluate: Callable[[ArmName, range], list[PairOutcome]], **settings: float) -> ControlTest:
    return run_control_test("d1", "t1", evaluate, **settings)  # type: ignore[arg-type]


def study(
    n: int, truth: Rates, *, progress: Rates | None = None, shared: float = 0.0, **settings: float
) -> dict[Verdict | int, float]:
    """Share of each verdict, and of tests confirmed within 8 and 16 pairs."""
    rng = np.random.default_rng(7)
    counts: dict[Verdict | int, float] = {"confirmed": 0, "refuted": 0, "undecided": 0, 8: 0, 16: 0}
    for _ in range(n):
        test = run(World(truth, rng, progress=progress, shared=shared), **settings)
        counts[test.verdict] += 1 / n
        pairs = len(test.arms[0].episode_ids)
        for within in (8, 16):
            counts[within] += (test.verdict == "confirmed" and pairs <= within) / n
    return counts


def at_most(share: float, n: int) -> float:
    """`share` plus three standard errors of a Monte-Carlo estimate from n."""
    return share + 3 * float(np.sqrt(share * (1 - share) / n))


def test_a_true_diagnosis_is_confirmed_with_all_three_arms_on_the_same_pairs() -> None:
    world = World(rates(0.0, 1.0, 0.0), np.random.default_rng(0))
    test = run(world)
    assert test.verdict == "confirmed"
    assert test.outcome == "success"
    assert [(a.name, a.successes, a.trials) for a in test.arms] == [
        ("target", 0, 8),
        ("control", 8, 8),
        ("placebo", 0, 8),
    ]
    assert world.asked == [(arm, range(8)) for arm in ARMS]
    assert test.effect == 1.0
    assert test.interval[0] > 0
    assert test.p_value == pytest.approx(1 / min(test.e_value, test.e_value_placebo))
    assert test.arms[1].episode_ids == tuple(f"control-{i}" for i in range(8))


def test_no_effect_at_all_is_refuted_and_the_placebo_stays_cheap() -> None:
    world = World(rates(1.0, 1.0, 1.0), np.random.default_rng(0))
    test = run(world)
    assert test.verdict == "refuted"
    assert "below 0.15" in test.reason
    assert test.interval[1] <= 0.15
    assert [a.trials for a in test.arms] == [24, 24, 8]


def test_a_placebo_that_cures_as_well_is_refuted_as_not_specific() -> None:
    world = World(rates(0.0, 1.0, 1.0), np.random.default_rng(0))
    test = run(world)
    assert test.verdict == "refuted"
    assert test.reason.startswith("not specific: the placebo cures as well")
    assert test.e_value >= 20
    assert test.e_value_refute >= 20
    assert test.placebo_effect == 0.0
    assert [a.trials for a in test.arms] == [24, 24, 24]


def test_the_placebo_catches_up_from_the_first_pair_once_control_beats_target() -> None:
    asked: list[tuple[ArmName, range]] = []
    cured = {0, 1, *range(17, 32)}

    def evaluate(arm: ArmName, pairs: range) -> list[PairOutcome]:
        asked.append((arm, pairs))
        return [scripted(arm, i, success=arm == "control" and i in cured) for i in pairs]

    test = run(evaluate)
    assert test.verdict == "confirmed"
    assert [pairs for arm, pairs in asked if arm == "placebo"] == [range(8), range(8, 24)]
    assert {a.trials for a in test.arms} == {24}


def test_progress_is_compared_where_success_is_near_zero() -> None:
    world = World(
        rates(0.0, 0.0, 0.0), np.random.default_rng(1), progress=rates(0.2, 0.7, 0.2)
    )  # fmt: skip
    test = run(world)
    assert (test.verdict, test.outcome) == ("confirmed", "progress")
    assert 0.2 < test.effect < 0.8
    assert test.arms[1].progress_mean > test.arms[0].progress_mean


def test_a_middling_effect_stays_undecided_at_the_cap() -> None:
    test = run(World(rates(0.4, 0.5, 0.4), np.random.default_rng(3)))
    assert test.verdict == "undecided"
    assert test.arms[0].trials == 32
    assert "are both below 20" in test.reason


def test_crashes_are_dropped_pairwise_and_are_no_failures() -> None:
    crashed = {("control", 1), ("control", 4), ("placebo", 2)}

    def evaluate(arm: ArmName, pairs: range) -> list[PairOutcome]:
        wins = arm == "control"
        return [scripted(arm, i, success=None if (arm, i) in crashed else wins) for i in pairs]

    test = run(evaluate)
    assert test.verdict == "confirmed"
    assert test.effect == 1.0  # a crash of control counted as a failure would lower it
    assert test.dropped_pairs == 2
    assert [a.trials for a in test.arms] == [8, 6, 7]
    dead = World(rates(0.0, 1.0, 0.0), np.random.default_rng(2), crash=1.0)
    test = run(dead)
    assert (test.verdict, test.p_value, test.dropped_pairs) == ("undecided", 1.0, 8)
    assert "every pair of the first 8 crashed" in test.reason


@pytest.mark.parametrize(
    ("truth", "shared"),
    [
        (rates(0.2, 0.2, 0.2), 0.0),
        (rates(0.5, 0.5, 0.1), 0.0),
        (rates(0.5, 0.5, 0.1), 0.7),
        (rates(0.1, 0.8, 0.8), 0.0),  # not specific
        (rates(0.6, 0.4, 0.4), 0.0),
    ],
)
def test_a_false_diagnosis_is_rarely_confirmed(truth: Rates, shared: float) -> None:
    n = 200
    assert study(n, truth, shared=shared)["confirmed"] <= at_most(ALPHA, n)


@pytest.mark.parametrize("rate", [0.0, 0.06])
def test_a_false_diagnosis_is_rarely_confirmed_by_progress(rate: float) -> None:
    n = 200
    same = rates(0.4, 0.4, 0.1)
    found = study(n, rates(rate, rate, 0.0), progress=same)
    assert found["confirmed"] <= at_most(ALPHA, n)


@pytest.mark.parametrize(
    "truth",
    [
        rates(0.3, 0.45, 0.3),  # effect and specificity exactly delta
        rates(0.0, 0.15, 0.0),
        rates(0.1, 0.8, 0.65),  # specificity exactly delta
        rates(0.1, 0.8, 0.1),
    ],
)
def test_a_true_diagnosis_is_rarely_refuted(truth: Rates) -> None:
    n = 200
    assert study(n, truth)["refuted"] <= at_most(ALPHA, n)


@pytest.mark.parametrize(
    ("truth", "within_8", "within_16"),
    [(rates(0.1, 0.8, 0.1), 0.55, 0.88), (rates(0.05, 0.9, 0.05), 0.82, 0.97)],
)
def test_typical_effects_are_confirmed_within_16_pairs(
    truth: Rates, within_8: float, within_16: float
) -> None:
    found = study(200, truth)
    assert found[8] >= within_8
    assert found[16] >= within_16
    assert found["confirmed"] >= 0.98


def test_with_more_tests_in_the_round_the_evidence_passes_bh_alone() -> None:
    world = World(rates(0.0, 1.0, 0.0), np.random.default_rng(0))
    test = run(world, tests_in_round=20)
    assert test.verdict == "confirmed"
    assert test.p_value <= ALPHA / 20
    others = [test.model_copy(update={"verdict": "undecided", "p_value": 1.0})] * 19
    assert correct_round([test, *others])[0] == test


def test_bh_turns_a_lone_weak_confirmation_into_undecided() -> None:
    base = run(World(rates(0.0, 1.0, 0.0), np.random.default_rng(0)))
    weak = base.model_copy(update={"p_value": 0.04})
    dull = base.model_copy(update={"p_value": 0.9, "verdict": "refuted"})
    first, *rest = correct_round([weak, dull, dull])
    assert first.verdict == "undecided"
    assert "confirmed alone (p = 0.04), but not among the 3 tests of the round" in first.reason
    assert rest == [dull, dull]
    assert correct_round([weak]) == [weak]
    assert correct_round([]) == []


def test_nonsense_is_one_line() -> None:
    world = World(rates(0.0, 1.0, 0.0), np.random.default_rng(0))
    with pytest.raises(StatisticsError, match="batch = 64, max_pairs = 32"):
        run(world, batch=64)
    with pytest.raises(StatisticsError, match=r"alpha = 5, delta = 0\.15"):
        run(world, alpha=5)
    with pytest.raises(StatisticsError, match="tests_in_round = 0"):
        run(world, tests_in_round=0)
    with pytest.raises(StatisticsError, match="arm 'target' returned 3 outcomes for 8 pairs"):
        run(lambda arm, pairs: world(arm, range(3)))
