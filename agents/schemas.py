"""Answer schemas of the four agents: frozen, closed, enums wherever possible."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from coda.memory.records import Mechanism
from coda.policy.program import TrainingProgram
from coda.sim.program import Edit, GenerationProgram
from coda.sim.roles import Axis


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ProgramAnswer(_Answer):
    """Scene-builder: one generation program."""

    program: GenerationProgram


class DiagnosisAnswer(_Answer):
    """Critic: why a group of rollouts failed, and the one factor change that should cure it."""

    failed_stage: Annotated[str, Field(max_length=30)]
    mechanism: Mechanism
    axis: Axis
    expected_effect: Literal["small", "medium", "large"]
    """small: +0.15, medium: +0.35, large: +0.6 success when the factor is reverted."""
    confidence: Literal["low", "medium", "high"]
    explanation: Annotated[str, Field(min_length=10, max_length=600)]
    evidence: Annotated[tuple[Annotated[str, Field(max_length=80)], ...], Field(max_length=12)]
    """References copied from the evidence, e.g. ``ep12:grasped@34``."""


class ControlAnswer(_Answer):
    """Refuter: the control edit (reverts the blamed factor) and the placebo edit (another axis)."""

    control: Annotated[tuple[Edit, ...], Field(min_length=1, max_length=4)]
    placebo: Annotated[tuple[Edit, ...], Field(min_length=1, max_length=4)]
    placebo_axis: Axis
    reasoning: Annotated[str, Field(max_length=600)]


class PlanAnswer(_Answer):
    """Curriculum: what the next round does."""

    decision: Literal["continue", "stop"]
    focus_modes: Annotated[tuple[str, ...], Field(max_length=8)]
    """Mode ids to generate for and train on."""
    explore_axes: Annotated[tuple[Axis, ...], Field(max_length=7)]
    """Axes to explore for new modes."""
    explore_share: Literal["none", "quarter", "half", "all"]
    """Share of the round's scenes that explore rather than focus."""
    rationale: Annotated[str, Field(max_length=800)]


class PotentialAnswer(_Answer):
    """Curriculum: a staged potential and learning tools compiled from a diagnosis."""

    program: TrainingProgram
