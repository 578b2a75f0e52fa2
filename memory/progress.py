"""Success bands, learning progress and mode weights (design, section 10).

All from counts of successes in trials; a crashed episode is in neither. The posterior of a success
rate is Beta(s + 1/2, n - s + 1/2), Jeffreys' prior.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from statistics import NormalDist
from typing import Literal

import numpy as np
from scipy.special import betainc, betaincinv

from coda.sim.errors import CodaError

TOP_UP: tuple[int, ...] = (8, 16, 32)
"""Total trials after each step of topping up."""
STALENESS_PER_ROUND = 0.02
"""Score that a mode gains for each round without a probe; E[p(1-p)] is at most 0.25."""
UNIFORM_FLOOR = 0.2
"""Share of the weight that is spread evenly over all modes."""

Membership = Literal["below", "inside", "above", "undecided"]


class ProgressError(CodaError):
    """Counts or limits that make no sense."""


@dataclass(frozen=True, kw_only=True)
class Band:
    """The success rates in which a scene teaches."""

    low: float = 0.1
    high: float = 0.9

    def __post_init__(self) -> None:
        if not 0.0 <= self.low < self.high <= 1.0:
            raise ProgressError(
                f"band [{self.low:g}, {self.high:g}] is empty or leaves [0, 1]; "
                "give 0 <= low < high <= 1, e.g. [0.1, 0.9]."
            )


@dataclass(frozen=True, kw_only=True)
class Count:
    """Successes in trials, crashed episodes left out."""

    successes: int
    trials: int

    def __post_init__(self) -> None:
        if not 0 <= self.successes <= self.trials:
            raise ProgressError(
                f"{self.successes} successes in {self.trials} trials; "
                "need 0 <= successes <= trials."
            )

    def __add__(self, other: Count) -> Count:
        return Count(successes=self.successes + other.successes, trials=self.trials + other.trials)

    @property
    def rate(self) -> float:
        """Success rate; 0 where there are no trials."""
        return self.successes / self.trials if self.trials else 0.0

    @classmethod
    def of(cls, outcomes: Sequence[bool | None]) -> Count:
        """Count outcomes; None is a crash and is left out."""
        kept = [outcome for outcome in outcomes if outcome is not None]
        return cls(successes=sum(kept), trials=len(kept))


@dataclass(frozen=True, kw_only=True)
class BandMass:
    """Posterior mass of the success rate below, inside and above a band; sums to 1."""

    below: float
    inside: float
    above: float


@dataclass(frozen=True, kw_only=True)
class BandDecision:
    """Where a success rate lies with respect to a band, and on how much evidence."""

    count: Count
    mass: BandMass
    membership: Membership


@dataclass(frozen=True, kw_only=True)
class LearningProgress:
    """Change of success on a mode's fixed probe scenes, after minus before training."""

    value: float
    low: float
    high: float

    @property
    def is_rise(self) -> bool:
        """The interval excludes no progress, upwards."""
        return self.low > 0.0


@dataclass(frozen=True, kw_only=True)
class ModeSignal:
    """What the weight of one mode rests on."""

    mode_id: str
    count: Count
    """Latest probe."""
    learning_progress: float = 0.0
    staleness: int = 0
    """Rounds since the mode was probed last."""


