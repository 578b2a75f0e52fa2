"""The vector environment does what single ones behind Gymnasium's own `SyncVectorEnv` do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from coda.sim.errors import SceneError, SimulationError
from coda.sim.families import family
from coda.sim.gym_obs import STATE_DIM
from coda.sim.gym_register import register
from coda.sim.gym_vector import CodaVectorEnv
from coda.sim.planner import ScriptedPlanner
from coda.sim.sampling import sample_scene
from coda.sim.splits import Splits

NAME = "coda/PickPlace-v0"
SCENES = [sample_scene(Splits().seed_program(), np.random.default_rng(s)) for s in range(3)]
MODES = (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP)


def singles(n: int, mode: AutoresetMode, **options: Any) -> SyncVectorEnv:
    """`n` single environments, one after another in a loop."""
    register()
    make: Callable[[], gymnasium.Env[Any, Any]] = lambda: gymnasium.make(NAME, **options)  # noqa: E731
    return SyncVectorEnv([make] * n, autoreset_mode=mode)


def batched(n: int, mode: AutoresetMode, **options: Any) -> CodaVectorEnv:
    register()
    envs = gymnasium.make_vec(
        NAME, n, vectorization_mode="vector_entry_point", autoreset_mode=mode, **options
    )
    assert isinstance(envs, CodaVectorEnv)
    return envs


def assert_same(one: Any, other: Any) -> None:
    """Bit for bit, infos with their masks included."""
    for a, b in zip(one, other, strict=True):
        assert data_equivalence(a, b, exact=True), (a, b)


@pytest.mark.parametrize("mode", MODES)
def test_random_actions_and_time_limits_as_in_single_environments(mode: AutoresetMode) -> None:
    options = {"max_episode_steps": 5}
    loop, batch = singles(3, mode, **options), batched(3, mode, ahead=1, **options)
    assert_same(loop.reset(seed=4), batch.reset(seed=4))
    rng = np.random.default_rng(0)
    cut = 0
    for _ in range(20):
        actions = rng.uniform(-1.2, 1.2, (3, 7)).astype(np.float32)
        want, have = loop.step(actions), batch.step(actions)
        assert_same(want, have)
        cut += int(have[3].sum())
    assert cut == 3 * {AutoresetMode.NEXT_STEP: 3, AutoresetMode.SAME_STEP: 4}[mode]
    assert_same(loop.reset(), batch.reset())  # what was drawn ahead comes in its turn
    assert_same(loop.reset(seed=[9, 8, 7]), batch.reset(seed=[9, 8, 7]))
    loop.close()
    batch.close()


@pytest.mark.parametrize("mode", MODES)
def test_successes_as_in_single_environments(mode: AutoresetMode) -> None:
    loop, batch = singles(3, mode, scenes=SCENES), batched(3, mode, scenes=SCENES)
    assert_same(loop.reset(seed=1), batch.reset(seed=1))
    planner, everyone = ScriptedPlanner(), np.ones(3, dtype=np.bool_)
    over: list[tuple[int, ...]] = []
    successes = 0
    for _ in range(112):
        actions = planner(batch.frame, everyone)[:, 0]
        want, have = loop.step(actions), batch.step(actions)
        assert_same(want, have)
        _, rewards, terminated, truncated, infos = have
        assert np.array_equal(rewards > 0, terminated)
        assert not truncated.any()
        if terminated.any():
            over.append(tuple(np.flatnonzero(terminated).tolist()))
            last = infos if mode is AutoresetMode.NEXT_STEP else infos["final_info"]
            assert last["is_success"][terminated].all()
            successes += int(terminated.sum())
    assert successes >= 3
    assert len(over) > 1, "the episodes should end at different times"
    loop.close()
    batch.close()


def test_same_step_gives_the_last_observation_and_info_aside() -> None:
    envs = batched(2, AutoresetMode.SAME_STEP, scenes=SCENES, max_episode_steps=3)
    still = np.zeros((2, 7))
    envs.reset(seed=0)
    envs.step(still)
    before = envs.step(still)
    assert "final_obs" not in before[4]
    first, rewards, terminated, truncated, infos = envs.step(still)
    assert truncated.all()
    assert not terminated.any()
    assert rewards.tolist() == [0.0, 0.0]
    assert infos["_final_obs"].all()
    for env in range(2):
        assert not np.array_equal(infos["final_obs"][env], first[env])
    assert infos["final_info"]["is_success"].tolist() == [False, False]
    starts = {scene.digest(): scene for scene in SCENES}
    assert all(digest in starts for digest in infos["scene"])
    assert all(infos["instruction"])
    envs.close()


def test_next_step_ignores_the_action_of_the_reset() -> None:
    envs = batched(2, AutoresetMode.NEXT_STEP, scenes=SCENES, max_episode_steps=2)
    envs.reset(seed=0)
    actions = np.full((2, 7), 0.1)
    envs.step(actions)
    assert envs.step(actions)[3].all()
    seen, rewards, terminated, truncated, infos = envs.step(np.full((2, 7), np.nan))
    assert not (terminated | truncated).any()
    assert rewards.tolist() == [0.0, 0.0]
    assert "is_success" not in infos
    assert infos["_instruction"].all()
    twin = batched(2, AutoresetMode.NEXT_STEP, scenes=SCENES)
    twin.reset(seed=0)
    assert np.array_equal(twin.reset()[0], seen)
    envs.close()
    twin.close()


def rollout(n: int, **options: Any) -> bytes:
    envs = batched(n, AutoresetMode.SAME_STEP, max_episode_steps=6, **options)
    parts = [envs.reset(seed=2)[0].tobytes()]
    rng = np.random.default_rng(1)
    for _ in range(15):
        parts.append(envs.step(rng.uniform(-1, 1, (n, 7)))[0].tobytes())
    envs.close()
    return b"".join(parts)


def test_results_do_not_depend_on_threads_or_on_what_lies_ready() -> None:
    want = rollout(3)
    assert rollout(3, threads=2) == want
    assert rollout(3, ahead=0) == want
    assert rollout(3, ahead=5) == want


def test_disabled_waits_for_a_masked_reset() -> None:
    envs = batched(3, AutoresetMode.DISABLED, scenes=SCENES, max_episode_steps=4)
    envs.reset(seed=0)
    still = np.zeros((3, 7))
    envs.step(still)
    mask = np.array([False, True, False])
    seen, infos = envs.reset(options={"reset_mask": mask, "scene": 2})
    assert infos["_scene"].tolist() == mask.tolist()
    assert infos["scene"][1] == SCENES[2].digest()
    for _ in range(3):
        seen, _, _, truncated, _ = envs.step(still)
    assert truncated.tolist() == [True, False, True]
    with pytest.raises(
        SimulationError, match=r"episodes of environments \[0, 2\] have ended; reset them with"
    ):
        envs.step(still)
    after, _ = envs.reset(options={"reset_mask": ~mask})
    assert np.array_equal(after[1], seen[1])
    assert not np.array_equal(after[0], seen[0])
    assert envs.step(still)[3].tolist() == [False, True, False]
    envs.close()


def test_each_environment_can_be_given_its_scene() -> None:
    envs = batched(3, AutoresetMode.NEXT_STEP, scenes=SCENES)
    digests = [scene.digest() for scene in SCENES]
    infos = envs.reset(options={"scene": [2, SCENES[0], 1]})[1]
    assert infos["scene"].tolist() == [digests[2], digests[0], digests[1]]
    assert infos["scene_index"].tolist() == [2, -1, 1]
    infos = envs.reset(options={"scene": SCENES[1]})[1]
    assert set(infos["scene"]) == {digests[1]}
    envs.close()


def test_a_crash_ends_one_episode_and_leaves_the_others_alone() -> None:
    envs = batched(2, AutoresetMode.SAME_STEP, scenes=SCENES)
    envs.reset(seed=0)
    still = np.zeros((2, 7))
    seen = envs.step(still)[0]
    sim, row = envs._stage._batch(), int(envs._stage._rows()[1])
    state = sim.state(row)
    state[-1] = np.nan
    sim.set_state(row, state)
    after, rewards, terminated, truncated, infos = envs.step(still)
    assert terminated.tolist() == [False, True]
    assert (rewards.tolist(), truncated.tolist()) == ([0.0, 0.0], [False, False])
    assert infos["final_info"]["crashed"].tolist() == [False, True]
    assert not infos["final_info"]["is_success"].any()
    assert np.array_equal(infos["final_obs"][1], seen[1])
    assert np.isfinite(after).all()
    for _ in range(3):
        _, _, terminated, _, _ = envs.step(still)
        assert not terminated.any()
    envs.close()


def test_make_vec_gives_the_batch_with_its_spaces_and_its_mode() -> None:
    register()
    envs = gymnasium.make_vec(NAME, num_envs=8, vectorization_mode="vector_entry_point")
    assert isinstance(envs, CodaVectorEnv)
    assert envs.num_envs == 8
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert envs.observation_space.shape == (8, STATE_DIM)
    assert envs.action_space.shape == (8, 7)
    seen, _ = envs.reset(seed=0)
    assert seen in envs.observation_space
    assert seen[0] in envs.single_observation_space
    envs.action_space.seed(0)
    result = envs.step(envs.action_space.sample())
    assert result[0] in envs.observation_space
    assert [part.dtype.name for part in result[1:4]] == ["float64", "bool", "bool"]
    assert not np.shares_memory(seen, result[0])
    assert envs.spec is not None
    again = gymnasium.make_vec(envs.spec)
    assert again.num_envs == 8
    assert np.array_equal(again.reset(seed=0)[0], seen)
    assert CodaVectorEnv.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    again.close()
    envs.close()
    envs.close()


def test_gymnasiums_vector_wrappers_work() -> None:
    envs = batched(2, AutoresetMode.SAME_STEP, scenes=SCENES, max_episode_steps=3)
    counted = gymnasium.wrappers.vector.RecordEpisodeStatistics(envs)
    counted.reset(seed=0)
    for _ in range(3):
        infos = counted.step(np.zeros((2, 7)))[4]
    assert infos["episode"]["l"].tolist() == [3, 3]
    counted.close()


@pytest.mark.parametrize(
    ("actions", "line"),
    [
        (np.zeros((2, 6)), r"action has shape \(2, 6\); expected \(2, 7\)"),
        (np.zeros(7), r"action has shape \(7,\); expected \(2, 7\)"),
        (np.diag([np.nan, 1.0]) @ np.ones((2, 7)), r"action\[0, 0\] = nan; every entry must be"),
        ("go", r"action 'go' is not numeric"),
    ],
)
def test_bad_actions_are_one_line(actions: Any, line: str) -> None:
    envs = batched(2, AutoresetMode.NEXT_STEP, scenes=SCENES[0])
    with pytest.raises(SimulationError, match=r"no episodes have begun; call reset\(\) first"):
        envs.step(np.zeros((2, 7)))
    envs.reset()
    with pytest.raises(SimulationError, match=line):
        envs.step(actions)
    envs.close()


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"num_envs": 0}, "num_envs = 0; give at least 1"),
        ({"threads": 0}, "threads = 0; give at least 1"),
        ({"ahead": -1}, "ahead = -1; give at least 0"),
        ({"max_episode_steps": 0}, "max_episode_steps = 0; give a whole number from 1, or -1"),
        ({"autoreset_mode": "soon"}, "autoreset_mode = 'soon'; allowed: NextStep, SameStep"),
    ],
)
def test_wrong_options_are_one_line(options: dict[str, Any], line: str) -> None:
    with pytest.raises(SimulationError, match=line):
        CodaVectorEnv(**options)


def test_wrong_resets_are_one_line() -> None:
    envs = CodaVectorEnv(2, scenes=SCENES)
    with pytest.raises(SimulationError, match="3 seeds for 2 environments; give one seed"):
        envs.reset(seed=[1, 2, 3])
    with pytest.raises(SimulationError, match=r"no episodes have begun"):
        envs.reset(options={"reset_mask": np.array([True, False])})
    for mask in (np.zeros(2, dtype=np.bool_), np.ones(3, dtype=np.bool_), np.ones(2)):
        with pytest.raises(SimulationError, match=r"give a boolean array of shape \(2,\)"):
            envs.reset(options={"reset_mask": mask})
    with pytest.raises(SimulationError, match="has 1 entries for 2 environments"):
        envs.reset(options={"scene": [0]})
    with pytest.raises(SceneError, match="list has: 0 to 2"):
        envs.reset(options={"scene": 4})
    envs.close()


def test_the_limit_is_that_of_the_familys_longest_task() -> None:
    limits = [task.max_steps for task in family("stack-insert").tasks.values()]
    envs = CodaVectorEnv(1, family="stack-insert")
    envs.reset(seed=0)
    cuts = [bool(envs.step(np.zeros((1, 7)))[3].any()) for _ in range(max(limits))]
    assert cuts == [False] * (max(limits) - 1) + [True]
    envs.close()


def test_without_a_limit_episodes_go_on() -> None:
    envs = batched(1, AutoresetMode.NEXT_STEP, scenes=SCENES[0], max_episode_steps=-1)
    envs.reset()
    assert not any(envs.step(np.zeros((1, 7)))[3].any() for _ in range(140))
    envs.close()
