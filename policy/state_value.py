"""Values of states: what a search adds to the potential of where a chunk has led."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from coda.policy.base import ChunkPolicy
from coda.policy.config import Signal
from coda.policy.critic import ChunkCritic
from coda.policy.observation import observe_vector
from coda.policy.potential import StatePotential
from coda.policy.selection import chunk_values
from coda.sim.frame import Array, SimFrame


class StateValue(Protocol):
    """Maps states to numbers that a search ranks them by, beside the potential."""

    def __call__(self, frame: SimFrame, text: npt.NDArray[np.float32]) -> Array:
        """Values (B,) of B states with their instructions' embeddings (B, E)."""
        ...


class CriticValue:
    """V'(s) = Q'(s, a), a the policy's chunk without noise: the critic's mean of the twins.

    Args:
        policy: Whose chunk; also supplies the normaliser of chunks of the critic.
        critic: Trained by `coda.policy.learner.update_round`.
        potential: That the critic was trained under; None for the signal `sparse`, where Q' is Q.
    """

    def __init__(
        self, policy: ChunkPolicy, critic: ChunkCritic, potential: StatePotential | None
    ) -> None:
        self._policy, self._critic, self._potential = policy, critic, potential

    def __call__(self, frame: SimFrame, text: npt.NDArray[np.float32]) -> Array:
        """Values (B,); see `StateValue`."""
        obs = self._policy.observe(frame, text)
        vectors = torch.from_numpy(observe_vector(frame))
        known = None if self._potential is None else self._potential.evaluate(frame)
        chunk = self._policy.mode(obs).unsqueeze(1)
        whole = chunk_values(self._policy, self._critic, vectors, known, chunk)[:, 0]
        value = whole.cpu().numpy().astype(np.float64)
        return value if known is None else value - known.phi.astype(np.float32)


def search_value(
    policy: ChunkPolicy, critic: ChunkCritic | None, base: StatePotential, signal: Signal
) -> StateValue | None:
    """The value that a search under a training signal adds; None where there is no critic.

    None too where the critic is shaped by a potential: V' = V - Phi is lowest where the policy
    fails at a high Phi, and takes away the slope that the search climbs there. And None where the
    policy sees pictures: V' asks for its chunk at the end of every branch, and drawing all of them
    would cost more than it tells.
    """
    if critic is None or policy.needs_pictures or signal not in ("sparse", "dense"):
        return None
    return CriticValue(policy, critic, None if signal == "sparse" else base)
