"""Scene-builder: writes one generation program for a slot of a round, and repairs refused ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from coda.agents.caller import AgentCaller
from coda.agents.schemas import ProgramAnswer
from coda.memory.records import Mode
from coda.sim.factors import FACTORS
from coda.sim.families import family
from coda.sim.program import Fixed, GenerationProgram, Issue
from coda.sim.roles import Axis
from coda.sim.splits import Splits
from coda.tools.factor_table import TASK_PATH, factor_table

ROLE = "scene-builder"
TASK = "write-program"


@dataclass(frozen=True, kw_only=True)
class Slot:
    """What one generation program is for."""

    kind: Literal["explore", "focus"]
    """Widen an axis to find new difficulties, or recreate a known mode."""
    axis: Axis
    task: str
    """The family's task that its scenes are about."""
    joined: tuple[Axis, ...] = ()
    """Axes to widen together with it when exploring: each is mastered alone."""
    mode: Mode | None = None
    """The mode to recreate; needed by ``focus``."""
    magnitude: Literal["small", "medium", "large"] = "medium"
    """How far beyond the seed range exploration goes."""
    band: tuple[float, float] = (0.1, 0.9)
    """Success rates in which a scene teaches."""
    last_success: float | None = None
    """Success on the mode's (or axis') last scenes; above the band: harder, below: easier."""
    avoid_axes: tuple[Axis, ...] = ()
    """Axes that stay in the seed range because a person said so."""
    requests: tuple[str, ...] = ()
    """What a person asked for, e.g. ``alpha.target.scale lower``."""

    def facts(self) -> dict[str, Any]:
        """Compact JSON."""
        return {
            "kind": self.kind,
            "axis": self.axis,
            "task": self.task,
            "joined": list(self.joined),
            "magnitude": self.magnitude,
            "band": list(self.band),
            "last_success": None if self.last_success is None else round(self.last_success, 3),
            "avoid_axes": list(self.avoid_axes),
            "requests": list(self.requests),
            "mode": None if self.mode is None else _mode_facts(self.mode),
        }


def write_program(
    caller: AgentCaller,
    slot: Slot,
    issues: Sequence[Issue] = (),
    *,
    previous: GenerationProgram | None = None,
    splits: Splits | None = None,
    links: dict[str, Any] | None = None,
    on_call: Callable[[str], None] | None = None,
) -> GenerationProgram:
    """Write a program for a slot; with `issues`, repair the `previous` one.

    Args:
        caller: Puts the question to the role's model.
        slot: What the program is for.
        issues: What the validity gate refused; all of them so far, or those of `previous`.
        previous: The refused program. Without it, a new one is written with the issues in mind.
        splits: Seed and widest ranges; the family's own by default.
        links: What the recorded call rests on.
        on_call: Told the id of the recorded call.

    Raises:
        NoAnswer: The model gave no acceptable program.
    """
    splits = splits or Splits()
    facts = {
        "family": splits.family,
        "slot": slot.facts(),
        "factors": factor_table(splits, slot.task),
        "constraints": [
            c.model_dump(mode="json") for c in splits.seed_program(slot.task).constraints
        ],
        "previous": None if previous is None else previous.model_dump(mode="json"),
        "issues": [issue.model_dump() for issue in issues],
    }

    def check(answer: ProgramAnswer) -> list[str]:
        return problems(answer.program, slot, splits)

    answer = caller.ask(ROLE, TASK, ProgramAnswer, facts, check=check, links=links or {})
    if on_call is not None:
        on_call(answer.call_id)
    return answer.value.program


def problems(program: GenerationProgram, slot: Slot, splits: Splits) -> list[str]:
    """What the gate does not know about: the family, the axes to avoid, the slot's own axis."""
    found = []
    if program.family != splits.family:
        found.append(f"program.family = {program.family!r}; this run's is {splits.family!r}.")
    tasks = family(splits.family).tasks
    about = [e.sampler for e in program.edits if e.path == TASK_PATH]
    if len(tasks) > 1 and about != [Fixed(value=slot.task)]:
        found.append(
            f"the slot is about the task {slot.task!r}; begin with the edit "
            f'{{"path": "{TASK_PATH}", "sampler": {{"kind": "fixed", "value": "{slot.task}"}}}}.'
        )
    seed = {edit.path: edit.sampler for edit in splits.seed_program(slot.task).edits}
    axes = {
        FACTORS[e.path].axis for e in program.edits if e.path in FACTORS and e.path != TASK_PATH
    }
    for edit in program.edits:
        factor = FACTORS.get(edit.path)
        if factor and factor.axis in slot.avoid_axes and edit.sampler != seed.get(edit.path):
            found.append(
                f"{edit.path} edits the axis {factor.axis}, which a person asked to leave alone; "
                "keep its seed range or drop the edit."
            )
    if slot.axis not in axes and axes:
        found.append(f"no edit is on the slot's axis {slot.axis}; edit one of its paths.")
    return found


def _mode_facts(mode: Mode) -> dict[str, Any]:
    return {
        "mode_id": mode.mode_id,
        "title": mode.title,
        "axis": mode.axis,
        "factor_path": mode.factor_path,
        "stage": mode.stage,
        "mechanism": mode.mechanism,
        "explanation": mode.explanation,
        "omega": mode.omega.model_dump(mode="json"),
    }
