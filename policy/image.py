"""The image policy: two small pictures, proprioception and the instruction; nothing privileged.

The same flow over chunks as `coda.policy.flow`, behind another encoder: a few convolutions for each
camera and a spatial soft-argmax, which turns every feature map into the place in the picture where
it is strongest (Levine et al., 2016, End-to-end training of deep visuomotor policies). Trained from
scratch.

Only the policy is without privileged state. The critic stays asymmetric: at training time it sees
the state vector of the simulator, which a policy at work does not need.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from coda.policy.config import PictureConfig, PolicyConfig
from coda.policy.flow import FlowPolicy
from coda.policy.network import Block, TextProjection
from coda.policy.observation import (
    PROPRIOCEPTION,
    PROPRIOCEPTION_DIM,
    TEXT_DIM,
    Observation,
    proprioception,
)
from coda.sim.cameras import View
from coda.sim.frame import SimFrame


class CameraEncoder(nn.Module):
    """One camera's pictures (B, 3, h, w) in [-1, 1] to features (B, 3 K): for each of K maps the
    column and row of its soft maximum, in [-1, 1], and its largest value."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, channels // 2, 5, stride=2, padding=2),
            nn.SiLU(),
            nn.Conv2d(channels // 2, channels, 3, stride=2, padding=1),
            nn.SiLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
        )
        self.sharpness = nn.Parameter(torch.ones(channels))

    def forward(self, picture: Tensor) -> Tensor:
        """(B, 3, h, w) to (B, 3 K)."""
        maps: Tensor = self.layers(picture)
        height, width = maps.shape[-2:]
        flat = maps.flatten(2)
        weight = (flat * self.sharpness.unsqueeze(-1)).softmax(dim=-1).reshape(maps.shape)
        # sums, not products of matrices: places stay exact where those run in bfloat16
        column = (weight.sum(2) * torch.linspace(-1, 1, width, device=maps.device)).sum(-1)
        row = (weight.sum(3) * torch.linspace(-1, 1, height, device=maps.device)).sum(-1)
        return torch.cat((column, row, functional.silu(flat.amax(-1))), dim=-1)


class ImageEncoder(nn.Module):
    """Pictures, proprioception and text to states (B, W); one set of convolutions a camera."""

    def __init__(
        self, pictures: PictureConfig, *, cameras: int, text_width: int, width: int, blocks: int
    ) -> None:
        super().__init__()
        self.cameras = nn.ModuleList(CameraEncoder(pictures.channels) for _ in range(cameras))
        self.text = TextProjection(TEXT_DIM, text_width)
        seen = cameras * 3 * pictures.channels
        self.state = nn.Linear(seen + PROPRIOCEPTION_DIM + text_width, width)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(blocks)))

    def forward(self, obs: Observation) -> Tensor:
        """States (B, W)."""
        assert obs.pictures is not None  # `observe` refuses to go without
        scaled = obs.pictures.float() / 127.5 - 1.0
        seen = [camera(scaled[:, k]) for k, camera in enumerate(self.cameras)]
        h: Tensor = self.blocks(
            self.state(torch.cat((*seen, obs.vector, self.text(obs.text)), dim=-1))
        )
        return h


class ImageChunkPolicy(FlowPolicy):
    """A flow over chunks that sees pictures, proprioception and the instruction."""

    backbone = "image"
    format = "coda-image-chunk-policy"
    version = 1
    features = PROPRIOCEPTION

    def __init__(self, config: PolicyConfig, *, seed: int = 0, device: str = "cpu") -> None:
        self._view = View(size=config.pictures.size)
        super().__init__(config, seed=seed, device=device)
        self.draws = config.pictures.draws

    def make_encoder(self, config: PolicyConfig) -> nn.Module:
        """An encoder of pictures, vector and text."""
        return ImageEncoder(
            config.pictures,
            cameras=len(self._view.cameras),
            text_width=config.text_width,
            width=config.width,
            blocks=config.encoder_blocks,
        )

    @property
    def view(self) -> View:
        """Agent view and wrist camera."""
        return self._view

    def vector(self, frame: SimFrame) -> npt.NDArray[np.float32]:
        """Proprioception (B, P)."""
        return proprioception(frame)
