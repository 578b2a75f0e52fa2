"""Training programs phi as data: staged potential and learning tools (Text2potential)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from coda.sim.terms import PredicateTerm


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Progress(_Data):
    """Progress tau in [0, 1] from a predicate's margin: 0 at `start`, 1 at `end`, clipped."""

    term: PredicateTerm
    start: Annotated[float, Field(ge=-4.0, le=4.0)]
    end: Annotated[float, Field(ge=-4.0, le=4.0)]

    @model_validator(mode="after")
    def _moves(self) -> Progress:
        if abs(self.start - self.end) < 1e-6:
            raise ValueError(f"start = end = {self.start}: progress needs a range")
        return self


class Stage(_Data):
    """One stage: entered when every term of `entry` holds; worth `share` of the potential."""

    name: Annotated[str, Field(min_length=1, max_length=30, pattern=r"^[a-z][a-z0-9-]*$")]
    entry: Annotated[tuple[PredicateTerm, ...], Field(max_length=4)] = ()
    """Conjunction; empty for the first stage only."""
    progress: Progress
    share: Annotated[float, Field(gt=0.0, le=1.0)]
    """alpha_k; shares of all stages sum to 1."""


class LearningTools(_Data):
    """Learning tools that a training program asks for."""

    lookahead: bool = True
    """Potential-guided search in the simulator, distilled into the policy."""
    lookahead_candidates: Annotated[int, Field(ge=2, le=64)] = 12
    """Relative to this default: a program that asks for 24 gets twice the run's candidates."""
    stage_resets: bool = False
    """Start some episodes from snapshots at the stage that fails."""
    self_imitation: bool = True
    """Imitate the policy's own episodes of the round, the more the higher their advantage."""
    planner_demonstrations: Annotated[int, Field(ge=0, le=200)] = 0
    """Planner rollouts on the mode's scenes that are imitated; 0 in paper-faithful runs."""
    exploration_noise: Annotated[float, Field(ge=0.0, le=0.5)] = 0.0
    """Probability that a searched chunk executes a candidate drawn at random."""
    replay_share: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    """Share of an actor batch, beside the demonstrations', that comes from earlier rounds; the
    learner's own where None."""
    chunk_steps: Literal[2, 4, 8] | None = None
    """Actions of a chunk that are executed before the next is chosen; all where None."""


class TrainingProgram(_Data):
    """phi: a staged potential Phi in [0, 1] and learning tools.

    With stage k the last stage whose entry holds (stage 0 always does):
    ``Phi = sum_{j<k} share_j + share_k * tau_k``. Source: design, section 8.
    """

    schema_version: Literal[1] = 1
    name: Annotated[str, Field(min_length=1, max_length=80)]
    family: Annotated[str, Field(max_length=40)]
    stages: Annotated[tuple[Stage, ...], Field(min_length=1, max_length=14)]
    tools: LearningTools = LearningTools()
    source_text: Annotated[str, Field(max_length=1000)] = ""
    """The diagnosis that it was compiled from."""

    @model_validator(mode="after")
    def _sound(self) -> TrainingProgram:
        total = sum(stage.share for stage in self.stages)
        if abs(total - 1.0) > 1e-6:
            raise ValueError(f"shares sum to {total:.6g}, need 1")
        names = [stage.name for stage in self.stages]
        if len(set(names)) != len(names):
            raise ValueError(f"stage names repeat: {names}")
        if self.stages[0].entry:
            raise ValueError("the first stage has no entry terms: it holds always")
        for stage in self.stages[1:]:
            if not stage.entry:
                raise ValueError(f"stage {stage.name!r} needs at least one entry term")
        return self
