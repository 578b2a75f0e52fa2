"""Shaping is exact: telescoping, Q' = Q - Phi on random semi-Markov problems, relabelling."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from coda.policy.targets import chunk_return, shaped_target

GAMMA = 0.97


def test_shaping_telescopes_to_minus_the_first_potential() -> None:
    generator = torch.Generator().manual_seed(0)
    phi = torch.rand(7, generator=generator, dtype=torch.float64)
    steps = torch.tensor([8, 8, 3, 8, 1, 5])
    zero = torch.zeros(6, dtype=torch.float64)
    extra = shaped_target(
        reward=zero,
        phi=phi[:-1],
        next_phi=phi[1:],
        next_value=zero,
        steps=steps,
        terminated=torch.arange(6) == 5,
        discount=GAMMA,
    )
    before = torch.cumsum(steps, 0) - steps
    weight = torch.tensor(GAMMA, dtype=torch.float64) ** before
    torch.testing.assert_close((weight * extra).sum(), -phi[0])


def test_truncation_keeps_the_bootstrap_and_termination_drops_it() -> None:
    one = torch.ones(2, dtype=torch.float64)
    target = shaped_target(
        reward=0 * one,
        phi=0.25 * one,
        next_phi=0.5 * one,
        next_value=0.125 * one,
        steps=torch.tensor([3, 3]),
        terminated=torch.tensor([False, True]),
        discount=0.5,
    )
    torch.testing.assert_close(target, torch.tensor([0.125 * 0.625 - 0.25, -0.25]).double())


def test_chunk_return_counts_executed_steps_only() -> None:
    rewards = torch.ones(2, 4, dtype=torch.float64)
    got = chunk_return(rewards, torch.tensor([2, 4]), 0.5)
    torch.testing.assert_close(got, torch.tensor([1.5, 1.875]).double())


@dataclass
class Problem:
    """A tabular problem with chunks: S states, A chunks, H steps with early ends inside.

    Every (s, a) leads to one of `branches` outcomes: it may terminate or be truncated after
    k < H steps. A truncated chunk ends the data, not the world: its next state bootstraps.
    """

    chance: Tensor  # (S, A, W)
    reward: Tensor  # (S, A, W, H)
    steps: Tensor  # (S, A, W)
    next_state: Tensor  # (S, A, W)
    terminated: Tensor  # (S, A, W)

    def solve(self, phi: Tensor, sweeps: int = 1500) -> Tensor:
        """Fixed point (S, A) of the greedy backup with `shaped_target`."""
        shape = self.chance.shape
        q = torch.zeros(shape[:2], dtype=torch.float64)
        paid = chunk_return(self.reward.flatten(0, 2), self.steps.flatten(), GAMMA)
        here = torch.arange(shape[0]).view(-1, 1, 1).expand(shape).flatten()
        after = self.next_state.flatten()
        for _ in range(sweeps):
            y = shaped_target(
                reward=paid,
                phi=phi[here],
                next_phi=phi[after],
                # the greedy choice under Q = Q' + Phi is the greedy choice under Q'
                next_value=q.amax(1)[after],
                steps=self.steps.flatten(),
                terminated=self.terminated.flatten(),
                discount=GAMMA,
            )
            q = (y.view(shape) * self.chance).sum(-1)
        return q


def problem(seed: int) -> Problem:
    generator = torch.Generator().manual_seed(seed)
    size, horizon = (9, 4, 3), 8
    steps = torch.randint(1, horizon + 1, size, generator=generator)
    reward = torch.randn(*size, horizon, generator=generator, dtype=torch.float64)
    return Problem(
        chance=torch.softmax(torch.randn(size, generator=generator, dtype=torch.float64), dim=-1),
        reward=reward,
        steps=steps,
        next_state=torch.randint(0, size[0], size, generator=generator),
        terminated=torch.rand(size, generator=generator) < 0.2,
    )


@pytest.mark.parametrize("seed", range(5))
def test_shaped_values_are_the_values_minus_phi(seed: int) -> None:
    world = problem(seed)
    generator = torch.Generator().manual_seed(100 + seed)
    phi = torch.rand(9, generator=generator, dtype=torch.float64)
    plain = world.solve(torch.zeros(9, dtype=torch.float64))
    shaped = world.solve(phi)
    torch.testing.assert_close(shaped, plain - phi[:, None], rtol=0, atol=1e-10)
    assert torch.equal(shaped.argmax(1), plain.argmax(1))


@pytest.mark.parametrize("seed", range(5))
def test_relabelling_shifts_the_critic_by_the_potentials_difference(seed: int) -> None:
    world = problem(seed)
    generator = torch.Generator().manual_seed(200 + seed)
    old, new = torch.rand(2, 9, generator=generator, dtype=torch.float64)
    shifted = world.solve(old) + (old - new)[:, None]
    torch.testing.assert_close(shifted, world.solve(new), rtol=0, atol=1e-10)


def test_one_discount_for_all_chunk_lengths_would_not_be_exact() -> None:
    world = problem(0)
    phi = torch.rand(9, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    wrong = Problem(**{**world.__dict__, "steps": torch.ones_like(world.steps)})
    plain = world.solve(torch.zeros(9, dtype=torch.float64))
    assert (wrong.solve(phi) - (plain - phi[:, None])).abs().max() > 0.1
