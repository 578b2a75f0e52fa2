"""The catalogue of assets: robosuite's mesh objects and parametric shapes of our own.

Objects of the LIBERO-PRO package, ``libero:…``, belong to it where that is installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from coda.sim.asset import FINGER_OPENING_M, Asset, Vec3
from coda.sim.assets_articulated import ARTICULATED
from coda.sim.assets_containers import CONTAINERS
from coda.sim.assets_insertion import INSERTION
from coda.sim.assets_objects import OBJECTS
from coda.sim.errors import UnknownName
from coda.sim.libero_assets import LIBERO_NAMES, PREFIX, installed, libero_asset
from coda.sim.scene import ObjectAttributes

__all__ = ["ASSETS", "FINGER_OPENING_M", "Asset", "asset", "half_size"]

_OWN: Mapping[str, Asset] = MappingProxyType(
    {item.name: item for item in (*OBJECTS, *ARTICULATED, *CONTAINERS, *INSERTION)}
)


class _Catalogue(Mapping[str, Asset]):
    """Assets by name; an optional package's are looked for when they are asked for."""

    def __getitem__(self, name: str) -> Asset:
        """The asset. Raises `KeyError`; `MissingPackage`, which is one, with what to install."""
        return libero_asset(name) if name in LIBERO_NAMES else _OWN[name]

    def __iter__(self) -> Iterator[str]:
        yield from _OWN
        if installed():
            yield from LIBERO_NAMES

    def __len__(self) -> int:
        return len(_OWN) + (len(LIBERO_NAMES) if installed() else 0)


ASSETS: Mapping[str, Asset] = _Catalogue()
"""Every asset by name."""


def asset(name: str) -> Asset:
    """Look an asset up, or raise `UnknownName` with the nearest match.

    Raises `MissingPackage` for an asset of a package that is not installed.
    """
    if name not in _OWN and not name.startswith(PREFIX):
        raise UnknownName("asset", name, list(ASSETS))
    return _OWN[name] if name in _OWN else libero_asset(name)


def scaled(value: Vec3, scale: float) -> Vec3:
    """A vector times a scale."""
    return (value[0] * scale, value[1] * scale, value[2] * scale)


def half_size(attributes: ObjectAttributes) -> Vec3:
    """Half extents of an object with its scale applied [m]."""
    return scaled(ASSETS[attributes.asset].half_size_m, attributes.scale)
