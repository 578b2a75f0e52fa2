"""robomimic-style HDF5: one file, a group ``data/demo_k`` for each episode.

``demo_k`` holds ``actions`` (S, 7), ``states`` (S, 1 + nq + nv; time, qpos and qvel before each
action, flattened as robosuite does), ``obs/*``, ``next_obs/*`` (without pictures: train with
robomimic's ``hdf5_load_next_obs`` off), ``rewards`` and ``dones``; in its attributes
``num_samples``, ``model_file`` (MJCF of the physics; meshes relative to the packages that ship
them, which robosuite's ``edit_model_xml`` re-roots), ``scene`` and ``seed``. ``mask/success`` and
``mask/failure`` name the demonstrations by outcome.

A flush copies the file, extends the copy and gives it the file's name: the file is whole at any
moment, and holds the episodes of the last flush.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import Rotation

from coda.sim.engine import CONTROL_HZ
from coda.sim.export_card import versions
from coda.sim.export_common import (
    PRIVILEGED_NAMES,
    ExportError,
    Recording,
    privileged,
    require,
)
from coda.sim.export_files import publish
from coda.sim.frame import SimFrame
from coda.sim.gym_register import env_id
from coda.sim.render import CAMERAS, Camera

ENV_TYPE_GYM = 2
"""robomimic's number for Gym environments."""
MEMORY_BYTES = 2**30
"""Pictures that wait for a flush, at most."""
MASKS = ("success", "failure")
_NAME = "S16"
"""Type of a name in a mask."""


def observations(recording: Recording, *, with_privileged: bool) -> dict[str, npt.NDArray[Any]]:
    """Low-dimensional observations under robosuite's names, each (S + 1, …).

    ``robot0_eef_quat`` is x, y, z, w; ``object`` (privileged) holds `PRIVILEGED_NAMES`.
    """
    frame = SimFrame.unpack(recording.frames)
    nq = recording.n_positions
    found = {
        "robot0_eef_pos": frame.ee_pos,
        "robot0_eef_quat": np.asarray(Rotation.from_matrix(frame.ee_rot).as_quat()),
        "robot0_gripper_qpos": recording.states[:, 8:10],
        "robot0_joint_pos": recording.states[:, 1:8],
        "robot0_joint_vel": recording.states[:, 1 + nq : 8 + nq],
    }
    if with_privileged:
        found["object"] = privileged(frame).astype(np.float64)
    return found


