"""LeRobotDataset v3.0, written without lerobot: https://huggingface.co/docs/lerobot.

The files of a flush are put in place one by one, ``meta/info.json`` last. Films, frames and
episodes are only ever extended, so at any moment the folder is a dataset of the first
``total_episodes`` episodes; a kill between two renames leaves rows behind them that no reader
asks for. Extra facts that a replay needs are in ``coda/episodes``: lerobot could not append to
a dataset with further columns.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coda.sim.engine import ACTION_DIM, CONTROL_HZ
from coda.sim.export_card import card, versions
from coda.sim.export_common import (
    ACTION_NAMES,
    PRIVILEGED_NAMES,
    STATE_NAMES,
    ExportError,
    Recording,
    privileged,
    proprioception,
    require,
)
from coda.sim.export_files import publish
from coda.sim.export_parquet import (
    episodes_table,
    frames_table,
    tasks_table,
    write_grown,
    write_joined,
    write_whole,
)
from coda.sim.export_stats import Stats, image_stats, merge, plain, vector_stats
from coda.sim.export_video import check_size, encode, facts, join
from coda.sim.render import Camera

CODEBASE_VERSION = "v3.0"
FPS = round(CONTROL_HZ)
IMAGE_KEY = "observation.images."
DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
EPISODES_PATH = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
_MIB = 2**20


@dataclass(frozen=True, kw_only=True)
class FileLimits:
    """When the next file is begun."""

    data_bytes: int = 100 * _MIB
    """Frames in a parquet file, uncompressed."""
    video_bytes: int = 200 * _MIB
    chunk_files: int = 1000
    """Files in a folder ``chunk-…``."""


@dataclass
class _Slot:
    """The file that a stream of episodes is being written to."""

    chunk: int = 0
    file: int = 0
    size: int = 0
    """Bytes so far."""
    frames: int = 0
    """Frames so far."""

    def make_room(self, size: int, limit: int, chunk_files: int) -> None:
        """Go on to the next file if `size` more bytes would go over the limit."""
        if self.size and self.size + size > limit:
            last = self.file == chunk_files - 1
            self.chunk, self.file = (self.chunk + 1, 0) if last else (self.chunk, self.file + 1)
            self.size = self.frames = 0

    def path(self, template: str, **more: str) -> str:
        """The file's path."""
        return template.format(chunk_index=self.chunk, file_index=self.file, **more)


def features(
    cameras: Sequence[Camera], size: tuple[int, int], *, with_privileged: bool
) -> dict[str, dict[str, Any]]:
    """The features of ``info.json``."""

    def vector(dtype: str, names: Sequence[str] | None, **more: Any) -> dict[str, Any]:
        length = len(names) if names else 1
        return {"dtype": dtype, "shape": [length], "names": list(names) if names else None, **more}

    found = {"observation.state": vector("float32", STATE_NAMES)}
    if with_privileged:
        found["observation.environment_state"] = vector(
            "float32", PRIVILEGED_NAMES, info={"coda.privileged": True}
        )
    for camera in cameras:
        found[IMAGE_KEY + camera] = {
            "dtype": "video",
            "shape": [*size, 3],
            "names": ["height", "width", "channels"],
            "info": facts(*size, FPS),
        }
    found["action"] = vector("float32", ACTION_NAMES)
    found["next.reward"] = vector("float32", None)
    found["next.done"] = vector("bool", None)
    found["next.success"] = vector("bool", None)
    found["timestamp"] = vector("float32", None)
    for name in ("frame_index", "episode_index", "index", "task_index"):
        found[name] = vector("int64", None)
    return found