def wilson(successes: int, trials: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a success rate; (0, 1) without trials."""
    count = Count(successes=successes, trials=trials)
    if trials == 0:
        return 0.0, 1.0
    z = _z(level)
    centre = (count.rate + z * z / (2 * trials)) / (1 + z * z / trials)
    spread = count.rate * (1 - count.rate) / trials + z * z / (4 * trials * trials)
    half = z * sqrt(spread) / (1 + z * z / trials)
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    return low, 1.0 if successes == trials else min(1.0, centre + half)


def jeffreys(successes: int, trials: int, level: float = 0.95) -> tuple[float, float]:
    """Jeffreys' interval: equal-tailed Beta(s + 1/2, n - s + 1/2), closed at 0 and 1."""
    a, b = _posterior(Count(successes=successes, trials=trials))
    tail = (1 - _checked(level)) / 2
    low = 0.0 if successes == 0 else float(betaincinv(a, b, tail))
    return low, 1.0 if successes == trials else float(betaincinv(a, b, 1 - tail))


def band_mass(count: Count, band: Band) -> BandMass:
    """Posterior mass of the success rate below, inside and above `band`."""
    a, b = _posterior(count)
    below, up_to_high = float(betainc(a, b, band.low)), float(betainc(a, b, band.high))
    return BandMass(below=below, inside=up_to_high - below, above=1.0 - up_to_high)


def membership(count: Count, band: Band, *, confidence: float = 0.9) -> BandDecision:
    """Decide where the success rate lies, or say that it is undecided.

    Args:
        count: What was observed.
        band: The band.
        confidence: Posterior mass that decides; above 0.5.
    """
    if not 0.5 < confidence < 1.0:
        raise ProgressError(f"confidence = {confidence:g}; give a value in (0.5, 1), e.g. 0.9.")
    mass = band_mass(count, band)
    decided: Membership = "undecided"
    if mass.inside >= confidence:
        decided = "inside"
    elif mass.below >= confidence:
        decided = "below"
    elif mass.above >= confidence:
        decided = "above"
    return BandDecision(count=count, mass=mass, membership=decided)


def top_up(
    evaluate: Callable[[range], Sequence[bool | None]],
    band: Band,
    *,
    steps: Sequence[int] = TOP_UP,
    confidence: float = 0.9,
    start: Count | None = None,
) -> BandDecision:
    """Evaluate 8, then 16, then 32 episodes in all, stopping as soon as the band is decided.

    Args:
        evaluate: Runs the episodes of these indices; True, False, or None for a crash.
        band: The band.
        steps: Total episodes after each step, rising.
        confidence: See `membership`.
        start: Outcomes of the first episodes, where they are known already.
    """
    count = start or Count(successes=0, trials=0)
    decision = membership(count, band, confidence=confidence)
    done = count.trials
    for total in steps:
        if done >= total:
            continue
        if decision.membership != "undecided":
            break
        count = count + Count.of(evaluate(range(done, total)))
        decision = membership(count, band, confidence=confidence)
        done = total
    return decision


def learning_progress(before: Count, after: Count, level: float = 0.9) -> LearningProgress:
    """Success after minus before, with Newcombe's hybrid score interval at `level`.

    Conservative for probes on the same scenes, whose outcomes go together.
    """
    value = after.rate - before.rate
    low_a, high_a = wilson(after.successes, after.trials, level)
    low_b, high_b = wilson(before.successes, before.trials, level)
    low = value - sqrt((after.rate - low_a) ** 2 + (high_b - before.rate) ** 2)
    high = value + sqrt((high_a - after.rate) ** 2 + (before.rate - low_b) ** 2)
    return LearningProgress(value=value, low=max(-1.0, low), high=min(1.0, high))


def teaching_value(count: Count) -> float:
    """E[p(1 - p)] under the posterior: how much a scene of this mode can teach, at most 0.25."""
    a, b = _posterior(count)
    return a * b / ((a + b) * (a + b + 1))


def mode_score(signal: ModeSignal) -> float:
    """E[p(1-p)] + |LP| + staleness, each in success units."""
    if not isfinite(signal.learning_progress):
        raise ProgressError(
            f"mode {signal.mode_id}: learning progress is {signal.learning_progress}; "
            "measure it again."
        )
    stale = STALENESS_PER_ROUND * max(0, signal.staleness)
    return teaching_value(signal.count) + abs(signal.learning_progress) + stale


def mode_weights(
    signals: Sequence[ModeSignal], *, floor: float = UNIFORM_FLOOR
) -> Mapping[str, float]:
    """Weights of modes, sum 1: by the rank of their score, over a uniform floor.

    The lowest score has rank 1; equal scores share their mean rank, so that equal modes have equal
    weights. Every mode has at least ``floor / n``.
    """
    if not 0.0 <= floor <= 1.0:
        raise ProgressError(f"floor = {floor:g}; give a share in [0, 1], e.g. 0.2.")
    if not signals:
        return {}
    scores = np.round([mode_score(signal) for signal in signals], 12)
    lower = (scores[:, None] > scores[None, :]).sum(axis=1)
    equal = (scores[:, None] == scores[None, :]).sum(axis=1)
    ranks = lower + (equal + 1) / 2
    weights = floor / len(signals) + (1 - floor) * ranks / ranks.sum()
    return {s.mode_id: float(w) for s, w in zip(signals, weights, strict=True)}


def _posterior(count: Count) -> tuple[float, float]:
    return count.successes + 0.5, count.trials - count.successes + 0.5


def _checked(level: float) -> float:
    if not 0.0 < level < 1.0:
        raise ProgressError(f"level = {level:g}; give a value in (0, 1), e.g. 0.95.")
    return level


def _z(level: float) -> float:
    return NormalDist().inv_cdf(0.5 + _checked(level) / 2)
