"""Objects to pick up, and flat things to put them on."""

from __future__ import annotations

import math

from coda.sim.asset import Asset, Part

STAR = 0.76
"""Half side, over the radius, of the two crossed squares that a rod collides as."""


def _rod(radius: float, half: float) -> tuple[Part, ...]:
    """An upright rod that looks round and collides as two crossed boxes.

    Along x and y, where the fingers close, two corners share the load. A cylinder that lies on a
    floor has one contact at a time, which jumps from end to end: it never comes to rest.
    """
    side = (STAR * radius, STAR * radius, half)
    crossed = [
        Part(shape="box", half_m=side, yaw=yaw, hidden=True)
        for yaw in (math.pi / 8, 3 * math.pi / 8)
    ]
    return (Part(shape="cylinder", half_m=(radius, radius, half), visual=True), *crossed)


def _band(radius: float, low: float, high: float, tone: float = 1.4) -> Part:
    """A ring or a tip of another tone from height `low` to `high`, drawn only [m]."""
    half = (radius, radius, (high - low) / 2)
    return Part(
        shape="cylinder", half_m=half, pos_m=(0.0, 0.0, (low + high) / 2), tone=tone, visual=True
    )


OBJECTS: tuple[Asset, ...] = (
    Asset(
        name="cube",
        noun="cube",
        shape="box",
        half_size_m=(0.022, 0.022, 0.022),
        mass_kg=0.1,
        graspable=True,
    ),
    Asset(
        name="block",
        noun="block",
        shape="box",
        half_size_m=(0.038, 0.018, 0.020),
        mass_kg=0.12,
        graspable=True,
    ),
    Asset(
        name="cylinder",
        noun="cylinder",
        shape="cylinder",
        round=True,
        half_size_m=(0.022, 0.022, 0.030),
        mass_kg=0.1,
        graspable=True,
    ),
    Asset(
        name="can",
        noun="can",
        shape="mesh",
        half_size_m=(0.025, 0.025, 0.040),
        mass_kg=0.15,
        graspable=True,
        robosuite_class="CanObject",
        center_m=(0.000016, -0.000091, -0.000297),
    ),
    Asset(
        name="milk",
        noun="milk carton",
        shape="mesh",
        half_size_m=(0.01986, 0.01986, 0.072),
        mass_kg=0.2,
        graspable=True,
        robosuite_class="MilkObject",
        center_m=(0.0, 0.0, 0.0109836),
    ),
    Asset(
        name="bread",
        noun="bread",
        shape="mesh",
        half_size_m=(0.024, 0.020, 0.024),
        mass_kg=0.08,
        graspable=True,
        robosuite_class="BreadObject",
        center_m=(0.0, 0.0, 0.00074863),
    ),
    Asset(
        name="lemon",
        noun="lemon",
        shape="mesh",
        half_size_m=(0.03375, 0.020, 0.020),
        mass_kg=0.08,
        graspable=False,  # its hull rests tilted: a distractor only
        robosuite_class="LemonObject",
        center_m=(0.0004545, 0.0, 0.000071),
    ),
    Asset(
        name="cereal",
        noun="cereal box",
        shape="mesh",
        half_size_m=(0.050, 0.015, 0.075),
        mass_kg=0.2,
        graspable=True,
        robosuite_class="CerealObject",
        center_m=(0.0, -0.000004, 0.000038),
    ),
    Asset(
        name="soap",
        noun="soap bar",
        shape="parts",
        half_size_m=(0.030, 0.020, 0.016),
        mass_kg=0.1,
        graspable=True,
        parts=(
            Part(shape="box", half_m=(0.030, 0.020, 0.016)),
            Part(shape="box", half_m=(0.0302, 0.0202, 0.002), tone=0.75, visual=True),
        ),
    ),
    Asset(
        name="sponge",
        noun="sponge",
        shape="parts",
        half_size_m=(0.042, 0.026, 0.016),
        mass_kg=0.05,
        graspable=True,
        parts=(
            Part(shape="box", half_m=(0.042, 0.026, 0.010), pos_m=(0.0, 0.0, -0.006)),
            Part(shape="box", half_m=(0.042, 0.026, 0.006), pos_m=(0.0, 0.0, 0.010), tone=0.6),
        ),
    ),
    Asset(
        name="battery",
        noun="battery",
        shape="parts",
        round=True,
        half_size_m=(0.017, 0.017, 0.032),
        mass_kg=0.12,
        graspable=True,
        parts=(*_rod(0.017, 0.032), _band(0.0172, 0.014, 0.0322, 0.35), _band(0.006, 0.032, 0.035)),
    ),
    Asset(
        name="jar",
        noun="jar",
        shape="parts",
        round=True,
        half_size_m=(0.024, 0.024, 0.034),
        mass_kg=0.15,
        graspable=True,
        parts=(*_rod(0.024, 0.034), _band(0.0242, 0.016, 0.0342, 0.55)),
    ),
    Asset(
        name="candle",
        noun="candle",
        shape="parts",
        round=True,
        half_size_m=(0.018, 0.018, 0.048),
        mass_kg=0.1,
        graspable=True,
        parts=(*_rod(0.018, 0.048), _band(0.002, 0.048, 0.058, 0.2)),
    ),
    Asset(
        name="plate",
        noun="plate",
        shape="disc",
        half_size_m=(0.062, 0.062, 0.006),
        mass_kg=0.4,
        graspable=False,
        fixed=True,
    ),
    Asset(
        name="tray",
        noun="tray",
        shape="box",
        half_size_m=(0.080, 0.065, 0.006),
        mass_kg=0.5,
        graspable=False,
        fixed=True,
    ),
)
"""Objects of the pick-place family; other families use them too."""
