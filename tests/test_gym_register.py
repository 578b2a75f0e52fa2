"""Gymnasium knows every family once it is told, and not before."""

from __future__ import annotations

import subprocess
import sys

import gymnasium
import pytest

from coda.sim.errors import UnknownName
from coda.sim.families import FAMILIES
from coda.sim.gym_register import env_id, register


def test_every_family_has_a_name() -> None:
    names = register()
    assert names == register()  # again, and without gymnasium's warning
    assert len(names) == len(FAMILIES)
    assert set(names) <= set(gymnasium.registry)
    assert names[0] == "coda/PickPlace-v0"
    for name, family in zip(names, FAMILIES.values(), strict=True):
        spec = gymnasium.spec(name)
        assert spec.kwargs == {"family": family.name}
        limits = [task.max_steps for task in family.tasks.values()]
        assert spec.max_episode_steps == max(limits)


def test_names_come_from_the_families() -> None:
    assert env_id("pick-place") == "coda/PickPlace-v0"
    with pytest.raises(UnknownName, match="no task family named 'pickplace'"):
        env_id("pickplace")


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_can_be_made_and_stepped(name: str) -> None:
    register()
    env = gymnasium.make(env_id(name))
    _, info = env.reset(seed=0)
    assert info["instruction"]
    env.action_space.seed(0)
    for _ in range(3):
        _, _, terminated, _, after = env.step(env.action_space.sample())
        assert not terminated
        assert after["scene"] == info["scene"]
    env.close()


@pytest.mark.parametrize(
    ("name", "task"), [(item.name, task) for item in FAMILIES.values() for task in item.tasks]
)
def test_one_task_of_a_family_can_be_played_alone(name: str, task: str) -> None:
    register()
    env = gymnasium.make(env_id(name), task=task)
    assert {env.reset(seed=seed)[1]["task"] for seed in range(4)} == {task}
    env.close()


FRESH = """
import gymnasium
import coda.sim.gym_env, coda.sim.gym_vector, coda.sim.gym_register as names
assert not [name for name in gymnasium.registry if name.startswith("coda/")], "import registered"
names.register()
env = gymnasium.make("coda/PickPlace-v0")
envs = gymnasium.make_vec("coda/PickPlace-v0", num_envs=2, vectorization_mode="vector_entry_point")
print(env.reset(seed=3)[0].sum() == envs.reset(seed=3)[0][0].sum())
"""


def test_nothing_is_registered_on_import() -> None:
    done = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True"]


def test_gymnasiums_module_syntax_needs_no_other_line() -> None:
    lines = (
        "import gymnasium as g",
        "e = g.make('coda.sim.envs:coda/PickPlace-v0')",
        "print(e.reset(seed=3)[0].shape == e.observation_space.shape)",
        "print('coda/StackInsert-v0' in g.registry)",
    )
    done = subprocess.run([sys.executable, "-c", ";".join(lines)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "True"]
