"""How a policy acts in the simulator: its own samples, or the best of several by value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from coda.policy.base import ChunkPolicy
from coda.policy.critic import ChunkCritic
from coda.policy.flow import FlowChunkPolicy
from coda.policy.observation import observe
from coda.policy.potential import Potential
from coda.policy.selection import best_of_n
from coda.policy.text import TextEncoder
from coda.sim.frame import Array, SimFrame
from coda.sim.rollout import Actor
from coda.sim.scene import Scene

ACTING_TEMPERATURE = 0.2
"""Noise that the policy acts with; at 1 it is the distribution it was trained on, whose stray
chunks cost successes."""


@dataclass(frozen=True, kw_only=True)
class Selected:
    """A policy whose chunks are chosen by a critic: the best of `count` draws."""

    policy: FlowChunkPolicy
    critic: ChunkCritic
    potential: Potential | None
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
) -> Actor:
    """Actor that takes one chunk of the policy in every state.

    Noise is drawn for all rows at every chunk, live or not, so that a row's noise does not depend
    on how long the others live. A critic chooses among draws at temperature 1.

    Args:
        policy: Whose chunks.
        text: Embeddings of the scenes' instructions (B, E).
        seed: Of the noise.
        temperature: Of a policy that acts by itself.
    """
    generator = torch.Generator().manual_seed(seed % 2**63)

    def act(frame: SimFrame, active: npt.NDArray[np.bool_]) -> Array:
        del active  # Unused.
        obs = observe(frame, text)
        if isinstance(policy, Selected):
            value = None if policy.potential is None else policy.potential.evaluate(frame)
            chunks = best_of_n(
                policy.policy, policy.critic, obs, value, policy.count, generator=generator
            )
        else:
            chunks = policy.sample(obs, 1, generator=generator, temperature=temperature)[:, 0]
        return chunks.cpu().numpy().astype(np.float64)

    return act
