r"""Value targets of action chunks, shaped by a potential.

A chunk of k <= H executed steps from s to s' with per-step discount gamma:

.. math:: y = \sum_{i<k} \gamma^i r_i + \gamma^k \Phi(s') (1 - term) - \Phi(s)
          + \gamma^k (1 - term) Q'(s', a')

Termination (success, or a real end) makes Phi(s') and the bootstrap zero; truncation (the step
limit) does not. Then Q' = Q - Phi exactly, for chunks of any length (Ng et al., 1999, in the
semi-Markov case), so the best chunk in a state is the same with and without shaping.
"""

from __future__ import annotations

import torch
from torch import Tensor


def chunk_return(rewards: Tensor, steps: Tensor, discount: float) -> Tensor:
    """sum_{i<k} gamma^i r_i of rewards (B, H) over the executed steps k (B,)."""
    i = torch.arange(rewards.shape[1], device=rewards.device)
    kept = i < steps.unsqueeze(1)
    power = torch.as_tensor(discount, dtype=rewards.dtype, device=rewards.device) ** i
    return (rewards * power * kept).sum(dim=1)


def shaped_target(
    *,
    reward: Tensor,
    phi: Tensor,
    next_phi: Tensor,
    next_value: Tensor,
    steps: Tensor,
    terminated: Tensor,
    discount: float,
) -> Tensor:
    """Target of Q'(s, chunk).

    Args:
        reward: Discounted reward inside the chunk, (B,); see `chunk_return`.
        phi: Phi(s), (B,). Zero for an unshaped critic.
        next_phi: Phi(s'), (B,).
        next_value: Q'(s', a'), (B,).
        steps: Executed control steps k, (B,).
        terminated: True where the episode ended in a terminal state, (B,). Not for truncation.
        discount: Gamma per control step, in (0, 1].

    Returns:
        Shape (B,).
    """
    decay = torch.as_tensor(discount, dtype=phi.dtype, device=phi.device) ** steps
    beyond = (next_phi + next_value).masked_fill(terminated, 0.0)
    return reward + decay * beyond - phi
