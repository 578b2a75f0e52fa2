"""The refuter's control test: does reverting the one blamed factor cure the failure?

Three arms on the same pairs (placement, sampler and policy seeds): *target* has the factor,
*control* reverts only it, *placebo* makes an edit that the diagnosis does not name. Sequential, in
batches, with anytime-valid evidence (`coda.tools.eprocess`) at level alpha:

- **confirmed**: control beats target *and* control beats placebo. Both e-processes must be at or
  above 1/alpha after the same pair; the null "one of the two does not hold" is then rejected with
  error at most alpha.
- **refuted**: positive evidence that the effect, control minus target, is below delta; or that the
  cure is not specific: control beats target, but control minus placebo is below delta. Each way
  errs with probability at most alpha where the difference really is delta or more.
- **undecided**: neither, at the cap.

The outcome compared is success, or staged progress where success was near zero in both arms of the
first batch. That choice treats both arms alike and is then kept; under progress the null is that
the control's expected progress is no higher, among failures either.

The placebo runs with the first batch, and then only once control has beaten target, on every pair
from the first on. Whether it is looked at does not change its outcomes, so its evidence stays
valid. Pairs in which an arm crashed are dropped from the comparisons of that arm.

Measured with independent outcomes, placebo like target, alpha .05, delta .15: share of tests
confirmed within 8, 16 and 32 pairs, share refuted, and mean episodes of all arms together; 2,000
tests a row, standard error at most .011 (`tests/test_stats_control_test.py` checks several)::

    target -> control           8     16    32  refuted  episodes
    0.1 -> 0.8                  0.64  0.94  1.00     0.00      34
    0.05 -> 0.9                 0.91  1.00  1.00     0.00      26
    0.2 -> 0.8                  0.39  0.77  0.98     0.00      46
    0.1 -> 0.6                  0.26  0.62  0.93     0.00      54
    0.2 -> 0.6                  0.12  0.33  0.64     0.00      68
    0.3 -> 0.6                  0.04  0.15  0.30     0.01      74
    0 -> 0.4                    0.17  0.82  1.00     0.00      49
    0 -> 0, progress .3 -> .6   0.00  0.47  1.00     0.00      62
    0.1 -> 0.8, 4 tests         0.03  0.74  1.00     0.00      55
    0.1 -> 0.8, placebo 0.8     0.00  0.02  0.03     0.23      87
    0 -> 0                      0.00  0.00  0.00     1.00      56
    0.05 -> 0.05                0.00  0.00  0.00     0.60      63
    0.1 -> 0.1                  0.00  0.00  0.00     0.37      66
    0.2 -> 0.2                  0.00  0.00  0.00     0.24      67
    0.5 -> 0.5                  0.00  0.00  0.00     0.15      69
    0 -> 0, progress .3 -> .3   0.00  0.00  0.00     0.67      64
    0.3 -> 0.45                 0.01  0.04  0.06     0.04      73
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from coda.memory.records import ArmResult, ControlTest, Verdict
from coda.tools.eprocess import Array, StatisticsError, bh, confidence_sequence, e_process, peak

ArmName = Literal["target", "control", "placebo"]
ARMS: tuple[ArmName, ...] = ("target", "control", "placebo")
Outcome = Literal["success", "progress"]


@dataclass(frozen=True, kw_only=True)
class PairOutcome:
    """What one arm did on one pair."""

    success: bool | None
    """None: crashed."""
    progress: float
    """Largest staged progress in [0, 1]."""
    episode_id: str


Evaluate = Callable[[ArmName, range], Sequence[PairOutcome]]
"""Runs an arm on the pairs with these indices; one outcome a pair, in order."""


@dataclass(frozen=True, kw_only=True)
class _Rules:
    alpha: float
    delta: float
    goal: float
    """Evidence at which sampling stops: tests in the round / alpha."""

    @property
    def bar(self) -> float:
        """Evidence that decides: 1/alpha."""
        return 1.0 / self.alpha


@dataclass(frozen=True, kw_only=True)
class _Evidence:
    """All evidence after some pairs."""

    cure: float
    """Peak: control beats target."""
    specific: float
    """Peak: control beats placebo."""
    joint: float
    """Peak of the smaller of the two, after the same pair."""
    weak: float
    """Peak: control minus target is below delta."""
    unspecific: float
    """Peak: control minus placebo is below delta."""


@dataclass
class _Arms:
    """Outcomes so far, by arm, in the order of the pairs."""

    done: dict[ArmName, list[PairOutcome]] = field(default_factory=lambda: {a: [] for a in ARMS})

    def run(self, evaluate: Evaluate, arm: ArmName, upto: int) -> None:
        """Evaluate an arm on the pairs up to `upto` that it has not run."""
        pairs = range(len(self.done[arm]), upto)
        if not pairs:
            return
        outcomes = list(evaluate(arm, pairs))
        if len(outcomes) != len(pairs):
            raise StatisticsError(
                f"arm {arm!r} returned {len(outcomes)} outcomes for {len(pairs)} pairs; "
                "return one a pair, in order, with success None for a crash."
            )
        self.done[arm].extend(outcomes)

    def differences(self, other: ArmName, outcome: Outcome) -> Array:
        """Control minus `other` on each pair that both have run, (n,); NaN: one of them crashed."""
        pairs = zip(self.done["control"], self.done[other], strict=False)
        values = [
            _value(c, outcome) - _value(o, outcome)
            if c.success is not None and o.success is not None
            else np.nan
            for c, o in pairs
        ]
        return np.asarray(values, dtype=np.float64)

    def rate(self, arm: ArmName) -> float:
        """Success rate without crashes; 0 where all crashed."""
        kept = [o.success for o in self.done[arm] if o.success is not None]
        return sum(kept) / len(kept) if kept else 0.0

    def result(self, arm: ArmName) -> ArmResult:
        """The arm as a record."""
        kept = [o for o in self.done[arm] if o.success is not None]
        return ArmResult(
            name=arm,
            successes=sum(bool(o.success) for o in kept),
            trials=len(kept),
            progress_mean=float(np.mean([o.progress for o in kept])) if kept else 0.0,
            episode_ids=tuple(o.episode_id for o in self.done[arm]),
        )


def run_control_test(
    diagnosis_id: str,
    test_id: str,
    evaluate: Evaluate,
    *,
    batch: int = 8,
    max_pairs: int = 32,
    alpha: float = 0.05,
    delta: float = 0.15,
    min_rate: float = 0.1,
    tests_in_round: int = 1,
) -> ControlTest:
    """Test a diagnosis; see the module's text for the three verdicts.

    Args:
        diagnosis_id: The diagnosis under test.
        test_id: Id of the test itself.
        evaluate: Runs an arm on some pairs.
        batch: Pairs between two looks.
        max_pairs: Cap.
        alpha: Error level of each verdict.
        delta: Smallest effect that matters, in units of the outcome.
        min_rate: Where target and control both succeed at most this often in the first batch,
            staged progress is compared instead.
        tests_in_round: Sampling goes on, up to the cap, until the evidence is this many times
            1/alpha, so that a confirmed test passes `correct_round` whatever the others find.

    Raises:
        StatisticsError: A setting makes no sense, or `evaluate` returned another number of pairs.
    """
    _check(batch=batch, max_pairs=max_pairs, alpha=alpha, delta=delta, tests=tests_in_round)
    rules = _Rules(alpha=alpha, delta=delta, goal=tests_in_round / alpha)
    arms = _Arms()
    outcome: Outcome = "success"
    verdict: Verdict = "undecided"
    for start in range(0, max_pairs, batch):
        upto = min(start + batch, max_pairs)
        for arm in ARMS if start == 0 else ARMS[:2]:
            arms.run(evaluate, arm, upto)
        if start == 0:
            if np.isnan(arms.differences("target", outcome)).all():
                return _record(
                    diagnosis_id, test_id, arms, outcome, rules, "undecided",
                    f"every pair of the first {upto} crashed: nothing can be compared",
                )  # fmt: skip
            near_zero = max(arms.rate("target"), arms.rate("control")) <= min_rate
            outcome = "progress" if near_zero else "success"
        evidence = _weigh(arms, outcome, rules)
        if evidence.cure >= rules.bar:
            arms.run(evaluate, "placebo", upto)
            evidence = _weigh(arms, outcome, rules)
        verdict, reason = _judge(evidence, rules, at_cap=upto == max_pairs)
        if verdict != "undecided":
            break
    return _record(diagnosis_id, test_id, arms, outcome, rules, verdict, reason)


def correct_round(tests: Sequence[ControlTest], q: float = 0.05) -> list[ControlTest]:
    """Benjamini-Hochberg over the tests of a round: a confirmed one that fails is undecided."""
    if not tests:
        return []
    passed = bh([test.p_value for test in tests], q)
    corrected: list[ControlTest] = []
    for test, passes in zip(tests, passed, strict=True):
        if test.verdict == "confirmed" and not passes:
            reason = (
                f"confirmed alone (p = {test.p_value:.3g}), but not among the {len(tests)} tests "
                f"of the round at false discovery rate {q:g}"
            )
            corrected.append(test.model_copy(update={"verdict": "undecided", "reason": reason}))
        else:
            corrected.append(test)
    return corrected


def _weigh(arms: _Arms, outcome: Outcome, rules: _Rules) -> _Evidence:
    target, placebo = (arms.differences(a, outcome) for a in ("target", "placebo"))
    cure, specific = _path(target, 0.0, "greater"), _path(placebo, 0.0, "greater")
    shared = min(cure.size, specific.size)
    return _Evidence(
        cure=peak(cure),
        specific=peak(specific),
        joint=peak(np.minimum(cure[:shared], specific[:shared])),
        weak=peak(_path(target, rules.delta, "less")),
        unspecific=peak(_path(placebo, rules.delta, "less")),
    )


def _path(differences: Array, mean: float, side: Literal["greater", "less"]) -> Array:
    """Evidence after each pair; a crashed pair (NaN) changes nothing: a difference of `mean`."""
    return e_process(np.where(np.isnan(differences), mean, differences), mean, side)


def _judge(e: _Evidence, rules: _Rules, *, at_cap: bool) -> tuple[Verdict, str]:
    if e.weak >= rules.bar:
        return "refuted", f"control minus target is below {rules.delta:g} (e = {e.weak:.3g})"
    if e.cure >= rules.bar and e.unspecific >= rules.bar:
        return "refuted", (
            f"not specific: the placebo cures as well, control minus placebo is below "
            f"{rules.delta:g} (e = {e.unspecific:.3g})"
        )
    if e.joint >= (rules.bar if at_cap else rules.goal):
        return "confirmed", (
            f"control beats target (e = {e.cure:.3g}) and placebo (e = {e.specific:.3g})"
        )
    if e.cure >= rules.bar:
        return "undecided", (
            f"control beats target (e = {e.cure:.3g}), but not clearly the placebo "
            f"(e = {e.specific:.3g}, need {rules.bar:g})"
        )
    return "undecided", (
        f"the evidence for a cure (e = {e.cure:.3g}) and against one (e = {e.weak:.3g}) are both "
        f"below {rules.bar:g}"
    )


def _record(
    diagnosis_id: str,
    test_id: str,
    arms: _Arms,
    outcome: Outcome,
    rules: _Rules,
    verdict: Verdict,
    reason: str,
) -> ControlTest:
    target, placebo = (arms.differences(a, outcome) for a in ("target", "placebo"))
    kept, kept_placebo = target[~np.isnan(target)], placebo[~np.isnan(placebo)]
    e = _weigh(arms, outcome, rules)
    by_placebo = verdict == "refuted" and e.weak < rules.bar
    return ControlTest(
        test_id=test_id,
        diagnosis_id=diagnosis_id,
        arms=tuple(arms.result(arm) for arm in ARMS),
        outcome=outcome,
        effect=float(kept.mean()) if kept.size else 0.0,
        interval=confidence_sequence(kept, rules.alpha),
        e_value=e.cure,
        e_value_placebo=e.specific,
        e_value_refute=e.unspecific if by_placebo else e.weak,
        p_value=min(1.0, 1.0 / e.joint),
        placebo_effect=float(kept_placebo.mean()) if kept_placebo.size else None,
        dropped_pairs=int(np.isnan(target).sum()),
        verdict=verdict,
        reason=reason,
    )


def _value(outcome: PairOutcome, kind: Outcome) -> float:
    return float(bool(outcome.success)) if kind == "success" else outcome.progress


def _check(*, batch: int, max_pairs: int, alpha: float, delta: float, tests: int) -> None:
    if not 1 <= batch <= max_pairs:
        raise StatisticsError(f"batch = {batch}, max_pairs = {max_pairs}; need 1 <= batch <= cap.")
    if not 0.0 < alpha < 0.5 or not 0.0 < delta < 1.0:
        raise StatisticsError(
            f"alpha = {alpha:g}, delta = {delta:g}; need 0 < alpha < 0.5 and 0 < delta < 1."
        )
    if tests < 1:
        raise StatisticsError(f"tests_in_round = {tests}; need at least 1.")
