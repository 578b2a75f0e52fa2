"""Training: supervised fine-tuning, and rounds of chunk value learning with a weighted actor."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from coda.policy.actor import ActorTrainer, LearningError
from coda.policy.base import ChunkPolicy
from coda.policy.batches import (
    Mixture,
    actor_groups,
    build,
    policy_vectors,
    potential_columns,
    refresh,
)
from coda.policy.config import LearnerConfig, SftConfig
from coda.policy.critic import ChunkCritic
from coda.policy.potential import StatePotential
from coda.policy.replay import SOURCES, Replay
from coda.policy.values import CriticTrainer, adopt_potential

AGREEMENT_STATES = 512
"""States on which the two critics' choices are compared."""


@dataclass(frozen=True, kw_only=True)
class SftReport:
    """What supervised fine-tuning did."""

    updates: int
    chunks: int
    loss_first: float
    """Mean loss of the first tenth."""
    loss_last: float
    seconds: float
    updates_per_s: float

    def summary(self) -> dict[str, float]:
        """Numbers for a record."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class RoundReport:
    """What one round of learning did."""

    signal: str
    transitions: int
    critic_updates: int
    actor_updates: int
    critic_loss: float
    """Mean squared TD error of the first pair, last tenth."""
    sparse_loss: float
    actor_loss: float
    agreement: float
    """Share of states in which shaped and sparse critic choose the same of N candidates."""
    advantage_std: float
    mean_weight: float
    value_mean: float
    """Mean of Q over the stored states' candidates."""
    shift_error: float
    """Root mean squared error of the shift by Phi_old - Phi_new; 0 where Phi did not change."""
    seconds: float
    critic_updates_per_s: float
    actor_updates_per_s: float

    def summary(self) -> dict[str, float | str]:
        """Numbers for a record."""
        return asdict(self)


