"""What a task family is: its tasks, the ranges of its factors, and what is held out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from coda.sim.program import Choice, MinSeparation, Sampler
from coda.sim.roles import DISTRACTORS, Axis, Role
from coda.sim.scene import Scene

Ranges = Mapping[Axis, Mapping[str, Sampler]]
"""Per axis: samplers by factor path."""


def crowd(place: Sampler, turn: Sampler) -> dict[str, Sampler]:
    """Up to three distractors, each at a `place` and a `turn` of its own draw."""
    found: dict[str, Sampler] = {"tau.distractors": Choice(values=(0, 1, 2, 3))}
    for role in DISTRACTORS:
        found |= {f"sigma.{role}.xy": place, f"sigma.{role}.yaw": turn}
    return found


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """One task of a family, e.g. opening a drawer."""

    name: str
    title: str
    seed: Scene
    """The scene that edits start from."""
    wordings: tuple[str, ...]
    """Ways to say it, roles in braces, e.g. ``open the {target}``; the first is the default."""
    assets: Mapping[Role, tuple[str, ...]]
    """Assets that each role may have."""
    optional: Mapping[Role, tuple[str, ...]] = field(default_factory=dict)
    """More that it may have where their package is installed; nothing draws them by default."""
    max_steps: int = 128
    """Episode limit [control steps], a multiple of 8."""
    opening: tuple[float, float] | None = None
    """Range of `tau.opening` at the start; None: `opening_range` derives it from the goal."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """A task family. Its tasks share axes, ranges and the names of their stages."""

    name: str
    title: str
    tasks: Mapping[str, TaskSpec]
    """By name; the first is the default."""
    stages: tuple[str, ...]
    """Names of the base potential's stages, in order."""
    narrow: Ranges
    """The seed range that demonstrations come from. Paths of absent roles are skipped."""
    wide: Ranges
    """The whole factor space."""
    workspace_x: tuple[float, float] = (0.32, 0.66)
    """Where the target's and the receptacle's centres may lie, forward of the robot's base [m]."""
    workspace_y: tuple[float, float] = (-0.28, 0.28)
    """The same to the left of the robot's base [m]."""
    separation: tuple[MinSeparation, ...] = ()
    """Constraints of the reference programs."""
    held_out_assets: tuple[str, ...]
    """Never in a training scene, in any role."""
    salt: str
    """Fixes which cells are held out."""

    @property
    def seed(self) -> Scene:
        """Seed scene of the default task."""
        return next(iter(self.tasks.values())).seed


def opening_range(task: TaskSpec) -> tuple[float, float]:
    """How far a fixture may be open at the start of a task: clearly not at its goal yet."""
    if task.opening is not None:
        return task.opening
    relation = task.seed.tau.goal.relation
    if relation == "open":
        return (0.0, 0.7)
    return (0.3, 1.0) if relation == "closed" else (0.0, 1.0)
