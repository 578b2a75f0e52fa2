"""Containers to put things into: bins, baskets, crates, tubs. Drawers are articulated fixtures."""

from __future__ import annotations

import math

from coda.sim.asset import Asset, Part

FLOOR_M = 0.005
"""Thickness of a container's floor [m]."""
THICK_M = 0.013
"""Thickness of the walls of octagonal containers [m]; see `_round_container`."""
RIM_TONE, FLOOR_TONE = 1.12, 0.72
_OCTAGON = 8


def _floor(half_x: float, half_y: float, height: float) -> Part:
    """Floor plate of a container of some height."""
    z = (FLOOR_M - height) / 2
    return Part(
        shape="box", half_m=(half_x, half_y, FLOOR_M / 2), pos_m=(0.0, 0.0, z), tone=FLOOR_TONE
    )


def _sides(
    half_x: float,
    half_y: float,
    low: float,
    high: float,
    *,
    wall: float,
    tone: float = 1.0,
    visual: bool = False,
) -> tuple[Part, ...]:
    """Four upright walls around outer half extents, from height `low` to `high`."""
    z, half_z = (low + high) / 2, (high - low) / 2
    along_x = [(0.0, sign * (half_y - wall / 2), z) for sign in (-1, 1)]
    along_y = [(sign * (half_x - wall / 2), 0.0, z) for sign in (-1, 1)]
    size_x, size_y = (half_x, wall / 2, half_z), (wall / 2, half_y - wall, half_z)
    places = [(size_x, pos) for pos in along_x] + [(size_y, pos) for pos in along_y]
    return tuple(
        Part(shape="box", half_m=half, pos_m=pos, tone=tone, visual=visual) for half, pos in places
    )


def _ring(
    bottom: float,
    top: float,
    low: float,
    high: float,
    *,
    wall: float,
    tone: float = 1.0,
    visual: bool = False,
) -> tuple[Part, ...]:
    """Eight walls whose inner faces lie `bottom` and `top` from the axis at their ends."""
    lean = math.atan2(top - bottom, high - low)
    middle = (bottom + top) / 2
    width = (middle + wall) * math.tan(math.pi / _OCTAGON)
    half = (wall / 2, width, (high - low) / (2 * math.cos(lean)))
    parts = []
    for k in range(_OCTAGON):
        yaw = 2 * math.pi * k / _OCTAGON
        out = middle + wall / (2 * math.cos(lean))
        pos = (out * math.cos(yaw), out * math.sin(yaw), (low + high) / 2)
        parts.append(
            Part(shape="box", half_m=half, pos_m=pos, yaw=yaw, pitch=lean, tone=tone, visual=visual)
        )
    return tuple(parts)


def _octagon_floor(inner: float, wall: float, height: float) -> tuple[Part, ...]:
    """Octagonal floor plate: turned strips to collide with, a disc to look at."""
    z, half_z = (FLOOR_M - height) / 2, FLOOR_M / 2
    half = (inner, inner * math.tan(math.pi / _OCTAGON), half_z)
    strips = [
        Part(shape="box", half_m=half, pos_m=(0.0, 0.0, z), yaw=k * math.pi / 4, hidden=True)
        for k in range(4)
    ]
    r = inner + 0.8 * wall
    disc = Part(
        shape="cylinder", half_m=(r, r, half_z), pos_m=(0.0, 0.0, z), tone=FLOOR_TONE, visual=True
    )
    return (*strips, disc)


def _box_container(
    name: str,
    noun: str,
    half: tuple[float, float],
    height: float,
    extra: tuple[Part, ...],
    *,
    wall: float = 0.006,
    walls: tuple[Part, ...] | None = None,
) -> Asset:
    """A container with four upright walls; `walls` in place of plain ones."""
    x, y = half
    if walls is None:
        walls = _sides(x, y, -height / 2, height / 2, wall=wall)
    return Asset(
        name=name,
        noun=noun,
        shape="parts",
        half_size_m=(x, y, height / 2),
        mass_kg=0.6,
        graspable=False,
        fixed=True,
        parts=(_floor(x - wall, y - wall, height), *walls, *extra),
        seat_m=FLOOR_M - height / 2,
        seat_half_m=(x - wall, y - wall),
        mouth_m=height / 2,
    )


