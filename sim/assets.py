"""The catalogue of assets: robosuite's mesh objects and parametric shapes of our own."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from coda.sim.asset import FINGER_OPENING_M, Asset, Vec3
from coda.sim.assets_articulated import ARTICULATED
from coda.sim.assets_containers import CONTAINERS
from coda.sim.assets_insertion import INSERTION
from coda.sim.assets_objects import OBJECTS
from coda.sim.errors import UnknownName
from coda.sim.scene import ObjectAttributes

__all__ = ["ASSETS", "FINGER_OPENING_M", "Asset", "asset", "half_size"]

ASSETS: Mapping[str, Asset] = MappingProxyType(
    {item.name: item for item in (*OBJECTS, *ARTICULATED, *CONTAINERS, *INSERTION)}
)
"""Every asset by name."""


def asset(name: str) -> Asset:
    """Look an asset up, or raise `UnknownName` with the nearest match."""
    try:
        return ASSETS[name]
    except KeyError:
        raise UnknownName("asset", name, list(ASSETS)) from None


def scaled(value: Vec3, scale: float) -> Vec3:
    """A vector times a scale."""
    return (value[0] * scale, value[1] * scale, value[2] * scale)


def half_size(attributes: ObjectAttributes) -> Vec3:
    """Half extents of an object with its scale applied [m]."""
    return scaled(ASSETS[attributes.asset].half_size_m, attributes.scale)
