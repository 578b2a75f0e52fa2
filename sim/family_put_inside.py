"""Put an object into a container: a bin, a basket, a drawer that may have to be opened first."""

from __future__ import annotations

import math
from types import MappingProxyType

from coda.sim.assets import ASSETS
from coda.sim.family import Family, Ranges, TaskSpec
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
YELLOW = (0.90, 0.80, 0.15, 1.0)
WORKSPACE_X, WORKSPACE_Y = (0.34, 0.62), (-0.26, 0.26)
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
BINS = ("bin", "deep-bin", "crate", "organizer")
BASKETS = ("basket", "tub", "pot")
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


def _seed(task: str, container: str, rgba: tuple[float, float, float, float]) -> Scene:
    """Seed scene of a task: a soap bar to the right, the container to the left."""
    noun = ASSETS[container].noun
    colour = {BLUE: "blue", YELLOW: "yellow"}[rgba]
    return Scene(
        tau=Task(
            family="put-inside",
            task=task,
            instruction=f"pick up the red soap bar and put it in the {colour} {noun}",
            goal=Goal(relation="inside"),
        ),
        sigma=Spatial(
            poses={"target": Pose(xy=(0.48, -0.12)), "receptacle": Pose(xy=(0.48, 0.14))}
        ),
        alpha=Attributes(
            objects={
                "target": ObjectAttributes(asset="soap", mass_kg=ASSETS["soap"].mass_kg, rgba=RED),
                "receptacle": ObjectAttributes(
                    asset=container, mass_kg=ASSETS[container].mass_kg, rgba=rgba
                ),
            }
        ),
        nu=PUT_IN,
    )


def _task(
    name: str, title: str, seed: Scene, containers: tuple[str, ...], max_steps: int
) -> TaskSpec:
    return TaskSpec(
        name=name,
        title=title,
        seed=seed,
        wordings=WORDINGS,
        assets=MappingProxyType({"target": TARGETS, "receptacle": containers, **CROWD}),
        max_steps=max_steps,
    )


NARROW: Ranges = {
    "position": {"sigma.target.xy": Uniform(low=(0.46, -0.14), high=(0.50, -0.10))},
    "yaw": {"sigma.target.yaw": Uniform(low=-SEED_YAW_SPREAD, high=SEED_YAW_SPREAD)},
    "size": {"alpha.target.scale": Uniform(low=0.97, high=1.03)},
    "mass-friction": {
        "alpha.target.mass_kg": Uniform(low=0.09, high=0.11),
        "alpha.target.friction": Uniform(low=0.95, high=1.05),
    },
    "distractors": {"tau.distractors": Fixed(value=0)},
    "goal": {"sigma.receptacle.xy": Uniform(low=(0.465, 0.125), high=(0.495, 0.155))},
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
    "distractors": {
        "tau.distractors": Choice(values=(0, 1, 2, 3)),
        "sigma.distractor-1.xy": _NEAR_TARGET,
        "sigma.distractor-1.yaw": _TURN,
        "sigma.distractor-2.xy": _NEAR_TARGET,
        "sigma.distractor-2.yaw": _TURN,
        "sigma.distractor-3.xy": _NEAR_TARGET,
        "sigma.distractor-3.yaw": _TURN,
    },
    "goal": {"sigma.receptacle.xy": _TABLE},
    "asset": {"alpha.target.asset": Choice(values=TARGETS)},
}

PUT_INSIDE = Family(
    name="put-inside",
    title="Put inside",
    tasks=MappingProxyType(
        {
            task.name: task
            for task in (
                _task("bin", "Put an object into a bin", _seed("bin", "bin", BLUE), BINS, 128),
                _task(
                    "basket",
                    "Put an object into a basket",
                    _seed("basket", "basket", YELLOW),
                    BASKETS,
                    128,
                ),
            )
        }
    ),
    stages=("open", "reach", "descend", "grasp", "lift", "carry", "lower", "release", "rest"),
    narrow=NARROW,
    wide=WIDE,
    workspace_x=WORKSPACE_X,
    workspace_y=WORKSPACE_Y,
    separation=(MinSeparation(roles=("target", "receptacle"), distance_m=TARGET_TO_GOAL_M),),
    held_out_assets=("can", "jar"),
    salt="put-inside/338",
)
"""The put-inside family."""
