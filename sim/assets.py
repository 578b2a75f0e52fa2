"""The catalogue of assets: robosuite's mesh objects and parametric shapes of our own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from coda.sim.errors import UnknownName
from coda.sim.scene import AssetName, ObjectAttributes

FINGER_OPENING_M = 0.08
"""Widest opening of the Panda gripper [m]."""


@dataclass(frozen=True, kw_only=True)
class Asset:
    """One asset at scale 1."""

    name: AssetName
    noun: str
    """How an instruction names it."""
    shape: Literal["box", "cylinder", "disc", "mesh"]
    """A disc looks round and collides as the box of the same area (steadier contacts)."""
    half_size_m: tuple[float, float, float]
    """Half extents of the bounding box along the object's own axes [m]."""
    mass_kg: float
    """Default mass [kg]."""
    graspable: bool
    fixed: bool = False
    """Part of the scene's furniture: does not move."""
    robosuite_class: str | None = None
    """Class in `robosuite.models.objects` whose mesh is used."""
    center_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Centre of the bounding box in the mesh's frame, at scale 1 [m]."""


ASSETS: Mapping[AssetName, Asset] = MappingProxyType(
    {
        "cube": Asset(
            name="cube",
            noun="cube",
            shape="box",
            half_size_m=(0.022, 0.022, 0.022),
            mass_kg=0.1,
            graspable=True,
        ),
        "block": Asset(
            name="block",
            noun="block",
            shape="box",
            half_size_m=(0.038, 0.018, 0.020),
            mass_kg=0.12,
            graspable=True,
        ),
        "cylinder": Asset(
            name="cylinder",
            noun="cylinder",
            shape="cylinder",
            half_size_m=(0.022, 0.022, 0.030),
            mass_kg=0.1,
            graspable=True,
        ),
        "can": Asset(
            name="can",
            noun="can",
            shape="mesh",
            half_size_m=(0.025, 0.025, 0.040),
            mass_kg=0.15,
            graspable=True,
            robosuite_class="CanObject",
            center_m=(0.000016, -0.000091, -0.000297),
        ),
        "milk": Asset(
            name="milk",
            noun="milk carton",
            shape="mesh",
            half_size_m=(0.01986, 0.01986, 0.072),
            mass_kg=0.2,
            graspable=True,
            robosuite_class="MilkObject",
            center_m=(0.0, 0.0, 0.0109836),
        ),
        "bread": Asset(
            name="bread",
            noun="bread",
            shape="mesh",
            half_size_m=(0.024, 0.020, 0.024),
            mass_kg=0.08,
            graspable=True,
            robosuite_class="BreadObject",
            center_m=(0.0, 0.0, 0.00074863),
        ),
        "lemon": Asset(
            name="lemon",
            noun="lemon",
            shape="mesh",
            half_size_m=(0.03375, 0.020, 0.020),
            mass_kg=0.08,
            graspable=False,  # its hull rests tilted: a distractor only
            robosuite_class="LemonObject",
            center_m=(0.0004545, 0.0, 0.000071),
        ),
        "cereal": Asset(
            name="cereal",
            noun="cereal box",
            shape="mesh",
            half_size_m=(0.050, 0.015, 0.075),
            mass_kg=0.2,
            graspable=True,
            robosuite_class="CerealObject",
            center_m=(0.0, -0.000004, 0.000038),
        ),
        "plate": Asset(
            name="plate",
            noun="plate",
            shape="disc",
            half_size_m=(0.062, 0.062, 0.006),
            mass_kg=0.4,
            graspable=False,
            fixed=True,
        ),
        "tray": Asset(
            name="tray",
            noun="tray",
            shape="box",
            half_size_m=(0.080, 0.065, 0.006),
            mass_kg=0.5,
            graspable=False,
            fixed=True,
        ),
    }
)


def asset(name: str) -> Asset:
    """Look an asset up, or raise `UnknownName` with the nearest match."""
    for key, value in ASSETS.items():
        if key == name:
            return value
    raise UnknownName("asset", name, list(ASSETS))


def half_size(attributes: ObjectAttributes) -> tuple[float, float, float]:
    """Half extents of an object with its scale applied [m]."""
    x, y, z = ASSETS[attributes.asset].half_size_m
    return (x * attributes.scale, y * attributes.scale, z * attributes.scale)
