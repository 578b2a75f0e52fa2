"""Rollouts of every family for the potentials' tests: planner successes, and planners that fail."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from coda.sim.families import family
from coda.sim.frame import SimFrame
from coda.sim.planner import ScriptedPlanner
from coda.sim.rollout import run_scenes
from coda.sim.scene import Scene

Array = npt.NDArray[np.float64]
FAILURE_STEPS = 96
"""Step limit of rollouts that cannot succeed."""
SHIFTS = ((0.0, 0.0), (0.012, -0.015))
"""The target of each task's seed scene is moved by these [m]."""


def seed_scenes(name: str) -> list[Scene]:
    """Two scenes a task: its seed scene, and one with the target moved a little."""
    scenes = []
    for task in family(name).tasks.values():
        for dx, dy in SHIFTS:
            poses = task.seed.sigma.poses
            x, y = poses["target"].xy
            moved = poses["target"].model_copy(update={"xy": (x + dx, y + dy)})
            sigma = task.seed.sigma.model_copy(update={"poses": {**poses, "target": moved}})
            scenes.append(task.seed.model_copy(update={"sigma": sigma}))
    return scenes


@functools.cache
def successes(name: str) -> tuple[SimFrame, ...]:
    """Planner rollouts of a family that succeeded, one state a control step."""
    episodes = run_scenes(seed_scenes(name), ScriptedPlanner(), keep_fine=True)
    return tuple(SimFrame.unpack(e.fine) for e in episodes if e.success and e.fine is not None)


def _crippled(
    name: str, change: Callable[[SimFrame, Array], Array], max_steps: int | None = FAILURE_STEPS
) -> tuple[SimFrame, ...]:
    planner = ScriptedPlanner()

    def actor(frame: SimFrame, active: npt.NDArray[np.bool_]) -> Array:
        return change(frame, planner(frame, active).copy())

    scenes = seed_scenes(name)[:: len(SHIFTS)]
    episodes = run_scenes(scenes, actor, keep_fine=True, max_steps=max_steps)
    return tuple(SimFrame.unpack(e.fine) for e in episodes if not e.success and e.fine is not None)


@functools.cache
def never_closing(name: str) -> tuple[SimFrame, ...]:
    """Failures that stop at the first grasp: the fingers never close."""

    def change(frame: SimFrame, chunk: Array) -> Array:
        del frame  # Unused.
        chunk[:, :, 6] = -1.0
        return chunk

    return _crippled(name, change)


@functools.cache
def never_releasing(name: str) -> tuple[SimFrame, ...]:
    """Failures that stop at the goal: what was taken is never let go."""

    def change(frame: SimFrame, chunk: Array) -> Array:
        held = ((frame.touch_left > 0) & (frame.touch_right > 0)).any(axis=1)
        chunk[held, :, 6] = 1.0
        return chunk

    return _crippled(name, change, max_steps=None)
