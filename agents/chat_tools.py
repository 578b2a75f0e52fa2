"""Tools of the curriculum in chat that change the course of a run: record and undo directives."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from langchain_core.tools import BaseTool, StructuredTool
from pydantic import BaseModel, ConfigDict, Field

from coda.agents.actions import Direction, ModeChange, describe
from coda.agents.directives import Steering, apply_directives, check_action, parse_action, read_row
from coda.memory.rows import DirectiveRow
from coda.memory.rundb import RunDb
from coda.sim.roles import Axis
from coda.tools.run_facts import latest_modes, run_family
from coda.tools.toolbox import as_json, run_tools

Kind = Literal[
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
]


class SteerArgs(BaseModel):
    """One directive. Give `kind` and `words`, and only the fields that this kind needs."""

    model_config = ConfigDict(extra="forbid")

    kind: Annotated[
        Kind,
        Field(
            description="focus-axes, stop-axes, resume-axes: axes · factor-bias: path, direction "
            "· band: low, high · mode-status: mode_id, change, reason · new-mode: text, axis · "
            "budget: rounds, scenes, updates (any) · schedule: schedule · weight: mode_id, factor "
            "· stop-run: nothing"
        ),
    ]
    words: Annotated[str, Field(max_length=300, description="The person's words for this wish")]
    axes: list[Axis] | None = None
    path: Annotated[
        str | None,
        Field(
            description="alpha.target.scale, alpha.target.mass_kg, alpha.target.friction, "
            "sigma.target.yaw or tau.distractors"
        ),
    ] = None
    direction: Direction | None = None
    low: Annotated[float | None, Field(description="Success rate from 0 to 1")] = None
    high: Annotated[float | None, Field(description="Success rate from 0 to 1")] = None
    mode_id: Annotated[str | None, Field(description="For example m003")] = None
    change: ModeChange | None = None
    reason: str | None = None
    text: Annotated[str | None, Field(description="The new difficulty in words")] = None
    axis: Axis | None = None
    rounds: Annotated[int | None, Field(description="Rounds of the run in all")] = None
    scenes: Annotated[int | None, Field(description="Scenes a round")] = None
    updates: Annotated[int | None, Field(description="Policy updates a round")] = None
    schedule: Literal["adaptive", "fixed"] | None = None
    factor: Annotated[float | None, Field(description="Factor on the mode's weight")] = None


class UndoArgs(BaseModel):
    """Which directive to take back."""

    model_config = ConfigDict(extra="forbid")

    directive_id: Annotated[str, Field(max_length=20, description="For example d002")]


def curriculum_tools(db: RunDb, run_dir: Path, chat_key: str) -> list[BaseTool]:
    """All tools of the curriculum in chat.

    Args:
        db: The run's database, open for writing directives.
        run_dir: The run's folder.
        chat_key: Journal key of the conversation, e.g. ``chat:001``.
    """

    def steer(kind: str, words: str, **given: Any) -> str:
        action = parse_action(
            {"kind": kind, **{key: value for key, value in given.items() if value is not None}}
        )
        known = [mode.mode_id for mode in latest_modes(db)]
        about = run_family(run_dir)
        check_action(action, modes=known, steering=present_steering(db), family=about)
        row = db.direct(words, action.model_dump(mode="json"))
        means = describe(action)
        links = {"directive": row.directive_id}
        db.decide(chat_key, "directive", f"{row.directive_id}: {means}", "person", links)
        return as_json(
            {"recorded": row.directive_id, "means": means, "when": when_consumed(run_dir)}
        )

    def undo_directive(directive_id: str) -> str:
        row = db.undo(directive_id)
        links = {"directive": directive_id}
        db.decide(chat_key, "undo", f"{directive_id} is undone: {row.text}", "person", links)
        taken = row.consumed_round is not None
        return as_json({"undone": directive_id, "text": row.text, "was_consumed": taken})

    return [
        *run_tools(db, run_dir),
        StructuredTool.from_function(
            func=steer,
            description="Record one directive of the person; the next plan consumes it. Refuses "
            "what is impossible and says what is possible.",
            args_schema=SteerArgs,
        ),
        StructuredTool.from_function(
            func=undo_directive,
            description="Take a directive back; the next plan steers without it.",
            args_schema=UndoArgs,
        ),
    ]


def present_steering(db: RunDb) -> Steering:
    """Steering by every directive that is pending or in force."""
    rows = [row for row in db.rows(DirectiveRow) if row.status != "undone"]
    return apply_directives(Steering(), [read_row(row) for row in rows])


def when_consumed(run_dir: Path) -> str:
    """When a directive takes effect, in words."""
    if (run_dir / "result.json").exists():
        return (
            "this run is finished: the directive is kept, but only a run that goes on consumes it"
        )
    return "the next plan consumes it"
