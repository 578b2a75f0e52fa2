"""Refuter: designs the control and the placebo that try to disprove a diagnosis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from coda.agents.caller import AgentCaller
from coda.agents.cures import revert, seed_values, varied_paths
from coda.agents.schemas import ControlAnswer
from coda.memory.records import Diagnosis
from coda.policy.potential_base import base_program
from coda.sim.factors import FACTORS, check_value, factors
from coda.sim.program import Edit, Fixed, GenerationProgram
from coda.sim.roles import Axis
from coda.sim.scene import Scene

ROLE = "refuter"
TASK = "design-controls"


@dataclass(frozen=True, kw_only=True)
class ControlPlan:
    """Edits applied on top of the target arm's scenes, pair by pair."""

    control: tuple[Edit, ...]
    """Reverts the blamed factor, and nothing else."""
    placebo: tuple[Edit, ...]
    """Changes an axis that the diagnosis does not name."""
    placebo_axis: Axis
    reasoning: str


def design_controls(
    caller: AgentCaller,
    diagnosis: Diagnosis,
    program: GenerationProgram,
    seed_scene: Scene,
    *,
    links: dict[str, Any] | None = None,
    on_call: Callable[[str], None] | None = None,
) -> ControlPlan:
    """Design the arms of a diagnosis' control test; `on_call` is told the id of the recorded call.

    Raises:
        NoAnswer: The model gave no acceptable design.
    """
    varied = varied_paths(program, seed_scene)
    facts = {
        "diagnosis": {
            "failed_stage": diagnosis.failed_stage,
            "measure": measure(program.family, diagnosis.failed_stage),
            "mechanism": diagnosis.mechanism,
            "axis": diagnosis.axis,
            "factor_path": diagnosis.factor_path,
            "expected_effect": diagnosis.expected_effect,
            "confidence": diagnosis.confidence,
            "explanation": diagnosis.explanation,
            "cure": [edit.model_dump(mode="json") for edit in diagnosis.cure],
        },
        "program": program.model_dump(mode="json", exclude={"rationale", "schema_version"}),
        "varied": varied,
        "seed_values": seed_values(program, seed_scene),
        "roles": list(seed_scene.roles),
        "cosmetic": cosmetic(seed_scene),
    }

    def check(answer: ControlAnswer) -> list[str]:
        return problems(answer, diagnosis, program, seed_scene)

    answer = caller.ask(
        ROLE,
        TASK,
        ControlAnswer,
        facts,
        check=check,
        links=links or {"diagnosis": diagnosis.diagnosis_id},
    )
    if on_call is not None:
        on_call(answer.call_id)
    plan = answer.value
    return ControlPlan(
        control=plan.control,
        placebo=plan.placebo,
        placebo_axis=plan.placebo_axis,
        reasoning=plan.reasoning,
    )


def measure(family: str, stage: str) -> str:
    """What a stage of the family's base potential measures, e.g. ``near(target; 0)``; "" for a
    stage that it does not have."""
    named = {s.name: str(s.progress.term) for s in base_program(family).stages}
    return named.get(stage, "")


def cosmetic(seed_scene: Scene) -> dict[Axis, dict[str, Any]]:
    """By axis, a change of the seed scene too small to matter: a placebo where nothing else varies.

    A shade of a colour; where there is no receptacle, the gripper's start 1 cm higher too.
    """
    objects = seed_scene.alpha.objects
    found: dict[Axis, dict[str, Any]] = {
        "asset": {"path": "alpha.target.rgba", "value": _shade(objects["target"].rgba)}
    }
    if "receptacle" in objects:
        shade = _shade(objects["receptacle"].rgba)
        found["goal"] = {"path": "alpha.receptacle.rgba", "value": shade}
    else:
        x, y, z = seed_scene.sigma.robot.xyz
        found["position"] = {"path": "sigma.robot.xyz", "value": [x, y, round(z + 0.01, 4)]}
    return found


def _shade(rgba: tuple[float, float, float, float]) -> list[float]:
    """A slightly darker colour that is called the same."""
    return [*(round(0.95 * c, 3) for c in rgba[:3]), rgba[3]]


def problems(
    answer: ControlAnswer, diagnosis: Diagnosis, program: GenerationProgram, seed_scene: Scene
) -> list[str]:
    """What makes a design unable to test the diagnosis."""
    family = program.family
    found = [
        *_edit_problems("control", answer.control, family),
        *_edit_problems("placebo", answer.placebo, family),
    ]
    if found:
        return found
    stray = [e.path for e in answer.control if FACTORS[e.path].axis != diagnosis.axis]
    if stray:
        found.append(
            f"control edits {stray[0]}, which is not on the blamed axis {diagnosis.axis}; "
            "change nothing else, or the test proves nothing about it."
        )
    values = {e.path: e.sampler for e in revert(program, diagnosis.axis, seed_scene)}
    kept = [path for path in values if path not in {e.path for e in answer.control}]
    if kept and len(answer.control) < min(4, len(values)):
        found.append(f"control leaves {kept[0]} as the program sets it; revert it too.")
    if answer.placebo_axis == diagnosis.axis:
        found.append(f"placebo_axis is the blamed axis {diagnosis.axis}; choose another.")
    off = [e.path for e in answer.placebo if FACTORS[e.path].axis != answer.placebo_axis]
    if off:
        found.append(f"placebo edits {off[0]}, which is not on placebo_axis {answer.placebo_axis}.")
    elif not any(_changes(edit, program, seed_scene) for edit in answer.placebo):
        found.append("the placebo changes nothing: edit a factor that varies, or to a new value.")
    return found


def _edit_problems(arm: str, edits: tuple[Edit, ...], family: str) -> list[str]:
    for edit in edits:
        if edit.path not in factors(family):
            return [f"{arm} edits {edit.path!r}, which is no factor path."]
        if edit.path == "tau.task":
            return [f"{arm} edits tau.task, which would replace the whole scene; edit a factor."]
        if not isinstance(edit.sampler, Fixed):
            return [f"{arm} must set {edit.path} to one fixed value; got {edit.sampler.kind}."]
        issue = check_value(edit.path, edit.sampler.value, family)
        if issue is not None:
            return [f"{arm}: {issue.line()}."]
    return []


def _changes(edit: Edit, program: GenerationProgram, seed_scene: Scene) -> bool:
    """Whether an edit changes some scene of the program."""
    varied = {path for paths in varied_paths(program, seed_scene).values() for path in paths}
    values = seed_values(program, seed_scene)
    if edit.path in varied or edit.path not in values:
        return True
    return isinstance(edit.sampler, Fixed) and edit.sampler.value != values[edit.path]
