"""LeRobotDataset v3.0: what is written, by our own reader; and by lerobot where it is installed."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from coda.sim.export_common import (
    ACTION_NAMES,
    PRIVILEGED_NAMES,
    STATE_NAMES,
    ExportError,
    replay_states,
    states_digest,
    with_images,
)
from coda.sim.export_files import publish, write_all
from coda.sim.export_lerobot import LeRobotExporter
from coda.sim.export_lerobot_format import FileLimits
from coda.sim.export_xml import local_xml, portable_xml
from coda.sim.mjcf import compile_scene, scene_xml
from coda.sim.scene import Scene
from tests.export_world import (
    FPS,
    PICTURE_ERROR,
    SIZE,
    beginnings,
    check_dataset,
    frames_of,
    recordings,
    tables,
)

CAMERAS: Any = ("agentview", "wrist")


def write(root: Path, *, every_s: float = 0.0, **options: Any) -> Path:
    exporter = LeRobotExporter(root, size=SIZE, **options)
    assert write_all(exporter, recordings(), flush_every_s=every_s) == len(recordings())
    assert exporter.episodes == len(recordings())
    return root


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with everything in it."""
    root = tmp_path_factory.mktemp("lerobot") / "data"
    return write(root, cameras=CAMERAS, with_privileged=True)


def test_a_dataset_keeps_its_promises(dataset: Path) -> None:
    assert check_dataset(dataset, recordings()) == 4
    names = {p.relative_to(dataset).as_posix() for p in dataset.rglob("*") if p.is_file()}
    assert {n for n in names if not n.startswith("coda/episodes")} == {
        "README.md",
        "coda/dataset.json",
        "data/chunk-000/file-000.parquet",
        "meta/episodes/chunk-000/file-000.parquet",
        "meta/info.json",
        "meta/stats.json",
        "meta/tasks.parquet",
        "videos/observation.images.agentview/chunk-000/file-000.mp4",
        "videos/observation.images.wrist/chunk-000/file-000.mp4",
    }
    assert not (dataset / ".partial").exists()


def test_features_have_names_and_the_privileged_one_says_so(dataset: Path) -> None:
    features = json.loads((dataset / "meta" / "info.json").read_text())["features"]
    assert features["observation.state"]["names"] == list(STATE_NAMES)
    assert features["action"]["names"] == list(ACTION_NAMES)
    hidden = features["observation.environment_state"]
    assert hidden["names"] == list(PRIVILEGED_NAMES)
    assert hidden["info"] == {"coda.privileged": True}
    assert features["observation.images.wrist"]["shape"] == [*SIZE, 3]
    assert "**privileged**" in (dataset / "README.md").read_text()


def test_without_pictures_and_privileged_state_there_is_neither(tmp_path: Path) -> None:
    root = write(tmp_path / "d")
    info = json.loads((root / "meta" / "info.json").read_text())
    assert info["video_path"] is None
    assert not any("images" in name or "environment" in name for name in info["features"])
    assert not (root / "videos").exists()
    assert "privileged" not in (root / "README.md").read_text()
    check_dataset(root, recordings())


def test_statistics_are_those_of_the_data(dataset: Path) -> None:
    stats = json.loads((dataset / "meta" / "stats.json").read_text())
    data = tables(dataset, "data/*/*.parquet")
    rows = tables(dataset, "meta/episodes/*/*.parquet").to_pylist()
    for name in data.column_names:
        values = np.stack(data[name].to_numpy()).astype(np.float64).reshape(data.num_rows, -1)
        assert np.allclose(stats[name]["min"], values.min(axis=0))
        assert np.allclose(stats[name]["max"], values.max(axis=0))
        assert np.allclose(stats[name]["mean"], values.mean(axis=0))
        assert np.allclose(stats[name]["std"], values.std(axis=0), atol=1e-9)
        assert stats[name]["count"] == [data.num_rows]
        first = rows[0]["length"]
        median = rows[0][f"stats/{name}/q50"]
        assert np.allclose(median, np.quantile(values[:first], 0.5, axis=0))
    film = np.concatenate([one.images["agentview"] for one in recordings()]) / 255.0
    image = stats["observation.images.agentview"]
    for key, value in (("mean", film.mean((0, 1, 2))), ("std", film.std((0, 1, 2)))):
        assert np.allclose(image[key], value.reshape(3, 1, 1))
    own = recordings()[0].images["agentview"][..., 2].ravel() / 255.0
    found = rows[0]["stats/observation.images.agentview/q90"][2][0][0]
    assert found == pytest.approx(np.quantile(own, 0.9, method="inverted_cdf"))


