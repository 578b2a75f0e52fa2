"""Checks of a potential before anything is trained on it; every finding has its own code.

First what the program says (right objects, a goal, sound shares), then what Phi does along
successful and failed rollouts. Rollouts are frames at every control step, in order.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from coda.policy.potential import Potential
from coda.policy.potential_base import base_program
from coda.policy.potential_findings import (
    CheckLimits,
    Trace,
    failure_findings,
    issue,
    shape_findings,
    stage_findings,
)
from coda.policy.program import TrainingProgram
from coda.sim.frame import SimFrame, concat
from coda.sim.predicates import present
from coda.sim.program import Issue
from coda.sim.roles import Role
from coda.sim.terms import PredicateTerm

CODES: tuple[str, ...] = (
    "bad-shares",  # shares not in (0, 1] or not summing to 1
    "wrong-object",  # progress or entry about an object that is not the task's
    "goal-missing",  # no stage mentions the goal
    "not-finite",  # a margin is not a number
    "out-of-range",  # Phi leaves [0, 1]
    "constant",  # Phi does not vary
    "floods",  # most of Phi is given away at the start
    "jump",  # Phi rises too much in one control step
    "falls",  # Phi falls along successful rollouts
    "no-rise",  # Phi does not rise along successful rollouts
    "unfinished",  # Phi is far from 1 at a success
    "unreachable-stage",  # a stage's entry never holds in a success
    "shadowed-stage",  # a stage is always overruled by a later one
    "stage-order",  # successes pass the stages in another order
    "dead-progress",  # tau does not vary within a stage
    "falling-progress",  # tau falls within a stage while rollouts succeed
    "no-separation",  # Phi does not tell success from failure
    "rewards-failure",  # failures end with the Phi of successes
    "plateau-elsewhere",  # failures do not stop where the diagnosis says
)
"""Every code that `check_potential` can give."""


def check_potential(
    program: TrainingProgram,
    successes: Sequence[SimFrame],
    failures: Sequence[SimFrame] = (),
    *,
    failed_stage: str | None = None,
    limits: CheckLimits | None = None,
) -> list[Issue]:
    """Find what is wrong with a potential; an empty list means it is sound.

    Args:
        program: The training program.
        successes: Rollouts that succeeded, each a batch of T states in order, one per control
            step. Without any, only the program's text is checked.
        failures: Rollouts that failed.
        failed_stage: Stage at which the diagnosis says they fail; checked where it is the name
            of one of the program's stages.
        limits: Thresholds.

    Returns:
        Issues, the structural ones first. Structural faults end the check: numbers of a
        potential about the wrong object mean nothing.
    """
    limits = limits or CheckLimits()
    issues = _structure(program)
    if issues or not successes:
        return issues
    potential = Potential(program)
    good, bad = _traces(potential, successes), _traces(potential, failures)
    issues = _range([*good, *bad])
    if issues:
        return issues
    issues = [*shape_findings(good, limits), *stage_findings(program, good, limits)]
    if bad:
        issues += failure_findings(program, good, bad, failed_stage, limits)
    return issues


def _traces(potential: Potential, rollouts: Sequence[SimFrame]) -> list[Trace]:
    """Evaluate all rollouts in one batch, then cut it apart again."""
    if not rollouts:
        return []
    frame = concat(list(rollouts))
    value, (entered, tau) = potential.evaluate(frame), potential.tables(frame)
    here = np.stack([present(s.progress.term, frame) for s in potential.program.stages], axis=1)
    ends = np.cumsum([rollout.batch for rollout in rollouts])
    traces = []
    for rollout, stop in zip(rollouts, ends.tolist(), strict=True):
        span = slice(stop - rollout.batch, stop)
        passed = _passed(potential.program, entered[span.start])
        asked = np.asarray(here[span].all(axis=0) & (np.arange(len(here[0])) >= passed))
        floor = float(potential.base[passed])
        traces.append(Trace(value[span], entered[span], tau[span], asked, floor))
    return traces


def _passed(program: TrainingProgram, entered: npt.NDArray[np.bool_]) -> int:
    """How many stages a scene does not ask for, given which entries hold at its reset (K,).

    It is past a stage where things are already, or have no counterpart: a drawer is open, or the
    container is a bin. What the gripper does says nothing about it.
    """
    return max(
        (
            k
            for k, stage in enumerate(program.stages)
            if stage.entry and entered[k] and all(term.name in _GOALS for term in stage.entry)
        ),
        default=0,
    )


def _structure(program: TrainingProgram) -> list[Issue]:
    issues = []
    task = _task_terms(program.family)
    shares = [stage.share for stage in program.stages]
    if abs(sum(shares) - 1.0) > 1e-6 or not all(0.0 < share <= 1.0 for share in shares):
        issues.append(
            issue(
                "bad-shares",
                "stages",
                f"shares {shares}",
                "each in (0, 1], sum 1",
                "rescale the shares",
            )
        )
    for k, stage in enumerate(program.stages):
        terms = {f"stages.{k}.progress": stage.progress.term}
        terms |= {f"stages.{k}.entry.{i}": term for i, term in enumerate(stage.entry)}
        for path, term in terms.items():
            problem = _wrong_object(term, task, is_progress=path.endswith("progress"))
            if problem:
                allowed = ", ".join(sorted(_about(*pair) for pair in task.pairs))
                remedy = f"{problem}; write it about what the task is about"
                issues.append(issue("wrong-object", path, str(term), allowed, remedy))
    said = [t for s in program.stages for t in (s.progress.term, *s.entry) if not t.negate]
    if not any(_about_goal(term, task) for term in said):
        want = " or ".join(str(term) for term in task.goal_terms)
        issues.append(
            issue(
                "goal-missing",
                "stages",
                "no term about the goal",
                "at least one",
                f"add a stage whose progress leads to {want}",
            )
        )
    return issues


_GUARDS = ("settled", "upright", "released", "contact")
"""Predicates that may guard any object in an entry, e.g. a distractor that must stay upright."""
_NEED_REFERENCE = ("above", "on", "inside", "inserted")
"""Predicates of two roles."""
_GOALS = ("on", "inside", "inserted", "joint_at")
"""Predicates that say that a task is done."""


@dataclass(frozen=True)
class _TaskTerms:
    """What a family's tasks are about, read off its base potential."""

    pairs: frozenset[tuple[Role, Role | None]]
    """Subject and reference of terms that are progress; with a reference, the subject alone too."""
    goal_terms: tuple[PredicateTerm, ...]

    @property
    def references(self) -> frozenset[Role | None]:
        return frozenset(reference for _, reference in self.pairs)

    @property
    def goal(self) -> frozenset[tuple[Role, Role | None]]:
        return frozenset((t.subject, t.reference) for t in self.goal_terms)


