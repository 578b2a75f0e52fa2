"""Offline Text2potential: from (stage, mechanism) to edits of the family's staged potential."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from coda.agents.rules_repair import repair
from coda.policy.program import LearningTools, Progress, Stage, TrainingProgram
from coda.sim.roles import DISTRACTORS
from coda.sim.terms import PredicateTerm

NEAR = PredicateTerm(name="near", limit=0.0)
HELD = (PredicateTerm(name="grasped"), PredicateTerm(name="near", limit=0.035))
LIFTED = PredicateTerm(name="lifted", limit=0.0)
ABOVE = PredicateTerm(name="above", limit=0.0, reference="receptacle")
ALIGNED_COARSE = PredicateTerm(name="aligned", limit=0.0)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a mechanism asks of the potential and of the learning tools."""

    boost: float = 1.8
    """Factor on the failing stage's share before normalising."""
    insert: Stage | None = None
    """A stage of its own for the missing skill; its share is taken from all alike."""
    before: tuple[str, ...] = ()
    """Insert before the first of these stages that the base has."""
    tools: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""


def _stage(
    name: str, share: float, term: PredicateTerm, start: float, end: float, *entry: PredicateTerm
) -> Stage:
    return Stage(
        name=name, entry=entry, share=share, progress=Progress(term=term, start=start, end=end)
    )


_ALIGN = _stage("align", 0.12, ALIGNED_COARSE, -0.9, -0.2, PredicateTerm(name="near", limit=0.12))
_APPROACH = _stage(
    "approach", 0.10, NEAR, -0.22, -0.10, PredicateTerm(name="near", limit=0.22),
    PredicateTerm(name="opened"),
)  # fmt: skip
_CLEAR = _stage(
    "clear", 0.10, NEAR, -0.22, -0.10, PredicateTerm(name="near", limit=0.22), *(
        PredicateTerm(name="near", subject=role, limit=0.06, negate=True) for role in DISTRACTORS
    ),
)  # fmt: skip
_STEADY = _stage(
    "steady", 0.10, LIFTED, 0.02, 0.05, *HELD, PredicateTerm(name="lifted", limit=0.02)
)
_NEAR_GOAL = _stage(
    "near-goal", 0.10, ABOVE, -0.15, -0.03, *HELD, PredicateTerm(name="lifted", limit=0.05),
    PredicateTerm(name="above", limit=0.15, reference="receptacle"),
)  # fmt: skip
_CENTRE = _stage(
    "centre", 0.10, ABOVE, -0.08, -0.03, *HELD,
    PredicateTerm(name="above", limit=0.08, reference="receptacle"),
)  # fmt: skip

_EXPLORE: Mapping[str, Any] = MappingProxyType({"exploration_noise": 0.1})
_RESETS: Mapping[str, Any] = MappingProxyType({"stage_resets": True})

RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        "reach-error": Recipe(
            insert=_APPROACH, before=("descend",), tools=_EXPLORE,
            why="reward the approach in two steps, so that a new position still has a slope",
        ),
        "misaligned-grasp": Recipe(
            insert=_ALIGN, before=("descend",), tools={"lookahead_candidates": 16},
            why="reward turning to the object's yaw before descending",
        ),
        "no-closure": Recipe(
            boost=2.2, tools=_RESETS,
            why="more weight on closing the fingers, with resets close to the object",
        ),
        "slip": Recipe(
            insert=_STEADY, before=("carry",), tools=_RESETS,
            why="reward keeping hold while lifting before moving away",
        ),
        "collision": Recipe(
            insert=_CLEAR, before=("descend",), tools={"lookahead_candidates": 20},
            why="reward an approach that stays clear of the distractors",
        ),
        "wrong-object": Recipe(
            boost=2.2, tools={"lookahead_candidates": 20},
            why="more weight on reaching the named object; more candidates to find the way",
        ),
        "transport-error": Recipe(
            insert=_NEAR_GOAL, before=("place",), tools=_RESETS,
            why="reward the last part of the way to the goal by itself, with resets in hold",
        ),
        "early-release": Recipe(
            insert=_CENTRE, before=("place",), tools=_RESETS,
            why="reward being centred over the goal before lowering and letting go",
        ),
        "no-release": Recipe(
            boost=2.5, tools=_RESETS,
            why="more weight on letting go, with resets where the object is on the goal",
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

    Issues of the check are mended where they name a stage; otherwise the change of the base gets
    milder with every attempt. A potential under which nothing was learned gets a steeper failing
    stage and stronger tools.
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
        else:
            stages = repair(previous, facts["issues"], diagnosis["failed_stage"])
            stages = None if stages == previous.stages else stages
    if stages is None:
        if facts["issues"]:  # the inserted stage is the first suspect
            boost = 1.0 + (recipe.boost - 1.0) / 2.0 ** facts["attempt"]
            recipe = replace(recipe, insert=None, boost=boost)
        stages = _insert(base.stages, recipe)
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


def _insert(stages: tuple[Stage, ...], recipe: Recipe) -> tuple[Stage, ...]:
    """Insert the recipe's stage, and let the stage before it end where it begins."""
    new = recipe.insert
    names = [stage.name for stage in stages]
    at = next((names.index(name) for name in recipe.before if name in names), None)
    if new is None or at is None or at == 0 or new.name in names or len(stages) >= 10:
        return stages
    earlier = stages[at - 1]
    ends = _ending(earlier, new)
    return (*stages[: at - 1], ends, new, *stages[at:])


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
