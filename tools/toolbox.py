"""LangChain tools that read; bound to the roles that may use them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from langchain_core.tools import BaseTool, StructuredTool
from pydantic import BaseModel, ConfigDict, Field

from coda.memory.records import ModeStatus, Verdict
from coda.memory.rundb import RunDb
from coda.sim.roles import Axis
from coda.tools import run_facts
from coda.tools.evidence import Evidence

MANY_EVENTS = 200
"""Events of one rollout that a tool returns at most."""


class EpisodeArgs(BaseModel):
    """Which rollout."""

    model_config = ConfigDict(extra="forbid")

    episode_id: Annotated[str, Field(max_length=60, description="Id of a rollout of this group")]


class NoArgs(BaseModel):
    """No arguments."""

    model_config = ConfigDict(extra="forbid")


class ModeArgs(BaseModel):
    """Which mode."""

    model_config = ConfigDict(extra="forbid")

    mode_id: Annotated[str, Field(max_length=20, description="For example m003")]


class ModesArgs(BaseModel):
    """Which modes."""

    model_config = ConfigDict(extra="forbid")

    status: Annotated[ModeStatus | None, Field(description="Only modes with this status")] = None


class RoundArgs(BaseModel):
    """Which round."""

    model_config = ConfigDict(extra="forbid")

    round: Annotated[int | None, Field(ge=0, description="One round; leave out for all")] = None


class TestsArgs(BaseModel):
    """Which control tests."""

    model_config = ConfigDict(extra="forbid")

    verdict: Annotated[Verdict | None, Field(description="Only tests with this verdict")] = None


class RolloutArgs(BaseModel):
    """Which rollouts."""

    model_config = ConfigDict(extra="forbid")

    round: Annotated[int | None, Field(ge=0)] = None
    axis: Axis | None = None
    mode_id: Annotated[str | None, Field(max_length=20)] = None
    failed: Annotated[bool | None, Field(description="true: failures only")] = None


def critic_tools(evidence: Evidence) -> list[BaseTool]:
    """Tools of the critic over one group of rollouts: one rollout in full, and all contrasts."""

    def episode_timeline(episode_id: str) -> str:
        return as_json(evidence.episode(episode_id).facts(events=MANY_EVENTS))

    def compare_factors() -> str:
        rows = [contrast.facts() for contrast in evidence.contrasts]
        outcomes = [
            {"episode": e.episode_id, "success": e.success, "stage": e.stage, **e.deltas}
            for e in evidence.episodes
        ]
        return as_json({"contrasts": rows, "rollouts": outcomes})

    return [
        _tool(
            episode_timeline,
            "All events, margins, contacts and factor values of one rollout.",
            EpisodeArgs,
        ),
        _tool(
            compare_factors,
            "Factor contrasts of failures against successes, and every rollout's factor "
            "differences from the seed scene with its outcome.",
            NoArgs,
        ),
    ]


def run_tools(db: RunDb, run_dir: Path) -> list[BaseTool]:
    """Tools of the curriculum in chat that read one run."""

    def show_run() -> str:
        return as_json(run_facts.run_facts(db, run_dir))

    def list_modes(status: str | None = None) -> str:
        return as_json(run_facts.modes_facts(db, status))

    def explain_mode(mode_id: str) -> str:
        return as_json(run_facts.mode_facts(db, mode_id))

    def show_rounds(round: int | None = None) -> str:
        return as_json(run_facts.rounds_facts(db, round))

    def show_tests(verdict: str | None = None) -> str:
        return as_json(run_facts.control_facts(db, verdict))

    def show_rollouts(
        round: int | None = None,
        axis: str | None = None,
        mode_id: str | None = None,
        failed: bool | None = None,
    ) -> str:
        return as_json(
            run_facts.rollouts_facts(db, round_=round, axis=axis, mode_id=mode_id, failed=failed)
        )

    def list_directives() -> str:
        return as_json(run_facts.directives_facts(db))

    return [
        _tool(
            show_run,
            "State of the run, success by round and axis, modes by status, verdicts, costs.",
            NoArgs,
        ),
        _tool(list_modes, "Difficulty modes, the least successful first.", ModesArgs),
        _tool(
            explain_mode,
            "One mode: why it exists, its diagnoses, control tests, probes, programs, and why it "
            "has its status.",
            ModeArgs,
        ),
        _tool(
            show_rounds,
            "What each round planned, built, diagnosed, tested, changed and measured.",
            RoundArgs,
        ),
        _tool(show_tests, "Control tests of diagnoses with arms and effects.", TestsArgs),
        _tool(show_rollouts, "Counts of rollouts and the latest ones.", RolloutArgs),
        _tool(list_directives, "Directives of people and whether they were consumed.", NoArgs),
    ]


def _tool(func: Callable[..., str], description: str, args: type[BaseModel]) -> BaseTool:
    return StructuredTool.from_function(func=func, description=description, args_schema=args)


def as_json(value: Any) -> str:
    """Compact JSON for a tool's answer."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
