"""The door every policy backbone comes through."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, Self

import torch
from torch import Tensor

from coda.policy.observation import Observation
from coda.sim.errors import CodaError


class PolicyError(CodaError):
    """A policy file, or the way a policy is used, breaks a rule."""


class ChunkPolicy(Protocol):
    """Maps observations to action chunks (H, 7), actions in [-1, 1].

    Sampling uses the averaged (EMA) weights, the loss the trained ones. The same generator state
    gives the same chunks.
    """

    @property
    def horizon(self) -> int:
        """Actions H in a chunk."""
        ...

    def sample(
        self, obs: Observation, n: int, *, generator: torch.Generator, temperature: float = 1.0
    ) -> Tensor:
        """Draw n chunks for each of B observations: (B, n, H, 7) float32.

        `temperature` scales the start noise; 0 gives `mode` n times.
        """
        ...

    def mode(self, obs: Observation) -> Tensor:
        """One chunk per observation without randomness: (B, H, 7) float32."""
        ...

    def loss(
        self,
        obs: Observation,
        chunk: Tensor,
        weight: Tensor,
        valid: Tensor,
        *,
        generator: torch.Generator,
    ) -> Tensor:
        """Weighted imitation loss of chunks (B, H, 7), weights (B,), executed steps (B, H)."""
        ...

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """Trained weights."""
        ...

    def update_average(self, decay: float) -> None:
        """Move the averaged weights towards the trained ones."""
        ...

    def save(self, path: Path) -> None:
        """Write ``<path>.safetensors`` and ``<path>.json``."""
        ...

    @classmethod
    def load(cls, path: Path, *, device: str = "cpu") -> Self:
        """Read what `save` wrote. Raises `PolicyError` for another version."""
        ...
