"""One scene after another through Gymnasium: its checker, success, failure, crashes, bad input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from coda.sim.errors import CodaError, SceneError, SimulationError, UnknownName
from coda.sim.families import FAMILIES, family
from coda.sim.frame import SimFrame
from coda.sim.gym_env import CodaEnv
from coda.sim.gym_obs import (
    JOINT_FIELDS,
    LEFT_OUT,
    ROBOT_DIM,
    ROBOT_FIELDS,
    ROLE_FIELDS,
    STATE_BOUND,
    STATE_DIM,
    STATE_NAMES,
    state_vector,
)
from coda.sim.gym_register import env_id, register
from coda.sim.gym_scenes import SceneSource
from coda.sim.planner import ScriptedPlanner
from coda.sim.sampling import sample_scene
from coda.sim.scene import Scene
from coda.sim.splits import Splits, evaluation_set

SCENES = [sample_scene(Splits().seed_program(), np.random.default_rng(s)) for s in range(3)]
STILL = np.zeros(7, dtype=np.float32)


@pytest.fixture
def env() -> Iterator[CodaEnv]:
    one = CodaEnv(scenes=SCENES)
    yield one
    one.close()


def play(env: gymnasium.Env[Any, Any], seed: int) -> list[tuple[float, bool, bool, dict[str, Any]]]:
    """An episode of the scripted planner, which sees the environment's frame."""
    planner, everyone = ScriptedPlanner(), np.ones(1, dtype=np.bool_)
    env.reset(seed=seed)
    steps: list[tuple[float, bool, bool, dict[str, Any]]] = []
    while True:
        for action in planner(env.get_wrapper_attr("frame"), everyone)[0]:
            _, reward, terminated, truncated, info = env.step(action)
            steps.append((float(reward), terminated, truncated, info))
            if terminated or truncated:
                return steps


@pytest.mark.parametrize("name", FAMILIES)
def test_gymnasiums_checker_passes(name: str) -> None:
    register()
    env = gymnasium.make(env_id(name))
    check_env(env.unwrapped, skip_render_check=True)
    env.close()


def test_the_planner_succeeds_through_gymnasium() -> None:
    register()
    env = gymnasium.make("coda/PickPlace-v0")
    for seed in range(3):
        *before, (reward, terminated, truncated, info) = play(env, seed)
        assert (reward, terminated, truncated) == (1.0, True, False)
        assert info["is_success"] is True
        assert info["crashed"] is False
        assert all((r, t, u) == (0.0, False, False) for r, t, u, _ in before)
        assert all(i["is_success"] is False for *_, i in before)
        assert len(before) > 20
    env.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "task"), [(item.name, task) for item in FAMILIES.values() for task in item.tasks]
)
def test_the_planner_succeeds_in_every_task_through_gymnasium(name: str, task: str) -> None:
    register()
    env = gymnasium.make(env_id(name), task=task)
    won = 0
    for seed in range(4):
        *before, last = play(env, seed)
        assert not any(step[3]["is_success"] for step in before)
        assert last[3]["is_success"] == (last[0] == 1.0) == last[1]
        won += last[3]["is_success"]
    assert won >= 3
    env.close()


def test_success_comes_only_after_the_verifier_has_held() -> None:
    env = CodaEnv(scenes=SCENES[:1])
    planner, everyone = ScriptedPlanner(), np.ones(1, dtype=np.bool_)
    env.reset()
    true_for, done = 0, False
    while not done:
        for action in planner(env.frame, everyone)[0]:
            _, _, done, _, _ = env.step(action)
            now = env._stage._batch().verified_now()[0]
            true_for = true_for + 1 if now else 0
            assert done == (true_for == round(env.scene.nu.hold_s * 20))
            if done:
                break
    env.close()


@pytest.mark.parametrize("action", [STILL, np.full(7, -1.0), np.eye(7)[6]])
def test_wrong_actions_run_into_the_time_limit(action: np.ndarray[Any, Any]) -> None:
    register()
    env = gymnasium.make("coda/PickPlace-v0", scenes=SCENES, max_episode_steps=24)
    env.reset(seed=0)
    steps = [env.step(action) for _ in range(24)]
    assert [truncated for *_, truncated, _ in steps] == [False] * 23 + [True]
    assert not any(terminated for _, _, terminated, _, _ in steps)
    assert not any(info["is_success"] or info["crashed"] for *_, info in steps)
    assert sum(float(step[1]) for step in steps) == 0.0
    env.close()


def test_one_step_is_a_twentieth_of_a_second(env: CodaEnv) -> None:
    env.reset()
    start = env.frame
    for _ in range(10):
        env.step(np.array([0.2, 0, 0, 0, 0, 0, -1]))
    moved = env.frame
    assert moved.time_s - start.time_s == pytest.approx(0.5)
    assert moved.command_pos[0, 0] - start.command_pos[0, 0] == pytest.approx(10 * 0.2 * 0.05)
    assert moved.ee_pos[0, 0] - start.ee_pos[0, 0] == pytest.approx(0.1, abs=0.02)


