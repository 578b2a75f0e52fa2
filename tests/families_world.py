"""Rollouts of every family for the tests of evidence and agents: planners, sound and crippled."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from coda.policy.potential import Potential
from coda.policy.potential_base import base_program
from coda.sim.families import family
from coda.sim.frame import SimFrame
from coda.sim.planner import ScriptedPlanner
from coda.sim.planner_transfer import held
from coda.sim.predicates import underside
from coda.sim.program import GenerationProgram
from coda.sim.roles import ROLES, Role
from coda.sim.rollout import run_scenes
from coda.sim.sampling import sample_scene
from coda.sim.splits import Splits
from coda.tools.evidence import Evidence, build_evidence

Array = npt.NDArray[np.float64]
Change = Callable[[SimFrame, Array], Array]
STEPS = 128


@functools.cache
def successes(name: str) -> tuple[SimFrame, ...]:
    """A planner rollout of each task of a family from its seed scene, a state a control step."""
    seeds = [task.seed for task in family(name).tasks.values()]
    episodes = run_scenes(seeds, ScriptedPlanner(), keep_fine=True)
    assert all(episode.success for episode in episodes)
    return tuple(SimFrame.unpack(episode.fine) for episode in episodes if episode.fine is not None)


def program(name: str, task: str) -> GenerationProgram:
    """Turned, heavy or stiff, and elsewhere."""
    return Splits(family=name).program(["yaw", "mass-friction", "goal"], task=task)


@functools.cache
def evidence(name: str, task: str, how: str, count: int = 2) -> Evidence:
    """Evidence of a crippled planner's failures at a task."""
    wide = program(name, task)
    rng = np.random.default_rng(0)
    scenes = [sample_scene(wide, rng) for _ in range(count)]
    planner, change = ScriptedPlanner(), CRIPPLED[how]

    def actor(frame: SimFrame, active: npt.NDArray[np.bool_]) -> Array:
        return change(frame, planner(frame, active).copy())

    episodes = run_scenes(scenes, actor, keep_fine=True, max_steps=STEPS)
    base = Potential(base_program(name))
    ids = [f"e{i}" for i in range(count)]
    return build_evidence(wide, episodes, base, family(name).tasks[task].seed, episode_ids=ids)


def _holding(frame: SimFrame) -> npt.NDArray[np.bool_]:
    return held(frame, "target") | held(frame, "receptacle") | held(frame, "handle")


def _never_closing(frame: SimFrame, chunk: Array) -> Array:
    del frame  # Unused.
    chunk[:, :, 6] = -1.0
    return chunk


def _never_opening(frame: SimFrame, chunk: Array) -> Array:
    chunk[_holding(frame), :, 6] = 1.0
    return chunk


def _weak(frame: SimFrame, chunk: Array) -> Array:
    """Hardly moves what it holds."""
    chunk[_holding(frame), :, :6] *= 0.02
    return chunk


def _opening_early(frame: SimFrame, chunk: Array) -> Array:
    """Lets go as soon as things are up, or a joint is half way."""
    roles: tuple[Role, ...] = ("target", "receptacle")
    for role in roles:
        graspable = frame.grip_half[:, ROLES.index(role)].min(axis=1) > 0
        chunk[graspable & held(frame, role) & (underside(frame, role) > 0.045), :, 6] = -1.0
    near = np.abs(frame.opening - frame.joint_goal) < 0.6
    chunk[held(frame, "handle") & near, :, 6] = -1.0
    return chunk


CRIPPLED: dict[str, Change] = {
    "never-closing": _never_closing,
    "never-opening": _never_opening,
    "weak": _weak,
    "opening-early": _opening_early,
}
"""What a crippled planner does to its chunks (B, H, 7)."""
