r"""Anytime-valid evidence on the mean of bounded paired differences, by betting.

For differences :math:`d_i \in [-1, 1]` and the hypothesis that their mean, given the past, is at
most m, a gambler who stakes a fraction :math:`\lambda \in [0, 1/(1+m)]` of their capital has

.. math:: E_n = \sum_j w_j \prod_{i \le n} \bigl(1 + \lambda_j (d_i - m)\bigr)

after n pairs, a mixture over a few fixed fractions. If the hypothesis holds, E is a non-negative
supermartingale that starts at 1, so by Ville's inequality it ever reaches 1/alpha with probability
at most alpha, whenever one looks and whenever one stops (Waudby-Smith and Ramdas, 2024). The other
side is the mirror image. A confidence sequence holds every m that neither side has rejected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from statistics import NormalDist
from typing import Literal

import numpy as np
import numpy.typing as npt

from coda.sim.errors import CodaError

Array = npt.NDArray[np.float64]
Side = Literal["greater", "less"]


class StatisticsError(CodaError):
    """A statistical test was asked something that makes no sense."""


@dataclass(frozen=True, kw_only=True)
class Bets:
    """The mixture: fractions of the largest stake allowed, and their prior weights (sum 1)."""

    fractions: tuple[float, ...] = (0.3, 0.6, 0.8, 0.95, 1.0)
    weights: tuple[float, ...] = (0.1, 0.2, 0.3, 0.2, 0.2)


BETS = Bets()
"""Chosen for effects like 0.1 -> 0.8: five wins without a loss reach 20. A stake of 1 is lost at
the first full loss; the other fractions go on."""


def e_process(
    differences: Sequence[float] | Array, mean: float, side: Side, *, bets: Bets = BETS
) -> Array:
    """Evidence after 0, 1, … n pairs, shape (n + 1,), the first entry 1.

    Args:
        differences: In the order of the pairs, each in [-1, 1].
        mean: Boundary of the hypothesis, in (-1, 1).
        side: ``greater`` tests "mean <= boundary", ``less`` tests "mean >= boundary".
    """
    path: Array = _paths(_checked(differences), np.array([mean]), side, bets)[0]
    return path


def peak(path: Array) -> float:
    """The largest evidence reached; 1 / peak is an anytime-valid p-value."""
    return float(path.max())


def confidence_sequence(
    differences: Sequence[float] | Array, alpha: float, *, bets: Bets = BETS
) -> tuple[float, float]:
    """Bounds of the mean difference, to 0.01, rounded outwards.

    Each bound holds at all times together with probability 1 - alpha (both: 1 - 2 alpha), so that
    the lower bound is at or above m exactly when the test of "mean <= m" rejects at alpha.
    """
    _level("alpha", alpha)
    values = _checked(differences)
    grid = np.round(np.linspace(-0.99, 0.99, 199), 2)
    too_low = grid[_paths(values, grid, "greater", bets).max(axis=1) >= 1 / alpha]
    too_high = grid[_paths(values, grid, "less", bets).max(axis=1) >= 1 / alpha]
    low = float(too_low.max()) if too_low.size else -1.0
    high = float(too_high.min()) if too_high.size else 1.0
    return low, high


def bh(p_values: Sequence[float], q: float) -> list[bool]:
    """Benjamini-Hochberg: which hypotheses are rejected with a false discovery rate of at most q.

    Valid for independent or positively dependent p-values, such as those of the modes of a round.
    """
    _level("q", q)
    p = np.asarray(p_values, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise StatisticsError(f"p-values {list(p_values)} leave [0, 1].")
    order = np.argsort(p, kind="stable")
    passed = np.flatnonzero(p[order] <= q * np.arange(1, p.size + 1) / max(p.size, 1))
    cut = p[order[passed[-1]]] if passed.size else -1.0
    return [bool(value <= cut) for value in p]


def sample_size(high: float, low: float, *, alpha: float = 0.05, power: float = 0.8) -> int:
    """Trials per arm of a fixed-sample one-sided test that tells rate `high` from rate `low`.

    Normal approximation, pooled variance under the null: 8 for .8 v .2, 18 for .6 v .2, 31 for
    .5 v .2, 74 for .5 v .3.
    """
    _level("alpha", alpha)
    _level("power", power)
    if not 0.0 <= low < high <= 1.0:
        raise StatisticsError(f"rates {high:g} v {low:g}; need 0 <= low < high <= 1.")
    normal = NormalDist()
    pooled = (high + low) / 2
    null = normal.inv_cdf(1 - alpha) * sqrt(2 * pooled * (1 - pooled))
    other = normal.inv_cdf(power) * sqrt(high * (1 - high) + low * (1 - low))
    return ceil(((null + other) / (high - low)) ** 2)


def _paths(values: Array, means: Array, side: Side, bets: Bets) -> Array:
    """Evidence for every boundary, shape (len(means), n + 1)."""
    sign = 1.0 if side == "greater" else -1.0
    stakes = np.asarray(bets.fractions)[None, :] / (1.0 + sign * means[:, None])  # (M, J)
    gains = values[None, :] - means[:, None]  # (M, n)
    factors = 1.0 + sign * stakes[:, :, None] * gains[:, None, :]  # (M, J, n)
    capital = np.cumprod(np.clip(factors, 0.0, None), axis=2)
    mixed = np.einsum("j,mjn->mn", np.asarray(bets.weights), capital)
    return np.concatenate([np.ones((means.size, 1)), mixed], axis=1)


def _checked(differences: Sequence[float] | Array) -> Array:
    values = np.asarray(differences, dtype=np.float64).reshape(-1)
    outside = values[~(np.abs(values) <= 1.0)]
    if outside.size:
        raise StatisticsError(
            f"a paired difference is {outside[0]:g}; outcomes lie in [0, 1], "
            "so differences lie in [-1, 1]."
        )
    return values


def _level(name: str, value: float) -> None:
    if not 0.0 < value < 1.0:
        raise StatisticsError(f"{name} = {value:g}; give a value in (0, 1).")
