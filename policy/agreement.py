"""How far a critic's choices agree with those of the critic that learns from the verifier alone.

Shaping leaves the best chunk of a state as it is (`coda.policy.targets`): after convergence both
critics choose the same. What is measured is how near to that two trained networks come.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch

from coda.policy.base import ChunkPolicy
from coda.policy.batches import Mixture, build, refresh
from coda.policy.config import CriticConfig, LearnerConfig
from coda.policy.critic import ChunkCritic
from coda.policy.observation import OBSERVATION_DIM
from coda.policy.potential import StatePotential
from coda.policy.replay import Replay
from coda.policy.values import CriticTrainer


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Choices of two converged critics among N candidate chunks of every probed state."""

    states: int
    same: float
    """Share of states in which the signal's critic chooses the sparse critic's chunk."""
    ceiling: float
    """The same for the two networks of the sparse pair: they differ by their start alone."""
    decisive: int
    """States in which the two sparse networks choose alike, so that there is a choice to make."""
    same_decisive: float
    """`same` in those states only; nan where there are none."""
    value_kept: float
    """Of what the sparse critic gains by choosing its best chunk over the mean one, the share that
    the signal's choice gains by the sparse critic's own values; 1 for equal choices, 0 for
    choosing at random."""

    def summary(self) -> dict[str, float]:
        """Numbers for a record."""
        return asdict(self)


def converged_agreement(
    policy: ChunkPolicy,
    replay: Replay,
    potential: StatePotential | None,
    config: LearnerConfig,
    *,
    updates: int,
    probe: int = 1024,
    shape: CriticConfig | None = None,
    seed: int = 0,
) -> Agreement:
    """Train fresh critics of a signal and of the verifier alone on a replay, and compare choices.

    Args:
        policy: Proposes the candidates; not trained.
        replay: Transitions that both pairs learn from, on the same batches.
        potential: Of the signal; None for none.
        config: Signal, rates, batch size, number of candidates.
        updates: Of the critics.
        probe: States compared, drawn from the replay.
        shape: Of the critics.
        seed: Of everything random here.
    """
    generator = torch.Generator().manual_seed(seed)
    data = build(policy, replay, None if config.signal == "sparse" else potential, config)
    refresh(data, policy, generator)
    critic = ChunkCritic(
        shape or CriticConfig(),
        obs_dim=OBSERVATION_DIM,
        chunk_dim=policy.chunk_dim,
        seed=seed,
    )
    trainer = CriticTrainer(critic, data, config)
    rows = Mixture([(torch.arange(data.transitions), 1.0)], config.batch_size)
    for _ in range(updates):
        trainer.update(rows.draw(generator).to(data.state.device), generator)
    states = torch.randperm(replay.states, generator=generator)[:probe].to(data.state.device)
    return compare(trainer, states)


@torch.no_grad()
def compare(trainer: CriticTrainer, states: torch.Tensor) -> Agreement:
    """Compare the two pairs of a trainer in some states (n,)."""
    chosen = trainer.candidate_values(states).argmax(1)
    each = trainer.twin_values(states, sparse=True)
    sparse = each.mean(0)
    first, second = each.argmax(2)
    best = sparse.argmax(1)
    alike = first == second
    gained = sparse.gather(1, chosen[:, None])[:, 0] - sparse.mean(1)
    possible = sparse.amax(1) - sparse.mean(1)
    decisive = int(alike.sum())
    return Agreement(
        states=len(states),
        same=float((chosen == best).float().mean()),
        ceiling=float(alike.float().mean()),
        decisive=decisive,
        same_decisive=float((chosen == best)[alike].float().mean()) if decisive else float("nan"),
        value_kept=float(gained.sum() / possible.sum().clamp_min(1e-9)),
    )
