"""Potentials of a round's value learning: blends, files of targets, and what a round does first."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch

from coda.policy import learner as learner_module
from coda.policy.batches import build, refresh
from coda.policy.config import CriticConfig, LearnerConfig
from coda.policy.critic import ChunkCritic
from coda.policy.learner import update_round
from coda.policy.observation import OBSERVATION_DIM
from coda.policy.potential import BlendedPotential, Potential
from coda.policy.potential_base import base_program
from coda.policy.values import CriticTrainer
from coda.sim.frame import SimFrame
from coda.sim.splits import Splits
from coda.tools.collecting import Target
from coda.tools.targets_file import TargetsError, load_targets, save_targets, value_potential
from tests.policy_world import policy, replay, successes

BASE = Potential(base_program("pick-place"))


def reversed_shares() -> Potential:
    program = base_program("pick-place")
    shares = [stage.share for stage in reversed(program.stages)]
    stages = [
        s.model_copy(update={"share": a}) for s, a in zip(program.stages, shares, strict=True)
    ]
    return Potential(program.model_copy(update={"name": "reversed", "stages": tuple(stages)}))


def frames() -> SimFrame:
    return SimFrame.unpack(successes()[0].frames)


def test_a_blend_is_the_weighted_mean_and_tells_the_first_ones_stages() -> None:
    other, states = reversed_shares(), frames()
    value = BlendedPotential([BASE, other], [1.0, 3.0]).evaluate(states)
    first, second = BASE.evaluate(states), other.evaluate(states)
    assert np.abs(first.phi - second.phi).max() > 0.1
    np.testing.assert_allclose(value.phi, 0.25 * first.phi + 0.75 * second.phi, atol=1e-12)
    np.testing.assert_array_equal(value.stage, first.stage)
    assert value.phi.min() >= 0.0
    assert value.phi.max() <= 1.0


def test_a_blend_without_weights_is_the_plain_mean_and_bad_weights_are_refused() -> None:
    other, states = reversed_shares(), frames()
    value = BlendedPotential([BASE, other], [0.0, 0.0]).evaluate(states)
    mean = (BASE.evaluate(states).phi + other.evaluate(states).phi) / 2
    np.testing.assert_allclose(value.phi, mean, atol=1e-12)
    for parts, weights in (([], []), ([BASE], [1.0, 1.0]), ([BASE, other], [1.0, -1.0])):
        with pytest.raises(ValueError, match="potentials with weights"):
            BlendedPotential(parts, weights)


def targets() -> list[Target]:
    splits = Splits()
    return [
        Target(label="m001", program=splits.program(["yaw"]), potential=reversed_shares()),
        Target(label="e1", program=splits.program(["goal"]), potential=BASE, weight=3.0),
        Target(label="e2", program=splits.program(["size"]), potential=BASE, weight=0.0),
    ]


def test_targets_survive_their_file(tmp_path: Path) -> None:
    path = tmp_path / "training" / "r01.json"
    save_targets(path, targets(), BASE)
    read, base = load_targets(path)
    assert base.program == BASE.program
    for before, after in zip(targets(), read, strict=True):
        assert (after.label, after.weight) == (before.label, before.weight)
        assert after.program == before.program
        assert after.potential.program == before.potential.program
    assert read[1].potential is base


@pytest.mark.parametrize(
    ("text", "words"),
    [(None, "cannot read the targets"), ("{", "Invalid JSON"), ("{}", "base")],
)
def test_a_bad_file_of_targets_is_one_line(tmp_path: Path, text: str | None, words: str) -> None:
    path = tmp_path / "r01.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(TargetsError, match=words) as caught:
        load_targets(path)
    assert "\n" not in str(caught.value)


def test_value_learning_is_shaped_by_the_mean_of_the_targets_potentials() -> None:
    states = frames()
    blend = value_potential(targets(), BASE).evaluate(states)
    wanted = 0.75 * BASE.evaluate(states).phi + 0.25 * reversed_shares().evaluate(states).phi
    np.testing.assert_allclose(blend.phi, wanted, atol=1e-12)
    same = [Target(label="e", program=t.program, potential=BASE) for t in targets()]
    assert value_potential(same, BASE) is BASE


def trainer(advantage: Literal["critic", "step"]) -> CriticTrainer:
    model, memory = policy(), replay()
    config = LearnerConfig(candidates=4, batch_size=16, advantage=advantage)
    data = build(model, memory, BASE, config)
    refresh(data, model, torch.Generator().manual_seed(0))
    shape = CriticConfig(width=32, blocks=1)
    critic = ChunkCritic(shape, obs_dim=OBSERVATION_DIM, chunk_dim=model.chunk_dim, seed=1)
    values = CriticTrainer(critic, data, config)
    generator = torch.Generator().manual_seed(2)
    for _ in range(20):
        values.update(torch.randint(data.transitions, (16,), generator=generator), generator)
    return values


def test_step_advantages_are_td_errors_of_the_state_value() -> None:
    values = trainer("step")
    data, discount = values.data, values.config.discount
    state_value = values.candidate_values(torch.arange(len(values.vector))).mean(1) + data.phi
    there = torch.where(data.terminated, 0.0, state_value[data.next_state])
    wanted = data.reward + discount**data.steps * there - state_value[data.state]
    torch.testing.assert_close(values.advantages(), wanted)
    assert float((values.advantages() - trainer("critic").advantages()).abs().max()) > 1e-3


@pytest.mark.parametrize("imitate_first", [False, True])
def test_a_fresh_start_imitates_before_it_values(
    monkeypatch: pytest.MonkeyPatch, imitate_first: bool
) -> None:
    order: list[str] = []
    for name in ("train_critic", "train_actor"):
        real = getattr(learner_module._Round, name)

        def spy(self: object, *args: int, _real: object = real, _name: str = name) -> object:
            order.append(_name)
            return _real(self, *args)  # type: ignore[operator]

        monkeypatch.setattr(learner_module._Round, name, spy)
    model = policy()
    shape = CriticConfig(width=32, blocks=1)
    update_round(
        model,
        ChunkCritic(shape, obs_dim=OBSERVATION_DIM, chunk_dim=model.chunk_dim),
        replay(),
        BASE,
        LearnerConfig(
            cycles=2, critic_warmup=2, critic_updates=2, actor_updates=2, candidates=2, batch_size=8
        ),
        generator=torch.Generator().manual_seed(0),
        imitate_first=imitate_first,
    )
    usual = ["train_critic", "train_actor", "train_critic", "train_actor"]
    first = ["train_actor", "train_critic", "train_critic", "train_actor"]
    assert order == (first if imitate_first else usual)
