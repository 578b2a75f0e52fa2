"""Values of states: what a search adds to the potential of where a chunk has led."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from coda.policy.config import Signal
from coda.policy.critic import ChunkCritic
from coda.policy.flow import FlowChunkPolicy
from coda.policy.observation import observe
from coda.policy.potential import Potential
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
        policy: Whose chunk; also supplies the normalisers that the critic was trained with.
        critic: Trained by `coda.policy.learner.update_round`.
        potential: That the critic was trained under; None for the signal `sparse`, where Q' is Q.
    """

    def __init__(
        self, policy: FlowChunkPolicy, critic: ChunkCritic, potential: Potential | None
    ) -> None:
        self._policy, self._critic, self._potential = policy, critic, potential

    def __call__(self, frame: SimFrame, text: npt.NDArray[np.float32]) -> Array:
        """Values (B,); see `StateValue`."""
        obs = observe(frame, text)
        known = None if self._potential is None else self._potential.evaluate(frame)
        chunk = self._policy.mode(obs).unsqueeze(1)
        whole = chunk_values(self._policy, self._critic, obs, known, chunk)[:, 0]
        value = whole.cpu().numpy().astype(np.float64)
        return value if known is None else value - known.phi.astype(np.float32)


def search_value(
    policy: FlowChunkPolicy, critic: ChunkCritic | None, base: Potential, signal: Signal
) -> StateValue | None:
    """The value that a search under a training signal adds; None where there is no critic."""
    if critic is None:
        return None
    return CriticValue(policy, critic, None if signal == "sparse" else base)
