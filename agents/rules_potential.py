"""Offline Text2potential: from (stage, mechanism) to edits of the family's staged potential."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from coda.agents.rules_repair import repair
from coda.agents.rules_stages import (
    Insertion,
    Part,
    align,
    approach,
    centre,
    clear,
    near_goal,
    steady,
)
from coda.policy.program import LearningTools, Progress, Stage, TrainingProgram

MOST_STAGES = 14
"""Stages that a potential has at most."""
MENDED = 3
"""Attempts up to which issues are mended; after that, nothing is inserted any more."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a mechanism asks of the potential and of the learning tools."""

    boost: float = 1.8
    """Factor on the failing stage's share before normalising."""
    insert: Callable[[Part], Insertion | None] | None = None
    """Makes stages for the missing skill; all others give to their shares."""
    tools: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""


_EXPLORE: Mapping[str, Any] = MappingProxyType({"exploration_noise": 0.1})
_RESETS: Mapping[str, Any] = MappingProxyType({"stage_resets": True})

RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        "reach-error": Recipe(
            insert=approach, tools=_EXPLORE,
            why="reward the approach in two steps, so that a new position still has a slope",
        ),
        "misaligned-grasp": Recipe(
            insert=align, tools={"lookahead_candidates": 16},
            why="reward turning to the yaw of what is taken before going down to it",
        ),
        "no-closure": Recipe(
            boost=2.2, tools=_RESETS,
            why="more weight on closing the fingers, with resets close to what is taken",
        ),
        "slip": Recipe(
            insert=steady, tools=_RESETS,
            why="reward keeping hold on the first, or the last, part of the way by itself",
        ),
        "collision": Recipe(
            insert=clear, tools={"lookahead_candidates": 20},
            why="reward an approach that stays clear of the distractors",
        ),
        "wrong-object": Recipe(
            boost=2.2, tools={"lookahead_candidates": 20},
            why="more weight on reaching the named object; more candidates to find the way",
        ),
        "transport-error": Recipe(
            insert=near_goal, tools=_RESETS,
            why="reward the last part of the way to the goal by itself, with resets in hold",
        ),
        "early-release": Recipe(
            insert=centre, tools=_RESETS,
            why="reward being centred at the goal before letting go",
        ),
        "no-release": Recipe(
            boost=2.5, tools=_RESETS,
            why="more weight on letting go, with resets where the goal is reached",
        ),
        "stall": Recipe(
            boost=2.0, tools={"exploration_noise": 0.15, "lookahead_candidates": 16},
            why="a steeper slope where progress stops, more noise and more candidates",
        ),
    }
)  # fmt: skip
"""Mechanism -> recipe."""


def compile_potential(facts: dict[str, Any]) -> dict[str, Any]:
    """Answer the task ``compile-potential``.

    Issues of the check are mended where they name a stage, in the first attempts; otherwise the
    change of the base gets milder with every attempt. A potential under which nothing was learned
    gets a steeper failing stage and stronger tools.
    """
    base = TrainingProgram.model_validate(facts["base"])
    diagnosis = facts["diagnosis"]
    recipe = RECIPES[diagnosis["mechanism"]]
    stages = None
    tools = {**base.tools.model_dump(), **recipe.tools}
    if facts["issues"] and facts["previous"]:
        previous = TrainingProgram.model_validate(facts["previous"])
        if {issue["code"] for issue in facts["issues"]} == {"no-learning-progress"}:
            stages = _boost(previous.stages, diagnosis["failed_stage"], 1.6)
            tools = _stronger(previous.tools)
        elif facts["attempt"] <= MENDED:
            stages = repair(previous, facts["issues"], diagnosis["failed_stage"])
            stages = None if stages == previous.stages else stages
    if stages is None:
        if facts["issues"]:  # the inserted stage is the first suspect
            boost = 1.0 + (recipe.boost - 1.0) / 2.0 ** facts["attempt"]
            recipe = replace(recipe, insert=None, boost=boost)
        stages = _insert(base.stages, recipe, diagnosis["failed_stage"])
        stages = _boost(stages, diagnosis["failed_stage"], recipe.boost)
    program = TrainingProgram(
        name=f"{facts['mode']['mode_id']}-{diagnosis['mechanism']}"[:80],
        family=base.family,
        stages=normalised(stages),
        tools=LearningTools.model_validate(tools),
        source_text=f"{diagnosis['explanation'][:800]} | Rule: {recipe.why}."[:1000],
    )
    return {"program": program.model_dump(mode="json")}


def _stronger(tools: LearningTools) -> dict[str, Any]:
    """Tools for a mode that the present ones did not move."""
    return {
        **tools.model_dump(),
        "stage_resets": True,
        "lookahead_candidates": min(64, tools.lookahead_candidates + 8),
        "exploration_noise": round(min(0.5, tools.exploration_noise + 0.05), 3),
    }


def _insert(stages: tuple[Stage, ...], recipe: Recipe, failed: str) -> tuple[Stage, ...]:
    """Insert the recipe's stages, and let the stage before them end where they begin."""
    if recipe.insert is None:
        return stages
    found = recipe.insert(Part.around(stages, failed))
    if found is None:
        return stages
    at, new = found
    if {stage.name for stage in stages} & {stage.name for stage in new}:
        return stages
    if len(stages) + len(new) > MOST_STAGES:
        return stages
    return (*stages[: at - 1], _ending(stages[at - 1], new[0]), *new, *stages[at:])


def _ending(stage: Stage, following: Stage) -> Stage:
    """`stage` with its progress complete where `following` is entered, if both use one measure."""
    for term in following.entry:
        same = (term.name, term.subject, term.reference) == (
            stage.progress.term.name,
            stage.progress.term.subject,
            stage.progress.term.reference,
        )
        if not same or term.limit is None or stage.progress.term.limit is None:
            continue
        # margin = limit - gap for distances, value - limit for heights
        sign = 1.0 if term.name == "lifted" else -1.0
        end = round(sign * (term.limit - stage.progress.term.limit), 4)
        if end > stage.progress.start + 1e-3 and end < stage.progress.end:
            progress = Progress(term=stage.progress.term, start=stage.progress.start, end=end)
            return stage.model_copy(update={"progress": progress})
    return stage


def _boost(stages: tuple[Stage, ...], failed: str, factor: float) -> tuple[Stage, ...]:
    return tuple(
        s.model_copy(update={"share": min(1.0, s.share * factor)}) if s.name == failed else s
        for s in stages
    )


def normalised(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """Stages whose shares sum to 1, to 4 digits; the largest takes the rounding."""
    total = sum(stage.share for stage in stages)
    shares = [round(stage.share / total, 4) for stage in stages]
    shares[shares.index(max(shares))] += 1.0 - sum(shares)
    return tuple(
        stage.model_copy(update={"share": share})
        for stage, share in zip(stages, shares, strict=True)
    )
