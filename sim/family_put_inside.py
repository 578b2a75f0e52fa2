"""Put an object into a container: a bin, a basket, a drawer that may have to be opened first."""

from __future__ import annotations

import math
from types import MappingProxyType

from coda.sim.assets import ASSETS
from coda.sim.family import Family, Ranges, TaskSpec, crowd
from coda.sim.libero_assets import LIBERO_OBJECTS
from coda.sim.program import Choice, Fixed, MinSeparation, Mixture, RelativeToRole, Uniform
from coda.sim.roles import DISTRACTORS, Role
from coda.sim.scene import (
    Attributes,
    Goal,
    ObjectAttributes,
    Pose,
    Scene,
    Spatial,
    Task,
    Verifier,
)
from coda.sim.terms import PredicateTerm

RED = (0.80, 0.12, 0.10, 1.0)
BLUE = (0.15, 0.30, 0.85, 1.0)
GREEN = (0.15, 0.60, 0.25, 1.0)
YELLOW = (0.90, 0.80, 0.15, 1.0)
WORKSPACE_X, WORKSPACE_Y = (0.34, 0.64), (-0.26, 0.26)
GOAL_X = (0.44, 0.64)
"""Where containers stand: a drawer needs its travel between itself and the robot [m]."""
TARGETS = (
    "soap",
    "cube",
    "block",
    "cylinder",
    "can",
    "milk",
    "bread",
    "sponge",
    "battery",
    "jar",
    "candle",
)
CROWD: dict[Role, tuple[str, ...]] = dict.fromkeys(DISTRACTORS, TARGETS)
OPTIONAL: dict[Role, tuple[str, ...]] = {
    "target": LIBERO_OBJECTS,
    **dict.fromkeys(DISTRACTORS, LIBERO_OBJECTS),
}
"""Assets that may be asked for where the LIBERO-PRO package is installed."""
OPTIONAL_CONTAINERS: dict[str, tuple[str, ...]] = {
    "bin": ("libero:wooden_tray",),
    "basket": ("libero:basket", "libero:akita_black_bowl"),
}
"""The same for the receptacle, by task."""
BINS = ("bin", "deep-bin", "crate", "organizer")
BASKETS = ("basket", "tub", "pot")
DRAWERS = ("cabinet", "cabinet-wide")
OPEN_ENOUGH, SHUT = (0.85, 1.0), (0.0, 0.3)
"""Initial openings of a drawer that is ready, and of one that has to be opened first."""
TARGET_XY, GOAL_XY = (0.48, -0.12), (0.56, 0.14)
"""Centre of the seed range of target and container [m]."""
TARGET_TO_GOAL_M = 0.20
"""Least distance of target and container centres: room for the open hand beside a wall [m]."""
SEED_YAW_SPREAD = 0.02
"""Half width of the demonstrations' yaw [rad]."""

PUT_IN = Verifier(
    terms=(
        PredicateTerm(name="inside", subject="target", reference="receptacle"),
        PredicateTerm(name="released", subject="target"),
        PredicateTerm(name="settled", subject="target"),
    )
)
"""Success: in the container, let go, at rest."""

WORDINGS = (
    "pick up the {target} and put it in the {receptacle}",
    "put the {target} in the {receptacle}",
    "place the {target} inside the {receptacle}",
    "drop the {target} into the {receptacle}",
)
OPENING_WORDINGS = (
    "open the {receptacle} and put the {target} in it",
    "pull the {receptacle} open, then place the {target} inside it",
    "put the {target} in the closed {receptacle}",
    "the {receptacle} is closed: open it and drop the {target} in",
)


