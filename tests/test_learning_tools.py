"""Learning tools: the search under every training signal, and what a training program asks for."""

from __future__ import annotations

from typing import get_args

import numpy as np
import numpy.typing as npt
import pytest
import torch
from pydantic import ValidationError

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
from coda.sim.errors import SimulationError
from coda.sim.families import family
from coda.sim.frame import SimFrame
from coda.sim.motion import STEP_M
from coda.sim.planner import ScriptedPlanner
from coda.sim.rollout import EpisodeData, run_scenes
from coda.sim.scene_state import SceneState, start_from
from coda.sim.splits import Splits
from coda.tools.collecting import (
    Collector,
    RoundBudget,
    Search,
    Target,
    replay_share,
    search_config,
)
from coda.tools.stage_resets import failing_states
from tests.policy_world import policy, scenes, successes, text

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


@pytest.mark.parametrize("signal", get_args(Signal))
def test_a_critic_without_a_potential_adds_its_value_to_a_search(signal: Signal) -> None:
    assert search_value(policy(), None, BASE, signal) is None
    value = search_value(policy(), critic(), BASE, signal)
    assert isinstance(value, CriticValue) == (signal in ("sparse", "dense"))


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


def rollouts(keep: bool = True) -> list[EpisodeData]:
    """Failures that stop at the grasp, with the simulator's state at every chunk's start."""
    planner = ScriptedPlanner()

    def actor(frame: SimFrame, active: npt.NDArray[np.bool_]) -> Array:
        chunk = planner(frame, active).copy()
        chunk[:, :, 6] = -1.0
        return chunk

    return run_scenes(scenes(3), actor, max_steps=64, keep_states=keep)


def test_a_kept_state_goes_on_bit_for_bit_in_another_batch() -> None:
    episodes = run_scenes(scenes(3), ScriptedPlanner(), max_steps=96, keep_states=True)
    middle = 6  # the object is held by then
    states = {}
    for place, episode in ((0, episodes[2]), (3, episodes[0])):
        assert episode.states is not None
        assert episode.states.shape[0] == len(episode.lengths)
        states[place] = SceneState(
            scene=episode.scene, row=episode.states[middle], frame=episode.frames[middle]
        )
    mixed = [episodes[2].scene, family("articulated").seed, scenes(4)[3], episodes[0].scene]
    sim = BatchSim(mixed)
    start = sim.reset().pack()
    frame = start_from(sim, states).pack()
    assert (frame[1:3] == start[1:3]).all()
    for place, episode in ((0, episodes[2]), (3, episodes[0])):
        assert (frame[place] == episode.frames[middle]).all()
    hold = np.zeros((4, CHUNK, ACTION_DIM))
    for k in range(3):
        actions = hold.copy()
        actions[0], actions[3] = episodes[2].actions[middle + k], episodes[0].actions[middle + k]
        result = sim.step_chunk(actions)
        for place, episode in ((0, episodes[2]), (3, episodes[0])):
            want = episode.frames[middle + k + 1]
            assert result.frame.pack()[place].tobytes() == want.tobytes()
    with pytest.raises(SimulationError, match="its own scene only"):
        start_from(sim, {1: states[0]})
    sim.close()


def test_failing_states_lie_in_the_stage_that_failed() -> None:
    episodes = rollouts()
    rng = np.random.default_rng(0)
    found = failing_states(episodes, BASE, 50, rng=rng)
    assert len(found) > len(episodes)
    assert len(failing_states(episodes, BASE, 2, rng=rng)) == 2
    for state in found:
        episode = next(e for e in episodes if e.scene == state.scene)
        value = BASE.evaluate(SimFrame.unpack(episode.frames))
        stage = BASE.evaluate(SimFrame.unpack(state.frame[None])).stage[0]
        assert stage == value.stage[int(np.argmax(value.phi))] > 0
    assert failing_states(rollouts(keep=False), BASE, 50, rng=rng) == []
    assert failing_states(successes(), BASE, 50, rng=rng) == []


def asked(**tools: object) -> Potential:
    """The base potential with other learning tools."""
    base = base_program("pick-place")
    changed = LearningTools.model_validate({**base.tools.model_dump(), **tools})
    return Potential(base.model_copy(update={"tools": changed}))