def test_the_state_vector_is_the_frame_by_name(env: CodaEnv) -> None:
    seen, _ = env.reset()
    frame = env.frame
    assert seen.shape == (STATE_DIM,) == STATE_BOUND.shape
    assert len(set(STATE_NAMES)) == STATE_DIM
    assert env.state_names is STATE_NAMES
    value = dict(zip(STATE_NAMES, seen.tolist(), strict=True))
    assert value["target.pos.x"] == np.float32(frame.pos[0, 0, 0])
    assert value["receptacle.half_size.z"] == np.float32(frame.half_size[0, 1, 2])
    assert value["target.rot.zx"] == np.float32(frame.rot[0, 0, 2, 0])
    assert value["ee_rot.xy"] == np.float32(frame.ee_rot[0, 0, 1])
    assert value["gripper_width_m"] == np.float32(frame.gripper_width_m[0])
    assert (value["receptacle.present"], value["support.present"]) == (1.0, 0.0)
    assert value["target.touch_table"] == 1.0
    assert STATE_NAMES[ROBOT_DIM - 1] == "robot_touch_table"
    assert np.array_equal(seen, state_vector(frame)[0])


def test_every_field_of_the_frame_is_in_the_state_vector_or_left_out_on_purpose() -> None:
    listed = [*ROBOT_FIELDS, *JOINT_FIELDS, *ROLE_FIELDS, *LEFT_OUT]
    assert sorted(listed) == sorted(f.name for f in fields(SimFrame))


def test_seeds_fix_the_scenes(env: CodaEnv) -> None:
    def sequence(seed: int) -> list[str]:
        first = env.reset(seed=seed)[1]["scene"]
        return [first, *(env.reset()[1]["scene"] for _ in range(9))]

    assert sequence(1) == sequence(1)
    assert sequence(1) != sequence(2)
    assert set(sequence(1)) == {scene.digest() for scene in SCENES}


def test_a_reset_says_what_is_played(env: CodaEnv) -> None:
    _, info = env.reset(options={"scene": 2})
    assert info["scene"] == SCENES[2].digest()
    assert info["scene_index"] == 2
    assert info["task"] == "place"
    assert info["instruction"] == SCENES[2].tau.instruction
    other = evaluation_set("ood").scenes[0]
    _, info = env.reset(options={"scene": other})
    assert (info["scene"], info["scene_index"]) == (other.digest(), -1)
    assert env.scene == other
    assert env.step(STILL)[4]["scene"] == other.digest()


def test_a_chosen_scene_leaves_the_drawn_sequence_alone(env: CodaEnv) -> None:
    env.reset(seed=5)
    want = [env.reset()[1]["scene"] for _ in range(4)]
    env.reset(seed=5)
    have = []
    for _ in range(4):
        env.reset(options={"scene": 0})
        have.append(env.reset()[1]["scene"])
    assert have == want


def test_the_same_scene_starts_the_same_every_time(env: CodaEnv) -> None:
    first, _ = env.reset(options={"scene": 1})
    for _ in range(5):
        env.step(np.full(7, 0.5))
    again, _ = env.reset(options={"scene": 1})
    assert first.tobytes() == again.tobytes()
    fresh = CodaEnv(scenes=SCENES[1])
    assert fresh.reset()[0].tobytes() == first.tobytes()
    fresh.close()


def test_the_evaluation_files_are_there_by_name() -> None:
    for name in ("in", "ood"):
        env = CodaEnv(scenes=name)
        files = evaluation_set("in" if name == "in" else "ood")
        assert env.scenes == files.scenes
        assert env.reset(options={"scene": 7})[1]["scene"] == files.scenes[7].digest()
        env.close()


def test_scenes_of_a_program_avoid_the_held_out_cells() -> None:
    program, splits = Splits().wide_program(), Splits()
    rng = np.random.default_rng(0)
    guarded, free = (
        SceneSource("pick-place", program),
        SceneSource("pick-place", program, guard=False),
    )
    assert not any(splits.held_out(guarded.draw(rng).scene) for _ in range(12))
    assert any(splits.held_out(free.draw(rng).scene) for _ in range(12))
    assert guarded.scenes == ()


def test_a_broken_state_is_a_crash_and_no_failure(env: CodaEnv) -> None:
    env.reset()
    seen = env.step(STILL)[0]
    sim = env._stage._batch()
    state = sim.state(0)
    state[-1] = np.nan
    sim.set_state(0, state)
    last, reward, terminated, truncated, info = env.step(STILL)
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert (info["crashed"], info["is_success"]) == (True, False)
    assert np.array_equal(last, seen)  # the last finite one
    assert np.isfinite(env.reset()[0]).all()
    assert env.step(STILL)[4]["crashed"] is False


