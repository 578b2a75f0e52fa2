"""Statistics of features, as LeRobot keeps them: of an episode exact, of a dataset merged.

Minimum, maximum, mean, standard deviation and count of a dataset are exact. Its quantiles are the
episodes' quantiles averaged by length, which is LeRobot's own rule for merging.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Stats = dict[str, npt.NDArray[np.float64]]
"""``min max mean std count q01 q10 q50 q90 q99``; count has shape (1,)."""

QUANTILES: Mapping[str, float] = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}


def vector_stats(values: npt.NDArray[Any]) -> Stats:
    """Statistics over the rows of (S, D) or (S,); each of shape (D,), or (1,)."""
    rows = np.asarray(values, dtype=np.float64).reshape(len(values), -1)
    stats: Stats = {
        "min": rows.min(axis=0),
        "max": rows.max(axis=0),
        "mean": rows.mean(axis=0),
        "std": rows.std(axis=0),
        "count": np.array([len(rows)], dtype=np.float64),
    }
    marks = np.quantile(rows, list(QUANTILES.values()), axis=0)
    return stats | dict(zip(QUANTILES, marks, strict=True))


def image_stats(pictures: npt.NDArray[np.uint8]) -> Stats:
    """Statistics of each channel of (S, H, W, 3) in [0, 1], of shape (3, 1, 1); exact."""
    levels = np.arange(256) / 255.0
    columns: dict[str, list[float]] = {}
    for channel in range(3):
        counts = np.bincount(pictures[..., channel].ravel(), minlength=256)
        share = counts / counts.sum()
        mean = float(share @ levels)
        seen = np.flatnonzero(counts)
        row = {
            "min": float(levels[seen[0]]),
            "max": float(levels[seen[-1]]),
            "mean": mean,
            "std": float(np.sqrt(share @ (levels - mean) ** 2)),
        }
        below = np.cumsum(share)
        for name, q in QUANTILES.items():
            row[name] = float(levels[min(int(np.searchsorted(below, q - 1e-12)), 255)])
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    stats: Stats = {name: np.array(v).reshape(3, 1, 1) for name, v in columns.items()}
    return stats | {"count": np.array([len(pictures)], dtype=np.float64)}


def merge(a: Stats | None, b: Stats) -> Stats:
    """Statistics of two sets together."""
    if a is None:
        return dict(b)
    n, m = a["count"][0], b["count"][0]
    wa, wb = n / (n + m), m / (n + m)
    mean = wa * a["mean"] + wb * b["mean"]
    spread = wa * (a["std"] ** 2 + (a["mean"] - mean) ** 2)
    spread += wb * (b["std"] ** 2 + (b["mean"] - mean) ** 2)
    merged: Stats = {
        "min": np.minimum(a["min"], b["min"]),
        "max": np.maximum(a["max"], b["max"]),
        "mean": mean,
        "std": np.sqrt(spread),
        "count": a["count"] + b["count"],
    }
    return merged | {name: wa * a[name] + wb * b[name] for name in QUANTILES}


def plain(stats: Stats) -> dict[str, Any]:
    """Nested lists, the count as whole numbers."""
    rest = {name: value.tolist() for name, value in stats.items() if name != "count"}
    return rest | {"count": [int(stats["count"][0])]}
