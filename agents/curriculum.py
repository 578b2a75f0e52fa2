"""Curriculum: plans rounds, and compiles modes into training and generation programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from coda.agents.caller import AgentCaller
from coda.agents.schemas import PlanAnswer, PotentialAnswer
from coda.memory.records import Diagnosis, Mechanism, Mode, ModeStatus
from coda.policy.program import TrainingProgram
from coda.sim.families import program_task
from coda.sim.program import Issue
from coda.sim.roles import AXES, Axis
from coda.tools.evidence_terms import GOALS

REFERRING = ("above", "on", "inside", "inserted")
"""Predicates that need a second role."""

ROLE = "curriculum"
PLAN = "plan-round"
COMPILE = "compile-potential"


@dataclass(frozen=True, kw_only=True)
class ModeFacts:
    """A mode as the plan sees it."""

    mode_id: str
    title: str
    axis: Axis
    stage: str
    mechanism: Mechanism
    status: ModeStatus
    weight: float
    """Sampling weight (uncertainty + |learning progress| + staleness, ranked), already steered."""
    last_success: float | None = None
    """On its probe scenes."""
    trials: int = 0
    learning_progress: float | None = None
    rounds_since_probe: int = 0
    pinned: bool = False
    """A person fixed its status."""

    def facts(self) -> dict[str, Any]:
        """Compact JSON."""
        return {
            "mode_id": self.mode_id,
            "title": self.title,
            "axis": self.axis,
            "stage": self.stage,
            "mechanism": self.mechanism,
            "status": self.status,
            "weight": round(self.weight, 3),
            "last_success": _round(self.last_success),
            "trials": self.trials,
            "learning_progress": _round(self.learning_progress),
            "rounds_since_probe": self.rounds_since_probe,
            "pinned": self.pinned,
        }


@dataclass(frozen=True, kw_only=True)
class AxisFacts:
    """What exploration has shown of an axis so far; training scenes only, never evaluation."""

    axis: Axis
    scenes: int = 0
    success: float | None = None
    """None: never explored."""
    last_explored: int | None = None
    """Round."""


@dataclass(frozen=True, kw_only=True)
class PlanFacts:
    """What a plan rests on."""

    round: int
    """The round to plan, from 1."""
    rounds: int
    programs: int
    """Generation programs of the round."""
    schedule: Literal["adaptive", "fixed"]
    band: tuple[float, float]
    modes: tuple[ModeFacts, ...] = ()
    axes: tuple[AxisFacts, ...] = ()
    open_axes: tuple[Axis, ...] = AXES
    """Axes that a person has not closed."""
    directives: tuple[str, ...] = ()
    """Directives in force, in words."""
    stop_requested: bool = False
    history: tuple[str, ...] = ()
    """One line for each earlier round."""
    budget: str = ""
    """What is left, in words."""

    def facts(self) -> dict[str, Any]:
        """Compact JSON; every axis appears."""
        seen = {row.axis: row for row in self.axes}
        rows = [seen.get(axis, AxisFacts(axis=axis)) for axis in AXES]
        return {
            "round": self.round,
            "rounds": self.rounds,
            "programs": self.programs,
            "schedule": self.schedule,
            "band": list(self.band),
            "modes": [mode.facts() for mode in self.modes],
            "axes": [
                {
                    "axis": row.axis,
                    "scenes": row.scenes,
                    "success": _round(row.success),
                    "last_explored": row.last_explored,
                }
                for row in rows
            ],
            "open_axes": list(self.open_axes),
            "directives": list(self.directives),
            "stop_requested": self.stop_requested,
            "history": list(self.history),
            "budget": self.budget,
        }


def plan_round(
    caller: AgentCaller,
    facts: PlanFacts,
    *,
    links: dict[str, Any] | None = None,
    on_call: Callable[[str], None] | None = None,
) -> PlanAnswer:
    """Plan a round: which modes to work on, which axes to explore, or stop. `on_call` is told the
    id of the recorded call.

    Raises:
        NoAnswer: The model gave no plan that respects the facts.
    """

    def check(answer: PlanAnswer) -> list[str]:
        return plan_problems(answer, facts)

    answer = caller.ask(
        ROLE,
        PLAN,
        PlanAnswer,
        facts.facts(),
        check=check,
        links=links or {"modes": [mode.mode_id for mode in facts.modes]},
    )
    if on_call is not None:
        on_call(answer.call_id)
    return answer.value


def plan_problems(answer: PlanAnswer, facts: PlanFacts) -> list[str]:
    """What of a plan cannot be carried out, or goes against a directive."""
    if answer.decision == "stop":
        refused = facts.schedule == "fixed" and not facts.stop_requested
        return ["the schedule is fixed: decision must be 'continue'."] if refused else []
    if facts.stop_requested:
        return ["a person asked to stop: decision must be 'stop'."]
    found = []
    status = {mode.mode_id: mode for mode in facts.modes}
    for mode_id in answer.focus_modes:
        if mode_id not in status:
            known = ", ".join(status) or "none yet"
            found.append(f"focus_modes: there is no mode {mode_id!r}; known: {known}.")
        elif status[mode_id].status == "parked":
            found.append(f"focus_modes: {mode_id} is parked; leave it out.")
        elif status[mode_id].axis not in facts.open_axes:
            axis = status[mode_id].axis
            found.append(f"focus_modes: {mode_id} is on {axis}, which a person closed.")
    closed = [axis for axis in answer.explore_axes if axis not in facts.open_axes]
    if closed:
        found.append(f"explore_axes: a person closed {closed[0]}; leave it out.")
    if answer.explore_share == "none" and not answer.focus_modes:
        found.append("explore_share is 'none' and there is no focus mode: nothing would be done.")
    if answer.explore_share != "none" and not answer.explore_axes:
        found.append(f"explore_share is {answer.explore_share!r}, but explore_axes is empty.")
    return found


def compile_potential(
    caller: AgentCaller,
    mode: Mode,
    diagnosis: Diagnosis,
    base: TrainingProgram,
    issues: Sequence[Issue] = (),
    *,
    attempt: int = 1,
    previous: TrainingProgram | None = None,
    links: dict[str, Any] | None = None,
    on_call: Callable[[str], None] | None = None,
) -> TrainingProgram:
    """Text2potential: compile a diagnosis into a staged potential and learning tools.

    Args:
        caller: Puts the question to the curriculum's model.
        mode: The mode that the program is for.
        diagnosis: Why it fails.
        base: The family's potential, which is refined.
        issues: What the potential's check refused of the `previous` answer.
        attempt: Which repair this is, from 1; the offline rule gets milder each time.
        previous: The refused program.
        links: What the recorded call rests on.
        on_call: Told the id of the recorded call.

    Raises:
        NoAnswer: The model gave no acceptable program.
    """
    about = program_task(mode.omega)
    facts = {
        "mode": {
            "mode_id": mode.mode_id,
            "title": mode.title,
            "status": mode.status,
            "family_task": about.name,
            "roles": list(about.seed.roles),
        },
        "diagnosis": {
            "failed_stage": diagnosis.failed_stage,
            "mechanism": diagnosis.mechanism,
            "axis": diagnosis.axis,
            "factor_path": diagnosis.factor_path,
            "explanation": diagnosis.explanation,
        },
        "base": base.model_dump(mode="json"),
        "previous": None if previous is None else previous.model_dump(mode="json"),
        "issues": [issue.model_dump() for issue in issues],
        "attempt": attempt,
    }

    def check(answer: PotentialAnswer) -> list[str]:
        return potential_problems(answer.program, base)

    answer = caller.ask(
        ROLE,
        COMPILE,
        PotentialAnswer,
        facts,
        check=check,
        links=links or {"mode": mode.mode_id, "diagnosis": diagnosis.diagnosis_id},
    )
    if on_call is not None:
        on_call(answer.call_id)
    return answer.value.program


def potential_problems(program: TrainingProgram, base: TrainingProgram) -> list[str]:
    """What cannot be seen from the data alone is left to the potential's check."""
    found = []
    if program.family != base.family:
        found.append(f"program.family = {program.family!r}; this run's is {base.family!r}.")
    last = program.stages[-1]
    said = {(t.name, t.subject, t.reference) for t in last.entry if not t.negate}
    for goal in base.stages[-1].entry:
        if goal.name in GOALS and (goal.name, goal.subject, goal.reference) not in said:
            found.append(
                f"the last stage, {last.name!r}, must be entered by {goal}: there the task ends."
            )
    for stage in program.stages:
        for term in (*stage.entry, stage.progress.term):
            if term.name in REFERRING and term.reference is None:
                found.append(f"stage {stage.name!r}: {term.name} needs a reference role.")
    if program.tools.planner_demonstrations > base.tools.planner_demonstrations:
        found.append("tools.planner_demonstrations: this run allows no more than its base.")
    return found


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
