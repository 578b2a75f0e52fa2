"""Agreement of a signal's critic with the sparse one, and exploring rollouts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from coda.policy.agreement import compare, converged_agreement
from coda.policy.batches import build, refresh
from coda.policy.config import CriticConfig, LearnerConfig
from coda.policy.critic import ChunkCritic
from coda.policy.observation import OBSERVATION_DIM
from coda.policy.potential import Potential
from coda.policy.potential_base import base_program
from coda.policy.values import CriticTrainer
from coda.sim.engine import BatchSim
from coda.sim.families import family
from coda.tools.acting import policy_actor
from tests.policy_world import policy, replay, text

BASE = Potential(base_program("pick-place"))
SHAPE = CriticConfig(width=32, blocks=1)


def trainer() -> CriticTrainer:
    model, memory = policy(), replay()
    config = LearnerConfig(candidates=6, batch_size=16)
    data = build(model, memory, BASE, config)
    refresh(data, model, torch.Generator().manual_seed(0))
    critic = ChunkCritic(SHAPE, obs_dim=OBSERVATION_DIM, chunk_dim=model.chunk_dim, seed=1)
    values = CriticTrainer(critic, data, config)
    generator = torch.Generator().manual_seed(2)
    for _ in range(30):
        values.update(torch.randint(data.transitions, (16,), generator=generator), generator)
    return values


def test_equal_values_agree_and_opposite_ones_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    values = trainer()
    states = torch.arange(len(values.vector))
    same, sign = values.twin_values(states, sparse=True), [1.0]

    def twins(rows: torch.Tensor, *, sparse: bool = False) -> torch.Tensor:
        assert len(rows) == len(states)
        return same if sparse else sign[0] * same

    monkeypatch.setattr(values, "twin_values", twins)
    equal = compare(values, states)
    assert (equal.same, equal.states) == (1.0, len(states))
    assert abs(equal.value_kept - 1.0) < 1e-5
    sign[0] = -1.0
    opposite = compare(values, states)
    assert opposite.same == 0.0
    assert opposite.value_kept < 0.0


def test_twins_that_differ_give_the_ceiling() -> None:
    values = trainer()
    states = torch.arange(len(values.vector))
    each = values.twin_values(states, sparse=True)
    result = compare(values, states)
    alike = each[0].argmax(1) == each[1].argmax(1)
    assert result.decisive == int(alike.sum())
    assert abs(result.ceiling - float(alike.float().mean())) < 1e-6
    assert 0.0 <= result.same <= 1.0


def test_converged_critics_are_compared_and_the_policy_stays() -> None:
    model, memory = policy(), replay()
    before = [p.clone() for p in model.parameters()]
    config = LearnerConfig(candidates=4, batch_size=16)
    first, second = (
        converged_agreement(model, memory, BASE, config, updates=20, probe=32, shape=SHAPE)
        for _ in range(2)
    )
    assert first == second
    assert first.states == min(32, memory.states)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_exploring_replaces_whole_chunks_of_the_rows_that_ask_for_it() -> None:
    sim = BatchSim([family("pick-place").seed] * 3)
    frame = sim.reset()
    live = np.ones(3, dtype=np.bool_)
    rows = np.repeat(text()[None], 3, axis=0)

    def act(explore: float | np.ndarray) -> np.ndarray:
        actor = policy_actor(policy(), rows, seed=4, explore=explore)
        assert callable(actor)
        return np.asarray(actor(frame, live))

    plain, mixed = act(0.0), act(np.array([0.0, 1.0, 0.0]))
    np.testing.assert_array_equal(mixed[[0, 2]], plain[[0, 2]])
    assert np.abs(mixed[1] - plain[1]).max() > 0.05
    assert np.ptp(mixed[1], axis=0).max() == 0.0  # one velocity over the whole chunk
    np.testing.assert_array_equal(act(1.0), act(1.0))
    sim.close()
