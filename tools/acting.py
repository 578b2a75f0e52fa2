"""How a policy acts in the simulator: its own samples, or the best of several by value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from coda.policy.base import ChunkPolicy
from coda.policy.critic import ChunkCritic
from coda.policy.observation import observe_vector
from coda.policy.potential import StatePotential
from coda.policy.random_candidates import RandomCandidates
from coda.policy.selection import best_of_n
from coda.policy.text import TextEncoder
from coda.sim.cameras import Pictures
from coda.sim.frame import Array, SimFrame
from coda.sim.rollout import Actor, EpisodeData, Seeing, with_pictures
from coda.sim.scene import Scene

ACTING_TEMPERATURE = 0.2
"""Noise that the policy acts with; at 1 it is the distribution it was trained on, whose stray
chunks cost successes."""


@dataclass(frozen=True, kw_only=True)
class Selected:
    """A policy whose chunks are chosen by a critic: the best of `count` draws."""

    policy: ChunkPolicy
    critic: ChunkCritic
    potential: StatePotential | None
    """That the critic was trained under."""
    count: int = 8


Acting = ChunkPolicy | Selected


def embed(text: TextEncoder, scenes: Sequence[Scene]) -> npt.NDArray[np.float32]:
    """Embeddings (N, E) of the scenes' instructions."""
    return text.encode([scene.tau.instruction for scene in scenes])


def policy_actor(
    policy: Acting,
    text: npt.NDArray[np.float32],
    *,
    seed: int,
    temperature: float = ACTING_TEMPERATURE,
    keep_pictures: bool = False,
    explore: float | Array = 0.0,
) -> Actor | Seeing:
    """Actor that takes one chunk of the policy in every state; it sees pictures if the policy does.

    Noise is drawn for all rows at every chunk, live or not, so that a row's noise does not depend
    on how long the others live. A critic chooses among draws at temperature 1.

    Args:
        policy: Whose chunks.
        text: Embeddings of the scenes' instructions (B, E).
        seed: Of the noise.
        temperature: Of a policy that acts by itself.
        keep_pictures: Whether the episodes hold what the policy saw.
        explore: Probability (one, or (B,)) that a chunk is a random motion instead.
    """
    rng = np.random.default_rng(seed % 2**63)
    generator = torch.Generator().manual_seed(seed % 2**63)
    chooses = policy.policy if isinstance(policy, Selected) else policy

    def see(
        frame: SimFrame, active: npt.NDArray[np.bool_], pictures: Pictures | None = None
    ) -> Array:
        del active  # Unused.
        obs = chooses.observe(frame, text, pictures)
        if isinstance(policy, Selected):
            value = None if policy.potential is None else policy.potential.evaluate(frame)
            vectors = torch.from_numpy(observe_vector(frame))
            chunks = best_of_n(
                chooses, policy.critic, obs, vectors, value, policy.count, generator=generator
            )
        else:
            chunks = chooses.sample(obs, 1, generator=generator, temperature=temperature)[:, 0]
        acts = chunks.cpu().numpy().astype(np.float64)
        if np.any(explore):
            other = RandomCandidates(1).propose(frame, np.zeros(frame.batch), rng)[:, 0]
            acts = np.where((rng.random(frame.batch) < explore)[:, None, None], other, acts)
        return acts

    return see if chooses.view is None else Seeing(view=chooses.view, act=see, keep=keep_pictures)


def shown(
    policy: ChunkPolicy, episodes: Sequence[EpisodeData], *, threads: int = 1
) -> list[EpisodeData]:
    """Episodes as this policy learns from them: with pictures, where it sees any."""
    if policy.view is None:
        return list(episodes)
    return with_pictures(episodes, policy.view, threads=threads)
