"""Directives: what a person changes in a run by chat, as typed actions the next plan consumes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from coda.agents.actions import (
    ACTION_KINDS,
    ACTIONS,
    Action,
    FactorBias,
    FocusAxes,
    NewMode,
    ResumeAxes,
    SetBand,
    SetBudget,
    SetModeStatus,
    SetSchedule,
    SetWeight,
    StopAxes,
    StopRun,
    describe,
)
from coda.agents.samplers import bias, read_sampler
from coda.memory.rows import DirectiveRow
from coda.sim.errors import CodaError, UnknownName
from coda.sim.factors import FACTORS
from coda.sim.roles import AXES, Axis
from coda.sim.scene import first_problem
from coda.sim.splits import Splits
from coda.tools.factor_table import factor_table


class DirectiveError(CodaError):
    """A directive that cannot be carried out; the message says what is possible."""


class Directive(BaseModel):
    """A recorded wish of a person, and the words it came from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    directive_id: str
    text: str
    action: Action

    def line(self) -> str:
        """One line for people."""
        return f"{self.directive_id}: {describe(self.action)}"


@dataclass(frozen=True, kw_only=True)
class Steering:
    """What the directives so far ask of the next plans. `None` leaves the run's own setting."""

    focus_axes: tuple[Axis, ...] = ()
    """Only these, when not empty."""
    stop_axes: tuple[Axis, ...] = ()
    biases: tuple[FactorBias, ...] = ()
    band: tuple[float, float] | None = None
    mode_changes: tuple[SetModeStatus, ...] = ()
    """Last word for each mode."""
    new_modes: tuple[NewMode, ...] = ()
    rounds: int | None = None
    scenes: int | None = None
    updates: int | None = None
    schedule: Literal["adaptive", "fixed"] | None = None
    weights: tuple[tuple[str, float], ...] = ()
    """(mode id, factor), last word for each mode."""
    stop: bool = False
    sources: tuple[str, ...] = ()
    """Ids of the directives that are in force."""

    @property
    def open_axes(self) -> tuple[Axis, ...]:
        """Axes that may be worked on."""
        wanted = self.focus_axes or AXES
        return tuple(axis for axis in AXES if axis in wanted and axis not in self.stop_axes)

    @property
    def requests(self) -> tuple[str, ...]:
        """Factor biases as the scene-builder reads them, e.g. ``alpha.target.scale lower``."""
        return tuple(f"{bias.path} {bias.direction}" for bias in self.biases)


def parse_action(data: Any) -> Action:
    """Read an action from JSON data. Raises `DirectiveError` in one line."""
    if not isinstance(data, dict) or data.get("kind") not in ACTION_KINDS:
        kind = data.get("kind") if isinstance(data, dict) else data
        raise DirectiveError(
            f"no directive of kind {kind!r:.40}; possible kinds: {', '.join(ACTION_KINDS)}."
        )
    try:
        return ACTIONS.validate_python(data)
    except ValidationError as error:
        raise DirectiveError(first_problem("directive", error)) from None


def in_force(rows: Iterable[DirectiveRow]) -> list[Directive]:
    """The directives of rows that were consumed and not undone, oldest first.

    Raises:
        DirectiveError: A row holds an action of another version.
    """
    live = [row for row in rows if row.status == "consumed"]
    return [read_row(row) for row in sorted(live, key=lambda row: row.directive_id)]


def read_row(row: DirectiveRow) -> Directive:
    """A recorded directive, typed. Raises `DirectiveError`."""
    return Directive(
        directive_id=row.directive_id, text=row.text, action=parse_action(dict(row.action))
    )


