"""Chunk value learning: TD updates of the twin critics, and what is read from them."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from coda.policy.batches import PART, RoundData
from coda.policy.config import LearnerConfig
from coda.policy.critic import ChunkCritic
from coda.policy.device import Precision, autocast
from coda.policy.targets import shaped_target


@dataclass
class Shaping:
    """How rewards and potentials enter the two pairs of critics."""

    reward: Tensor
    """Discounted reward of every transition for the first pair, (M,)."""
    phi: Tensor
    """Phi in the first pair's target, (S,); zero where the signal is sparse or dense."""
    ceiling: float
    """Upper bound of Q."""


def shaping(data: RoundData, config: LearnerConfig) -> Shaping:
    """Rewards and potential of a signal.

    `dense` pays (1 - gamma^k) Phi(s') for every chunk: a free-form reward that is not a
    potential, so that lingering at a high Phi is worth as much as finishing.
    """
    if config.signal == "sparse":
        return Shaping(data.reward, torch.zeros_like(data.phi), 1.0)
    if config.signal == "dense":
        stay = 1.0 - config.discount**data.steps
        bonus = config.dense_scale * stay * data.phi[data.next_state]
        return Shaping(data.reward + bonus, torch.zeros_like(data.phi), 1.0 + config.dense_scale)
    return Shaping(data.reward, data.phi, 1.0)