class LeRobotExporter:
    """Writes a LeRobotDataset v3.0 at `root`.

    Args:
        root: Folder of the dataset; must not be there yet.
        cameras: Cameras whose films the dataset holds; each recording must hold their pictures.
        size: Height and width of the films [pixels].
        with_privileged: Also write ``observation.environment_state``: true poses and sizes.
        limits: Sizes of files.
    """

    def __init__(
        self,
        root: Path,
        *,
        cameras: Sequence[Camera] = (),
        size: tuple[int, int] = (256, 256),
        with_privileged: bool = False,
        limits: FileLimits | None = None,
    ) -> None:
        require("pyarrow.parquet")
        if cameras:
            require("av")
            check_size(*size)
        if root.exists():
            raise ExportError(f"{root} exists already; a dataset is never written into another.")
        self.root = root
        self.episodes = 0
        self._cameras, self._size, self._privileged = tuple(cameras), size, with_privileged
        self._limits = limits or FileLimits()
        self._features = features(self._cameras, size, with_privileged=with_privileged)
        self._partial = root / ".partial"
        self._partial.mkdir(parents=True)
        self._data = _Slot()
        self._films = {camera: _Slot() for camera in self._cameras}
        self._tasks: list[str] = []
        self._stats: dict[str, Stats] = {}
        self._frames = 0
        self._taken = 0
        self._new_data: dict[str, list[Any]] = {}
        self._new_films: dict[str, list[Path]] = {}
        self._new_rows: list[dict[str, Any]] = []
        self._new_side: list[tuple[Path, Path]] = []

    def add(self, recording: Recording) -> None:
        """Take one more episode; it is on disk after the next flush."""
        index, steps = self._taken, recording.steps
        row: dict[str, Any] = {
            "episode_index": index,
            "tasks": [recording.scene.tau.instruction],
            "length": steps,
        }
        columns = self._columns(recording, index)
        stats = {name: vector_stats(values) for name, values in columns.items()}
        table = frames_table(columns)
        self._data.make_room(table.nbytes, self._limits.data_bytes, self._limits.chunk_files)
        self._data.size += table.nbytes
        row |= {
            "data/chunk_index": self._data.chunk,
            "data/file_index": self._data.file,
            "dataset_from_index": self._frames,
            "dataset_to_index": self._frames + steps,
        }
        self._new_data.setdefault(self._data.path(DATA_PATH), []).append(table)
        for camera in self._cameras:
            row |= self._film(recording, camera, index)
            stats[IMAGE_KEY + camera] = image_stats(recording.images[camera])
        for name, one in stats.items():
            row |= {f"stats/{name}/{key}": value for key, value in plain(one).items()}
            self._stats[name] = merge(self._stats.get(name), one)
        row |= {"meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0}
        self._new_rows.append(row)
        self._side(recording, index)
        self._frames += steps
        self._taken += 1

    def _columns(self, recording: Recording, index: int) -> dict[str, npt.NDArray[Any]]:
        """Columns of an episode's frames, in the order of the features."""
        steps, before = recording.steps, recording.before()
        task = recording.scene.tau.instruction
        if task not in self._tasks:
            self._tasks.append(task)
        found: dict[str, npt.NDArray[Any]] = {"observation.state": proprioception(before)}
        if self._privileged:
            found["observation.environment_state"] = privileged(before)
        count = np.arange(steps, dtype=np.int64)
        found |= {
            "action": recording.actions.astype(np.float32).reshape(steps, ACTION_DIM),
            "next.reward": recording.reached.astype(np.float32),
            "next.done": recording.ended,
            "next.success": recording.reached,
            "timestamp": (count / FPS).astype(np.float32),
            "frame_index": count,
            "episode_index": np.full(steps, index, dtype=np.int64),
            "index": self._frames + count,
            "task_index": np.full(steps, self._tasks.index(task), dtype=np.int64),
        }
        return found

    def _film(self, recording: Recording, camera: Camera, index: int) -> dict[str, Any]:
        """Encode one camera's film, and the columns that say where it is."""
        key, slot = IMAGE_KEY + camera, self._films[camera]
        part = self._partial / f"{camera}-{index:06d}.mp4"
        encode(recording.images[camera], part, FPS)
        size = part.stat().st_size
        slot.make_room(size, self._limits.video_bytes, self._limits.chunk_files)
        where = {
            f"videos/{key}/chunk_index": slot.chunk,
            f"videos/{key}/file_index": slot.file,
            f"videos/{key}/from_timestamp": slot.frames / FPS,
            f"videos/{key}/to_timestamp": (slot.frames + recording.steps) / FPS,
        }
        slot.size += size
        slot.frames += recording.steps
        self._new_films.setdefault(slot.path(VIDEO_PATH, video_key=key), []).append(part)
        return where

    def _side(self, recording: Recording, index: int) -> None:
        """What a replay needs: scene, seed, exact actions and the physics model."""
        texts = {
            "json": json.dumps({"episode_index": index, **recording.facts()}),
            "xml": recording.model_xml,
        }
        for suffix, text in texts.items():
            part = self._partial / f"{index:06d}.{suffix}"
            part.write_text(text, encoding="utf-8")
            self._new_side.append((part, self.root / "coda" / "episodes" / part.name))

    def flush(self) -> None:
        """Put every episode taken so far on disk; ``meta/info.json`` last."""
        if self._taken == self.episodes:
            return
        ready: list[tuple[Path, Path]] = list(self._new_side)
        for name, parts in self._new_films.items():
            final, part = self.root / name, self._partial / name.replace("/", "+")
            join([*([final] if final.exists() else []), *parts], part, FPS)
            ready.append((part, final))
        for name, tables in self._new_data.items():
            part = self._partial / name.replace("/", "+")
            write_grown(self.root / name, tables, part)
            ready.append((part, self.root / name))
        ready += self._metadata()
        for part, final in ready:
            publish(part, final)
        for parts in self._new_films.values():
            for film in parts:
                film.unlink()
        self.episodes = self._taken
        self._new_data, self._new_films, self._new_rows, self._new_side = {}, {}, [], []

    def _metadata(self) -> list[tuple[Path, Path]]:
        """Write the files of ``meta`` under temporary names; pairs with their own, in order."""
        meta = self.root / "meta"
        episodes = self.root / EPISODES_PATH.format(chunk_index=0, file_index=0)
        names = ("tasks.parquet", "episodes.parquet", "stats.json", "info.json", "README.md")
        tasks, rows, stats, info, readme = (self._partial / name for name in names)
        write_whole(tasks_table(self._tasks), tasks)
        write_joined(episodes, episodes_table(self._new_rows), rows)
        _write_json(stats, {name: plain(one) for name, one in self._stats.items()})
        _write_json(info, self._info())
        readme.write_text(card(self._features, self._cameras), encoding="utf-8")
        side = self._partial / "dataset.json"
        _write_json(side, {"format": 1, "versions": versions()})
        return [
            (side, self.root / "coda" / "dataset.json"),
            (readme, self.root / "README.md"),
            (tasks, meta / "tasks.parquet"),
            (rows, episodes),
            (stats, meta / "stats.json"),
            (info, meta / "info.json"),
        ]

    def _info(self) -> dict[str, Any]:
        return {
            "codebase_version": CODEBASE_VERSION,
            "fps": FPS,
            "features": self._features,
            "total_episodes": self._taken,
            "total_frames": self._frames,
            "total_tasks": len(self._tasks),
            "chunks_size": self._limits.chunk_files,
            "data_files_size_in_mb": max(1, self._limits.data_bytes // _MIB),
            "video_files_size_in_mb": max(1, self._limits.video_bytes // _MIB),
            "data_path": DATA_PATH,
            "video_path": VIDEO_PATH if self._cameras else None,
            "robot_type": "panda",
            "splits": {"train": f"0:{self._taken}"},
        }

    def close(self) -> None:
        """Remove temporary files; episodes that were not flushed are gone."""
        shutil.rmtree(self._partial, ignore_errors=True)


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def is_lerobot_dataset(path: Path) -> bool:
    """Whether a folder is a LeRobotDataset that Coda exported, whole or begun."""
    return path.is_dir() and (
        (path / "coda" / "dataset.json").is_file() or (path / ".partial").is_dir()
    )
