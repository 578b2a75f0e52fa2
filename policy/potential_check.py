"""Checks of a potential before anything is trained on it; every finding has its own code.

First what the program says (right objects, a goal, sound shares), then what Phi does along
successful and failed rollouts. Rollouts are frames at every control step, in order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coda.policy.potential import Potential
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
from coda.sim.program import Issue
from coda.sim.roles import DISTRACTORS
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
    good = _traces(potential, successes)
    issues = _range(good)
    if issues:
        return issues
    issues = [*shape_findings(good, limits), *stage_findings(program, good, limits)]
    if failures:
        bad = _traces(potential, failures)
        issues += failure_findings(program, good, bad, failed_stage, limits)
    return issues


def _traces(potential: Potential, rollouts: Sequence[SimFrame]) -> list[Trace]:
    """Evaluate all rollouts in one batch, then cut it apart again."""
    frame = concat(list(rollouts))
    value, (entered, _) = potential.evaluate(frame), potential.tables(frame)
    ends = np.cumsum([rollout.batch for rollout in rollouts])
    return [
        Trace(value[stop - rollout.batch : stop], entered[stop - rollout.batch : stop])
        for rollout, stop in zip(rollouts, ends.tolist(), strict=True)
    ]


def _structure(program: TrainingProgram) -> list[Issue]:
    issues = []
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
            problem = _wrong_object(term, is_progress=path.endswith("progress"))
            if problem:
                remedy = f"{problem}; write it about the target and the receptacle"
                issues.append(issue("wrong-object", path, str(term), "subject target", remedy))
    said = [t for s in program.stages for t in (s.progress.term, *s.entry) if not t.negate]
    if not any("receptacle" in (term.subject, term.reference) for term in said):
        issues.append(
            issue(
                "goal-missing",
                "stages",
                "no term about the receptacle",
                "at least one",
                "add a stage whose progress leads to on(target, receptacle)",
            )
        )
    return issues


_GUARDS = ("settled", "upright", "released", "contact")
"""Predicates that may guard any object in an entry, e.g. a distractor that must stay upright."""


def _wrong_object(term: PredicateTerm, *, is_progress: bool) -> str | None:
    """What is wrong with the roles of a term, or None."""
    if term.reference in DISTRACTORS or term.reference == "target":
        return f"{term.reference} is not where the target belongs"
    if term.subject == "target":
        return None
    if not is_progress and (term.negate or term.name in _GUARDS):
        return None
    if term.subject == "receptacle" and term.name == "near":
        return None
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
