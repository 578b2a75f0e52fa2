r"""Flow matching over action chunks in the DCT basis: the default backbone.

With data x_1 (normalised coefficients), noise x_0 ~ N(0, I) and t ~ U(0, 1), the network learns
the velocity x_1 - x_0 at x_t = (1 - t) x_0 + t x_1; sampling integrates it from noise in a few
Euler steps (Lipman et al., 2023).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn

from coda.policy.chunks import ChunkBasis, hold_last
from coda.policy.config import PolicyConfig
from coda.policy.device import resolve_device
from coda.policy.network import FlowNet
from coda.policy.normalise import Normaliser
from coda.policy.observation import FEATURES, OBSERVATION_DIM, TEXT_DIM, Observation, scale_floor
from coda.policy.store import read_module, write_module

FORMAT = "coda-flow-chunk-policy"
FORMAT_VERSION = 1
ACTION_FLOOR = 0.1
"""Floor of the scale of an action coefficient, in units of the action range [-1, 1]."""


class FlowChunkPolicy(nn.Module):
    """`ChunkPolicy` by flow matching; holds trained weights, their average, and normalisers."""

    def __init__(self, config: PolicyConfig, *, seed: int = 0, device: str = "cpu") -> None:
        super().__init__()
        self.config = config
        self.device = resolve_device(device)
        self.basis = ChunkBasis.make(
            config.horizon, config.arm_coefficients, config.gripper_coefficients
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.net = FlowNet(
                obs_dim=OBSERVATION_DIM,
                text_dim=TEXT_DIM,
                chunk_dim=self.basis.size,
                text_width=config.text_width,
                width=config.width,
                encoder_blocks=config.encoder_blocks,
                blocks=config.blocks,
            )
        self.average = copy.deepcopy(self.net).requires_grad_(requires_grad=False)
        self.obs_norm = Normaliser(OBSERVATION_DIM)
        # labels are never clipped: they are bounded, and a clipped one would be a wrong one
        self.chunk_norm = Normaliser(self.basis.size, clip=math.inf)
        self.to(self.device.torch)
        self.basis = self.basis.to(self.device.torch)

    @property
    def horizon(self) -> int:
        """Actions H in a chunk."""
        return self.config.horizon

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        """Trained weights; the average follows them through `update_average`."""
        return self.net.parameters(recurse)

    def fit_normalisers(self, vectors: Tensor, chunks: Tensor, valid: Tensor) -> None:
        """Take statistics from data: vectors (n, D), chunks (n, H, 7), valid (n, H)."""
        floor = torch.from_numpy(scale_floor())
        self.obs_norm.fit(vectors.to(self.device.torch), floor.to(self.device.torch))
        coefficients = self.basis.encode(hold_last(chunks, valid).to(self.device.torch))
        self.chunk_norm.fit(
            coefficients, torch.full((self.basis.size,), ACTION_FLOOR, device=self.device.torch)
        )

    def coefficients(self, chunk: Tensor, valid: Tensor) -> Tensor:
        """Normalised coefficients (B, C) of chunks (B, H, 7); see `hold_last` for cut ones."""
        out: Tensor = self.chunk_norm(self.basis.encode(hold_last(chunk, valid)))
        return out

    def flow_loss(
        self,
        vector: Tensor,
        text: Tensor,
        target: Tensor,
        weight: Tensor,
        *,
        generator: torch.Generator,
    ) -> Tensor:
        """Weighted loss of normalised vectors (B, D) and coefficients (B, C); the lean path."""
        noise = torch.randn(target.shape, generator=generator, device=target.device)
        t = torch.rand(target.shape[0], generator=generator, device=target.device)
        x = torch.lerp(noise, target, t.unsqueeze(-1))
        velocity = self.net.velocity(self.net.encode(vector, text), x, t)
        error = (velocity - (target - noise)).square().mean(dim=-1)
        return (error * weight).sum() / weight.sum().clamp_min(1e-8)

    def loss(
        self,
        obs: Observation,
        chunk: Tensor,
        weight: Tensor,
        valid: Tensor,
        *,
        generator: torch.Generator,
    ) -> Tensor:
        """Weighted mean of the flow loss; a chunk of k valid steps counts k / H."""
        obs = obs.to(self.device.torch)
        chunk, weight, valid = (x.to(self.device.torch) for x in (chunk, weight, valid))
        counted = weight * valid.to(weight.dtype).mean(dim=1)
        return self.flow_loss(
            self.obs_norm(obs.vector),
            obs.text,
            self.coefficients(chunk, valid),
            counted,
            generator=generator,
        )

    @torch.no_grad()
    def sample_coefficients(self, vector: Tensor, text: Tensor, noise: Tensor) -> Tensor:
        """Normalised coefficients (B, n, C) from normalised vectors (B, D) and noise (B, n, C)."""
        batch, n, size = noise.shape
        state = self.average.encode(vector, text).repeat_interleave(n, dim=0)
        x = noise.reshape(batch * n, size)
        dt = 1.0 / self.config.flow_steps
        for step in range(self.config.flow_steps):
            t = torch.full((batch * n,), step * dt, device=x.device)
            x = torch.add(x, self.average.velocity(state, x, t), alpha=dt)
        return x.reshape(batch, n, size)

    def _integrate(self, obs: Observation, noise: Tensor) -> Tensor:
        """Chunks (B, n, H, 7) from start noise (B, n, C)."""
        obs = obs.to(self.device.torch)
        noise = noise.to(self.device.torch)
        return self.chunks(self.sample_coefficients(self.obs_norm(obs.vector), obs.text, noise))

    def chunks(self, coefficients: Tensor) -> Tensor:
        """Chunks (..., H, 7) in [-1, 1] of normalised coefficients (..., C)."""
        return self.basis.decode(self.chunk_norm.inverse(coefficients)).clamp_(-1.0, 1.0)

    def sample(
        self, obs: Observation, n: int, *, generator: torch.Generator, temperature: float = 1.0
    ) -> Tensor:
        """Draw n chunks per observation: (B, n, H, 7) float32 in [-1, 1]; see `ChunkPolicy`."""
        noise = torch.randn(obs.batch, n, self.basis.size, generator=generator) * temperature
        return self._integrate(obs, noise)

    def mode(self, obs: Observation) -> Tensor:
        """The chunk that start noise zero flows to: (B, H, 7) float32."""
        noise = torch.zeros(obs.batch, 1, self.basis.size)
        return self._integrate(obs, noise).squeeze(1)

    @torch.no_grad()
    def update_average(self, decay: float) -> None:
        """average <- decay * average + (1 - decay) * trained."""
        torch._foreach_lerp_(
            list(self.average.parameters()), list(self.net.parameters()), 1.0 - decay
        )

    def save(self, path: Path) -> None:
        """Write ``<path>.safetensors`` (trained, averaged, normalisers) and ``<path>.json``."""
        write_module(
            path,
            self.state_dict(),
            {
                "format": FORMAT,
                "version": FORMAT_VERSION,
                "features": [list(feature) for feature in FEATURES],
                "config": self.config.model_dump(mode="json"),
            },
        )

    @classmethod
    def load(cls, path: Path, *, device: str = "cpu") -> Self:
        """Read what `save` wrote. Raises `PolicyError` if another version wrote it."""
        features = [list(feature) for feature in FEATURES]
        meta, tensors = read_module(path, FORMAT, FORMAT_VERSION, {"features": features})
        policy = cls(PolicyConfig.model_validate(meta["config"]), device=device)
        policy.load_state_dict(tensors)
        return policy