def _about_goal(term: PredicateTerm, task: _TaskTerms) -> bool:
    """Whether a term is about where things have to be: of a single object, not just any term."""
    about = (term.subject, term.reference)
    return about in task.goal and (term.reference is not None or term.name in _GOALS)


@functools.cache
def _task_terms(family: str) -> _TaskTerms:
    stages = base_program(family).stages
    terms = [t for stage in stages for t in (stage.progress.term, *stage.entry)]
    pairs = {(t.subject, t.reference) for t in terms} | {(t.subject, None) for t in terms}
    goal = tuple(t for t in stages[-1].entry if t.name in _GOALS)
    return _TaskTerms(frozenset(pairs), goal)


def _about(subject: Role, reference: Role | None) -> str:
    return subject if reference is None else f"{subject} to {reference}"


def _wrong_object(term: PredicateTerm, task: _TaskTerms, *, is_progress: bool) -> str | None:
    """What is wrong with the roles of a term, or None."""
    if term.name in _NEED_REFERENCE and term.reference is None:
        return f"{term.name} of the {term.subject} lacks the reference that it is measured to"
    subjects = {subject for subject, _ in task.pairs}
    if term.reference is not None and term.reference not in task.references:
        return f"{term.reference} is not where the {term.subject} belongs"
    if (term.subject, term.reference) in task.pairs:
        return None
    if not is_progress and (term.negate or term.name in _GUARDS):
        return None
    if term.name == "near" and term.reference is None and term.subject in task.references:
        return None
    if term.subject in subjects:
        return f"{term.subject} does not belong to the {term.reference}"
    return f"{term.name} of the {term.subject} is no progress of the task"


def _range(traces: list[Trace]) -> list[Issue]:
    phi = np.concatenate([trace.value.phi for trace in traces])
    if not np.isfinite(phi).all():
        return [
            issue(
                "not-finite",
                "stages",
                "Phi is not a number",
                "finite",
                "check start and end of each progress",
            )
        ]
    low, high = float(phi.min()), float(phi.max())
    if low < -1e-9 or high > 1.0 + 1e-9:
        return [
            issue(
                "out-of-range",
                "stages",
                f"Phi in [{low:.3f}, {high:.3f}]",
                "[0, 1]",
                "make the shares sum to 1",
            )
        ]
    return []
