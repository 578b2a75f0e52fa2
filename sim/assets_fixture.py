"""Builders of fixtures: parts drawn where one would measure them, then centred on their box."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from coda.sim.asset import Asset, Joint, Part, Vec3

BODY, PANEL, GRIP, TRIM = 0.75, 1.25, 0.30, 1.6
"""Tones of a fixture's body, its moving panel, its handle, and small marks."""
LIFT_M = 0.006
"""Height of moving parts over the table: they never rub on it [m]."""
POST_HALF_M: Vec3 = (0.012, 0.012, 0.0225)
"""Half extents of a post that the fingers take from above; they press harder on what is thicker."""


def box(
    x: tuple[float, float],
    y: tuple[float, float],
    z: tuple[float, float],
    tone: float,
    *,
    visual: bool = False,
) -> Part:
    """A box from its limits along x, y and z [m]."""
    limits = (x, y, z)
    half = tuple((high - low) / 2 for low, high in limits)
    pos = tuple((low + high) / 2 for low, high in limits)
    return Part(shape="box", half_m=_vec(half), pos_m=_vec(pos), tone=tone, visual=visual)


def rod(
    xy: tuple[float, float], z: tuple[float, float], radius: float, tone: float, *,
    visual: bool = False,
) -> Part:  # fmt: skip
    """A vertical cylinder from its foot to its top [m]."""
    half = (radius, radius, (z[1] - z[0]) / 2)
    return Part(
        shape="cylinder", half_m=half, pos_m=(*xy, (z[0] + z[1]) / 2), tone=tone, visual=visual
    )


def rod_y(center: Vec3, radius: float, half_length: float) -> Part:
    """A short dark pin along y, which only shows where a lid turns [m]."""
    half = (radius, radius, half_length)
    return Part(shape="cylinder", half_m=half, pos_m=center, axis="y", tone=GRIP, visual=True)


def disc_tab(center: Vec3, radius: float, half_width: float, tone: float) -> Part:
    """An upright disc whose flat sides face left and right (y) [m]."""
    half = (radius, radius, half_width)
    return Part(shape="cylinder", half_m=half, pos_m=center, axis="y", tone=tone)


def tray(
    x: tuple[float, float], y: tuple[float, float], z: tuple[float, float], wall: float, tone: float
) -> tuple[Part, ...]:
    """A floor with four walls, open above; the limits are its outside [m]."""
    inner = (y[0] + wall, y[1] - wall)
    return (
        box(x, y, (z[0], z[0] + wall), tone),
        box((x[0], x[0] + wall), y, z, tone),
        box((x[1] - wall, x[1]), y, z, tone),
        box((x[0] + wall, x[1] - wall), (y[0], inner[0]), z, tone),
        box((x[0] + wall, x[1] - wall), (inner[1], y[1]), z, tone),
    )


def _vec(values: Sequence[float]) -> Vec3:
    x, y, z = (float(v) for v in values)
    return (x, y, z)


def _extent(part: Part) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Half extents of a part's bounding box along the asset's axes."""
    half = np.array(part.half_m)
    if part.shape == "cylinder" and part.axis != "z":
        half = half[[2, 1, 0]] if part.axis == "x" else half[[0, 2, 1]]
    c, s = abs(math.cos(part.yaw)), abs(math.sin(part.yaw))
    return np.array([c * half[0] + s * half[1], s * half[0] + c * half[1], half[2]])


def fixture(
    name: str,
    noun: str,
    parts: Sequence[Part],
    joint: Joint,
    *,
    mass_kg: float = 2.0,
    seat: Asset | None = None,
) -> Asset:
    """An asset of a body and a joint, with its origin at the centre of their bounding box.

    Args:
        name: Name in the catalogue.
        noun: How an instruction names it.
        parts: The body, which stands on the table at z = 0.
        joint: What moves, measured in the same frame as `parts`.
        mass_kg: Mass of the body; it does not move.
        seat: Carries a moving container's seat (its `seat_*`, `mouth_m`), if there is one.
    """
    everything = (*parts, *joint.moving, *joint.handle)
    low = np.min([np.array(p.pos_m) - _extent(p) for p in everything], axis=0)
    high = np.max([np.array(p.pos_m) + _extent(p) for p in everything], axis=0)
    low[2] = 0.0
    origin = (low + high) / 2

    def moved(point: Vec3) -> Vec3:
        return _vec(np.round(np.array(point) - origin, 9).tolist())

    def shifted(items: Sequence[Part]) -> tuple[Part, ...]:
        return tuple(replace(part, pos_m=moved(part.pos_m)) for part in items)

    asset = Asset(
        name=name,
        noun=noun,
        shape="parts",
        half_size_m=_vec(np.round((high - low) / 2, 9).tolist()),
        mass_kg=mass_kg,
        graspable=False,
        fixed=True,
        parts=shifted(parts),
        joint=replace(
            joint,
            anchor_m=moved(joint.anchor_m),
            moving=shifted(joint.moving),
            handle=shifted(joint.handle),
            handle_center_m=moved(joint.handle_center_m),
        ),
    )
    if seat is None:
        return asset
    return replace(
        asset,
        seat_moves=True,
        seat_center_m=moved(seat.seat_center_m),
        seat_box_half_m=seat.seat_box_half_m,
        seat_m=seat.seat_m,
        seat_half_m=seat.seat_half_m,
        mouth_m=seat.mouth_m,
    )
