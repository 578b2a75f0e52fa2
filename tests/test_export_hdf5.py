"""robomimic-style HDF5: its layout, and that every episode replays to the same bits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from coda.sim.export_common import (
    PRIVILEGED_NAMES,
    ExportError,
    Origin,
    Recording,
    privileged,
    record,
    replay_states,
    states_digest,
)
from coda.sim.export_files import write_all
from coda.sim.export_hdf5 import Hdf5Exporter, demonstrations, is_hdf5_export
from coda.sim.export_xml import local_xml
from coda.sim.families import FAMILIES
from coda.sim.planner import ScriptedPlanner
from coda.sim.rollout import run_scenes
from coda.sim.scene import Scene
from tests.export_world import SIZE, recordings

CAMERAS: Any = ("agentview", "wrist")


def write(path: Path, *, every_s: float = 0.0, **options: Any) -> Path:
    assert write_all(Hdf5Exporter(path, **options), recordings(), flush_every_s=every_s) == 4
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export with everything in it."""
    path = tmp_path_factory.mktemp("hdf5") / "d.hdf5"
    return write(path, cameras=CAMERAS, with_privileged=True)


def test_the_layout_is_robomimics(file: Path) -> None:
    with h5py.File(file) as f:
        data = f["data"]
        assert sorted(data) == [f"demo_{i}" for i in range(4)]
        assert data.attrs["total"] == sum(one.steps for one in recordings())
        env = json.loads(data.attrs["env_args"])
        assert (env["env_name"], env["type"]) == ("coda/PickPlace-v0", 2)
        assert [n.decode() for n in f["mask/success"]] == ["demo_0", "demo_1", "demo_2"]
        assert [n.decode() for n in f["mask/failure"]] == ["demo_3"]
        for i, one in enumerate(recordings()):
            demo = data[f"demo_{i}"]
            assert demo.attrs["num_samples"] == one.steps == len(demo["actions"])
            assert demo["actions"].shape == (one.steps, 7)
            assert demo["states"].shape == (one.steps, one.states.shape[1])
            assert demo["dones"][:].tolist() == [0] * (one.steps - 1) + [1]
            assert demo["rewards"][:].tolist() == [0.0] * (one.steps - 1) + [float(one.success)]
            assert demo.attrs["model_file"] == one.model_xml
            assert Scene.from_text(demo.attrs["scene"]) == one.scene
            assert (demo.attrs["seed"], demo.attrs["outcome"]) == (7, one.outcome.value)
            assert bool(demo.attrs["success"]) is one.success


def test_observations_are_of_the_states_before_and_after_each_action(file: Path) -> None:
    with h5py.File(file) as f:
        for i, one in enumerate(recordings()):
            obs, after = f[f"data/demo_{i}/obs"], f[f"data/demo_{i}/next_obs"]
            before = one.before()
            assert np.array_equal(obs["robot0_eef_pos"], before.ee_pos)
            turned = Rotation.from_quat(np.array(obs["robot0_eef_quat"])).as_matrix()
            assert np.allclose(turned, before.ee_rot)
            gap = obs["robot0_gripper_qpos"][:, 0] - obs["robot0_gripper_qpos"][:, 1]
            assert np.allclose(gap, before.gripper_width_m, atol=1e-4)
            assert np.array_equal(obs["object"], privileged(before))
            assert obs["object"].shape[1] == len(PRIVILEGED_NAMES)
            for name in after:
                assert np.array_equal(after[name][:-1], obs[name][1:])
                assert not np.array_equal(after[name][-1], obs[name][-1]) or name == "object"
            assert np.array_equal(obs["agentview_image"], one.images["agentview"])
            assert np.array_equal(obs["robot0_eye_in_hand_image"], one.images["wrist"])
            assert obs["agentview_image"].shape == (one.steps, *SIZE, 3)


def test_every_episode_replays_to_the_same_bits(file: Path) -> None:
    found = list(demonstrations(file))
    assert [name for name, _ in found] == [f"demo_{i}" for i in range(4)]
    for _, facts in found:
        states = replay_states(Scene.model_validate(facts["scene"]), facts["actions"])
        assert np.array_equal(states, facts["states"])
        assert states_digest(states) == states_digest(facts["states"])


def test_states_belong_to_the_stored_model(file: Path) -> None:
    for _, facts in demonstrations(file):
        model = mujoco.MjModel.from_xml_string(local_xml(facts["model_xml"]))
        assert facts["states"].shape[1] == 1 + model.nq + model.nv
        joint = model.joint("robot0_joint1")
        with h5py.File(file) as f:
            angles = f["data/demo_0/obs/robot0_joint_pos"][:, 0]
            column = f["data/demo_0/states"][:, 1 + int(joint.qposadr[0])]
            speed = f["data/demo_0/states"][:, 1 + model.nq + int(joint.dofadr[0])]
            assert np.array_equal(angles, column)
            assert np.array_equal(f["data/demo_0/obs/robot0_joint_vel"][:, 0], speed)


def test_a_wrong_action_would_be_seen(file: Path) -> None:
    _, facts = next(demonstrations(file))
    actions = facts["actions"].copy()
    actions[5, 0] += 1e-9
    states = replay_states(Scene.model_validate(facts["scene"]), actions)
    assert not np.array_equal(states, facts["states"][: len(states)])


def test_when_it_was_flushed_does_not_show(file: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "d.hdf5", every_s=1e9, cameras=CAMERAS, with_privileged=True)
    with h5py.File(file) as a, h5py.File(other) as b:
        names: list[str] = []
        a.visit(names.append)
        for name in names:
            if isinstance(a[name], h5py.Dataset):
                assert np.array_equal(a[name][...], b[name][...]), name
        assert a["data"].attrs["total"] == b["data"].attrs["total"]


def test_without_pictures_and_privileged_state_there_is_neither(tmp_path: Path) -> None:
    with h5py.File(write(tmp_path / "d.hdf5")) as f:
        names = set(f["data/demo_0/obs"])
    assert "object" not in names
    assert not any("image" in name for name in names)


def test_what_is_no_export_is_told_apart(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "x.hdf5"
    with h5py.File(other, "w") as f:
        f["data"] = 1
    text = tmp_path / "y.hdf5"
    text.write_text("no")
    assert is_hdf5_export(file)
    assert not any(is_hdf5_export(p) for p in (other, text, tmp_path, tmp_path / "none"))
    with pytest.raises(ExportError, match=r"cannot read .*y\.hdf5 .*it is no export of ours"):
        next(demonstrations(text))
    with pytest.raises(ExportError, match="exists already"):
        Hdf5Exporter(text)


def test_every_task_is_recorded_and_replays(tmp_path: Path) -> None:
    seeds = [task.seed for item in FAMILIES.values() for task in item.tasks.values()]
    done = run_scenes(seeds, ScriptedPlanner(), max_steps=16)
    origins = [Origin(kind="planner", name=scene.tau.task, seed=0) for scene in seeds]
    held = [one for one in record(done, origins) if isinstance(one, Recording)]
    assert len(held) == len(seeds)
    path = tmp_path / "d.hdf5"
    write_all(Hdf5Exporter(path, with_privileged=True), held)
    for scene, (_, facts) in zip(seeds, demonstrations(path), strict=True):
        assert Scene.model_validate(facts["scene"]) == scene
        assert np.array_equal(replay_states(scene, facts["actions"]), facts["states"])
        assert 'file="/' not in facts["model_xml"]
        model = mujoco.MjModel.from_xml_string(local_xml(facts["model_xml"]))
        assert model.nq + model.nv + 1 == facts["states"].shape[1]
