"""Recordings to export, and a reader of LeRobot datasets that trusts nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from coda.sim.export_common import (
    NotReproduced,
    Origin,
    Recording,
    privileged,
    proprioception,
    record,
)
from coda.sim.planner import ScriptedPlanner
from coda.sim.rollout import EpisodeData, Outcome, run_scenes
from coda.sim.sampling import sample_scene
from coda.sim.scene import Scene
from coda.sim.splits import Splits

SIZE = (32, 48)
FPS = 20
FAMILY = "pick-place"
PICTURE_ERROR = 4.0
"""Most that a film may change a picture on average [levels of 255]; the next one is 12 away."""


def scenes(count: int) -> list[Scene]:
    """Seed scenes of one family, always the same; every third is worded in another way."""
    splits = Splits(family=FAMILY)
    program = splits.seed_program()
    drawn = [sample_scene(program, np.random.default_rng([7, i])) for i in range(count)]
    for scene in drawn[2::3]:
        tau = scene.tau.model_copy(update={"instruction": f"please {scene.tau.instruction}"})
        drawn[drawn.index(scene)] = scene.model_copy(update={"tau": tau})
    return drawn


@cache
def episodes() -> tuple[EpisodeData, ...]:
    """Three episodes of the planner that succeed, and one that is cut short."""
    drawn = scenes(4)
    whole = run_scenes(drawn[:3], ScriptedPlanner())
    short = run_scenes(drawn[3:], ScriptedPlanner(), max_steps=16)
    assert [e.success for e in (*whole, *short)] == [True, True, True, False]
    return (*whole, *short)


@cache
def recordings() -> tuple[Recording, ...]:
    """The same episodes, recorded; with made-up pictures that move."""
    found: list[Recording] = []
    origins = [Origin(kind="planner", name=f"p:{i}", seed=7) for i in range(len(episodes()))]
    for one in record(episodes(), origins):
        assert not isinstance(one, NotReproduced), str(one)
        found.append(pictured(one, shift=40 * len(found)))
    return tuple(found)


@cache
def beginnings() -> tuple[Recording, ...]:
    """The first few steps of each recording, where many exports have to be written."""
    few = 6
    return tuple(
        replace(
            one,
            outcome=Outcome.TIMEOUT,
            actions=one.actions[:few],
            states=one.states[: few + 1],
            frames=one.frames[: few + 1],
            images={camera: film[:few] for camera, film in one.images.items()},
        )
        for one in recordings()
    )


def pictured(recording: Recording, *, shift: int) -> Recording:
    """The recording with smooth pictures, each unlike the one before, for both cameras."""
    y, x = np.mgrid[: SIZE[0], : SIZE[1]]
    t = np.arange(recording.steps)[:, None, None]
    red = np.broadcast_to((3 * x)[None] + 0 * t, (recording.steps, *SIZE))
    green = np.broadcast_to((5 * y)[None] + 0 * t, red.shape)
    blue = np.broadcast_to((37 * t + shift) % 256 + 0 * x[None], red.shape)
    film = np.stack((red, green, blue), axis=-1).astype(np.uint8)
    return replace(recording, images={"agentview": film, "wrist": film[..., ::-1].copy()})


def frames_of(path: Path) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float64]]:
    """Pictures (N, H, W, 3) of a film and their times (N,) [s]."""
    with av.open(str(path)) as film:
        stream = film.streams.video[0]
        shown = list(film.decode(stream))
        times = [float(frame.pts * stream.time_base) for frame in shown]
        return np.array([frame.to_ndarray(format="rgb24") for frame in shown]), np.array(times)


def tables(root: Path, pattern: str) -> Any:
    """All parquet files of a kind as one table, in the order that lerobot reads them."""
    return pa.concat_tables([pq.read_table(path) for path in sorted(root.glob(pattern))])


def check_dataset(root: Path, expected: Sequence[Recording], *, exact: bool = True) -> int:
    """Check every promise of a LeRobotDataset v3.0; returns its number of episodes.

    Args:
        root: The dataset.
        expected: What it holds the first of, in order, over and over.
        exact: Whether there may be nothing but these; else rows behind them are passed over.
    """
    info = json.loads((root / "meta" / "info.json").read_text())
    assert info["codebase_version"] == "v3.0"
    assert info["fps"] == FPS
    count, total = info["total_episodes"], info["total_frames"]
    held = [expected[i % len(expected)] for i in range(count)]
    assert total == sum(one.steps for one in held)
    data = tables(root, "data/*/*.parquet")
    rows = tables(root, "meta/episodes/*/*.parquet").to_pylist()
    if exact:
        assert (data.num_rows, len(rows)) == (total, count)
    stored = {name for name, ft in info["features"].items() if ft["dtype"] != "video"}
    assert set(data.column_names) == stored
    tasks = _tasks(root, info)
    for index, (one, row) in enumerate(zip(held, rows[:count], strict=True)):
        first, last = row["dataset_from_index"], row["dataset_to_index"]
        assert row["episode_index"] == index
        assert first == (rows[index - 1]["dataset_to_index"] if index else 0)
        assert row["length"] == last - first == one.steps
        assert row["tasks"] == [one.scene.tau.instruction]
        _check_frames(data.slice(first, last - first), info, one, index, first, tasks)
        own = info["data_path"].format(
            chunk_index=row["data/chunk_index"], file_index=row["data/file_index"]
        )
        assert index in pq.read_table(root / own)["episode_index"].to_pylist()
        _check_films(root, info, row, one)
        side = json.loads((root / "coda" / "episodes" / f"{index:06d}.json").read_text())
        assert np.array_equal(side["actions"], one.actions)
        assert Scene.model_validate(side["scene"]) == one.scene
        assert (root / "coda" / "episodes" / f"{index:06d}.xml").read_text() == one.model_xml
    return int(count)


def _tasks(root: Path, info: dict[str, Any]) -> list[str]:
    table = pq.read_table(root / "meta" / "tasks.parquet")
    about = json.loads(table.schema.metadata[b"pandas"])
    assert about["index_columns"] == ["task"]
    assert table["task_index"].to_pylist() == list(range(table.num_rows))
    assert table.num_rows >= info["total_tasks"]
    names: list[str] = table["task"].to_pylist()
    return names


def _check_frames(
    table: Any, info: dict[str, Any], one: Recording, index: int, first: int, tasks: list[str]
) -> None:
    steps = np.arange(one.steps)
    column = {name: table[name].to_numpy() for name in table.column_names}
    wanted: dict[str, Any] = {
        "observation.state": proprioception(one.before()),
        "observation.environment_state": privileged(one.before()),
        "action": one.actions.astype(np.float32),
    }
    for name, values in wanted.items():
        if name in info["features"]:
            assert table[name].type == pa.list_(pa.float32(), info["features"][name]["shape"][0])
            assert np.array_equal(np.stack(column[name]), values)
    assert np.array_equal(column["timestamp"], (steps / FPS).astype(np.float32))
    assert np.array_equal(column["frame_index"], steps)
    assert np.array_equal(column["index"], first + steps)
    assert set(column["episode_index"]) == {index}
    assert {tasks[i] for i in column["task_index"]} == {one.scene.tau.instruction}
    assert column["next.done"].tolist() == [False] * (one.steps - 1) + [True]
    assert column["next.success"].tolist() == [False] * (one.steps - 1) + [one.success]
    assert column["next.reward"].tolist() == column["next.success"].astype(float).tolist()


def _check_films(root: Path, info: dict[str, Any], row: dict[str, Any], one: Recording) -> None:
    for key, feature in info["features"].items():
        if feature["dtype"] != "video":
            continue
        path = root / info["video_path"].format(
            video_key=key,
            chunk_index=row[f"videos/{key}/chunk_index"],
            file_index=row[f"videos/{key}/file_index"],
        )
        pictures, times = frames_of(path)
        start, end = row[f"videos/{key}/from_timestamp"], row[f"videos/{key}/to_timestamp"]
        chosen = (times > start - 1e-6) & (times < end - 1e-6)
        assert np.allclose(times[chosen], start + np.arange(one.steps) / FPS, atol=1e-6)
        camera: Any = key.removeprefix("observation.images.")
        off = np.abs(pictures[chosen].astype(int) - one.images[camera].astype(int))
        assert pictures.shape[1:] == tuple(feature["shape"])
        assert off.mean(axis=(1, 2, 3)).max() < PICTURE_ERROR
