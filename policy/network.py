"""Small residual networks of the policy and the critics."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from coda.policy.observation import Observation


class Block(nn.Module):
    """h + W silu(norm(h)): one matrix product per block."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.linear = nn.Linear(width, width)

    def forward(self, h: Tensor) -> Tensor:
        """(..., W) to (..., W)."""
        out: Tensor = h + self.linear(functional.silu(self.norm(h)))
        return out


class TextProjection(nn.Module):
    """Sentence embedding (B, E) to a few units, small at the start.

    Unit-norm embeddings are scaled to unit variance; the small initial weights keep an
    instruction with unseen words from drowning what the observation says.
    """

    def __init__(self, text_dim: int, width: int) -> None:
        super().__init__()
        self.gain = math.sqrt(text_dim)
        self.linear = nn.Linear(text_dim, width)
        with torch.no_grad():
            self.linear.weight.mul_(0.1)

    def forward(self, text: Tensor) -> Tensor:
        """(B, E) to (B, width)."""
        out: Tensor = self.linear(text * self.gain)
        return out


def fourier(t: Tensor, size: int) -> Tensor:
    """Sine and cosine features (B, size) of times t (B,) in [0, 1]."""
    rate = math.pi * 2.0 ** torch.arange(size // 2, dtype=t.dtype, device=t.device)
    angle = t.unsqueeze(-1) * rate
    return torch.cat((angle.sin(), angle.cos()), dim=-1)


TIME_FEATURES = 12
"""Length of the flow time's embedding."""


class StateEncoder(nn.Module):
    """Vectors and embeddings of normalised observations to states (B, W)."""

    def __init__(
        self, *, obs_dim: int, text_dim: int, text_width: int, width: int, blocks: int
    ) -> None:
        super().__init__()
        self.text = TextProjection(text_dim, text_width)
        self.state = nn.Linear(obs_dim + text_width, width)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(blocks)))

    def forward(self, obs: Observation) -> Tensor:
        """States (B, W)."""
        h: Tensor = self.blocks(self.state(torch.cat((obs.vector, self.text(obs.text)), dim=-1)))
        return h


class FlowNet(nn.Module):
    """Velocity field of the flow: an encoder of the observation, run once, and a trunk per step.

    Args:
        encoder: Maps normalised observations to states (B, W).
        chunk_dim: Coefficients C of a chunk.
        width: W.
        blocks: Residual blocks of the trunk.
    """

    def __init__(self, encoder: nn.Module, *, chunk_dim: int, width: int, blocks: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.chunk = nn.Linear(chunk_dim + TIME_FEATURES, width, bias=False)
        self.trunk = nn.Sequential(*(Block(width) for _ in range(blocks)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, chunk_dim)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def encode(self, obs: Observation) -> Tensor:
        """Normalised observations to states (B, W)."""
        h: Tensor = self.encoder(obs)
        return h

    def velocity(self, state: Tensor, x: Tensor, t: Tensor) -> Tensor:
        """Velocity (B, C) at chunk x (B, C) and time t (B,), given states (B, W)."""
        h = state + self.chunk(torch.cat((x, fourier(t, TIME_FEATURES)), dim=-1))
        out: Tensor = self.head(functional.silu(self.norm(self.trunk(h))))
        return out


class TwinLinear(nn.Module):
    """Two linear layers as one batched product: (2, B, in) to (2, B, out)."""

    def __init__(self, inputs: int, outputs: int, *, zero: bool = False) -> None:
        super().__init__()
        bound = 0.0 if zero else 1.0 / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(2, inputs, outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(2, 1, outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Apply both layers."""
        return torch.baddbmm(self.bias, x, self.weight)


class TwinBlock(nn.Module):
    """h + W silu(norm(h)) for both critics; the norm has no gain, the next layer has."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = TwinLinear(width, width)

    def forward(self, h: Tensor) -> Tensor:
        """(2, B, W) to (2, B, W)."""
        normed = functional.layer_norm(h, h.shape[-1:])
        out: Tensor = h + self.linear(functional.silu(normed))
        return out
