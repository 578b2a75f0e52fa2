"""Generation and training programs in words, for reports."""

from __future__ import annotations

from collections.abc import Sequence

from coda.policy.program import LearningTools, Stage
from coda.sim.program import (
    Choice,
    Edit,
    Fixed,
    Mixture,
    Normal,
    Polar,
    RelativeToRole,
    Sampler,
    Uniform,
)


def edit_text(edit: Edit) -> str:
    """One typed edit, e.g. ``sigma.target.yaw: uniform -1.2 to 1.2``."""
    return f"{edit.path}: {sampler_text(edit.sampler)}"


def sampler_text(sampler: Sampler) -> str:
    """A sampler in words; units are those of the edited factor."""
    match sampler:
        case Fixed():
            return f"always {_value(sampler.value)}"
        case Choice():
            return f"one of {', '.join(map(_value, sampler.values))}"
        case Uniform():
            return f"uniform {_value(sampler.low)} to {_value(sampler.high)}"
        case Normal():
            spread = f"{_value(sampler.mean)} ± {_value(sampler.std)}"
            return f"normal {spread} in {_value(sampler.low)} to {_value(sampler.high)}"
        case Polar():
            return f"around {_value(sampler.center)}, {_ring(sampler.radius, sampler.angle)}"
        case RelativeToRole():
            return f"around the {sampler.role}, {_ring(sampler.radius, sampler.angle)}"
        case Mixture():
            return f"mixture of {'; '.join(map(sampler_text, sampler.components))}"


def _ring(radius: tuple[float, float], angle: tuple[float, float]) -> str:
    return f"radius {_value(radius[0])} to {_value(radius[1])} m, angle {_value(angle)} rad"


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_value, value))})"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def stage_text(stage: Stage) -> str:
    """A stage of a potential: what enters it, what it measures, what it is worth."""
    entry = " and ".join(map(str, stage.entry)) or "always"
    progress = stage.progress
    span = f"margin of {progress.term} from {progress.start:g} to {progress.end:g}"
    return f"{stage.name}: entered when {entry}; progress is the {span}; worth {stage.share:.2f}"


def tools_text(tools: LearningTools) -> str:
    """The learning tools that a training program asks for."""
    parts: Sequence[tuple[object, str]] = (
        (tools.lookahead, f"lookahead with {tools.lookahead_candidates} candidates"),
        (tools.stage_resets, "resets to the failing stage"),
        (tools.self_imitation, "self-imitation"),
        (tools.planner_demonstrations, f"{tools.planner_demonstrations} planner demonstrations"),
        (tools.exploration_noise, f"exploration noise {tools.exploration_noise:g}"),
        (tools.replay_share is not None, f"a share {tools.replay_share} of earlier rounds"),
        (tools.chunk_steps, f"{tools.chunk_steps} actions between decisions"),
    )
    return ", ".join(text for wanted, text in parts if wanted)
