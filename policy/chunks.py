r"""Action chunks in the discrete cosine basis.

A chunk of H actions is described by its first DCT-II coefficients per action dimension,
``c_k = sum_h a_h B[k, h]`` with the orthonormal rows
``B[k, h] = s_k cos(pi (h + 1/2) k / H)``, s_0 = sqrt(1/H), s_k = sqrt(2/H). Keeping the first
few is the least-squares fit of smooth motion and takes out the jitter of single steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

HORIZON = 8
"""Actions H in a chunk, one control step each."""
ACTION_DIM = 7
"""Position (3), rotation (3) and gripper."""
GRIPPER = 6
"""Index of the gripper in an action."""


def dct_matrix(horizon: int) -> Tensor:
    """Orthonormal DCT-II matrix (H, H), float64; row k is the k-th cosine."""
    h = torch.arange(horizon, dtype=torch.float64)
    k = h.unsqueeze(1)
    rows = torch.cos(math.pi * (h + 0.5) * k / horizon) * math.sqrt(2.0 / horizon)
    rows[0] = math.sqrt(1.0 / horizon)
    return rows


def hold_last(chunk: Tensor, valid: Tensor) -> Tensor:
    """Repeat the last valid action over the invalid tail.

    A chunk that the end of an episode cut short has no labels after step k; the coefficients are
    fitted to a motion that goes on as it was, and the learner weights the sample by k / H.

    Args:
        chunk: Actions (B, H, 7).
        valid: True on executed steps, (B, H), a prefix of each row.
    """
    last = valid.sum(dim=1, keepdim=True).clamp_min(1) - 1  # (B, 1)
    steps = torch.arange(chunk.shape[1], device=chunk.device).expand(chunk.shape[0], -1)
    index = torch.minimum(steps, last).unsqueeze(-1).expand(-1, -1, chunk.shape[2])
    return chunk.gather(1, index)


@dataclass(frozen=True, kw_only=True)
class ChunkBasis:
    """Linear maps between chunks (B, H, 7) and coefficient vectors (B, C)."""

    horizon: int
    analysis: Tensor
    """(H*7, C) float32; its transpose is the synthesis, because the rows are orthonormal."""

    @classmethod
    def make(cls, horizon: int, arm_coefficients: int, gripper_coefficients: int) -> ChunkBasis:
        """Keep the first coefficients of the six arm dimensions, and of the gripper."""
        rows = dct_matrix(horizon)
        columns = []
        for dim in range(ACTION_DIM):
            for k in range(gripper_coefficients if dim == GRIPPER else arm_coefficients):
                column = torch.zeros(horizon, ACTION_DIM, dtype=torch.float64)
                column[:, dim] = rows[k]
                columns.append(column.reshape(-1))
        return cls(horizon=horizon, analysis=torch.stack(columns, dim=1).float())

    @property
    def size(self) -> int:
        """Number of coefficients C."""
        return int(self.analysis.shape[1])

    def encode(self, chunk: Tensor) -> Tensor:
        """(..., H, 7) to (..., C)."""
        return chunk.flatten(-2) @ self.analysis

    def decode(self, coefficients: Tensor) -> Tensor:
        """(..., C) to (..., H, 7)."""
        flat = coefficients @ self.analysis.T
        return flat.reshape(*flat.shape[:-1], self.horizon, ACTION_DIM)

    def to(self, device: torch.device) -> ChunkBasis:
        """The same basis on another device."""
        return ChunkBasis(horizon=self.horizon, analysis=self.analysis.to(device))
