"""Small worlds for the policy's tests: simulated rollouts, good and broken, and random frames."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch

from coda.policy.config import DEBUG_POLICY
from coda.policy.flow import FlowChunkPolicy
from coda.policy.observation import OBSERVATION_DIM, TEXT_DIM, Observation
from coda.policy.replay import Replay
from coda.sim.assets import ASSETS
from coda.sim.families import family
from coda.sim.frame import SimFrame
from coda.sim.planner import ScriptedPlanner
from coda.sim.rollout import EpisodeData, run_scenes
from coda.sim.scene import ObjectAttributes, Pose, Scene

Array = npt.NDArray[np.float64]


def text(seed: int = 0) -> npt.NDArray[np.float32]:
    """A unit vector (E,) in place of a sentence embedding."""
    value = np.random.default_rng(seed).normal(size=TEXT_DIM).astype(np.float32)
    return np.asarray(value / np.linalg.norm(value), dtype=np.float32)


def scenes(count: int, seed: int = 0) -> list[Scene]:
    """A cube, shifted and turned, and the plate where it belongs."""
    rng = np.random.default_rng(seed)
    base = family("pick-place").seed
    cube = ObjectAttributes(asset="cube", mass_kg=ASSETS["cube"].mass_kg)
    objects = {**base.alpha.objects, "target": cube}
    out = []
    for _ in range(count):
        x, y = rng.uniform((0.42, -0.15), (0.52, -0.05))
        target = Pose(xy=(float(x), float(y)), yaw=float(rng.uniform(-0.6, 0.6)))
        poses = {**base.sigma.poses, "target": target, "receptacle": Pose(xy=(0.48, 0.14))}
        sigma = base.sigma.model_copy(update={"poses": poses})
        alpha = base.alpha.model_copy(update={"objects": objects})
        out.append(base.model_copy(update={"sigma": sigma, "alpha": alpha}))
    return out


@functools.cache
def successes() -> tuple[EpisodeData, ...]:
    """Planner rollouts that succeeded, with the state after every control step."""
    episodes = run_scenes(scenes(6), ScriptedPlanner(), keep_fine=True)
    return tuple(e for e in episodes if e.success)


def _broken(change: Callable[[SimFrame, Array], Array]) -> tuple[EpisodeData, ...]:
    planner = ScriptedPlanner()

    def actor(frame: SimFrame, active: npt.NDArray[np.bool_]) -> Array:
        return change(frame, planner(frame, active).copy())

    episodes = run_scenes(scenes(4, seed=1), actor, keep_fine=True, max_steps=96)
    return tuple(e for e in episodes if not e.success)


@functools.cache
def never_closing() -> tuple[EpisodeData, ...]:
    """Failures that stop at the grasp: the fingers never close."""

    def change(frame: SimFrame, chunk: Array) -> Array:
        del frame  # Unused.
        chunk[:, :, 6] = -1.0
        return chunk

    return _broken(change)


@functools.cache
def never_releasing() -> tuple[EpisodeData, ...]:
    """Failures that stop at the goal: the fingers never open again."""

    def change(frame: SimFrame, chunk: Array) -> Array:
        held = (frame.touch_left[:, 0] > 0) & (frame.touch_right[:, 0] > 0)
        chunk[held, :, 6] = 1.0
        return chunk

    return _broken(change)


def fine(episodes: tuple[EpisodeData, ...]) -> list[SimFrame]:
    """Each rollout as a batch of states, one per control step."""
    return [SimFrame.unpack(e.fine) for e in episodes if e.fine is not None]


@functools.cache
def replay_files() -> tuple[EpisodeData, ...]:
    """Episodes of the shared replay: successes, then failures."""
    return successes() + never_closing()


def replay() -> Replay:
    """Planner successes of round 0, and failed attempts and successes of round 1."""
    out = Replay()
    for episode in successes():
        out.add(episode, text(), source="planner")
    for episode in never_closing():
        out.add(episode, text(), source="policy", round_index=1)
    for episode in successes()[:2]:
        out.add(episode, text(1), source="lookahead", round_index=1)
    return out


def policy(seed: int = 0) -> FlowChunkPolicy:
    """A small policy."""
    return FlowChunkPolicy(DEBUG_POLICY, seed=seed)


def observations(count: int, seed: int = 0) -> Observation:
    """Random observations."""
    generator = torch.Generator().manual_seed(seed)
    return Observation(
        torch.randn(count, OBSERVATION_DIM, generator=generator),
        torch.randn(count, TEXT_DIM, generator=generator) / TEXT_DIM**0.5,
    )
