"""Records of the shared memory: diagnoses, control tests, difficulty modes, learning progress."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from coda.policy.program import TrainingProgram
from coda.sim.program import Edit, GenerationProgram
from coda.sim.roles import Axis

Mechanism = Literal[
    "reach-error",  # the gripper does not get to the grasp point
    "misaligned-grasp",  # gripper yaw or height does not fit the object
    "no-closure",  # at the object, but the fingers do not hold it
    "slip",  # held, then lost
    "collision",  # hit or displaced another object or the table
    "wrong-object",  # acts on a distractor
    "transport-error",  # held, but carried elsewhere
    "early-release",  # released before or beside the goal
    "no-release",  # at the goal, but never let go
    "stall",  # stops making progress
]
"""How a stage fails; an enum, so that small models can answer it."""

ModeStatus = Literal["candidate", "validated", "training", "retained", "mastered", "parked"]
Verdict = Literal["confirmed", "refuted", "undecided"]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Diagnosis(_Record):
    """The critic's claim about one group of failures. `answer` fields come from the model."""

    diagnosis_id: str
    round: int
    failed_stage: str
    """Name of a base stage of the family."""
    mechanism: Mechanism
    axis: Axis
    """Factor axis that is blamed."""
    factor_path: str
    """Path of the blamed factor, e.g. ``sigma.target.yaw``."""
    cure: tuple[Edit, ...]
    """The one factor edit (all paths of one axis) that should cure the failure."""
    expected_effect: Annotated[float, Field(ge=0.0, le=1.0)]
    """Predicted rise of success when the cure is applied."""
    confidence: Literal["low", "medium", "high"]
    explanation: str
    evidence: tuple[str, ...]
    """Episode ids and event references that the claim rests on."""


class ArmResult(_Record):
    """Outcomes of one arm of a control test, in the order of its pairs."""

    name: Literal["target", "control", "placebo"]
    successes: int
    trials: int
    progress_mean: float
    """Mean staged progress Phi_max in [0, 1]."""
    episode_ids: tuple[str, ...] = ()


class ControlTest(_Record):
    """A sequential paired test of a diagnosis."""

    test_id: str
    diagnosis_id: str
    arms: tuple[ArmResult, ...]
    outcome: Literal["success", "progress"]
    """What was compared: success, or staged progress where success was near zero."""
    effect: float
    """Estimated control minus target."""
    interval: tuple[float, float]
    """Confidence sequence of the effect at level alpha."""
    e_value: float
    """Largest evidence for effect > 0 (anytime-valid)."""
    e_value_refute: float
    """Largest evidence for effect < delta; for the placebo's where the cure is not specific."""
    p_value: float
    """Of "control beats target and placebo", for the Benjamini-Hochberg step over a round."""
    verdict: Verdict
    reason: str
    e_value_placebo: float = 1.0
    """Largest evidence for control > placebo."""
    placebo_effect: float | None = None
    """Estimated control minus placebo, on the pairs that the placebo ran."""
    dropped_pairs: int = 0
    """Pairs left out because target or control crashed."""


class Mode(_Record):
    """A difficulty mode: a validated, reusable why-it-fails with its programs and history."""

    mode_id: str
    """``m001`` …, in order of creation within a memory."""
    title: str
    family: str
    status: ModeStatus
    axis: Axis
    factor_path: str
    stage: str
    mechanism: Mechanism
    explanation: str
    omega: GenerationProgram
    phi: TrainingProgram | None = None
    omega_version: int = 1
    phi_version: int = 0
    diagnosis_ids: tuple[str, ...] = ()
    created_round: int = 0
    last_probed_round: int = 0
    probe_history: tuple[tuple[int, int, int], ...] = ()
    """(round, successes, trials) on the mode's fixed probe scenes."""
    reason: str = ""
    """Why it has its present status."""
    pinned_by: str | None = None
    """Directive id that fixed the status, if a person did."""
    lineage: tuple[str, ...] = ()
    """Where it was before, oldest first, e.g. ``first-run:m003``; empty for a mode found here."""
