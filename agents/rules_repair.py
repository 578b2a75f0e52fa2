"""Offline repair of a potential from the issues of its check."""

from __future__ import annotations

import re
from typing import Any

from coda.policy.program import Progress, Stage, TrainingProgram
from coda.sim.roles import Role
from coda.sim.terms import PredicateName
from coda.tools.evidence_terms import GOALS

DROPPED = frozenset({"shadowed-stage", "unreachable-stage", "falling-progress", "stage-order"})
"""Issues after which a stage is left out."""


def repair(
    program: TrainingProgram, issues: list[dict[str, Any]], failed_stage: str
) -> tuple[Stage, ...] | None:
    """Stages with every named fault mended; None where an issue needs another potential."""
    stages = list(program.stages)
    dropped: set[int] = set()
    for issue in issues:
        found = re.match(r"stages\.(\d+)", issue["path"])
        k = int(found.group(1)) if found else -1
        if not 0 <= k < len(stages):
            return None
        if issue["code"] == "plateau-elsewhere" and k > 0:
            stages = _renamed(stages, k, failed_stage)
        elif issue["code"] == "dead-progress":
            stages[k] = _moved(stages[k], issue["value"])
        elif issue["code"] in DROPPED:
            gone = k + 1 if stages[k].name == failed_stage else k  # never the one that fails
            if not _may_go(stages, gone):
                return None
            dropped.add(gone)
        else:
            return None
    return tuple(stage for k, stage in enumerate(stages) if k not in dropped)


def _may_go(stages: list[Stage], k: int) -> bool:
    """The first stage and the last one at the goal stay."""
    goal = {(t.name, t.subject, t.reference) for t in stages[-1].entry if t.name in GOALS}
    at_goal = [i for i, stage in enumerate(stages) if _enters(stage, goal)]
    return 0 < k < len(stages) and at_goal != [k]


def _enters(stage: Stage, goal: set[tuple[PredicateName, Role, Role | None]]) -> bool:
    """Whether a stage is entered by a term of the goal."""
    return any((t.name, t.subject, t.reference) in goal and not t.negate for t in stage.entry)


def _renamed(stages: list[Stage], k: int, failed_stage: str) -> list[Stage]:
    """Where a stage was split in two: the part that failures stop in keeps the stage's name."""
    names = [stage.name for stage in stages]
    if failed_stage not in names[:k] or names.index(failed_stage) != k - 1:
        return stages
    out = list(stages)
    first = f"{failed_stage}-first"[:30]
    out[k - 1] = stages[k - 1].model_copy(update={"name": first})
    out[k] = stages[k].model_copy(update={"name": failed_stage})
    return out


def _moved(stage: Stage, value: str) -> Stage:
    """Progress asked for farther on where tau stays at 1, and earlier where it stays at 0."""
    progress = stage.progress
    span = progress.end - progress.start
    if re.search(r"stays at 1\b", value):
        start, end = progress.end, progress.end + 0.25 * span
    elif re.search(r"stays at 0\.0", value):
        start, end = progress.start - 0.5 * span, progress.start
    else:
        return stage
    moved = Progress(term=progress.term, start=round(start, 4), end=round(end, 4))
    return stage.model_copy(update={"progress": moved})
