"""Learning: imitation lowers the loss, rounds are deterministic, every signal is a switch."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch

from coda.policy.actor import LearningError, schedule
from coda.policy.batches import Mixture, build, refresh
from coda.policy.config import (
    DEBUG_LEARNER,
    CriticConfig,
    LearnerConfig,
    PolicyConfig,
    SftConfig,
    Signal,
)
from coda.policy.critic import ChunkCritic
from coda.policy.flow import FlowChunkPolicy
from coda.policy.learner import RoundReport, actor_weights, sft, update_round
from coda.policy.observation import OBSERVATION_DIM, observe
from coda.policy.potential import Potential
from coda.policy.potential_base import base_program
from coda.policy.replay import Replay
from coda.policy.selection import best_of_n, chunk_values, state_values
from coda.policy.values import CriticTrainer, shaping
from tests.policy_world import policy, replay, text


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def critic(model: FlowChunkPolicy, seed: int = 0) -> ChunkCritic:
    config = CriticConfig(width=32, blocks=1)
    return ChunkCritic(config, obs_dim=OBSERVATION_DIM, chunk_dim=model.basis.size, seed=seed)


def ready() -> tuple[FlowChunkPolicy, ChunkCritic, Replay, Potential]:
    model, memory = policy(), replay()
    sft(model, memory, SftConfig(updates=10, batch_size=16), generator=generator())
    return model, critic(model), memory, Potential(base_program("pick-place"))


def other_potential() -> Potential:
    program = base_program("pick-place")
    shares = [stage.share for stage in reversed(program.stages)]
    stages = [
        s.model_copy(update={"share": a}) for s, a in zip(program.stages, shares, strict=True)
    ]
    return Potential(program.model_copy(update={"stages": tuple(stages)}))


def test_imitation_learns_the_demonstrations() -> None:
    memory = replay()
    model = FlowChunkPolicy(PolicyConfig(width=128, encoder_blocks=0))
    config = SftConfig(updates=400, batch_size=64, learning_rate=3e-3)
    report = sft(model, memory, config, generator=generator())
    assert report.loss_last < 0.5 * report.loss_first
    rows = np.flatnonzero(memory["source"] == 0)
    frames = memory.frames()[memory["state"][rows]]
    obs = observe(frames, np.repeat(text()[None], len(rows), 0))
    error = model.mode(obs) - torch.from_numpy(memory["actions"][rows])
    assert error.abs().mean() < 0.1


def test_imitation_needs_chunks() -> None:
    with pytest.raises(LearningError, match="no chunks to imitate"):
        sft(policy(), Replay(), SftConfig(), generator=generator())
    model = policy()
    with pytest.raises(LearningError, match="replay is empty"):
        update_round(model, critic(model), Replay(), None, DEBUG_LEARNER, generator=generator())


def run(signal: Signal) -> tuple[RoundReport, list[torch.Tensor], list[torch.Tensor]]:
    model, values, memory, potential = ready()
    before = [p.detach().clone() for p in model.parameters()]
    config = DEBUG_LEARNER.model_copy(update={"signal": signal})
    report = update_round(model, values, memory, potential, config, generator=generator())
    return report, before, [p.detach().clone() for p in model.parameters()]


@pytest.mark.parametrize("signal", get_args(Signal))
def test_every_signal_trains(signal: Signal) -> None:
    report, before, after = run(signal)
    moved = any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert moved == (signal != "frozen-actor")
    assert report.critic_updates == 8
    assert report.actor_updates == (0 if signal == "frozen-actor" else 4)
    assert 0.0 <= report.agreement <= 1.0


def test_a_round_is_a_function_of_the_generator() -> None:
    first, _, weights = run("text2potential")
    second, _, again = run("text2potential")
    assert all(torch.equal(a, b) for a, b in zip(weights, again, strict=True))
    assert first.critic_loss == second.critic_loss


def test_signals_differ_in_reward_and_potential_only() -> None:
    model, _, memory, potential = ready()
    data = build(model, memory, potential, LearnerConfig(candidates=2))
    shaped = shaping(data, LearnerConfig())
    assert torch.equal(shaped.phi, data.phi)
    assert torch.equal(shaped.reward, data.reward)
    dense = shaping(data, LearnerConfig(signal="dense"))
    assert not dense.phi.any()
    assert (dense.reward >= data.reward).all()
    assert dense.reward.sum() > data.reward.sum()
    paid = data.reward[data.terminated]
    torch.testing.assert_close(paid, 0.99 ** (data.steps[data.terminated] - 1).float())


def test_values_learn_what_the_data_says() -> None:
    """Terminal chunks of successes are worth about 1; with Phi the sum Phi + Q' says so."""
    model, _, memory, potential = ready()
    values = critic(model)
    config = LearnerConfig(candidates=2, batch_size=64, critic_learning_rate=3e-3)
    data = build(model, memory, potential, config)
    refresh(data, model, generator())
    trainer = CriticTrainer(values, data, config)
    draw = Mixture([(torch.arange(data.transitions), 1.0)], 64)
    rng = generator()
    for _ in range(300):
        trainer.update(draw.draw(rng), rng)
    rows = torch.nonzero(data.terminated).squeeze(1)
    state = data.state[rows]
    inputs = values.inputs(
        trainer.vector[state], data.coefficients[rows], data.stage[state], data.phi[state]
    )
    q = data.phi[state] + values.shaped(inputs).mean(0)
    assert (q - data.reward[rows]).abs().mean() < 0.15
    failed = torch.from_numpy(np.flatnonzero(memory["truncated"]))
    at = data.state[failed]
    inputs = values.inputs(
        trainer.vector[at], data.coefficients[failed], data.stage[at], data.phi[at]
    )
    low = data.phi[at] + values.shaped(inputs).mean(0)
    assert low.mean() < q.mean() - 0.2


