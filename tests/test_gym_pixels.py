"""Pictures of the Gymnasium environments: observations and `render`."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

from coda.sim.gym_env import CodaEnv
from coda.sim.gym_obs import STATE_DIM
from coda.sim.gym_register import register
from coda.sim.gym_vector import CodaVectorEnv
from coda.sim.splits import evaluation_set

SCENES = evaluation_set("ood").scenes[:2]
SIZE = (48, 64)
UP = np.array([0, 0, 1, 0, 0, 0, -1.0])


def test_gymnasiums_checker_passes_with_pictures() -> None:
    register()
    env = gymnasium.make(
        "coda/PickPlace-v0",
        scenes=SCENES,
        obs_type="pixels_state",
        image_size=SIZE,
        render_mode="rgb_array",
        render_size=(64, 64),
    )
    check_env(env.unwrapped)
    env.close()


def test_the_cameras_show_what_moves() -> None:
    env = CodaEnv(scenes=SCENES, obs_type="pixels", image_size=SIZE)
    first, _ = env.reset(options={"scene": 0})
    assert set(first) == {"agentview", "wrist"}
    for picture in first.values():
        assert (picture.shape, picture.dtype) == ((*SIZE, 3), np.uint8)
        assert picture.std() > 10  # something is in it
    for _ in range(6):
        later, *_ = env.step(UP)
    for name, picture in first.items():
        changed = np.abs(later[name].astype(int) - picture.astype(int)).max(axis=2) > 25
        assert changed.mean() > 0.005
    again, _ = env.reset(options={"scene": 0})
    assert all(np.array_equal(again[name], first[name]) for name in first)
    other, _ = env.reset(options={"scene": 1})
    assert not np.array_equal(other["agentview"], first["agentview"])
    env.close()


def test_pictures_of_two_environments_do_not_mix() -> None:
    def alone(index: int, size: tuple[int, int]) -> bytes:
        env = CodaEnv(scenes=SCENES, render_mode="rgb_array", render_size=size)
        env.reset(options={"scene": index})
        picture = env.render()
        assert picture is not None
        env.close()
        return picture.tobytes()

    want = [alone(0, (64, 64)), alone(1, (48, 80))]
    a = CodaEnv(scenes=SCENES, render_mode="rgb_array", render_size=(64, 64))
    b = CodaEnv(scenes=SCENES, render_mode="rgb_array", render_size=(48, 80))
    a.reset(options={"scene": 0})
    b.reset(options={"scene": 1})
    for _ in range(2):
        for env, expected in zip((a, b), want, strict=True):
            picture = env.render()
            assert picture is not None
            assert picture.tobytes() == expected
    a.close()
    picture = b.render()
    assert picture is not None
    assert picture.tobytes() == want[1]
    b.close()


def test_nothing_is_drawn_without_a_render_mode() -> None:
    env = CodaEnv(scenes=SCENES)
    env.reset()
    assert env.render() is None
    env.close()


def test_the_batch_sees_what_single_environments_see() -> None:
    options: dict[str, Any] = {"scenes": SCENES, "image_size": SIZE}
    envs = CodaVectorEnv(
        2,
        obs_type="pixels_state",
        autoreset_mode=AutoresetMode.SAME_STEP,
        max_episode_steps=2,
        render_mode="rgb_array",
        render_size=(64, 64),
        **options,
    )
    seen, _ = envs.reset(options={"scene": [0, 1]})
    assert seen in envs.observation_space
    assert seen["wrist"].shape == (2, *SIZE, 3)
    assert seen["state"].shape == (2, STATE_DIM)
    envs.step(np.stack([UP, UP]))
    shown = envs.render()
    assert shown is not None
    assert [picture.shape for picture in shown] == [(64, 64, 3)] * 2
    infos = envs.step(np.stack([UP, UP]))[4]
    for index in range(2):
        env = CodaEnv(obs_type="pixels_state", **options)
        first, _ = env.reset(options={"scene": index})
        env.step(UP)
        last, *_ = env.step(UP)
        for name in first:
            assert np.array_equal(seen[name][index], first[name])
            assert np.array_equal(infos["final_obs"][index][name], last[name])
        env.close()
    envs.close()
