"""Actions of directives: the closed set of what a person may change in a run, as data."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from coda.sim.roles import AXES, Axis

Direction = Literal["lower", "higher"]
ModeChange = Literal["park", "retire", "activate"]
Axes = Annotated[tuple[Axis, ...], Field(min_length=1, max_length=len(AXES))]
Count = Annotated[int, Field(ge=1, le=100_000)]

MIN_BAND_WIDTH = 0.1
"""Narrowest success band; with fewer scenes than this resolves, nothing would be inside it."""


class _Action(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FocusAxes(_Action):
    """Work on these factor axes only."""

    kind: Literal["focus-axes"] = "focus-axes"
    axes: Axes


class StopAxes(_Action):
    """Stop generating scenes along these axes."""

    kind: Literal["stop-axes"] = "stop-axes"
    axes: Axes


class ResumeAxes(_Action):
    """Undo a focus or a stop: these axes may be worked on again."""

    kind: Literal["resume-axes"] = "resume-axes"
    axes: Axes


class FactorBias(_Action):
    """Generate one factor lower or higher than the seed scene, e.g. smaller targets."""

    kind: Literal["factor-bias"] = "factor-bias"
    path: Annotated[str, Field(pattern=r"^(tau|sigma|alpha)\.[a-z0-9_.-]+$", max_length=60)]
    direction: Direction


class SetBand(_Action):
    """Aim for scenes whose success rate lies in [low, high]."""

    kind: Literal["band"] = "band"
    low: Annotated[float, Field(ge=0.0, le=1.0)]
    high: Annotated[float, Field(ge=0.0, le=1.0)]

    @model_validator(mode="after")
    def _wide_enough(self) -> SetBand:
        if self.high - self.low < MIN_BAND_WIDTH - 1e-9:
            raise ValueError(
                f"the band {self.low:.0%} to {self.high:.0%} is narrower than {MIN_BAND_WIDTH:.0%}"
            )
        return self


class SetModeStatus(_Action):
    """Park, retire or activate a mode; it keeps that status until a person changes it."""

    kind: Literal["mode-status"] = "mode-status"
    mode_id: Annotated[str, Field(pattern=r"^m\d{3,}$")]
    change: ModeChange
    reason: Annotated[str, Field(max_length=300)] = ""


class NewMode(_Action):
    """A difficulty that a person describes; it is tested like any other candidate."""

    kind: Literal["new-mode"] = "new-mode"
    text: Annotated[str, Field(min_length=5, max_length=300)]
    axis: Axis


class SetBudget(_Action):
    """Change the run's rounds (in all), scenes a round, or policy updates a round."""

    kind: Literal["budget"] = "budget"
    rounds: Count | None = None
    scenes: Count | None = None
    updates: Count | None = None

    @model_validator(mode="after")
    def _says_something(self) -> SetBudget:
        if self.rounds is None and self.scenes is None and self.updates is None:
            raise ValueError("a budget directive names rounds, scenes or updates")
        return self


class SetSchedule(_Action):
    """Fixed rounds, or adaptive to the remaining modes and recent learning progress."""

    kind: Literal["schedule"] = "schedule"
    schedule: Literal["adaptive", "fixed"]


class SetWeight(_Action):
    """Multiply the sampling weight of a mode."""

    kind: Literal["weight"] = "weight"
    mode_id: Annotated[str, Field(pattern=r"^m\d{3,}$")]
    factor: Annotated[float, Field(ge=0.0, le=10.0)]


class StopRun(_Action):
    """End the run cleanly at the next plan."""

    kind: Literal["stop-run"] = "stop-run"


Action = Annotated[
    FocusAxes
    | StopAxes
    | ResumeAxes
    | FactorBias
    | SetBand
    | SetModeStatus
    | NewMode
    | SetBudget
    | SetSchedule
    | SetWeight
    | StopRun,
    Field(discriminator="kind"),
]
"""What a directive does."""

ACTION_KINDS = (
    "focus-axes",
    "stop-axes",
    "resume-axes",
    "factor-bias",
    "band",
    "mode-status",
    "new-mode",
    "budget",
    "schedule",
    "weight",
    "stop-run",
)
ACTIONS: TypeAdapter[Action] = TypeAdapter(Action)
"""Reads an action from data."""


def describe(action: Action) -> str:
    """The action in words."""
    match action:
        case FocusAxes():
            return f"work only on {', '.join(action.axes)}"
        case StopAxes():
            return f"stop working on {', '.join(action.axes)}"
        case ResumeAxes():
            return f"allow work on {', '.join(action.axes)} again"
        case FactorBias():
            return f"generate {action.path} {action.direction} than the seed scene"
        case SetBand():
            return f"aim for scenes with {action.low:.0%} to {action.high:.0%} success"
        case SetModeStatus():
            why = f" ({action.reason})" if action.reason else ""
            return f"{action.change} mode {action.mode_id}{why}"
        case NewMode():
            return f"test a new mode on {action.axis}: {action.text}"
        case SetBudget():
            named = {"rounds": action.rounds, "scenes": action.scenes, "updates": action.updates}
            parts = [f"{name} = {value}" for name, value in named.items() if value is not None]
            return f"set {', '.join(parts)}"
        case SetSchedule():
            return f"use the {action.schedule} schedule"
        case SetWeight():
            return f"weigh mode {action.mode_id} by {action.factor:g}"
        case StopRun():
            return "stop the run at the next plan"
