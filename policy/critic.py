r"""Asymmetric twin critics of action chunks: Q'(s, a) under a potential.

They see the privileged state, whatever the policy sees, and the stage index and Phi besides: they
are used at training time, where the simulator knows it. The second pair, trained
beside the first on the same batches without the potential, is the yardstick: shaping must not
change which chunk is best.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from coda.policy.config import CriticConfig
from coda.policy.device import resolve_device
from coda.policy.network import TwinBlock, TwinLinear
from coda.policy.normalise import Normaliser
from coda.policy.observation import scale_floor
from coda.policy.store import read_module, write_module

FORMAT = "coda-chunk-critic"
FORMAT_VERSION = 2


class _Twin(nn.Module):
    """Two critics in one batched network; inputs (B, I) to values (2, B), zero at the start."""

    def __init__(self, inputs: int, width: int, blocks: int) -> None:
        super().__init__()
        self.first = TwinLinear(inputs, width)
        self.blocks = nn.Sequential(*(TwinBlock(width) for _ in range(blocks)))
        self.last = TwinLinear(width, 1, zero=True)

    def forward(self, x: Tensor) -> Tensor:
        """Values (2, B)."""
        h = self.blocks(self.first(x.expand(2, -1, -1)))
        normed = functional.layer_norm(h, h.shape[-1:])
        out: Tensor = self.last(functional.silu(normed)).squeeze(-1)
        return out


class ChunkCritic(nn.Module):
    """Shaped and sparse twin critics, their targets, and the shift that relabelling asks for.

    Inputs are rows ``[observation (D), chunk coefficients (C), stage one-hot (K), Phi]``, made by
    `inputs`; observations (`coda.policy.observation.observe_vector`) normalised by `norm`,
    coefficients by the policy's normaliser.
    """

    fitted: Tensor
    """Whether `norm` has statistics, ()."""

    def __init__(
        self,
        config: CriticConfig,
        *,
        obs_dim: int,
        chunk_dim: int,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        super().__init__()
        self.config = config
        self.obs_dim, self.chunk_dim = obs_dim, chunk_dim
        self.device = resolve_device(device)
        size = obs_dim + chunk_dim + config.max_stages + 1
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.shaped = _Twin(size, config.width, config.blocks)
            self.sparse = _Twin(size, config.width, config.blocks)
        self.shaped_target = copy.deepcopy(self.shaped).requires_grad_(requires_grad=False)
        self.sparse_target = copy.deepcopy(self.sparse).requires_grad_(requires_grad=False)
        self.norm = Normaliser(obs_dim)
        self.register_buffer("fitted", torch.zeros((), dtype=torch.bool))
        self.to(self.device.torch)

    def fit_normaliser(self, vectors: Tensor) -> None:
        """Take statistics of observations from data (n, D)."""
        self.norm.fit(vectors, torch.from_numpy(scale_floor()).to(vectors.device))
        self.fitted.fill_(value=True)

    def inputs(self, vector: Tensor, coefficients: Tensor, stage: Tensor, phi: Tensor) -> Tensor:
        """Join normalised vectors (B, D), coefficients (B, C), stages (B,) and Phi (B,)."""
        one_hot = functional.one_hot(stage, self.config.max_stages).to(vector.dtype)
        return torch.cat((vector, coefficients, one_hot, phi.unsqueeze(-1)), dim=-1)

    def trained(self) -> Iterator[nn.Parameter]:
        """Parameters of both online pairs."""
        yield from self.shaped.parameters()
        yield from self.sparse.parameters()

    @torch.no_grad()
    def update_targets(self) -> None:
        """Move the targets towards the online networks."""
        for target, online in (
            (self.shaped_target, self.shaped),
            (self.sparse_target, self.sparse),
        ):
            torch._foreach_lerp_(
                list(target.parameters()), list(online.parameters()), 1 - self.config.target_decay
            )

    def save(self, path: Path) -> None:
        """Write ``<path>.safetensors`` and ``<path>.json``."""
        write_module(
            path,
            self.state_dict(),
            {
                "format": FORMAT,
                "version": FORMAT_VERSION,
                "obs_dim": self.obs_dim,
                "chunk_dim": self.chunk_dim,
                "config": self.config.model_dump(mode="json"),
            },
        )

    @classmethod
    def load(cls, path: Path, *, device: str = "cpu") -> Self:
        """Read what `save` wrote. Raises `PolicyError` if another version wrote it."""
        meta, tensors = read_module(path, FORMAT, FORMAT_VERSION, {})
        critic = cls(
            CriticConfig.model_validate(meta["config"]),
            obs_dim=meta["obs_dim"],
            chunk_dim=meta["chunk_dim"],
            device=device,
        )
        critic.load_state_dict(tensors)
        return critic
