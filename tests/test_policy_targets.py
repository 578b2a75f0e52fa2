"""Shaping is exact: telescoping, Q' = Q - Phi on random semi-Markov problems, relabelling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from coda.policy.batches import build
from coda.policy.config import DEBUG_LEARNER
from coda.policy.potential import Potential
from coda.policy.potential_base import base_program
from coda.policy.targets import chunk_return, shaped_target
from coda.sim.frame import SimFrame
from tests.policy_world import policy, replay, replay_files

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

    def backup(self, phi: Tensor, value: Tensor) -> Tensor:
        """Expected `shaped_target` (S, A) where the next states are worth `value` (S,)."""
        shape = self.chance.shape
        here = torch.arange(shape[0]).view(-1, 1, 1).expand(shape).flatten()
        after = self.next_state.flatten()
        y = shaped_target(
            reward=chunk_return(self.reward.flatten(0, 2), self.steps.flatten(), GAMMA),
            phi=phi[here],
            next_phi=phi[after],
            next_value=value[after],
            steps=self.steps.flatten(),
            terminated=self.terminated.flatten(),
            discount=GAMMA,
        )
        return (y.view(shape) * self.chance).sum(-1)

    def solve(self, phi: Tensor, sweeps: int = 600) -> Tensor:
        """Fixed point (S, A) of the greedy backup, to convergence."""
        q = torch.zeros(self.chance.shape[:2], dtype=torch.float64)
        for _ in range(sweeps):
            # the greedy choice under Q = Q' + Phi is the greedy choice under Q'
            new = self.backup(phi, q.amax(1))
            if torch.equal(new, q):
                break
            q = new
        return q


def problem(seed: int, reward_scale: float = 1.0) -> Problem:
    generator = torch.Generator().manual_seed(seed)
    size, horizon = (9, 4, 3), 8
    steps = torch.randint(1, horizon + 1, size, generator=generator)
    reward = torch.randn(*size, horizon, generator=generator, dtype=torch.float64) * reward_scale
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


@pytest.mark.parametrize("terminated", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_shaping_telescopes_over_chunks_of_any_length(seed: int, *, terminated: bool) -> None:
    """What is added along an episode depends on its first and last state only."""
    generator = torch.Generator().manual_seed(seed)
    count = 12
    phi = torch.rand(count + 1, generator=generator, dtype=torch.float64)
    steps = torch.randint(1, 9, (count,), generator=generator)
    zero = torch.zeros(count, dtype=torch.float64)
    extra = shaped_target(
        reward=zero,
        phi=phi[:-1],
        next_phi=phi[1:],
        next_value=zero,
        steps=steps,
        terminated=(torch.arange(count) == count - 1) & terminated,
        discount=GAMMA,
    )
    elapsed = torch.cumsum(steps, 0)
    total = (GAMMA ** (elapsed - steps).double() * extra).sum()
    left = 0.0 if terminated else GAMMA ** float(elapsed[-1]) * phi[-1]
    torch.testing.assert_close(total, left - phi[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_values_of_a_fixed_policy_are_solved_exactly(seed: int) -> None:
    """Q of the policy that draws its chunks evenly, by linear equations, with and without Phi."""
    world = problem(seed)
    states, chunks, _ = world.chance.shape
    phi = torch.rand(states, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)

    def solved(phi: Tensor) -> Tensor:
        nothing = torch.zeros(states, dtype=torch.float64)
        paid = world.backup(phi, nothing).flatten()
        columns = [world.backup(nothing, row) for row in torch.eye(states, dtype=torch.float64)]
        still = world.backup(nothing, nothing)
        reach = torch.stack([(c - still).flatten() for c in columns], dim=1)  # (S A, S)
        mean = torch.eye(states, dtype=torch.float64).repeat_interleave(chunks, 1) / chunks
        eye = torch.eye(states * chunks, dtype=torch.float64)
        values: Tensor = torch.linalg.solve(eye - reach @ mean, paid)
        return values.view(states, chunks)

    plain, shaped = solved(torch.zeros(states, dtype=torch.float64)), solved(phi)
    torch.testing.assert_close(shaped, plain - phi[:, None], rtol=0, atol=1e-10)


Backup = Callable[[Problem, Tensor, Tensor], Tensor]


def _one_discount(world: Problem, phi: Tensor, value: Tensor) -> Tensor:
    """Gamma in place of gamma to the k on Phi of the next state."""
    wrong = (GAMMA - GAMMA ** world.steps.double()) * phi[world.next_state]
    return world.backup(phi, value) + (wrong * ~world.terminated * world.chance).sum(-1)


def _terminal_phi(world: Problem, phi: Tensor, value: Tensor) -> Tensor:
    """Phi of a terminal state is what the function says, not zero."""
    wrong = GAMMA ** world.steps.double() * phi[world.next_state]
    return world.backup(phi, value) + (wrong * world.terminated * world.chance).sum(-1)


def _bootstrap_beyond(world: Problem, phi: Tensor, value: Tensor) -> Tensor:
    """Termination is treated as truncation."""
    wrong = GAMMA ** world.steps.double() * (phi + value)[world.next_state]
    return world.backup(phi, value) + (wrong * world.terminated * world.chance).sum(-1)


@pytest.mark.parametrize("wrong", [_one_discount, _terminal_phi, _bootstrap_beyond])
def test_wrong_targets_choose_other_chunks(wrong: Backup) -> None:
    """Each mistake changes the best chunk in a sizeable share of the states; ours in none."""
    changed, kept, states = 0, 0, 0
    for seed in range(10):
        world = problem(seed, reward_scale=0.05)  # small beside Phi, as rare rewards are
        generator = torch.Generator().manual_seed(300 + seed)
        phi = torch.rand(9, generator=generator, dtype=torch.float64)
        best = world.solve(torch.zeros(9, dtype=torch.float64)).argmax(1)
        value = torch.zeros(9, 4, dtype=torch.float64)
        for _ in range(600):
            value = wrong(world, phi, value.amax(1))
        states += len(best)
        changed += int((value.argmax(1) != best).sum())
        kept += int((world.solve(phi).argmax(1) == best).sum())
    assert kept == states
    assert changed > 0.1 * states, f"{changed} of {states}"


@pytest.mark.parametrize("seed", range(3))
def test_order_and_advantages_of_the_candidates_in_a_state_stay(seed: int) -> None:
    """What the actor and the best-of-N choice read is the same under every potential."""
    world = problem(seed)
    plain = world.solve(torch.zeros(9, dtype=torch.float64))
    generator = torch.Generator().manual_seed(400 + seed)
    for _ in range(3):
        phi = torch.rand(9, generator=generator, dtype=torch.float64)
        shaped = world.solve(phi)
        assert torch.equal(shaped.argsort(1), plain.argsort(1))
        assert torch.equal((shaped + phi[:, None]).argmax(1), shaped.argmax(1))
        advantage = plain - plain.mean(1, keepdim=True)
        torch.testing.assert_close(
            shaped - shaped.mean(1, keepdim=True), advantage, rtol=0, atol=1e-10
        )


def test_relabelled_data_are_as_if_collected_with_the_new_potential() -> None:
    """The replay holds states, so its targets under a new potential are that potential's own."""
    model, memory = policy(), replay()
    base = base_program("pick-place")
    shares = [stage.share for stage in reversed(base.stages)]
    other = [s.model_copy(update={"share": a}) for s, a in zip(base.stages, shares, strict=True)]
    old, new = Potential(base), Potential(base.model_copy(update={"stages": tuple(other)}))
    before, after = (build(model, memory, phi, DEBUG_LEARNER) for phi in (old, new))
    assert torch.equal(before.reward, after.reward)
    assert (before.phi - after.phi).abs().max() > 0.1

    collected = []
    for episode in replay_files():  # the first of the replay's episodes, in its order
        phi = new.evaluate(SimFrame.unpack(episode.frames.astype(np.float32))).phi
        here, there = (torch.from_numpy(part.astype(np.float32)) for part in (phi[:-1], phi[1:]))
        steps = torch.from_numpy(episode.lengths)
        last = torch.arange(len(steps)) == len(steps) - 1
        collected.append(
            shaped_target(
                reward=(last & episode.success) * DEBUG_LEARNER.discount ** (steps - 1).float(),
                phi=here,
                next_phi=there,
                next_value=torch.zeros(len(steps)),
                steps=steps,
                terminated=last & episode.success,
                discount=DEBUG_LEARNER.discount,
            )
        )
    expected = torch.cat(collected)
    relabelled = shaped_target(
        reward=after.reward,
        phi=after.phi[after.state],
        next_phi=after.phi[after.next_state],
        next_value=torch.zeros(after.transitions),
        steps=after.steps,
        terminated=after.terminated,
        discount=DEBUG_LEARNER.discount,
    )[: len(expected)]
    torch.testing.assert_close(relabelled, expected, rtol=0, atol=1e-6)
