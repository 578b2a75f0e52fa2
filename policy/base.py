"""The door every policy backbone comes through."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from coda.policy.device import Device
from coda.policy.observation import Observation
from coda.sim.cameras import Pictures, View
from coda.sim.errors import CodaError
from coda.sim.frame import SimFrame


class PolicyError(CodaError):
    """A policy file, or the way a policy is used, breaks a rule."""


class ChunkPolicy(Protocol):
    """Maps observations to action chunks (H, 7), actions in [-1, 1].

    A policy says what it sees of a state (`observe`); whoever trains or runs it asks nothing else.
    Sampling uses the averaged (EMA) weights, the loss the trained ones. The same generator state
    gives the same chunks. Learners work on normalised coefficients (C) of chunks, which the critic
    sees too; `chunks` turns them into actions.
    """

    @property
    def backbone(self) -> str:
        """Its name in `coda.policy.backbones.BACKBONES`."""
        ...

    @property
    def horizon(self) -> int:
        """Actions H in a chunk."""
        ...

    @property
    def chunk_dim(self) -> int:
        """Coefficients C of a chunk."""
        ...

    @property
    def device(self) -> Device:
        """Where its tensors live."""
        ...

    @property
    def needs_pictures(self) -> bool:
        """Whether `observe` needs pictures."""
        ...

    @property
    def view(self) -> View | None:
        """The pictures that it needs; None where it needs none."""
        ...

    def vector(self, frame: SimFrame) -> npt.NDArray[np.float32]:
        """Numbers that it is shown of B states, (B, V), not normalised."""
        ...

    def observe(
        self, frame: SimFrame, text: npt.NDArray[np.float32], pictures: Pictures | None = None
    ) -> Observation:
        """What it sees of B states.

        Args:
            frame: The states; a policy with pictures reads proprioception only.
            text: Embeddings of their instructions, (B, E).
            pictures: (B, cameras, 3, h, w) of `view`, where it needs them.

        Raises:
            PolicyError: It needs pictures and there are none, or of another shape.
        """
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

    def fit_normalisers(self, vectors: Tensor, chunks: Tensor, valid: Tensor) -> None:
        """Take statistics from data: `vector`s (n, V), chunks (n, H, 7), executed steps (n, H)."""
        ...

    def coefficients(self, chunk: Tensor, valid: Tensor) -> Tensor:
        """Normalised coefficients (B, C) of chunks (B, H, 7) with executed steps (B, H)."""
        ...

    def chunks(self, coefficients: Tensor) -> Tensor:
        """Chunks (..., H, 7) in [-1, 1] of normalised coefficients (..., C)."""
        ...

    def coefficient_loss(
        self, obs: Observation, target: Tensor, weight: Tensor, *, generator: torch.Generator
    ) -> Tensor:
        """The loss of normalised coefficients (B, C), for callers that hold them; see `loss`."""
        ...

    def sample_coefficients(
        self, obs: Observation, n: int, *, generator: torch.Generator, temperature: float = 1.0
    ) -> Tensor:
        """The same draws as `sample`, as normalised coefficients (B, n, C)."""
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
