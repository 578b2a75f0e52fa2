"""LeRobotDataset v3.0, written without lerobot: https://huggingface.co/docs/lerobot.

The files of a flush are put in place one by one, ``meta/info.json`` last. Films, frames and
episodes are only ever extended, so at any moment the folder is a dataset of the first
``total_episodes`` episodes; a kill between two renames leaves rows behind them that no reader
asks for. Extra facts that a replay needs are in ``coda/episodes``: lerobot could not append to
a dataset with further columns.
"""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from coda.sim.engine import ACTION_DIM
from coda.sim.export_card import card, versions
from coda.sim.export_common import (
    ExportError,
    Recording,
    privileged,
    proprioception,
    require,
)
from coda.sim.export_files import publish
from coda.sim.export_lerobot_format import (
    CODEBASE_VERSION,
    DATA_PATH,
    EPISODES_PATH,
    FPS,
    IMAGE_KEY,
    MIB,
    PARTIAL,
    VIDEO_PATH,
    FileLimits,
    Slot,
    features,
)
from coda.sim.export_parquet import (
    episodes_table,
    frames_table,
    tasks_table,
    write_grown,
    write_joined,
    write_whole,
)
from coda.sim.export_stats import Stats, image_stats, merge, plain, vector_stats
from coda.sim.export_video import check_size, encode, join
from coda.sim.render import Camera


@dataclass
class _State:
    """What the next episode follows on from."""

    episodes: int = 0
    frames: int = 0
    tasks: list[str] = field(default_factory=list)
    stats: dict[str, Stats] = field(default_factory=dict)
    data: Slot = field(default_factory=Slot)
    films: dict[Camera, Slot] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class _Ready:
    """An episode whose films are encoded, and that has no place in the dataset yet."""

    task: str
    columns: dict[str, npt.NDArray[Any]]
    """Columns that do not depend on the place, (S, …)."""
    films: dict[Camera, Path]
    film_stats: dict[str, Stats]
    facts: dict[str, Any]
    model_xml: str
    steps: int