def test_the_critic_is_shifted_when_the_potential_changes() -> None:
    model, values, memory, potential = ready()
    base = DEBUG_LEARNER.model_copy(update={"critic_updates": 60, "actor_updates": 0})
    update_round(model, values, memory, potential, base, generator=generator())
    config = DEBUG_LEARNER.model_copy(
        update={
            "critic_updates": 0,
            "critic_warmup": 0,
            "actor_updates": 0,
            "adopt_updates": 300,
            "critic_learning_rate": 3e-3,
        }
    )
    report = update_round(
        model,
        values,
        memory,
        other_potential(),
        config,
        generator=generator(),
        previous=potential,
    )
    assert 0.0 < report.shift_error < 0.08


def test_selection_picks_the_chunk_of_highest_value() -> None:
    model, values, memory, potential = ready()
    update_round(model, values, memory, potential, DEBUG_LEARNER, generator=generator())
    frames = memory.frames(0, 6)
    obs = observe(frames, np.repeat(text()[None], 6, 0))
    vectors, phi = obs.vector, potential.evaluate(frames)
    chosen = best_of_n(model, values, obs, vectors, phi, 5, generator=generator(3))
    chunks = model.sample(obs, 5, generator=generator(3))
    q = chunk_values(model, values, vectors, phi, chunks)
    assert torch.equal(chosen, chunks[torch.arange(6), q.argmax(1)])
    v = state_values(model, values, obs, vectors, phi, 5, generator=generator(3))
    torch.testing.assert_close(v, q.mean(1))
    plain = chunk_values(model, values, vectors, None, chunks, sparse=True)
    assert plain.shape == (6, 5)


def test_critics_come_back_from_files(tmp_path: Path) -> None:
    model, values, memory, potential = ready()
    update_round(model, values, memory, potential, DEBUG_LEARNER, generator=generator())
    values.save(tmp_path / "critic")
    again = ChunkCritic.load(tmp_path / "critic")
    for mine, other in zip(values.parameters(), again.parameters(), strict=True):
        assert torch.equal(mine, other)


def test_weights_are_clipped_and_noise_is_not_blown_up() -> None:
    config = LearnerConfig()
    weights = actor_weights(torch.tensor([-1.0, 0.0, 1.0, 100.0]), config)
    assert weights.max() <= config.max_weight + 1e-4
    assert weights.min() >= 1 / config.max_weight - 1e-4
    quiet = actor_weights(torch.tensor([-1e-5, 1e-5]), config)
    torch.testing.assert_close(quiet, torch.ones(2), rtol=0, atol=2e-3)


def test_batches_keep_their_shares() -> None:
    groups = [(torch.arange(10), 0.25), (torch.arange(0), 0.5), (torch.arange(20, 40), 0.25)]
    rows = Mixture(groups, 16).draw(generator())
    assert rows.shape == (16,)
    assert int((rows < 10).sum()) == 8


def test_the_learning_rate_rises_and_falls() -> None:
    rates = [schedule(step, 1000, 100) for step in range(1000)]
    assert rates[0] < 0.02
    assert max(rates) > 0.95
    assert rates[-1] == pytest.approx(0.05, abs=0.01)
