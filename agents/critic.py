"""Critic: says why a group of rollouts failed, and which one factor change should cure it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coda.agents.caller import AgentCaller
from coda.agents.cures import revert
from coda.agents.schemas import DiagnosisAnswer
from coda.memory.records import Diagnosis
from coda.sim.errors import CodaError
from coda.sim.roles import Axis
from coda.tools.contrasts import axis_paths
from coda.tools.evidence import Evidence
from coda.tools.toolbox import critic_tools

ROLE = "critic"
TASK = "diagnose"

EFFECTS = {"small": 0.15, "medium": 0.35, "large": 0.6}
"""Predicted rise of success for the words of the answer schema."""


class NothingToDiagnose(CodaError):
    """The evidence holds no failure."""


def diagnose(
    caller: AgentCaller,
    evidence: Evidence,
    diagnosis_id: str,
    round_: int,
    *,
    links: dict[str, Any] | None = None,
    on_call: Callable[[str], None] | None = None,
) -> Diagnosis:
    """Diagnose one program's failures.

    Args:
        caller: Puts the question to the critic's model.
        evidence: Rollouts of one policy on one program; its images are attached if it has any.
        diagnosis_id: Id of the record.
        round_: Round of the run.
        links: What the recorded call rests on; the rollouts shown by default.
        on_call: Told the id of the recorded call.

    Raises:
        NothingToDiagnose: No rollout failed, or the program edits nothing.
        NoAnswer: The model gave no answer that fits the evidence.
    """
    if not evidence.failures or not evidence.edited_axes:
        raise NothingToDiagnose(
            f"program {evidence.program.name!r}: {len(evidence.failures)} failures, edited axes "
            f"{list(evidence.edited_axes)}; a diagnosis needs at least one of each."
        )
    facts = evidence.facts()

    def check(answer: DiagnosisAnswer) -> list[str]:
        return problems(answer, evidence)

    answer = caller.ask(
        ROLE,
        TASK,
        DiagnosisAnswer,
        facts,
        check=check,
        images=evidence.keyframes,
        tools=critic_tools(evidence),
        links=links
        or {"diagnosis": diagnosis_id, "episodes": [e["episode"] for e in facts["episodes"]]},
    )
    if on_call is not None:
        on_call(answer.call_id)
    said = answer.value
    return Diagnosis(
        diagnosis_id=diagnosis_id,
        round=round_,
        failed_stage=said.failed_stage,
        mechanism=said.mechanism,
        axis=said.axis,
        factor_path=blamed_path(evidence, said.axis),
        cure=revert(evidence.program, said.axis, evidence.seed_scene),
        expected_effect=EFFECTS[said.expected_effect],
        confidence=said.confidence,
        explanation=said.explanation,
        evidence=said.evidence,
    )


def problems(answer: DiagnosisAnswer, evidence: Evidence) -> list[str]:
    """What contradicts the evidence: unknown stage, unedited axis, references that do not exist."""
    found = []
    if answer.failed_stage not in evidence.stages:
        found.append(
            f"failed_stage = {answer.failed_stage!r} is no stage; "
            f"choose one of {', '.join(evidence.stages)}."
        )
    if answer.axis not in evidence.edited_axes:
        found.append(
            f"axis = {answer.axis!r} is not edited by this program, so reverting it changes "
            f"nothing; choose one of {', '.join(evidence.edited_axes)}."
        )
    known = evidence.references()
    wrong = [ref for ref in answer.evidence if ref not in known]
    if wrong:
        found.append(
            f"evidence {wrong[0]!r} does not exist ({len(wrong)} such); copy references from the "
            "episodes' events, or use an episode's id."
        )
    failed = {e.episode_id for e in evidence.failures}
    if not any(_episode_of(ref, failed) for ref in answer.evidence):
        found.append("cite at least one event or id of a rollout that failed.")
    return found


def blamed_path(evidence: Evidence, axis: Axis) -> str:
    """The path of the strongest contrast on the axis, among those that the program edits."""
    edited = {edit.path for edit in evidence.program.edits}
    paths = [c.path for c in evidence.contrasts if c.axis == axis and c.path in edited]
    if paths:
        return paths[0]
    usual = [path for path in axis_paths(evidence.seed_scene)[axis] if path in edited]
    return (usual or [e.path for e in revert(evidence.program, axis, evidence.seed_scene)])[0]


def _episode_of(ref: str, episodes: set[str]) -> bool:
    return any(ref == name or ref.startswith(f"{name}:") for name in episodes)
