"""The factor table: for every path that generators edit, its seed range and its widest range."""

from __future__ import annotations

from typing import Any

from coda.sim.factors import factors, task_factors
from coda.sim.program import Choice, Sampler
from coda.sim.roles import AXES
from coda.sim.splits import Splits

TASK_PATH = "tau.task"
"""Factor that says which of its family's tasks a program is about."""


def factor_table(splits: Splits, task: str | None = None) -> list[dict[str, Any]]:
    """Rows ``{path, axis, allowed, seed, wide}`` in program order; samplers as JSON or None.

    The task comes first, as in every program; it has no widest range, since the seed range draws
    all of a family's tasks already. Assets that are held out for evaluation are left out of the
    widest range: no training scene may use them.

    Args:
        splits: The family's ranges.
        task: Only what this task has; all of the family's where None.
    """
    seed = {edit.path: edit.sampler for edit in splits.seed_program(task).edits}
    wide = {edit.path: edit.sampler for edit in splits.wide_program(task).edits}
    table = factors(splits.family) if task is None else task_factors(splits.family, task)
    wide.pop(TASK_PATH, None)
    paths = dict.fromkeys((*wide, *seed))
    return [
        {
            "path": path,
            "axis": table[path].axis,
            "allowed": table[path].limit(),
            "seed": _json(seed.get(path)),
            "wide": _json(_trainable(path, wide.get(path), splits)),
        }
        for path in sorted(paths, key=lambda p: (p != TASK_PATH, AXES.index(table[p].axis)))
    ]


def _trainable(path: str, sampler: Sampler | None, splits: Splits) -> Sampler | None:
    if isinstance(sampler, Choice) and path.endswith(".asset"):
        held = splits.held["asset"]
        return Choice(values=tuple(v for v in sampler.values if v not in held))
    return sampler


def _json(sampler: Sampler | None) -> dict[str, Any] | None:
    return None if sampler is None else sampler.model_dump(mode="json")
