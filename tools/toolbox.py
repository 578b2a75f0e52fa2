"""LangChain tools that read; bound to the roles that may use them."""

from __future__ import annotations

import json
from typing import Annotated, Any

from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import BaseModel, ConfigDict, Field

from coda.sim.errors import UnknownName
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


def critic_tools(evidence: Evidence) -> list[BaseTool]:
    """Tools of the critic over one group of rollouts: one rollout in full, and all contrasts."""

    def episode_timeline(episode_id: str) -> str:
        try:
            episode = evidence.episode(episode_id)
        except UnknownName as error:
            raise ToolException(str(error)) from None
        return as_json(episode.facts(events=MANY_EVENTS))

    def compare_factors() -> str:
        rows = [contrast.facts() for contrast in evidence.contrasts]
        outcomes = [
            {"episode": e.episode_id, "success": e.success, "stage": e.stage, **e.deltas}
            for e in evidence.episodes
        ]
        return as_json({"contrasts": rows, "rollouts": outcomes})

    return [
        StructuredTool.from_function(
            func=episode_timeline,
            name="episode_timeline",
            description="All events, margins, contacts and factor values of one rollout.",
            args_schema=EpisodeArgs,
            handle_tool_error=True,
        ),
        StructuredTool.from_function(
            func=compare_factors,
            name="compare_factors",
            description="Factor contrasts of failures against successes, and every rollout's "
            "factor differences from the seed scene with its outcome.",
            args_schema=NoArgs,
            handle_tool_error=True,
        ),
    ]


def as_json(value: Any) -> str:
    """Compact JSON for a tool's answer."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