class CriticTrainer:
    """TD updates of both pairs on the same batches."""

    def __init__(self, critic: ChunkCritic, data: RoundData, config: LearnerConfig) -> None:
        self.critic, self.data, self.config = critic, data, config
        self.precision: Precision = config.precision
        if not critic.fitted:
            critic.fit_normaliser(data.privileged[data.state])
        self.vector: Tensor = critic.norm(data.privileged)
        """Normalised privileged observations (S, D)."""
        self.shaping = shaping(data, config)
        self.parameters = list(critic.trained())
        self.optimiser = torch.optim.AdamW(
            self.parameters, lr=config.critic_learning_rate, weight_decay=0.0, fused=True
        )
        self.nothing = torch.zeros_like(data.phi), torch.zeros_like(data.stage)

    def _inputs(self, rows: Tensor, chunk: Tensor, *, sparse: bool = False) -> Tensor:
        """Critic inputs in states `rows` (B,); the sparse pair sees neither stage nor Phi."""
        data = self.data
        phi, stage = self.nothing if sparse else (data.phi, data.stage)
        return self.critic.inputs(self.vector[rows], chunk, stage[rows], phi[rows])

    @torch.no_grad()
    def _next_values(self, rows: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Bootstrap values (B,) of both pairs in states `rows`, the lower of each twin."""
        candidates = self.data.candidates
        n = candidates.shape[1]
        if self.config.backup == "mean":
            pick = torch.randint(n, rows.shape, generator=generator).to(rows.device)
            chunk, at, shape = candidates[rows, pick], rows, (-1, 1)
        else:
            chunk, at = candidates[rows].flatten(0, 1), rows.repeat_interleave(n)
            shape = (-1, n)
        with autocast(chunk.device, self.precision):
            shaped = self.critic.shaped_target(self._inputs(at, chunk)).float().amin(0)
            sparse = self.critic.sparse_target(self._inputs(at, chunk, sparse=True)).float().amin(0)
        return shaped.reshape(shape).amax(1), sparse.reshape(shape).amax(1)

    def update(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """One update on transitions `rows` (B,); returns the two losses, (2,)."""
        data, config, phi = self.data, self.config, self.shaping.phi
        here, there = data.state[rows], data.next_state[rows]
        next_shaped, next_sparse = self._next_values(there, generator)
        zero = torch.zeros_like(next_sparse)

        def target(reward: Tensor, phi: Tensor, next_phi: Tensor, next_value: Tensor) -> Tensor:
            return shaped_target(
                reward=reward[rows],
                phi=phi,
                next_phi=next_phi,
                next_value=next_value,
                steps=data.steps[rows],
                terminated=data.terminated[rows],
                discount=config.discount,
            )

        y = target(self.shaping.reward, phi[here], phi[there], next_shaped)
        y = torch.maximum(torch.minimum(y, self.shaping.ceiling - phi[here]), -phi[here])
        y_sparse = target(data.reward, zero, zero, next_sparse).clamp_(0.0, 1.0)
        chunk = data.coefficients[rows]
        with autocast(chunk.device, self.precision):
            shaped = self.critic.shaped(self._inputs(here, chunk))
            sparse = self.critic.sparse(self._inputs(here, chunk, sparse=True))
        loss_shaped = functional.mse_loss(shaped.float(), y.expand(2, -1))
        loss_sparse = functional.mse_loss(sparse.float(), y_sparse.expand(2, -1))
        self.optimiser.zero_grad()
        (loss_shaped + loss_sparse).backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        self.critic.update_targets()
        return torch.stack((loss_shaped.detach(), loss_sparse.detach()))

    @torch.no_grad()
    def advantages(self) -> Tensor:
        """Advantages of every transition, (M,), as `LearnerConfig.advantage` says."""
        data = self.data
        baseline = torch.cat([self.candidate_values(r).mean(1) for r in _parts(self.vector)])
        if self.config.advantage == "step":
            gained = shaped_target(
                reward=self.shaping.reward,
                phi=self.shaping.phi[data.state],
                next_phi=self.shaping.phi[data.next_state],
                next_value=baseline[data.next_state],
                steps=data.steps,
                terminated=data.terminated,
                discount=self.config.discount,
            )
            return gained - baseline[data.state]
        own = torch.cat(
            [
                self.critic.shaped(self._inputs(data.state[r], data.coefficients[r])).mean(0)
                for r in _parts(data.state)
            ]
        )
        return own - baseline[data.state]

    @torch.no_grad()
    def candidate_values(self, rows: Tensor, *, sparse: bool = False) -> Tensor:
        """Mean twin value (B, N) of the candidates in states `rows`; without Phi."""
        return self.twin_values(rows, sparse=sparse).mean(0)

    @torch.no_grad()
    def twin_values(self, rows: Tensor, *, sparse: bool = False) -> Tensor:
        """Values (2, B, N) that each of a pair gives the candidates in states `rows`."""
        chunk = self.data.candidates[rows]
        at = rows.repeat_interleave(chunk.shape[1])
        net = self.critic.sparse if sparse else self.critic.shaped
        values: Tensor = net(self._inputs(at, chunk.flatten(0, 1), sparse=sparse))
        return values.reshape(2, *chunk.shape[:2])

    def agreement(self, rows: Tensor) -> float:
        """Share of states in which both pairs choose the same of the N candidates."""
        shaped = self.candidate_values(rows).argmax(1)
        sparse = self.candidate_values(rows, sparse=True).argmax(1)
        return float((shaped == sparse).float().mean())


def _parts(of: Tensor) -> list[Tensor]:
    """Row indices in parts that fit the cache."""
    return list(torch.split(torch.arange(of.shape[0], device=of.device), PART // 4))


def adopt_potential(
    trainer: CriticTrainer,
    old_phi: Tensor,
    old_stage: Tensor,
    *,
    updates: int,
    generator: torch.Generator,
) -> float:
    """Shift the first pair by Phi_old - Phi_new after the potential has changed.

    The critic's inputs change with the potential, so the shift is fitted on the stored states,
    with executed and candidate chunks; returns the last fifth's root mean squared error.
    """
    data, critic, batch = trainer.data, trainer.critic, trainer.config.batch_size
    before = copy.deepcopy(critic.shaped_target)
    parameters = list(critic.shaped.parameters())
    optimiser = torch.optim.AdamW(
        parameters, lr=trainer.config.critic_learning_rate, weight_decay=0.0, fused=True
    )
    errors: list[Tensor] = []
    for step in range(updates):
        rows = torch.randint(data.transitions, (batch,), generator=generator).to(data.state.device)
        here = data.state[rows]
        chunk = data.coefficients[rows] if step % 2 else data.candidates[here, 0]
        with torch.no_grad():
            inputs = critic.inputs(trainer.vector[here], chunk, old_stage[here], old_phi[here])
            goal = before(inputs) + (old_phi - data.phi)[here]
        loss = functional.mse_loss(critic.shaped(trainer._inputs(here, chunk)), goal)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        errors.append(loss.detach())
    critic.shaped_target.load_state_dict(critic.shaped.state_dict())
    last = errors[-max(1, updates // 5) :]
    return float(torch.stack(last).mean().sqrt()) if last else 0.0
