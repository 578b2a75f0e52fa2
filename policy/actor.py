"""Gradient steps of the actor."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from coda.policy.base import ChunkPolicy
from coda.policy.batches import RoundData
from coda.policy.config import LearnerConfig, SftConfig
from coda.policy.device import Precision, autocast
from coda.sim.errors import CodaError


class LearningError(CodaError):
    """Training cannot go on."""


def schedule(step: int, total: int, warmup: int) -> float:
    """Factor of the learning rate: a linear rise, then a cosine to 5 %."""
    rise = min(1.0, (step + 1) / max(1, min(warmup, total // 4)))
    return rise * (0.525 + 0.475 * math.cos(math.pi * min(1.0, step / max(1, total))))


class ActorTrainer:
    """AdamW on the flow loss, with clipped gradients, a schedule and the weights' average."""

    def __init__(
        self, policy: ChunkPolicy, config: SftConfig | LearnerConfig, total: int, warmup: int
    ) -> None:
        rate = config.learning_rate if isinstance(config, SftConfig) else config.actor_learning_rate
        self.policy, self.config, self.rate = policy, config, rate
        self.total, self.warmup, self.step = total, warmup, 0
        self.precision: Precision = "float32" if isinstance(config, SftConfig) else config.precision
        self.parameters = list(policy.parameters())
        self.optimiser = torch.optim.AdamW(
            self.parameters, lr=rate, weight_decay=config.weight_decay, fused=True
        )

    def update(
        self, data: RoundData, rows: Tensor, weight: Tensor, generator: torch.Generator
    ) -> Tensor:
        """One update on transitions `rows` (B,) with weights (B,); returns the loss."""
        with autocast(data.state.device, self.precision):
            loss = self.policy.coefficient_loss(
                data.observations(data.state[rows]),
                data.coefficients[rows],
                weight * data.counted[rows],
                generator=generator,
            )
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate * schedule(self.step, self.total, self.warmup)
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.parameters, self.config.clip_norm)
        self.optimiser.step()
        self.step += 1
        # a short memory at first: the average must not drag the initial weights along
        self.policy.update_average(min(self.config.ema_decay, self.step / (self.step + 10)))
        return loss.detach()
