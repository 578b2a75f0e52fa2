r"""Flow matching over action chunks in the DCT basis: what the backbones share, and the default.

With data x_1 (normalised coefficients), noise x_0 ~ N(0, I) and t ~ U(0, 1), the network learns
the velocity x_1 - x_0 at x_t = (1 - t) x_0 + t x_1; sampling integrates it from noise in a few
Euler steps (Lipman et al., 2023).
"""

from __future__ import annotations

import abc
import copy
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from coda.policy.base import PolicyError
from coda.policy.chunks import ChunkBasis, hold_last
from coda.policy.config import PolicyConfig
from coda.policy.device import Device, resolve_device
from coda.policy.network import FlowNet, StateEncoder
from coda.policy.normalise import Normaliser
from coda.policy.observation import (
    FEATURES,
    OBSERVATION_DIM,
    TEXT_DIM,
    Observation,
    observe_vector,
    scale_floor,
    text_rows,
)
from coda.policy.store import read_module, write_module
from coda.sim.cameras import Pictures, View
from coda.sim.frame import SimFrame

ACTION_FLOOR = 0.1
"""Floor of the scale of an action coefficient, in units of the action range [-1, 1]."""


class FlowPolicy(nn.Module, abc.ABC):
    """`ChunkPolicy` by flow matching; holds trained weights, their average, and normalisers.

    A backbone names its features and its encoder; everything else is shared.
    """

    backbone: ClassVar[str]
    format: ClassVar[str]
    """Names the backbone in a policy's sidecar file."""
    version: ClassVar[int]
    features: ClassVar[tuple[tuple[str, int, float], ...]]
    """(name, length, floor of its scale) of the numbers in `vector`, in order."""
    draws: int = 1
    """Draws of noise and time per sample in the loss: cheap where the encoder is costly."""

    def __init__(self, config: PolicyConfig, *, seed: int = 0, device: str = "cpu") -> None:
        super().__init__()
        self.config = config
        self.device: Device = resolve_device(device)
        self.basis = ChunkBasis.make(
            config.horizon, config.arm_coefficients, config.gripper_coefficients
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.net = FlowNet(
                self.make_encoder(config),
                chunk_dim=self.basis.size,
                width=config.width,
                blocks=config.blocks,
            )
        self.average = copy.deepcopy(self.net).requires_grad_(requires_grad=False)
        self.obs_norm = Normaliser(sum(size for _, size, _ in self.features))
        # labels are never clipped: they are bounded, and a clipped one would be a wrong one
        self.chunk_norm = Normaliser(self.basis.size, clip=math.inf)
        self.to(self.device.torch)
        self.basis = self.basis.to(self.device.torch)

    @abc.abstractmethod
    def make_encoder(self, config: PolicyConfig) -> nn.Module:
        """A module that maps normalised observations to states (B, W)."""

    @abc.abstractmethod
    def vector(self, frame: SimFrame) -> npt.NDArray[np.float32]:
        """Numbers that it is shown of B states, (B, V), not normalised."""

    @property
    def view(self) -> View | None:
        """The pictures that it needs; None where it needs none."""
        return None

    @property
    def needs_pictures(self) -> bool:
        """Whether `observe` needs pictures."""
        return self.view is not None

    @property
    def horizon(self) -> int:
        """Actions H in a chunk."""
        return self.config.horizon

    @property
    def chunk_dim(self) -> int:
        """Coefficients C of a chunk."""
        return self.basis.size

    def observe(
        self, frame: SimFrame, text: npt.NDArray[np.float32], pictures: Pictures | None = None
    ) -> Observation:
        """What it sees of B states; see `ChunkPolicy`."""
        vector = torch.from_numpy(self.vector(frame))
        rows = text_rows(text, frame.batch)
        if self.view is None:
            return Observation(vector, rows)
        expected = (frame.batch, *self.view.shape)
        if pictures is None or pictures.shape != expected:
            raise PolicyError(
                f"the {self.backbone} policy needs pictures {expected}, got "
                f"{'none' if pictures is None else pictures.shape}; render the states with its "
                "view, or use a policy that sees the state."
            )
        return Observation(vector, rows, torch.from_numpy(np.ascontiguousarray(pictures)))

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        """Trained weights; the average follows them through `update_average`."""
        return self.net.parameters(recurse)

    def fit_normalisers(self, vectors: Tensor, chunks: Tensor, valid: Tensor) -> None:
        """Take statistics from data: vectors (n, V), chunks (n, H, 7), valid (n, H)."""
        floor = torch.from_numpy(scale_floor(self.features))
        self.obs_norm.fit(vectors.to(self.device.torch), floor.to(self.device.torch))
        coefficients = self.basis.encode(hold_last(chunks, valid).to(self.device.torch))
        self.chunk_norm.fit(
            coefficients, torch.full((self.basis.size,), ACTION_FLOOR, device=self.device.torch)
        )

    def coefficients(self, chunk: Tensor, valid: Tensor) -> Tensor:
        """Normalised coefficients (B, C) of chunks (B, H, 7); see `hold_last` for cut ones."""
        out: Tensor = self.chunk_norm(self.basis.encode(hold_last(chunk, valid)))
        return out

    def chunks(self, coefficients: Tensor) -> Tensor:
        """Chunks (..., H, 7) in [-1, 1] of normalised coefficients (..., C)."""
        return self.basis.decode(self.chunk_norm.inverse(coefficients)).clamp_(-1.0, 1.0)

    def _normalised(self, obs: Observation) -> Observation:
        obs = obs.to(self.device.torch)
        return replace(obs, vector=self.obs_norm(obs.vector))

    def coefficient_loss(
        self, obs: Observation, target: Tensor, weight: Tensor, *, generator: torch.Generator
    ) -> Tensor:
        """Weighted mean of the flow loss of normalised coefficients (B, C), weights (B,)."""
        state = self.net.encode(self._normalised(obs))
        if self.draws > 1:
            state, target, weight = (
                x.repeat_interleave(self.draws, dim=0) for x in (state, target, weight)
            )
        noise = torch.randn(target.shape, generator=generator, device=generator.device)
        t = torch.rand(target.shape[0], generator=generator, device=generator.device)
        noise, t = noise.to(target.device), t.to(target.device)
        x = torch.lerp(noise, target, t.unsqueeze(-1))
        velocity = self.net.velocity(state, x, t)
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
        chunk, weight, valid = (x.to(self.device.torch) for x in (chunk, weight, valid))
        counted = weight * valid.to(weight.dtype).mean(dim=1)
        return self.coefficient_loss(
            obs, self.coefficients(chunk, valid), counted, generator=generator
        )

    @torch.no_grad()
    def _integrate(self, obs: Observation, noise: Tensor) -> Tensor:
        """Normalised coefficients (B, n, C) that start noise (B, n, C) flows to."""
        batch, n, size = noise.shape
        state = self.average.encode(self._normalised(obs)).repeat_interleave(n, dim=0)
        x = noise.to(self.device.torch).reshape(batch * n, size)
        dt = 1.0 / self.config.flow_steps
        for step in range(self.config.flow_steps):
            t = torch.full((batch * n,), step * dt, device=x.device)
            x = torch.add(x, self.average.velocity(state, x, t), alpha=dt)
        return x.reshape(batch, n, size)

    def sample_coefficients(
        self, obs: Observation, n: int, *, generator: torch.Generator, temperature: float = 1.0
    ) -> Tensor:
        """Draw n chunks per observation as normalised coefficients (B, n, C)."""
        noise = torch.randn(
            obs.batch, n, self.basis.size, generator=generator, device=generator.device
        )
        return self._integrate(obs, noise * temperature)

    def sample(
        self, obs: Observation, n: int, *, generator: torch.Generator, temperature: float = 1.0
    ) -> Tensor:
        """Draw n chunks per observation: (B, n, H, 7) float32 in [-1, 1]; see `ChunkPolicy`."""
        return self.chunks(
            self.sample_coefficients(obs, n, generator=generator, temperature=temperature)
        )

    def mode(self, obs: Observation) -> Tensor:
        """The chunk that start noise zero flows to: (B, H, 7) float32."""
        noise = torch.zeros(obs.batch, 1, self.basis.size)
        return self.chunks(self._integrate(obs, noise)).squeeze(1)

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
                "format": self.format,
                "version": self.version,
                "features": [list(feature) for feature in self.features],
                "config": self.config.model_dump(mode="json"),
            },
        )

    @classmethod
    def load(cls, path: Path, *, device: str = "cpu") -> Self:
        """Read what `save` wrote. Raises `PolicyError` if another version wrote it."""
        features = [list(feature) for feature in cls.features]
        meta, tensors = read_module(path, cls.format, cls.version, {"features": features})
        policy = cls(PolicyConfig.model_validate(meta["config"]), device=device)
        policy.load_state_dict(tensors)
        return policy


class FlowChunkPolicy(FlowPolicy):
    """The default backbone: a flow over chunks that sees the privileged state of the scene."""

    backbone = "flow"
    format = "coda-flow-chunk-policy"
    version = 2
    features = FEATURES

    def make_encoder(self, config: PolicyConfig) -> nn.Module:
        """An encoder of vector and text."""
        return StateEncoder(
            obs_dim=OBSERVATION_DIM,
            text_dim=TEXT_DIM,
            text_width=config.text_width,
            width=config.width,
            blocks=config.encoder_blocks,
        )

    def vector(self, frame: SimFrame) -> npt.NDArray[np.float32]:
        """Privileged vectors (B, D)."""
        return observe_vector(frame)
