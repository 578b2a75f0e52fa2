"""Affine normalisation with stored statistics and a floor on the scale."""

from __future__ import annotations

import torch
from torch import Tensor, nn

CLIP = 10.0
"""Normalised observations are clipped to this many scales."""


class Normaliser(nn.Module):
    """(x - mean) / scale, then clipped to `clip`; without statistics until `fit`."""

    mean: Tensor
    scale: Tensor

    def __init__(self, size: int, *, clip: float = CLIP) -> None:
        super().__init__()
        self.clip = clip
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("scale", torch.ones(size))

    def fit(self, data: Tensor, floor: Tensor) -> None:
        """Take mean and standard deviation of data (n, size); the scale never below `floor`."""
        self.mean.copy_(data.mean(dim=0))
        self.scale.copy_(torch.maximum(data.std(dim=0, correction=0), floor.to(data)))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise (..., size)."""
        return ((x - self.mean) / self.scale).clamp_(-self.clip, self.clip)

    def inverse(self, x: Tensor) -> Tensor:
        """Undo `forward` (without the clip)."""
        return torch.addcmul(self.mean, x, self.scale)
