"""Objects to pick up, and flat things to put them on."""

from __future__ import annotations

from coda.sim.asset import Asset

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