def test_when_it_was_flushed_does_not_show(dataset: Path, tmp_path: Path) -> None:
    root = write(tmp_path / "d", every_s=1e9, cameras=CAMERAS, with_privileged=True)
    for path in dataset.rglob("*"):
        if path.is_file():
            assert (root / path.relative_to(dataset)).read_bytes() == path.read_bytes(), path


def test_full_files_are_followed_by_others(tmp_path: Path) -> None:
    limits = FileLimits(data_bytes=15_000, video_bytes=12_000, chunk_files=2)
    root = write(tmp_path / "d", cameras=CAMERAS, limits=limits)
    check_dataset(root, recordings())
    data = sorted(p.relative_to(root).as_posix() for p in (root / "data").rglob("*.parquet"))
    assert data[:3] == [
        "data/chunk-000/file-000.parquet",
        "data/chunk-000/file-001.parquet",
        "data/chunk-001/file-000.parquet",
    ]
    assert len(list((root / "videos" / "observation.images.wrist").rglob("*.mp4"))) > 1


def test_each_episode_replays_to_the_same_bits(dataset: Path) -> None:
    for index, one in enumerate(recordings()):
        facts = json.loads((dataset / "coda" / "episodes" / f"{index:06d}.json").read_text())
        states = replay_states(Scene.model_validate(facts["scene"]), np.array(facts["actions"]))
        assert states_digest(states) == facts["states_sha256"] == states_digest(one.states)
        assert (facts["seed"], facts["outcome"]) == (7, one.outcome.value)
        assert facts["success"] is one.success


def test_the_stored_model_is_the_model_and_names_no_folder_of_this_machine() -> None:
    for one in recordings():
        assert 'file="/' not in one.model_xml
        assert 'file="robosuite/models/' in one.model_xml
        stored = mujoco.MjModel.from_xml_string(local_xml(one.model_xml))
        fresh = compile_scene(one.scene)
        for name in dir(fresh):
            value = getattr(fresh, name, None)
            if isinstance(value, np.ndarray) and name != "paths":
                assert np.array_equal(getattr(stored, name), value), name
    assert portable_xml(local_xml(one.model_xml)) == portable_xml(scene_xml(one.scene))


def test_a_mesh_of_a_missing_package_is_one_line() -> None:
    with pytest.raises(Exception, match="package 'no_such_package', which is not installed here"):
        local_xml('<mujoco><asset><mesh file="no_such_package/a.stl"/></asset></mujoco>')


@pytest.mark.parametrize("size", [(31, 32), (32, 8), (32, 5000)])
def test_a_size_that_films_cannot_have_is_refused(size: tuple[int, int], tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="films take even sizes from 16 to 4096"):
        LeRobotExporter(tmp_path / "d", cameras=CAMERAS, size=size)
    assert not (tmp_path / "d").exists()


def test_a_dataset_is_never_written_into_another(dataset: Path) -> None:
    with pytest.raises(ExportError, match="exists already"):
        LeRobotExporter(dataset)


def test_pictures_are_drawn_before_every_action(tmp_path: Path) -> None:
    one = recordings()[3]
    drawn = with_images(one, CAMERAS, size=(64, 64))
    assert {c: p.shape for c, p in drawn.images.items()} == dict.fromkeys(
        CAMERAS, (one.steps, 64, 64, 3)
    )
    assert (drawn.images["agentview"][0] != drawn.images["agentview"][-1]).any()
    exporter = LeRobotExporter(tmp_path / "d", cameras=CAMERAS, size=(64, 64))
    write_all(exporter, [drawn])
    check_dataset(tmp_path / "d", [drawn])


