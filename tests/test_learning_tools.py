"""Learning tools: the search under every training signal, and what a training program asks for."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch

from coda.policy.config import DEBUG_CRITIC, Signal
from coda.policy.critic import ChunkCritic
from coda.policy.lookahead import LookaheadConfig, search
from coda.policy.observation import OBSERVATION_DIM, TEXT_DIM
from coda.policy.potential import Potential
from coda.policy.potential_base import base_program
from coda.policy.program import LearningTools
from coda.policy.random_candidates import RandomCandidates
from coda.policy.replay import SOURCES, Replay
from coda.policy.state_value import CriticValue, search_value
from coda.policy.text import TextEncoder
from coda.sim.engine import ACTION_DIM, CHUNK, BatchSim
from coda.sim.frame import SimFrame
from coda.sim.motion import STEP_M
from coda.sim.splits import Splits
from coda.tools.collecting import Collector, RoundBudget, Target, search_config
from tests.policy_world import policy, scenes, text

SPLITS = Splits()
BASE = Potential(base_program("pick-place"))
Array = npt.NDArray[np.float64]


def texts(count: int) -> npt.NDArray[np.float32]:
    """The same embedding for every scene."""
    return np.repeat(text()[None], count, axis=0)


def near_target(frame: SimFrame, rows: npt.NDArray[np.float32]) -> Array:
    """A stand-in for a critic: the nearer the gripper is to the target, the better."""
    assert rows.shape == (frame.batch, TEXT_DIM)
    return np.asarray(-np.linalg.norm(frame.pos[:, 0] - frame.ee_pos, axis=1))


def sought(value: object, seed: int = 0, **config: int) -> tuple[float, int]:
    """Mean distance to the target at the end of searches without a potential; simulated steps."""
    settings = LookaheadConfig(policy_candidates=0, servo_candidates=6, max_steps=48, **config)
    rng = np.random.default_rng(seed)
    found = search(scenes(3), None, None, texts(3), settings, rng=rng, value=value)  # type: ignore[arg-type]
    last = {label.scene: label.frames[1] for label in found.labels}
    frame = SimFrame.unpack(np.stack(list(last.values())))
    return float(-near_target(frame, texts(3)).mean()), found.simulated_steps


def test_without_a_potential_a_value_ranks_the_candidates() -> None:
    guided, steps = sought(near_target)
    unguided, _ = sought(None)
    assert guided < 0.05
    assert unguided > 2 * guided
    assert steps == 3 * (6 + 1) * 48  # every branch counts, and no episode is given up


def test_without_potential_and_value_chance_decides() -> None:
    settings = LookaheadConfig(
        policy_candidates=1, servo_candidates=3, policy_share=0.0, stall_chunks=1, max_steps=96
    )
    found = search(scenes(2), None, policy(), texts(2), settings, rng=np.random.default_rng(0))
    grippers = [label.action[0, 6] for label in found.labels]
    assert 0.0 in {label.gain for label in found.labels}
    assert {-1.0, 1.0} < set(grippers)  # random candidates, and some of the policy's
    assert len(found.labels) == 2 * 96 // CHUNK  # no episode is given up
    assert all(label.executed for label in found.labels)


def test_random_candidates_are_constant_and_bounded() -> None:
    sim = BatchSim(scenes(2))
    source = RandomCandidates(40)
    chunks = source.propose(sim.reset(), np.zeros(2), np.random.default_rng(0))
    assert chunks.shape == (2, 40, CHUNK, ACTION_DIM)
    assert (chunks == chunks[:, :, :1]).all()
    assert np.abs(chunks[..., :3]).max() <= STEP_M / 0.05
    assert set(np.unique(chunks[..., 6])) == {-1.0, 1.0}
    assert np.unique(chunks[:, :, 0, 0]).size == 80
    sim.close()


def critic() -> ChunkCritic:
    """An untrained critic whose last layer says something."""
    made = ChunkCritic(DEBUG_CRITIC, obs_dim=OBSERVATION_DIM, chunk_dim=policy().basis.size)
    generator = torch.Generator().manual_seed(0)
    for parameter in made.shaped.last.parameters():
        parameter.data.normal_(0.0, 0.3, generator=generator)
    return made


def test_the_critics_value_is_without_the_potential() -> None:
    sim = BatchSim(scenes(3))
    frame = sim.reset()
    shaped = CriticValue(policy(), critic(), BASE)(frame, texts(3))
    sparse = CriticValue(policy(), critic(), None)(frame, texts(3))
    sim.close()
    assert shaped.shape == sparse.shape == (3,)
    assert np.ptp(shaped) > 0
    # both pairs of inputs are about stage 0 here, and differ in the small Phi only: it is not added
    assert (BASE.evaluate(frame).stage == 0).all()
    assert np.abs(shaped - sparse).max() < 0.05


@pytest.mark.parametrize("signal", ["sparse", "dense", "text2potential"])
def test_every_signal_adds_its_critics_value(signal: Signal) -> None:
    assert search_value(policy(), None, BASE, signal) is None
    value = search_value(policy(), critic(), BASE, signal)
    assert isinstance(value, CriticValue)


def collect(signal: Signal, **kinds: object) -> tuple[Collector, Replay]:
    """A small round of searches on the seed scenes."""
    replay = Replay()
    budget = RoundBudget(episodes=3, candidates=4, updates=1)
    target = Target(label="m", program=SPLITS.seed_program(), potential=BASE)
    rng = np.random.default_rng(0)
    collector = Collector(
        policy(),
        replay,
        budget,
        TextEncoder(),
        1,
        rng,
        1,
        signal=signal,
        **kinds,  # type: ignore[arg-type]
    )
    collector.collect([target], SPLITS, None)
    return collector, replay


def test_a_sparse_search_keeps_only_what_led_to_success_or_raised_the_value() -> None:
    unranked, empty = collect("sparse")
    assert unranked.searches[0].solved == 0
    assert unranked.searches[0].stalled == {}
    assert len(empty) == 0
    _, kept = collect("sparse", value=near_target)
    assert len(kept) > 3
    assert set(kept["source"]) == {SOURCES.index("lookahead")}
    states, then = kept.frames()[kept["state"]], kept.frames()[kept["next_state"]]
    rows = texts(states.batch)
    assert (near_target(then, rows) > near_target(states, rows)).all()


def test_half_of_the_candidates_of_a_sparse_search_are_the_policys() -> None:
    budget = RoundBudget(episodes=1, candidates=10, updates=1)
    config = search_config(LearningTools(), budget, guided=False)
    assert (config.policy_candidates, config.servo_candidates) == (5, 5)