@dataclass
class _Flush:
    """What a flush adds."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    tables: dict[str, list[Any]] = field(default_factory=dict)
    """Frames by file."""
    films: dict[str, list[Path]] = field(default_factory=dict)
    """Films by file."""
    renames: list[tuple[Path, Path]] = field(default_factory=list)
    """Temporary names and names, in the order of the renames."""


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
        self._cameras, self._privileged = tuple(cameras), with_privileged
        self._limits = limits or FileLimits()
        self._features = features(self._cameras, size, with_privileged=with_privileged)
        self._partial = root / PARTIAL
        self._partial.mkdir(parents=True)
        self._state = _State(films={camera: Slot() for camera in self._cameras})
        self._new: list[_Ready] = []
        self._encoded = 0
        self._broken = False

    @property
    def episodes(self) -> int:
        """Episodes that are safely on disk."""
        return self._state.episodes

    def add(self, recording: Recording) -> None:
        """Take one more episode, encoding its films; it is on disk after the next flush."""
        before, steps = recording.before(), recording.steps
        count = np.arange(steps, dtype=np.int64)
        columns: dict[str, npt.NDArray[Any]] = {"observation.state": proprioception(before)}
        if self._privileged:
            columns["observation.environment_state"] = privileged(before)
        columns |= {
            "action": recording.actions.astype(np.float32).reshape(steps, ACTION_DIM),
            "next.reward": recording.reached.astype(np.float32),
            "next.done": recording.ended,
            "next.success": recording.reached,
            "timestamp": (count / FPS).astype(np.float32),
            "frame_index": count,
        }
        films = {c: self._partial / f"{c}-{self._encoded:06d}.mp4" for c in self._cameras}
        self._encoded += 1
        for camera, part in films.items():
            encode(recording.images[camera], part, FPS)
        ready = _Ready(
            task=recording.scene.tau.instruction,
            columns=columns,
            films=films,
            film_stats={IMAGE_KEY + c: image_stats(recording.images[c]) for c in films},
            facts=recording.facts(),
            model_xml=recording.model_xml,
            steps=steps,
        )
        self._new.append(ready)  # whole or not at all, whatever went wrong before

    def flush(self) -> None:
        """Put every episode taken so far on disk; ``meta/info.json`` last."""
        if not self._new or self._broken:
            return
        state, flush = copy.deepcopy(self._state), _Flush()
        for ready in self._new:
            self._place(ready, state, flush)
        for name, parts in flush.films.items():
            final, part = self.root / name, self._partial / name.replace("/", "+")
            join([*([final] if final.exists() else []), *parts], part, FPS)
            flush.renames.append((part, final))
        for name, tables in flush.tables.items():
            part = self._partial / name.replace("/", "+")
            write_grown(self.root / name, tables, part)
            flush.renames.append((part, self.root / name))
        flush.renames += self._metadata(state, flush)
        self._broken = True  # until all files are in place; a second try would add rows twice
        for part, final in flush.renames:
            publish(part, final)
        for ready in self._new:
            for film in ready.films.values():
                film.unlink()
        self._state, self._new = state, []
        self._broken = False

    def _place(self, ready: _Ready, state: _State, flush: _Flush) -> None:
        """Give an episode its place: its rows, its files and what they say of each other."""
        index, steps = state.episodes, ready.steps
        if ready.task not in state.tasks:
            state.tasks.append(ready.task)
        columns = ready.columns | {
            "episode_index": np.full(steps, index, dtype=np.int64),
            "index": state.frames + np.arange(steps, dtype=np.int64),
            "task_index": np.full(steps, state.tasks.index(ready.task), dtype=np.int64),
        }
        table = frames_table(columns)
        state.data.take(table.nbytes, steps, self._limits.data_bytes, self._limits.chunk_files)
        flush.tables.setdefault(state.data.path(DATA_PATH), []).append(table)
        row: dict[str, Any] = {
            "episode_index": index,
            "tasks": [ready.task],
            "length": steps,
            "data/chunk_index": state.data.chunk,
            "data/file_index": state.data.file,
            "dataset_from_index": state.frames,
            "dataset_to_index": state.frames + steps,
        }
        for camera, part in ready.films.items():
            key, slot = IMAGE_KEY + camera, state.films[camera]
            size = part.stat().st_size
            slot.take(size, steps, self._limits.video_bytes, self._limits.chunk_files)
            flush.films.setdefault(slot.path(VIDEO_PATH, video_key=key), []).append(part)
            row |= {
                f"videos/{key}/chunk_index": slot.chunk,
                f"videos/{key}/file_index": slot.file,
                f"videos/{key}/from_timestamp": (slot.frames - steps) / FPS,
                f"videos/{key}/to_timestamp": slot.frames / FPS,
            }
        stats = {name: vector_stats(values) for name, values in columns.items()} | ready.film_stats
        for name, one in stats.items():
            row |= {f"stats/{name}/{key}": value for key, value in plain(one).items()}
            state.stats[name] = merge(state.stats.get(name), one)
        row |= {"meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0}
        flush.rows.append(row)
        for suffix, text in (
            ("json", json.dumps({"episode_index": index, **ready.facts})),
            ("xml", ready.model_xml),
        ):
            side = self._partial / f"{index:06d}.{suffix}"
            side.write_text(text, encoding="utf-8")
            flush.renames.append((side, self.root / "coda" / "episodes" / side.name))
        state.frames += steps
        state.episodes += 1

    def _metadata(self, state: _State, flush: _Flush) -> list[tuple[Path, Path]]:
        """Write the files of ``meta`` under temporary names; pairs with their own, in order."""
        meta, part = self.root / "meta", self._partial
        episodes = self.root / EPISODES_PATH.format(chunk_index=0, file_index=0)
        write_whole(tasks_table(state.tasks), part / "tasks.parquet")
        write_joined(episodes, episodes_table(flush.rows), part / "episodes.parquet")
        stats = {name: plain(one) for name, one in state.stats.items()}
        _write_json(part / "stats.json", stats)
        _write_json(part / "info.json", self._info(state))
        _write_json(part / "dataset.json", {"format": 1, "versions": versions()})
        readme = card(self._features, self._cameras)
        (part / "README.md").write_text(readme, encoding="utf-8")
        return [
            (part / "dataset.json", self.root / "coda" / "dataset.json"),
            (part / "README.md", self.root / "README.md"),
            (part / "tasks.parquet", meta / "tasks.parquet"),
            (part / "episodes.parquet", episodes),
            (part / "stats.json", meta / "stats.json"),
            (part / "info.json", meta / "info.json"),
        ]

    def _info(self, state: _State) -> dict[str, Any]:
        return {
            "codebase_version": CODEBASE_VERSION,
            "fps": FPS,
            "features": self._features,
            "total_episodes": state.episodes,
            "total_frames": state.frames,
            "total_tasks": len(state.tasks),
            "chunks_size": self._limits.chunk_files,
            "data_files_size_in_mb": max(1, self._limits.data_bytes // MIB),
            "video_files_size_in_mb": max(1, self._limits.video_bytes // MIB),
            "data_path": DATA_PATH,
            "video_path": VIDEO_PATH if self._cameras else None,
            "robot_type": "panda",
            "splits": {"train": f"0:{state.episodes}"},
        }

    def close(self) -> None:
        """Remove temporary files; episodes that were not flushed are gone."""
        shutil.rmtree(self._partial, ignore_errors=True)
        if not self.episodes and self.root.is_dir() and not any(self.root.iterdir()):
            self.root.rmdir()


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def is_lerobot_dataset(path: Path) -> bool:
    """Whether a folder is a LeRobotDataset that Coda exported, whole or begun."""
    return path.is_dir() and (
        (path / "coda" / "dataset.json").is_file() or (path / PARTIAL).is_dir()
    )