@pytest.mark.slow
def test_the_replay_that_the_card_shows_runs(dataset: Path) -> None:
    card = (dataset / "README.md").read_text()
    (snippet,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", f"{snippet}\nprint(len(states))"],
        cwd=dataset,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == f"{recordings()[0].steps + 1}\n", done.stderr


LEROBOT = os.environ.get("CODA_LEROBOT_PYTHON") or (
    sys.executable if importlib.util.find_spec("lerobot") else ""
)
READ = """
import json, sys
import numpy as np
from lerobot.datasets.lerobot_dataset import LeRobotDataset

root, out, episode = sys.argv[1:]
ds = LeRobotDataset("local/coda", root=root, video_backend="pyav")
keys = [k for k in ds[0] if k != "task"]
episodes = [ds.meta.episodes[i] for i in range(ds.num_episodes)]
marks = [(e["dataset_from_index"], e["dataset_to_index"]) for e in episodes]
rows = sorted({i for a, b in marks for i in (a, a + 1, (a + b) // 2, b - 1)})
np.savez(
    out,
    about=json.dumps({
        "frames": len(ds), "episodes": ds.num_episodes, "fps": ds.fps, "rows": rows, "marks": marks,
        "tasks": [ds[i]["task"] for i in rows], "stats": sorted(ds.meta.stats),
    }),
    **{k: np.stack([ds[i][k].numpy() for i in rows]) for k in keys},
)
few = LeRobotDataset(
    "local/coda", root=root, episodes=[int(episode)], video_backend="pyav",
    delta_timestamps={"action": [0.0, 0.05, 0.10]},
)
assert len(few) == marks[int(episode)][1] - marks[int(episode)][0]
assert few[0]["action"].shape == (3, 7)
assert few[len(few) - 1]["action_is_pad"].tolist() == [False, True, True]
"""


def read_with_lerobot(root: Path, tmp_path: Path, *, few: int) -> tuple[dict[str, Any], Any]:
    """What lerobot makes of a dataset; it also loads the episode `few` alone."""
    home = {"HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    out = tmp_path / "read.npz"
    done = subprocess.run(
        [LEROBOT, "-c", READ, str(root), str(out), str(few)],
        env=os.environ | home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with np.load(out) as found:
        arrays = {name: found[name] for name in found.files}
    return json.loads(str(arrays.pop("about"))), arrays


@pytest.mark.slow
@pytest.mark.skipif(
    not LEROBOT, reason="lerobot is not installed, and CODA_LEROBOT_PYTHON names no python with it"
)
def test_lerobot_reads_it(dataset: Path, tmp_path: Path) -> None:
    about, read = read_with_lerobot(dataset, tmp_path, few=1)
    held = recordings()
    assert (about["episodes"], about["fps"]) == (4, FPS)
    assert about["frames"] == sum(one.steps for one in held)
    assert [b - a for a, b in about["marks"]] == [one.steps for one in held]
    for n, (row, task) in enumerate(zip(about["rows"], about["tasks"], strict=True)):
        index = next(i for i, (a, b) in enumerate(about["marks"]) if a <= row < b)
        one, t = held[index], row - about["marks"][index][0]
        assert task == one.scene.tau.instruction
        assert read["episode_index"][n] == index
        assert read["timestamp"][n] == np.float32(t / FPS)
        assert np.array_equal(read["action"][n], one.actions[t].astype(np.float32))
        assert bool(read["next.success"][n]) is (one.success and t == one.steps - 1)
        for camera in CAMERAS:
            picture = read[f"observation.images.{camera}"][n].transpose(1, 2, 0) * 255.0
            assert np.abs(picture - one.images[camera][t]).mean() < PICTURE_ERROR
    assert {"action", "observation.state", "observation.images.wrist"} <= set(about["stats"])


@pytest.mark.slow
@pytest.mark.skipif(
    not LEROBOT, reason="lerobot is not installed, and CODA_LEROBOT_PYTHON names no python with it"
)
def test_lerobot_reads_what_a_kill_before_the_last_rename_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, seen = publish, []

    def stops(part: Path, final: Path) -> None:
        if final.name == "info.json":
            seen.append(final)
            if len(seen) == 2:
                raise KeyboardInterrupt
        real(part, final)

    monkeypatch.setattr("coda.sim.export_lerobot.publish", stops)
    root = tmp_path / "d"
    exporter = LeRobotExporter(root, size=SIZE, cameras=CAMERAS)
    with pytest.raises(KeyboardInterrupt):
        write_all(exporter, beginnings()[:3], flush_every_s=0.0)
    assert tables(root, "meta/episodes/*/*.parquet").num_rows == 3
    one = beginnings()[0]
    first = json.loads((root / "meta" / "info.json").read_text())
    assert (first["total_episodes"], first["total_frames"]) == (1, one.steps)
    about, _ = read_with_lerobot(root, tmp_path, few=0)
    assert (about["episodes"], about["frames"]) == (1, one.steps)


def test_our_reader_would_see_films_that_are_one_picture_late(dataset: Path) -> None:
    path = dataset / "videos/observation.images.agentview/chunk-000/file-000.mp4"
    pictures, _ = frames_of(path)
    one = recordings()[0]
    late = np.abs(pictures[1 : one.steps].astype(int) - one.images["agentview"][:-1])
    assert late.mean(axis=(1, 2, 3)).min() > PICTURE_ERROR
