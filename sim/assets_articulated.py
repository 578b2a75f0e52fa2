"""Fixtures with a joint: drawers, doors, lids, knobs and levers, and cabinets to put things into.

They stand with their front to the robot (-x); the camera looks from behind and above, so bodies are
low and handles stand up. Handles are posts, fins and discs that open fingers straddle from above.
"""

from __future__ import annotations

from typing import Literal

from coda.sim.asset import Asset, Joint, Part, Vec3
from coda.sim.assets_fixture import (
    BODY,
    GRIP,
    LIFT_M,
    PANEL,
    POST_HALF_M,
    TRIM,
    box,
    disc_tab,
    fixture,
    rod,
    tray,
)

WALL_M = 0.004
FRONT_M = 0.012
"""Thickness of a drawer's front and of a door."""
RAISE_M = 0.0225
"""Height of a raised handle's centre over what it stands on."""

Handle = Literal["post", "bar", "fin"]
_Handle = tuple[tuple[Part, ...], Vec3, Vec3]
"""Shapes of a handle, its graspable part's centre and half extents."""


def _handle(style: Handle, x: float, top: float) -> _Handle:
    """Handle of a drawer whose front lies at `x` and ends at height `top` [m]."""
    middle = x + FRONT_M / 2
    if style == "post":
        center = (middle, 0.0, top + RAISE_M)
        return (
            (rod((middle, 0.0), (top, top + 2 * RAISE_M), POST_HALF_M[0], GRIP),),
            center,
            POST_HALF_M,
        )
    if style == "bar":
        z = top + 0.03
        risers = [
            box((middle - 0.004, middle + 0.004), (s * 0.032 - 0.004, s * 0.032 + 0.004),
                (top, z), GRIP)
            for s in (-1, 1)
        ]  # fmt: skip
        half = (0.011, 0.036, 0.009)
        beam = box((middle - half[0], middle + half[0]), (-half[1], half[1]),
                   (z - half[2], z + half[2]), GRIP)  # fmt: skip
        return (*risers, beam), (middle, 0.0, z), half
    z = top - 0.008
    fin = box((x - 0.042, x), (-0.011, 0.011), (z - 0.022, z + 0.022), GRIP)
    return (fin,), (x - 0.026, 0.0, z), (0.016, 0.011, 0.022)


def _drawer_joint(
    half: tuple[float, float], inside: float, top: float, travel: float, style: Handle
) -> Joint:
    """A tray with a front and a handle, which slides towards the robot.

    Args:
        half: Half extents of the tray's outside along x and y [m].
        inside: Height of its rim over the table [m].
        top: Height of its front's upper edge [m].
        travel: How far it comes out [m].
        style: Shape of the handle.
    """
    x, y = half
    handle, center, grip_half = _handle(style, -x - FRONT_M, top)
    front = box((-x - FRONT_M, -x), (-y - 0.008, y + 0.008), (LIFT_M, top), PANEL)
    return Joint(
        kind="slide",
        axis=(-1.0, 0.0, 0.0),
        span=travel,
        damping=6.0,
        stiction=1.5,
        moving=(*tray((-x, x), (-y, y), (LIFT_M, inside), WALL_M, PANEL * 0.85), front),
        moving_mass_kg=0.4,
        handle=handle,
        handle_center_m=center,
        handle_half_m=grip_half,
    )


def _chest(half: tuple[float, float], height: float) -> tuple[Part, ...]:
    """The body around a drawer: two sides, a back and a top; the front is the drawer's own."""
    x, y = half[0], half[1] + 0.002
    side = y + 0.006
    return (
        box((-x, x + 0.008), (y, side), (0.0, height), BODY),
        box((-x, x + 0.008), (-side, -y), (0.0, height), BODY),
        box((x + 0.002, x + 0.008), (-y, y), (0.0, height), BODY),
        box((-x, x + 0.008), (-side, side), (height, height + 0.006), BODY),
    )


def _drawer(
    name: str, half: tuple[float, float], height: float, travel: float, style: Handle
) -> Asset:
    """A chest with one drawer; `height` without its top."""
    joint = _drawer_joint(half, height - 0.012, height + 0.006, travel, style)
    return fixture(name, "drawer", _chest(half, height), joint)


def _cabinet(name: str, half: tuple[float, float], travel: float, style: Handle) -> Asset:
    """A chest whose drawer things are put into; low enough for the hand to reach in."""
    inside, height = 0.048, 0.056
    joint = _drawer_joint(half, inside, height + 0.006, travel, style)
    seat = Asset(
        name=name, noun="drawer", shape="parts", mass_kg=1.0, graspable=False,
        half_size_m=(0.0, 0.0, 0.0),
        seat_center_m=(0.0, 0.0, (LIFT_M + inside) / 2),
        seat_box_half_m=(*half, (inside - LIFT_M) / 2),
        seat_m=LIFT_M + WALL_M - (LIFT_M + inside) / 2,
        mouth_m=(inside - LIFT_M) / 2,
        seat_half_m=(half[0] - WALL_M, half[1] - WALL_M),
    )  # fmt: skip
    return fixture(name, "drawer", _chest(half, height), joint, seat=seat)


CABINETS: tuple[Asset, ...] = (
    _cabinet("cabinet", (0.070, 0.074), 0.126, "fin"),
    _cabinet("cabinet-wide", (0.070, 0.090), 0.126, "post"),
)
"""Drawers to put things into."""

ARTICULATED: tuple[Asset, ...] = (
    _drawer("drawer-wide", (0.055, 0.080), 0.056, 0.100, "post"),
    _drawer("drawer-tall", (0.055, 0.056), 0.084, 0.095, "fin"),
    _drawer("drawer-narrow", (0.060, 0.046), 0.060, 0.100, "bar"),
    *CABINETS,
)
"""Fixtures with a joint."""