class Hdf5Exporter:
    """Writes a robomimic-style HDF5 file at `path`.

    Args:
        path: The file; must not be there yet.
        cameras: Cameras whose pictures each recording must hold.
        with_privileged: Also write ``obs/object``: true poses and sizes.
    """

    def __init__(
        self, path: Path, *, cameras: Sequence[Camera] = (), with_privileged: bool = False
    ) -> None:
        require("h5py")
        if path.exists():
            raise ExportError(f"{path} exists already; a file is never written into another.")
        self.path = path
        self.episodes = 0
        self._cameras, self._privileged = tuple(cameras), with_privileged
        self._part = path.with_name(f".{path.name}.part")
        self._new: list[Recording] = []
        self._broken = False

    def add(self, recording: Recording) -> None:
        """Take one more episode; it is on disk after the next flush."""
        self._new.append(recording)
        if sum(p.nbytes for one in self._new for p in one.images.values()) > MEMORY_BYTES:
            self.flush()

    def flush(self) -> None:
        """Put every episode taken so far on disk."""
        if not self._new or self._broken:
            return
        h5py = require("h5py")
        if self.path.exists():
            shutil.copyfile(self.path, self._part)
        with h5py.File(str(self._part), "a" if self.path.exists() else "w") as file:
            data = file.require_group("data")
            if "total" not in data.attrs:
                for mask in MASKS:
                    file.create_dataset(f"mask/{mask}", (0,), maxshape=(None,), dtype=_NAME)
                data.attrs["total"] = 0
                data.attrs["coda"] = json.dumps(self._about())
                data.attrs["env_args"] = json.dumps(_env_args(self._new[0]))
            for offset, recording in enumerate(self._new):
                name = f"demo_{self.episodes + offset}"
                self._write(data.create_group(name), recording)
                data.attrs["total"] = int(data.attrs["total"]) + recording.steps
                names = file[f"mask/{MASKS[0] if recording.success else MASKS[1]}"]
                names.resize(len(names) + 1, axis=0)
                names[-1] = np.bytes_(name)
        self._broken = True  # a second try would add the same names
        publish(self._part, self.path)
        self.episodes, self._new = self.episodes + len(self._new), []
        self._broken = False

    def _write(self, group: Any, recording: Recording) -> None:
        steps = recording.steps
        group.create_dataset("actions", data=recording.actions)
        group.create_dataset("states", data=recording.states[:-1])
        group.create_dataset("rewards", data=recording.reached.astype(np.float64))
        group.create_dataset("dones", data=recording.ended.astype(np.int64))
        for name, values in observations(recording, with_privileged=self._privileged).items():
            group.create_dataset(f"obs/{name}", data=values[:-1])
            group.create_dataset(f"next_obs/{name}", data=values[1:])
        for camera in self._cameras:
            pictures = recording.images[camera]
            group.create_dataset(
                f"obs/{CAMERAS[camera]}_image",
                data=pictures,
                chunks=(1, *pictures.shape[1:]),
                compression="gzip",
                compression_opts=4,
            )
        facts = recording.facts()
        del facts["actions"]
        group.attrs["num_samples"] = steps
        group.attrs["model_file"] = recording.model_xml
        group.attrs["scene"] = json.dumps(facts.pop("scene"))
        group.attrs["final_state"] = recording.states[-1]
        for name, value in facts.items():
            group.attrs[name] = value

    def close(self) -> None:
        """Remove the temporary file; episodes that were not flushed are gone."""
        self._part.unlink(missing_ok=True)

    def _about(self) -> dict[str, Any]:
        return {
            "format": 1,
            "versions": versions(),
            "control_hz": CONTROL_HZ,
            "frame": "robot base; metres, radians",
            "object": list(PRIVILEGED_NAMES) if self._privileged else None,
            "privileged": ["object", "states"],
        }


def _env_args(first: Recording) -> dict[str, Any]:
    """What robomimic wants to know of the environment; each demonstration has its own scene."""
    return {
        "env_name": env_id(first.scene.tau.family),
        "type": ENV_TYPE_GYM,
        "env_version": versions()["coda-robotics"],
        "env_kwargs": {"control_freq": CONTROL_HZ},
    }


def demonstrations(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Names of an exported file's demonstrations and what a replay needs of each, in order.

    Raises:
        ExportError: The file cannot be read.
    """
    h5py = require("h5py")
    try:
        with h5py.File(str(path), "r") as file:
            for name in sorted(file["data"], key=lambda text: int(text.removeprefix("demo_"))):
                demo = file["data"][name]
                yield (
                    name,
                    {
                        "scene": json.loads(demo.attrs["scene"]),
                        "actions": np.array(demo["actions"]),
                        "states": np.vstack((demo["states"], demo.attrs["final_state"])),
                        "model_xml": str(demo.attrs["model_file"]),
                        "outcome": str(demo.attrs["outcome"]),
                    },
                )
    except (OSError, KeyError, ValueError) as error:
        raise ExportError(f"cannot read {path} ({error}); it is no export of ours.") from None


def is_hdf5_export(path: Path) -> bool:
    """Whether a file is an HDF5 export of ours."""
    h5py = require("h5py")
    if not (path.is_file() and h5py.is_hdf5(str(path))):
        return False
    with h5py.File(str(path), "r") as file:
        return "data" in file and "coda" in file["data"].attrs