def searches(potential: Potential, seen: list[EpisodeData]) -> tuple[Search, Replay]:
    """What a target's search of four episodes records, and the replay."""
    replay = Replay()
    budget = RoundBudget(episodes=4, candidates=4, updates=1)
    target = Target(
        label="m", program=SPLITS.seed_program(), potential=potential, rollouts=tuple(seen)
    )
    rng = np.random.default_rng(0)
    collector = Collector(policy(), replay, budget, TextEncoder(), 1, rng, 1)
    collector.collect([target], SPLITS, None)
    return collector.searches[0], replay


def test_stage_resets_begin_half_of_the_searches_where_the_policy_failed() -> None:
    seen = rollouts()
    found, replay = searches(asked(stage_resets=True), seen)
    assert (found.episodes, found.resets, found.led) == (4, 2, 0)
    first = replay.packed[replay["state"]]
    stored = np.concatenate([e.frames for e in seen]).astype(np.float32)
    assert (first[:, None] == stored[None]).all(-1).any()
    found, _ = searches(asked(stage_resets=True), [])
    assert (found.resets, found.led) == (0, 4)
    found, _ = searches(asked(), seen)
    assert (found.resets, found.led) == (0, 0)


@pytest.mark.parametrize("steps", [2, 4])
def test_chunk_steps_shorten_what_is_executed(steps: int) -> None:
    target = Target(label="m", program=SPLITS.seed_program(), potential=asked(chunk_steps=steps))
    replay = Replay()
    budget = RoundBudget(episodes=1, rollouts=1, candidates=2, updates=1)
    rng = np.random.default_rng(0)
    collector = Collector(policy(), replay, budget, TextEncoder(), 1, rng, 1)
    collector.collect([target], SPLITS, None)
    assert set(replay["source"]) == {SOURCES.index("policy"), SOURCES.index("lookahead")}
    assert replay["steps"].max() == steps
    assert (replay["steps"] == steps).mean() > 0.9  # a success may cut the last one short
    assert (replay.valid().sum(axis=1) == replay["steps"]).all()
    assert search_config(asked(chunk_steps=steps).program.tools, budget).chunk_steps == steps


def test_a_rollout_of_short_chunks_has_as_many_control_steps() -> None:
    whole = run_scenes(scenes(1), ScriptedPlanner(), max_steps=48)[0]
    short = run_scenes(scenes(1), ScriptedPlanner(), max_steps=48, chunk_steps=4)[0]
    assert whole.steps == short.steps == 48
    assert (len(whole.lengths), len(short.lengths)) == (6, 12)
    assert short.actions.shape == (12, CHUNK, ACTION_DIM)


def test_replay_shares_are_averaged_by_weight() -> None:
    def target(weight: float, **tools: object) -> Target:
        return Target(
            label="m", program=SPLITS.seed_program(), potential=asked(**tools), weight=weight
        )

    assert replay_share([target(1.0)], 0.6) == 0.6
    assert replay_share([target(1.0, replay_share=0.2)], 0.6) == pytest.approx(0.2)
    mixed = [target(1.0, replay_share=0.2), target(3.0), target(0.0, replay_share=1.0)]
    assert replay_share(mixed, 0.6) == pytest.approx(0.5)
    assert replay_share([target(0.0, replay_share=0.2)], 0.6) == 0.6


def test_self_imitation_decides_whether_rollouts_are_imitated() -> None:
    for wanted in (True, False):
        replay = Replay()
        target = Target(
            label="m", program=SPLITS.seed_program(), potential=asked(self_imitation=wanted)
        )
        budget = RoundBudget(episodes=0, rollouts=1, candidates=2, updates=1)
        rng = np.random.default_rng(0)
        Collector(policy(), replay, budget, TextEncoder(), 1, rng, 1).collect(
            [target], SPLITS, None
        )
        assert set(replay["weight"]) == {float(wanted)}


@pytest.mark.parametrize(
    "tools", [{"chunk_steps": 3}, {"replay_share": 1.5}, {"exploration_noise": 0.9}]
)
def test_learning_tools_have_bounds(tools: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        LearningTools.model_validate(tools)
