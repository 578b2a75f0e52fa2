"""The form of a LeRobotDataset v3.0: its features, its paths, and when a new file is begun."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from coda.sim.engine import CONTROL_HZ
from coda.sim.export_common import ACTION_NAMES, PRIVILEGED_NAMES, STATE_NAMES
from coda.sim.export_video import facts
from coda.sim.render import Camera

CODEBASE_VERSION = "v3.0"
FPS = round(CONTROL_HZ)
IMAGE_KEY = "observation.images."
DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
EPISODES_PATH = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
PARTIAL = ".partial"
"""Folder of temporary files inside a dataset that is being written."""
MIB = 2**20


@dataclass(frozen=True, kw_only=True)
class FileLimits:
    """When the next file is begun."""

    data_bytes: int = 100 * MIB
    """Frames in a parquet file, uncompressed."""
    video_bytes: int = 200 * MIB
    chunk_files: int = 1000
    """Files in a folder ``chunk-…``."""


@dataclass
class Slot:
    """The file that a stream of episodes is being written to."""

    chunk: int = 0
    file: int = 0
    size: int = 0
    """Bytes so far."""
    frames: int = 0
    """Frames so far."""

    def take(self, size: int, frames: int, limit: int, chunk_files: int) -> None:
        """Take an episode; into the next file if this one would go over the limit."""
        if self.size and self.size + size > limit:
            last = self.file == chunk_files - 1
            self.chunk, self.file = (self.chunk + 1, 0) if last else (self.chunk, self.file + 1)
            self.size = self.frames = 0
        self.size += size
        self.frames += frames

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