def _mean(losses: list[Tensor], *, first: bool = False) -> float:
    """Mean of the first or last tenth. Raises `LearningError` where it is not finite."""
    if not losses:
        return 0.0
    tenth = max(1, len(losses) // 10)
    value = float(torch.stack(losses[:tenth] if first else losses[-tenth:]).mean())
    if not math.isfinite(value):
        raise LearningError(
            f"the loss is {value} after {len(losses)} updates; lower the learning rate, or check "
            "the replay for non-finite actions."
        )
    return value


def _rate(updates: int, seconds: float) -> float:
    return updates / seconds if updates and seconds > 0 else 0.0


def sft(
    policy: ChunkPolicy,
    replay: Replay,
    config: SftConfig,
    *,
    generator: torch.Generator,
    rows: npt.NDArray[np.int64] | None = None,
    fit_normalisers: bool = True,
) -> SftReport:
    """Imitate chunks of a replay, weighted by their `weight` column.

    Args:
        policy: Trained in place; so is its average.
        replay: Where the chunks are.
        config: Updates, batch size, rates.
        generator: CPU generator; the result is a function of its state.
        rows: Transitions to imitate; the planner's where None.
        fit_normalisers: Take normalisation statistics from these transitions first.
    """
    start = time.perf_counter()
    if rows is None:
        rows = np.flatnonzero(replay["source"] == SOURCES.index("planner"))
    if not len(rows):
        raise LearningError("no chunks to imitate; add planner episodes to the replay first.")
    if fit_normalisers:
        vectors = policy_vectors(policy, replay)[torch.from_numpy(replay["state"][rows])]
        chosen = torch.from_numpy(replay["actions"][rows])
        policy.fit_normalisers(vectors, chosen, torch.from_numpy(replay.valid()[rows]))
    data = build(policy, replay, None, LearnerConfig(candidates=2))
    weight = torch.from_numpy(replay["weight"].copy()).to(policy.device.torch)
    batches = Mixture([(torch.from_numpy(rows), 1.0)], config.batch_size)
    trainer = ActorTrainer(policy, config, config.updates, config.warmup)
    losses: list[Tensor] = []
    for _ in range(config.updates):
        index = batches.draw(generator).to(policy.device.torch)
        losses.append(trainer.update(data, index, weight[index], generator))
    seconds = time.perf_counter() - start
    return SftReport(
        updates=config.updates,
        chunks=len(rows),
        loss_first=_mean(losses, first=True),
        loss_last=_mean(losses),
        seconds=seconds,
        updates_per_s=_rate(config.updates, seconds),
    )


def actor_weights(advantage: Tensor, config: LearnerConfig) -> Tensor:
    """exp(A / (temperature * std A)) clipped to [1 / max_weight, max_weight], (M,)."""
    spread = advantage.std(correction=0).clamp_min(config.min_advantage_std)
    limit = math.log(config.max_weight)
    return (advantage / (config.temperature * spread)).clamp(-limit, limit).exp()


def _row_weights(replay: Replay, config: LearnerConfig) -> Tensor:
    """Weight of every transition before advantages: its own, less for failed attempts."""
    tried = replay["source"] == SOURCES.index("policy")
    factor = np.where(tried & ~replay["success"], config.failure_weight, 1.0)
    return torch.from_numpy((replay["weight"] * factor).astype(np.float32))


def update_round(
    policy: ChunkPolicy,
    critic: ChunkCritic,
    replay: Replay,
    potential: StatePotential | None,
    config: LearnerConfig,
    *,
    generator: torch.Generator,
    previous: StatePotential | None = None,
    imitate_first: bool = False,
) -> RoundReport:
    """One round: critic updates, advantages, weighted actor updates, `cycles` times.

    Args:
        policy: Trained in place (not where the signal is `frozen-actor`).
        critic: Trained in place.
        replay: All that was collected so far; its largest `round` counts as this one.
        potential: Phi of this round; None means Phi = 0.
        config: Signal, updates, rates.
        generator: CPU generator; the result is a function of its state.
        previous: Potential that the critic was last trained under; None for a fresh critic.
        imitate_first: Of several cycles, the first one's actor updates come before any of the
            critic, without advantages: a policy whose normalisers have just been fitted again acts
            like no one, and its chunks are what the critic's values are about.
    """
    if not len(replay):
        raise LearningError("the replay is empty; add episodes before a round of learning.")
    start = time.perf_counter()
    learner = _Round(policy, critic, replay, potential, config, generator)
    imitate_first = imitate_first and config.cycles > 1
    if imitate_first:
        learner.train_actor()
    for cycle in range(config.cycles):
        refresh(learner.data, policy, generator)
        if cycle == 0 and previous is not None and config.shaped:
            learner.adopt(previous)
        learner.train_critic(config.critic_updates + (config.critic_warmup if cycle == 0 else 0))
        if cycle > 0 or not imitate_first:
            learner.train_actor()
    return learner.report(start)


class _Round:
    """State of one round of learning."""

    def __init__(
        self,
        policy: ChunkPolicy,
        critic: ChunkCritic,
        replay: Replay,
        potential: StatePotential | None,
        config: LearnerConfig,
        generator: torch.Generator,
    ) -> None:
        self.config, self.replay, self.generator = config, replay, generator
        self.device = policy.device.torch
        used = None if config.signal == "sparse" else potential
        self.data = build(policy, replay, used, config)
        self.values = CriticTrainer(critic, self.data, config)
        planner = replay["source"] == SOURCES.index("planner")
        self.planner = torch.from_numpy(planner).to(self.device)
        self.own = _row_weights(replay, config).to(self.device)
        self.weight = self.own
        everything = torch.arange(self.data.transitions)
        self.td_rows = Mixture([(everything, 1.0)], config.batch_size)
        self.actor_rows = Mixture(actor_groups(replay, config, self.own), config.batch_size)
        learns = config.trains_actor and bool(self.actor_rows.groups)
        self.actor_updates = config.actor_updates if learns else 0
        self.actor = ActorTrainer(
            policy, config, config.cycles * self.actor_updates, min(100, self.actor_updates)
        )
        self.td: list[Tensor] = []
        self.losses: list[Tensor] = []
        self.seconds = {"critic": 0.0, "actor": 0.0}
        self.shift_error = 0.0

    def adopt(self, previous: StatePotential) -> None:
        """Shift the critic from the previous potential to this one."""
        phi, stage = (x.to(self.device) for x in potential_columns(previous, self.replay))
        if torch.equal(phi, self.data.phi) and torch.equal(stage, self.data.stage):
            return
        self.shift_error = adopt_potential(
            self.values, phi, stage, updates=self.config.adopt_updates, generator=self.generator
        )

    def train_critic(self, updates: int) -> None:
        """TD updates, then every transition's weight from its advantage."""
        began = time.perf_counter()
        for _ in range(updates):
            rows = self.td_rows.draw(self.generator).to(self.device)
            self.td.append(self.values.update(rows, self.generator))
        weights = actor_weights(self.values.advantages(), self.config)
        self.weight = self.own * torch.where(self.planner, 1.0, weights)
        self.seconds["critic"] += time.perf_counter() - began

    def train_actor(self) -> None:
        """Weighted flow matching with the demonstration anchor."""
        began = time.perf_counter()
        for _ in range(self.actor_updates):
            rows = self.actor_rows.draw(self.generator).to(self.device)
            loss = self.actor.update(self.data, rows, self.weight[rows], self.generator)
            self.losses.append(loss)
        self.seconds["actor"] += time.perf_counter() - began

    def report(self, start: float) -> RoundReport:
        """Numbers of the round that began at `start` on the performance counter."""
        states = self.replay.states
        probe = torch.randint(states, (AGREEMENT_STATES,), generator=self.generator)
        probe = probe.to(self.device)
        value = self.values.candidate_values(probe).mean() + self.values.shaping.phi[probe].mean()
        return RoundReport(
            signal=self.config.signal,
            transitions=self.data.transitions,
            critic_updates=len(self.td),
            actor_updates=len(self.losses),
            critic_loss=_mean([x[0] for x in self.td]),
            sparse_loss=_mean([x[1] for x in self.td]),
            actor_loss=_mean(self.losses),
            agreement=self.values.agreement(probe),
            advantage_std=float(self.values.advantages().std(correction=0)),
            mean_weight=float(self.weight.mean()),
            value_mean=float(value),
            shift_error=self.shift_error,
            seconds=time.perf_counter() - start,
            critic_updates_per_s=_rate(len(self.td), self.seconds["critic"]),
            actor_updates_per_s=_rate(len(self.losses), self.seconds["actor"]),
        )