def test_nobody_steps_an_episode_that_is_over_or_has_not_begun(env: CodaEnv) -> None:
    with pytest.raises(SimulationError, match=r"no episode has begun; call reset\(\) first"):
        env.step(STILL)
    with pytest.raises(SimulationError, match="no episode has begun"):
        _ = env.frame
    play(env, 0)
    with pytest.raises(SimulationError, match=r"the episode has ended; call reset\(\)"):
        env.step(STILL)
    env.close()
    env.close()


@pytest.mark.parametrize(
    ("action", "line"),
    [
        (np.zeros(6), r"action has shape \(6,\); expected \(7,\): dx, dy, dz, rx, ry, rz, gripper"),
        (np.zeros((1, 7)), r"action has shape \(1, 7\); expected \(7,\)"),
        (None, r"action has shape \(\); expected \(7,\)"),
        ([0, 0, np.nan, 0, 0, 0, 0], r"action\[2\] = nan; every entry must be a finite number"),
        ([0, 0, 0, 0, 0, 0, np.inf], r"action\[6\] = inf; every entry must be a finite number"),
        (["left"] * 7, r"action \['left', .* is not numeric; give an array of shape \(7,\)"),
    ],
)
def test_a_bad_action_is_one_line(env: CodaEnv, action: Any, line: str) -> None:
    env.reset()
    before = env.frame.pack()
    with pytest.raises(SimulationError, match=line) as caught:
        env.step(action)
    assert "\n" not in str(caught.value)
    assert np.array_equal(env.frame.pack(), before)


def test_larger_actions_are_clipped(env: CodaEnv) -> None:
    results = []
    for size in (1.0, 40.0):
        env.reset(options={"scene": 0})
        results.append(env.step(size * np.eye(7)[1])[0].tobytes())
    assert results[0] == results[1]


def _other_family(scene: Scene) -> Scene:
    return scene.model_copy(update={"tau": scene.tau.model_copy(update={"family": "cooking"})})


def _other_task(scene: Scene) -> Scene:
    return scene.model_copy(update={"tau": scene.tau.model_copy(update={"task": "juggle"})})


@pytest.mark.parametrize(
    ("options", "kind", "line"),
    [
        ({"scenes": "sed"}, UnknownName, "no set of scenes named 'sed'. Did you mean 'seed'"),
        ({"family": "pick-plaze"}, UnknownName, "no task family named 'pick-plaze'"),
        (
            {"task": "plaice"},
            UnknownName,
            "no pick-place task named 'plaice'",
        ),
        (
            {"task": "place", "scenes": _other_task(SCENES[0])},
            SceneError,
            r"scenes\[0\] is of task 'juggle'; this environment plays 'place' only",
        ),
        (
            {"task": "place", "scenes": Splits().seed_program()},
            SceneError,
            "task = 'place' does not go with a generation program; let the program fix tau.task",
        ),
        ({"obs_type": "pixel"}, UnknownName, "no obs_type named 'pixel'. Did you mean 'pixels'"),
        ({"scenes": []}, SceneError, "scenes is an empty list; give at least one scene"),
        ({"scenes": [3]}, SceneError, r"scenes\[0\] = 3; give a coda.sim.scene.Scene"),
        (
            {"scenes": _other_family(SCENES[0])},
            SceneError,
            r"scenes\[0\] is of family 'cooking'; this environment plays 'pick-place'",
        ),
        ({"render_mode": "human"}, SimulationError, "render_mode = 'human'; allowed: rgb_array"),
        (
            {"obs_type": "pixels", "image_size": (4, 64)},
            SimulationError,
            r"image_size = \(4, 64\); give \(height, width\)",
        ),
        ({"render_size": (64,)}, SimulationError, r"render_size = \(64,\); give \(height, width\)"),
    ],
)
def test_a_wrong_option_is_one_line(
    options: dict[str, Any], kind: type[CodaError], line: str
) -> None:
    with pytest.raises(kind, match=line) as caught:
        CodaEnv(**options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("scene", "line"),
    [
        (3, r"options\['scene'\] = 3; this environment's list has: 0 to 2"),
        (-1, r"options\['scene'\] = -1; this environment's list has: 0 to 2"),
        ("first", r"options\['scene'\] = 'first'; give a coda.sim.scene.Scene"),
        (True, r"options\['scene'\] = True; give a coda.sim.scene.Scene"),
    ],
)
def test_a_scene_that_is_not_there_is_one_line(env: CodaEnv, scene: Any, line: str) -> None:
    with pytest.raises(SceneError, match=line):
        env.reset(options={"scene": scene})


def test_drawn_scenes_have_no_index() -> None:
    env = CodaEnv(scenes=Splits().seed_program())
    with pytest.raises(SceneError, match=r"list has: none, they are drawn"):
        env.reset(options={"scene": 0})
    assert env.reset(seed=0)[1]["scene_index"] == -1
    assert env.family == family("pick-place").name
    env.close()
