"""Fixtures with a joint: drawers, doors, lids, knobs and levers, and cabinets to put things into.

They stand with their front to the robot (-x); the camera looks from behind and above, so bodies are
low and handles stand up. Handles are posts, fins and discs that open fingers straddle from above.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

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
    rod_y,
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
        damping=4.0,
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


def _door(
    name: str, half: tuple[float, float], height: float, hinge: Literal["left", "right"]
) -> Asset:
    """A cupboard with a hinged front; its bar handle stands above the top at the free end.

    Args:
        name: Name in the catalogue.
        half: Half extents of the body along x and y [m].
        height: Its height [m].
        hinge: Side of the hinge, seen from the robot.
    """
    x, y = half
    side = 1.0 if hinge == "left" else -1.0
    front = -x - FRONT_M
    bar = (front - 0.004, -side * (y - 0.016))
    radius, _, half_z = POST_HALF_M
    top = height + 2 * RAISE_M
    shelf = box((-x, x), (-y, y), (height / 2 - 0.002, height / 2 + 0.002), BODY)
    body = (
        box((-x, x), (y - 0.006, y), (0.0, height), BODY),
        box((-x, x), (-y, -y + 0.006), (0.0, height), BODY),
        box((x - 0.006, x), (-y, y), (0.0, height), BODY),
        box((-x, x), (-y, y), (height - 0.006, height), BODY),
        box((-x, x), (-y, y), (0.0, 0.006), BODY),
        shelf,
        rod((front + FRONT_M / 2, side * y), (0.0, height + 0.006), 0.007, GRIP),
    )
    joint = Joint(
        kind="hinge",
        axis=(0.0, 0.0, -side),
        anchor_m=(front + FRONT_M / 2, side * y, 0.0),
        span=1.4,
        damping=0.05,
        stiction=0.06,
        moving=(box((front, -x), (-y, y), (LIFT_M, height), PANEL),),
        moving_mass_kg=0.4,
        handle=(rod(bar, (height * 0.35, top), radius, GRIP),),
        handle_center_m=(*bar, height + RAISE_M),
        handle_half_m=(radius, radius, half_z),
    )
    return fixture(name, "door", body, joint)


def _lid(name: str, half: tuple[float, float], height: float, span: float) -> Asset:
    """A box whose lid turns up about its back edge; an upright disc at the front is its tab."""
    x, y = half
    top = height + 0.008
    radius, width = 0.021, 0.011
    center = (-x - 0.002, 0.0, top + 0.027)
    neck = box((-x - 0.008, -x + 0.004), (-width, width), (height, top + 0.010), GRIP)
    joint = Joint(
        kind="hinge",
        axis=(0.0, 1.0, 0.0),
        anchor_m=(x, 0.0, height),
        span=span,
        damping=0.03,
        stiction=0.04,
        balanced=True,
        moving=(
            box((-x - 0.004, x + 0.004), (-y - 0.004, y + 0.004), (height, top), PANEL),
            box((-x + 0.014, x - 0.014), (-y + 0.014, y - 0.014), (top, top + 0.003), BODY),
        ),
        moving_mass_kg=0.25,
        handle=(disc_tab(center, radius, width, GRIP), neck),
        handle_center_m=center,
        handle_half_m=(radius, width, radius),
    )
    hinges = tuple(rod_y((x, s * y * 0.6, height), 0.005, 0.014) for s in (-1, 1))
    return fixture(
        name, "lid", (*tray((-x, x), (-y, y), (0.0, height), 0.006, BODY), *hinges), joint
    )


def _knob(name: str, half: float, height: float, disc: float, span: float) -> Asset:
    """A console with a dial; the fin on it is turned by the wrist, to the left."""
    radius = disc + 0.008
    fin = (0.030, 0.011, 0.022)
    z = height + 0.010
    center = (0.0, 0.0, z + fin[2])
    body = (
        box((-half, half), (-half, half), (0.0, height), BODY),
        rod((0.0, 0.0), (height, height + 0.002), radius, TRIM, visual=True),
    )
    joint = Joint(
        kind="hinge",
        axis=(0.0, 0.0, 1.0),
        span=span,
        damping=0.03,
        stiction=0.05,
        moving=(
            rod((0.0, 0.0), (height, z), disc, PANEL),
            box((disc - 0.016, disc - 0.002), (-0.003, 0.003), (z, z + 0.002), TRIM),
        ),
        moving_mass_kg=0.2,
        handle=(box((-fin[0], fin[0]), (-fin[1], fin[1]), (z, z + 2 * fin[2]), GRIP),),
        handle_center_m=center,
        handle_half_m=fin,
    )
    return fixture(name, "knob", body, joint)


def _lever(name: str, noun: str, arm: Vec3, turns: Literal["left", "right"], span: float) -> Asset:
    """A console with a post that goes round an upright axis.

    Args:
        name: Name in the catalogue.
        noun: How it is called: a lever has an arm, a crank a wheel.
        arm: Where the post stands when closed, from the axis, and the console's height [m].
        turns: Which way it opens, seen from above.
        span: Travel [rad].
    """
    x, y, height = arm
    length = float(np.hypot(x, y))
    radius, _, half_z = POST_HALF_M
    z = height + 0.014
    half = length + radius + 0.004
    if noun == "lever":
        moves: tuple[Part, ...] = (
            rod((0.0, 0.0), (height, z + 0.006), 0.018, PANEL),
            Part(
                shape="box", half_m=(length / 2, 0.009, 0.004), pos_m=(x / 2, y / 2, z - 0.004),
                yaw=float(np.arctan2(y, x)), tone=PANEL,
            ),
        )  # fmt: skip
    else:
        moves = (rod((0.0, 0.0), (height, z), half - 0.002, PANEL),
                 rod((0.0, 0.0), (z, z + 0.003), 0.012, TRIM))  # fmt: skip
    joint = Joint(
        kind="hinge",
        axis=(0.0, 0.0, 1.0 if turns == "left" else -1.0),
        span=span,
        damping=0.025,
        stiction=0.05,
        moving=moves,
        moving_mass_kg=0.25,
        handle=(rod((x, y), (z, z + 2 * RAISE_M), radius, GRIP),),
        handle_center_m=(x, y, z + RAISE_M),
        handle_half_m=(radius, radius, half_z),
    )
    body = box((-half, half), (-half, half), (0.0, height), BODY)
    return fixture(name, noun, (body,), joint)


ARTICULATED: tuple[Asset, ...] = (
    _drawer("drawer-wide", (0.055, 0.080), 0.056, 0.100, "post"),
    _drawer("drawer-tall", (0.055, 0.056), 0.084, 0.095, "fin"),
    _drawer("drawer-narrow", (0.060, 0.046), 0.060, 0.100, "bar"),
    _door("door-left", (0.050, 0.070), 0.090, "left"),
    _door("door-right", (0.050, 0.070), 0.090, "right"),
    _door("door-low", (0.065, 0.085), 0.055, "left"),
    _lid("box-lid", (0.060, 0.070), 0.060, 1.35),
    _lid("chest-lid", (0.050, 0.095), 0.075, 1.30),
    _lid("case-lid", (0.070, 0.055), 0.040, 1.40),
    _knob("dial", 0.060, 0.040, 0.048, 1.4),
    _knob("knob-low", 0.050, 0.022, 0.042, 1.3),
    _lever("lever", "lever", (0.0, -0.070, 0.030), "right", 1.5),
    _lever("crank", "crank", (-0.060, 0.0, 0.036), "left", 1.5),
    *CABINETS,
)
"""Fixtures with a joint."""
