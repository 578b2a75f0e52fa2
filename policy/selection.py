"""Choosing among a policy's chunks by value: best-of-N, and values for lookahead."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from coda.policy.base import ChunkPolicy
from coda.policy.critic import ChunkCritic
from coda.policy.observation import Observation
from coda.policy.potential import PotentialValue


@torch.no_grad()
def chunk_values(
    policy: ChunkPolicy,
    critic: ChunkCritic,
    vectors: Tensor,
    potential: PotentialValue | None,
    chunks: Tensor,
    *,
    sparse: bool = False,
) -> Tensor:
    """Q(s, a) = Phi(s) + Q'(s, a) of chunks (B, N, H, 7): (B, N), mean of the twins.

    Args:
        policy: Supplies the normaliser of chunks that the critic was trained with.
        critic: Trained by `coda.policy.learner.update_round`.
        vectors: Privileged vectors of B states, (B, D); see `observe_vector`.
        potential: Their Phi and stage under the potential of training; None where it was
            trained without one (signal `sparse`).
        chunks: Candidates.
        sparse: Ask the sparse pair instead; it knows no potential.
    """
    device = policy.device.torch
    batch, n = chunks.shape[:2]
    phi = torch.zeros(batch, device=device)
    stage = torch.zeros(batch, dtype=torch.int64, device=device)
    if potential is not None and not sparse:
        phi = torch.from_numpy(potential.phi.astype(np.float32)).to(device)
        stage = torch.from_numpy(potential.stage).to(device)
    flat = chunks.to(device).flatten(0, 1)
    valid = torch.ones(flat.shape[:2], dtype=torch.bool, device=device)
    rows = torch.arange(batch, device=device).repeat_interleave(n)
    inputs = critic.inputs(
        critic.norm(vectors.to(device))[rows],
        policy.coefficients(flat, valid),
        stage[rows],
        phi[rows],
    )
    values: Tensor = (critic.sparse if sparse else critic.shaped)(inputs).mean(0)
    return phi.unsqueeze(1) + values.reshape(batch, n)


def best_of_n(
    policy: ChunkPolicy,
    critic: ChunkCritic,
    obs: Observation,
    vectors: Tensor,
    potential: PotentialValue | None,
    n: int,
    *,
    generator: torch.Generator,
) -> Tensor:
    """The chunk (B, H, 7) of highest value among n draws of the policy.

    `obs` is what the policy sees, `vectors` (B, D) what the critic sees.
    """
    chunks = policy.sample(obs, n, generator=generator)
    best = chunk_values(policy, critic, vectors, potential, chunks).argmax(1)
    return chunks[torch.arange(obs.batch, device=chunks.device), best]


def state_values(
    policy: ChunkPolicy,
    critic: ChunkCritic,
    obs: Observation,
    vectors: Tensor,
    potential: PotentialValue | None,
    n: int,
    *,
    generator: torch.Generator,
) -> Tensor:
    """V(s) = Phi(s) + mean_N Q'(s, .) of the policy, (B,)."""
    chunks = policy.sample(obs, n, generator=generator)
    return chunk_values(policy, critic, vectors, potential, chunks).mean(1)