def _round_container(
    name: str,
    noun: str,
    bottom: float,
    top: float,
    height: float,
    seat: float,
    extra: tuple[Part, ...],
) -> Asset:
    """An octagonal container.

    Args:
        name: Name in the catalogue.
        noun: How an instruction names it.
        bottom: Distance of its axis from the inner face of a wall, at the foot [m].
        top: The same at the rim [m].
        height: Its height [m].
        seat: Half side of the square in which the centres of what lies inside are [m]; its corners
            reach into the thick walls, but nothing that leans on the outside has its centre there.
        extra: Further shapes.
    """
    wall = THICK_M
    outer = (top + wall) / math.cos(math.pi / _OCTAGON)
    return Asset(
        name=name,
        noun=noun,
        shape="parts",
        round=True,
        half_size_m=(outer, outer, height / 2),
        mass_kg=0.5,
        graspable=False,
        fixed=True,
        parts=(
            *_octagon_floor(bottom, wall, height),
            *_ring(bottom, top, -height / 2, height / 2, wall=wall),
            *extra,
        ),
        seat_m=FLOOR_M - height / 2,
        seat_half_m=(seat, seat),
        mouth_m=height / 2,
    )


def _rim(x: float, y: float, height: float) -> tuple[Part, ...]:
    """A lighter lip along the upper edge, drawn only."""
    top = height / 2
    lip = _sides(x + 0.003, y + 0.003, top - 0.010, top, wall=0.010, tone=RIM_TONE, visual=True)
    return lip


def _hoop(
    bottom: float, top: float, height: float, at: float, share: float, tone: float
) -> tuple[Part, ...]:
    """A band around an octagonal container, drawn only.

    Args:
        bottom: As in `_round_container`.
        top: As in `_round_container`.
        height: As in `_round_container`.
        at: Where its middle is, as a share of the height.
        share: Half its width, as a share of the height.
        tone: Its tone.
    """
    low, high = max(at - share, 0.0), min(at + share, 1.01)  # over the wall, or both would flicker
    ends = [bottom + (top - bottom) * x - 0.001 for x in (low, high)]
    z = [(x - 0.5) * height for x in (low, high)]
    return _ring(*ends, *z, wall=THICK_M + 0.004, tone=tone, visual=True)


def _slats(x: float, y: float, height: float, wall: float) -> tuple[Part, ...]:
    """Walls of three boards each with gaps between them."""
    bottom, board = -height / 2, height / 3.6
    step = (height - board) / 2
    return tuple(
        part
        for k in range(3)
        for part in _sides(
            x, y, bottom + k * step, bottom + k * step + board, wall=wall, tone=1.0 + 0.06 * k
        )
    )


def _posts(x: float, y: float, height: float) -> tuple[Part, ...]:
    half = (0.007, 0.007, height / 2)
    return tuple(
        Part(shape="box", half_m=half, pos_m=(i * (x - 0.007), j * (y - 0.007), 0.0), tone=0.8)
        for i in (-1, 1)
        for j in (-1, 1)
    )


def _grips(outer: float, z: float) -> tuple[Part, ...]:
    """The two ears of a pot, drawn only."""
    return tuple(
        Part(
            shape="box", half_m=(0.018, 0.006, 0.004), pos_m=(0.0, sign * (outer + 0.005), z),
            tone=0.6, visual=True,
        )
        for sign in (-1, 1)
    )  # fmt: skip


CONTAINERS: tuple[Asset, ...] = (
    _box_container("bin", "bin", (0.085, 0.085), 0.075, _rim(0.085, 0.085, 0.075)),
    _box_container("deep-bin", "deep bin", (0.090, 0.090), 0.115, _rim(0.090, 0.090, 0.115)),
    _box_container(
        "crate", "crate", (0.085, 0.105), 0.070, _posts(0.085, 0.105, 0.070),
        walls=_slats(0.085, 0.105, 0.070, 0.006),
    ),
    _box_container(
        "organizer", "organizer", (0.080, 0.100), 0.050, _rim(0.080, 0.100, 0.050)
    ),
    _round_container(
        "basket", "basket", 0.069, 0.080, 0.082, 0.0645,
        _hoop(0.069, 0.080, 0.082, 0.90, 0.10, RIM_TONE)
        + _hoop(0.069, 0.080, 0.082, 0.55, 0.08, 0.85)
        + _hoop(0.069, 0.080, 0.082, 0.22, 0.08, 0.85),
    ),
    _round_container(
        "tub", "tub", 0.066, 0.082, 0.046, 0.064,
        _hoop(0.066, 0.082, 0.046, 0.88, 0.12, RIM_TONE),
    ),
    _round_container(
        "pot", "pot", 0.077, 0.077, 0.078, 0.069,
        _hoop(0.077, 0.077, 0.078, 0.92, 0.08, 1.2) + _grips(0.077 + THICK_M, 0.028),
    ),
)  # fmt: skip
"""Containers to put things into: bins, baskets, tubs, pots."""
