"""Candidate chunks that know nothing: constant velocities, with the gripper open or closed.

They are what a search proposes beside the policy's own samples where no potential names motions.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from coda.sim.engine import ACTION_DIM, CHUNK, POS_SCALE_M, ROT_SCALE_RAD
from coda.sim.frame import Array, SimFrame
from coda.sim.motion import CLOSED, OPEN, STEP_M, TURN_RAD


class CandidateSource(Protocol):
    """Proposes chunks in a state."""

    count: int
    """Chunks a state."""
    clean: npt.NDArray[np.int64]
    """How many of them, the first ones, are free of noise, for each stage."""

    def propose(self, frame: SimFrame, stage: Array, rng: np.random.Generator) -> Array:
        """Chunks (B, count, H, 7) for B states in their stages (B,)."""
        ...


class RandomCandidates:
    """Chunks of one velocity each, uniform in a cube; a uniform turn; the gripper open or closed.

    Args:
        count: Candidates per state.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.clean = np.zeros(1, dtype=np.int64)

    def propose(self, frame: SimFrame, stage: Array, rng: np.random.Generator) -> Array:
        """Chunks (B, count, H, 7) for B states; neither the state nor its stage matters."""
        del stage  # Unused.
        shape = (frame.batch, self.count)
        action = np.zeros((*shape, ACTION_DIM))
        action[..., :3] = rng.uniform(-STEP_M, STEP_M, (*shape, 3)) / POS_SCALE_M
        action[..., 5] = rng.uniform(-TURN_RAD, TURN_RAD, shape) / ROT_SCALE_RAD
        action[..., 6] = np.where(rng.random(shape) < 0.5, OPEN, CLOSED)
        return np.repeat(action[:, :, None], CHUNK, axis=2)