def _task(
    name: str,
    title: str,
    containers: tuple[str, ...],
    colour: tuple[str, tuple[float, float, float, float]],
    *,
    wordings: tuple[str, ...] = WORDINGS,
    opening: tuple[float, float] | None = None,
    start: float = 0.0,
    max_steps: int = 128,
) -> TaskSpec:
    """A task whose seed scene has a soap bar to the right and the first container to the left."""
    colour_name, rgba = colour
    container = ASSETS[containers[0]]
    objects = {
        "target": ObjectAttributes(asset="soap", mass_kg=ASSETS["soap"].mass_kg, rgba=RED),
        "receptacle": ObjectAttributes(asset=container.name, mass_kg=container.mass_kg, rgba=rgba),
    }
    text = wordings[0].format(target="red soap bar", receptacle=f"{colour_name} {container.noun}")
    seed = Scene(
        tau=Task(
            family="put-inside",
            task=name,
            instruction=text,
            goal=Goal(relation="inside"),
            opening=start,
        ),
        sigma=Spatial(poses={"target": Pose(xy=TARGET_XY), "receptacle": Pose(xy=GOAL_XY)}),
        alpha=Attributes.model_validate({"objects": objects}),
        nu=PUT_IN,
    )
    return TaskSpec(
        name=name,
        title=title,
        seed=seed,
        wordings=wordings,
        assets=MappingProxyType({"target": TARGETS, "receptacle": containers, **CROWD}),
        optional=MappingProxyType(OPTIONAL | {"receptacle": OPTIONAL_CONTAINERS.get(name, ())}),
        max_steps=max_steps,
        opening=opening,
    )


_TASKS = (
    _task("bin", "Put an object into a bin", BINS, ("blue", BLUE)),
    _task("basket", "Put an object into a basket", BASKETS, ("yellow", YELLOW)),
    _task(
        "drawer", "Put an object into an open drawer", DRAWERS, ("green", GREEN),
        opening=OPEN_ENOUGH, start=1.0, max_steps=160,
    ),
    _task(
        "closed-drawer", "Open a drawer and put an object into it", DRAWERS, ("green", GREEN),
        wordings=OPENING_WORDINGS, opening=SHUT, start=0.0, max_steps=240,
    ),
)  # fmt: skip

NARROW: Ranges = {
    "position": {"sigma.target.xy": Uniform(low=(0.46, -0.14), high=(0.50, -0.10))},
    "yaw": {"sigma.target.yaw": Uniform(low=-SEED_YAW_SPREAD, high=SEED_YAW_SPREAD)},
    "size": {"alpha.target.scale": Uniform(low=0.97, high=1.03)},
    "mass-friction": {
        "alpha.target.mass_kg": Uniform(low=0.09, high=0.11),
        "alpha.target.friction": Uniform(low=0.95, high=1.05),
    },
    "distractors": {"tau.distractors": Fixed(value=0)},
    "goal": {"sigma.receptacle.xy": Uniform(low=(0.545, 0.125), high=(0.575, 0.155))},
    "asset": {"alpha.target.asset": Fixed(value="soap")},
}
_TABLE = Uniform(
    low=(WORKSPACE_X[0], WORKSPACE_Y[0]),
    high=(WORKSPACE_X[1], WORKSPACE_Y[1]),
)
_NEAR_TARGET = Mixture(components=(RelativeToRole(role="target", radius=(0.07, 0.12)), _TABLE))
_TURN = Uniform(low=-math.pi / 2, high=math.pi / 2)

WIDE: Ranges = {
    "position": {"sigma.target.xy": _TABLE},
    "yaw": {"sigma.target.yaw": _TURN},
    "size": {"alpha.target.scale": Uniform(low=0.60, high=1.75)},
    "mass-friction": {
        "alpha.target.mass_kg": Uniform(low=0.03, high=1.50),
        "alpha.target.friction": Uniform(low=0.20, high=1.50),
    },
    "distractors": crowd(_NEAR_TARGET, _TURN),
    "goal": {
        "sigma.receptacle.xy": Uniform(
            low=(GOAL_X[0], WORKSPACE_Y[0]), high=(GOAL_X[1], WORKSPACE_Y[1])
        ),
        "alpha.receptacle.asset": Choice(values=(*BINS, *BASKETS, *DRAWERS)),
        "tau.opening": Uniform(low=0.0, high=1.0),
    },
    "asset": {"alpha.target.asset": Choice(values=TARGETS)},
}

PUT_INSIDE = Family(
    name="put-inside",
    title="Put inside",
    tasks=MappingProxyType({task.name: task for task in _TASKS}),
    stages=(
        "find-handle",
        "take-handle",
        "open",
        "reach",
        "descend",
        "grasp",
        "lift",
        "carry",
        "place",
        "release",
        "rest",
    ),
    narrow=NARROW,
    wide=WIDE,
    workspace_x=WORKSPACE_X,
    workspace_y=WORKSPACE_Y,
    separation=(MinSeparation(roles=("target", "receptacle"), distance_m=TARGET_TO_GOAL_M),),
    held_out_assets=("can", "jar"),
    salt="put-inside/34",
)
"""The put-inside family."""