def check_action(
    action: Action, *, modes: Collection[str], steering: Steering, family: str = "pick-place"
) -> None:
    """Refuse what cannot be carried out given the known modes and the directives in force.

    Args:
        action: What a person asked for.
        modes: Ids of the run's modes.
        steering: Directives in force.
        family: Of the run.

    Raises:
        UnknownName: A mode id is not known.
        DirectiveError: The action would leave nothing to work on.
    """
    if isinstance(action, SetModeStatus | SetWeight) and action.mode_id not in modes:
        if not modes:
            raise DirectiveError(
                f"there is no mode {action.mode_id}: this run has no modes yet; ask again after "
                "its first round."
            )
        raise UnknownName("mode", action.mode_id, modes)
    if isinstance(action, FactorBias):
        _check_bias(action, family)
    after = _apply(steering, action)
    if isinstance(action, FocusAxes | StopAxes) and not after.open_axes:
        raise DirectiveError(
            "that would leave no axis to work on (stopped: "
            f"{', '.join(after.stop_axes)}); resume one of {', '.join(AXES)} first."
        )


def _check_bias(action: FactorBias, family: str) -> None:
    """A bias needs a number that generators vary."""
    rows = {row["path"]: row for row in factor_table(Splits(family=family)) if _biasable(row)}
    if action.path not in rows:
        raise DirectiveError(
            f"{action.path} cannot be made {action.direction}; generators can bias "
            f"{', '.join(rows)}. Focus on an axis, or stop one, for anything else."
        )
    row = rows[action.path]
    seed = read_sampler(row["seed"])
    if bias(seed, seed, read_sampler(row["wide"]), action.direction) == seed:
        raise DirectiveError(
            f"{action.path} cannot go {action.direction} than the seed scene's; it may be "
            f"{row['allowed']}. Stop the axis {row['axis']} to leave it as in the seed scene."
        )


def _biasable(row: dict[str, Any]) -> bool:
    """Whether a factor is one number with a seed value to be lower or higher than."""
    return row["seed"] is not None and FACTORS[row["path"]].kind in ("number", "count")


def apply_directives(settings: Steering, directives: Sequence[Directive]) -> Steering:
    """Fold directives into the steering, in order; the last word counts."""
    for directive in directives:
        settings = _apply(settings, directive.action)
        if directive.directive_id not in settings.sources:
            settings = replace(settings, sources=(*settings.sources, directive.directive_id))
    return settings


def _apply(now: Steering, action: Action) -> Steering:
    match action:
        case FocusAxes():
            stopped = tuple(a for a in now.stop_axes if a not in action.axes)
            return replace(now, focus_axes=action.axes, stop_axes=stopped)
        case StopAxes():
            focus = tuple(a for a in now.focus_axes if a not in action.axes)
            stopped = tuple(a for a in AXES if a in now.stop_axes or a in action.axes)
            return replace(now, focus_axes=focus, stop_axes=stopped)
        case ResumeAxes():
            stopped = tuple(a for a in now.stop_axes if a not in action.axes)
            focus = now.focus_axes and tuple(
                a for a in AXES if a in now.focus_axes or a in action.axes
            )
            return replace(now, focus_axes=focus, stop_axes=stopped)
        case FactorBias():
            rest = tuple(b for b in now.biases if b.path != action.path)
            return replace(now, biases=(*rest, action))
        case SetBand():
            return replace(now, band=(action.low, action.high))
        case SetModeStatus():
            others = tuple(c for c in now.mode_changes if c.mode_id != action.mode_id)
            return replace(now, mode_changes=(*others, action))
        case NewMode():
            known = action in now.new_modes
            return now if known else replace(now, new_modes=(*now.new_modes, action))
        case SetBudget():
            return replace(
                now,
                rounds=now.rounds if action.rounds is None else action.rounds,
                scenes=now.scenes if action.scenes is None else action.scenes,
                updates=now.updates if action.updates is None else action.updates,
            )
        case SetSchedule():
            return replace(now, schedule=action.schedule)
        case SetWeight():
            weights = tuple(w for w in now.weights if w[0] != action.mode_id)
            return replace(now, weights=(*weights, (action.mode_id, action.factor)))
        case StopRun():
            return replace(now, stop=True)
