"""Stack and insert: towers of two and three, a peg into a hole, a nut onto a post."""

from __future__ import annotations

import math
from types import MappingProxyType

from coda.sim.assets import ASSETS
from coda.sim.family import Family, Ranges, TaskSpec, crowd
from coda.sim.program import Choice, Fixed, MinSeparation, Mixture, RelativeToRole, Uniform
from coda.sim.roles import DISTRACTORS, Role
from coda.sim.scene import (
    Attributes,
    Goal,
    ObjectAttributes,
    Pose,
    Relation,
    Scene,
    Spatial,
    Task,
    Verifier,
)
from coda.sim.terms import PredicateTerm

Rgba = tuple[float, float, float, float]

RED: Rgba = (0.80, 0.12, 0.10, 1.0)
GREEN: Rgba = (0.15, 0.60, 0.25, 1.0)
BLUE: Rgba = (0.15, 0.30, 0.85, 1.0)
YELLOW: Rgba = (0.90, 0.80, 0.15, 1.0)
ORANGE: Rgba = (0.95, 0.50, 0.10, 1.0)
WORKSPACE_X, WORKSPACE_Y = (0.36, 0.64), (-0.26, 0.26)

STACKED = ("cube", "block", "cylinder", "brick", "small-cube", "slab")
"""What goes on top of a tower."""
STOREYS = ("brick", "slab", "cube")
"""What carries it."""
BASES = ("base-block", "brick", "slab")
PEGS = ("peg-square", "peg-round", "peg-short", "peg-long")
HOLES = ("hole-square", "hole-round")
NUTS = ("nut-square", "nut-round", "nut-large")
POSTS = ("post-square", "post-round")
CROWD: dict[Role, tuple[str, ...]] = dict.fromkeys(
    DISTRACTORS, ("cube", "block", "cylinder", "brick", "small-cube", "slab")
)
SEPARATION_M = 0.15
"""Least distance of the centres of two roles of a task in generated scenes [m]."""
SEED_YAW_SPREAD = 0.02
"""Half width of the demonstrations' yaw [rad]."""

_REST = (PredicateTerm(name="released"), PredicateTerm(name="settled"))
STACKED_TWO = Verifier(terms=(PredicateTerm(name="on", reference="receptacle"), *_REST))
"""The target stands on the receptacle, let go, at rest."""
STACKED_THREE = Verifier(
    terms=(
        *STACKED_TWO.terms,
        PredicateTerm(name="on", subject="receptacle", reference="support"),
        PredicateTerm(name="released", subject="receptacle"),
        PredicateTerm(name="settled", subject="receptacle"),
    )
)
"""All three storeys stand, let go, at rest."""
INSERTED = Verifier(terms=(PredicateTerm(name="inserted", reference="receptacle"), *_REST))
"""The target is in the hole, or around the post, let go, at rest."""

_POSES: dict[Role, tuple[float, float]] = {
    "target": (0.46, -0.12),
    "receptacle": (0.46, 0.12),
    "support": (0.60, 0.02),
}


def _seed(
    task: str, words: str, relation: Relation, nu: Verifier, things: dict[Role, tuple[str, Rgba]]
) -> Scene:
    objects = {
        role: ObjectAttributes(asset=name, mass_kg=ASSETS[name].mass_kg, rgba=rgba)
        for role, (name, rgba) in things.items()
    }
    return Scene(
        tau=Task(family="stack-insert", task=task, instruction=words, goal=Goal(relation=relation)),
        sigma=Spatial(poses={role: Pose(xy=_POSES[role]) for role in things}),
        alpha=Attributes(objects=objects),
        nu=nu,
    )


_STACK_TWO = TaskSpec(
    name="stack-two",
    title="Stack two blocks",
    seed=_seed(
        "stack-two",
        "stack the red cube on the green brick",
        "on",
        STACKED_TWO,
        {"target": ("cube", RED), "receptacle": ("brick", GREEN)},
    ),
    wordings=(
        "stack the {target} on the {receptacle}",
        "put the {target} on top of the {receptacle}",
        "pick up the {target} and stack it on the {receptacle}",
        "build a tower: the {target} on the {receptacle}",
    ),
    assets=MappingProxyType({"target": STACKED, "receptacle": (*STOREYS, "base-block"), **CROWD}),
    max_steps=128,
)

_STACK_THREE = TaskSpec(
    name="stack-three",
    title="Build a tower of three",
    seed=_seed(
        "stack-three",
        "stack the green brick on the blue base block, then the red cube on the green brick",
        "on",
        STACKED_THREE,
        {
            "target": ("cube", RED),
            "receptacle": ("brick", GREEN),
            "support": ("base-block", BLUE),
        },
    ),
    wordings=(
        "stack the {receptacle} on the {support}, then the {target} on the {receptacle}",
        "build a tower: the {support} at the bottom, the {receptacle} on it, "
        "and the {target} on top",
        "put the {receptacle} on the {support} and the {target} on the {receptacle}",
        "build a tower of the {support}, the {receptacle} and the {target}, from bottom to top",
    ),
    assets=MappingProxyType({"target": STACKED, "receptacle": STOREYS, "support": BASES, **CROWD}),
    max_steps=256,
)

_PEG = TaskSpec(
    name="peg-in-hole",
    title="Insert a peg into a hole",
    seed=_seed(
        "peg-in-hole",
        "insert the red square peg into the blue square hole",
        "inserted",
        INSERTED,
        {"target": ("peg-square", RED), "receptacle": ("hole-square", BLUE)},
    ),
    wordings=(
        "insert the {target} into the {receptacle}",
        "put the {target} into the {receptacle}",
        "pick up the {target} and push it down into the {receptacle}",
        "fit the {target} into the {receptacle}",
    ),
    assets=MappingProxyType({"target": PEGS, "receptacle": HOLES, **CROWD}),
    max_steps=192,
)

_NUT = TaskSpec(
    name="nut-on-peg",
    title="Put a nut on a post",
    seed=_seed(
        "nut-on-peg",
        "put the orange square nut on the green square post",
        "inserted",
        INSERTED,
        {"target": ("nut-square", ORANGE), "receptacle": ("post-square", GREEN)},
    ),
    wordings=(
        "put the {target} on the {receptacle}",
        "slide the {target} onto the {receptacle}",
        "pick up the {target} and lower it over the {receptacle}",
        "thread the {target} over the {receptacle}",
    ),
    assets=MappingProxyType({"target": NUTS, "receptacle": POSTS, **CROWD}),
    max_steps=192,
)

NARROW: Ranges = {
    "position": {"sigma.target.xy": Uniform(low=(0.44, -0.14), high=(0.48, -0.10))},
    "yaw": {"sigma.target.yaw": Uniform(low=-SEED_YAW_SPREAD, high=SEED_YAW_SPREAD)},
    "size": {"alpha.target.scale": Uniform(low=0.97, high=1.03)},
    "mass-friction": {
        "alpha.target.mass_kg": Uniform(low=0.06, high=0.10),
        "alpha.target.friction": Uniform(low=0.95, high=1.05),
    },
    "distractors": {"tau.distractors": Fixed(value=0)},
    "goal": {
        "sigma.receptacle.xy": Uniform(low=(0.445, 0.105), high=(0.475, 0.135)),
        "sigma.support.xy": Uniform(low=(0.585, 0.005), high=(0.615, 0.035)),
    },
    "asset": {},
}
"""The asset is the seed scene's."""
_TABLE = Uniform(
    low=(WORKSPACE_X[0], WORKSPACE_Y[0]),
    high=(WORKSPACE_X[1], WORKSPACE_Y[1]),
)
_NEAR_TARGET = Mixture(components=(RelativeToRole(role="target", radius=(0.09, 0.14)), _TABLE))
_TURN = Uniform(low=-math.pi / 2, high=math.pi / 2)

WIDE: Ranges = {
    "position": {"sigma.target.xy": _TABLE},
    "yaw": {"sigma.target.yaw": _TURN},
    "size": {"alpha.target.scale": Uniform(low=0.80, high=1.15)},
    "mass-friction": {
        "alpha.target.mass_kg": Uniform(low=0.03, high=0.70),
        "alpha.target.friction": Uniform(low=0.40, high=1.50),
    },
    "distractors": crowd(_NEAR_TARGET, _TURN),
    "goal": {
        "sigma.receptacle.xy": _TABLE,
        "sigma.receptacle.yaw": _TURN,
        "sigma.support.xy": _TABLE,
        "sigma.support.yaw": _TURN,
    },
    "asset": {"alpha.target.asset": Choice(values=(*STACKED, *PEGS, *NUTS))},
}

STACK_INSERT = Family(
    name="stack-insert",
    title="Stack and insert",
    tasks=MappingProxyType({spec.name: spec for spec in (_STACK_TWO, _STACK_THREE, _PEG, _NUT)}),
    stages=("reach", "grasp", "lift", "carry", "align", "lower", "release", "rest"),
    narrow=NARROW,
    wide=WIDE,
    workspace_x=WORKSPACE_X,
    workspace_y=WORKSPACE_Y,
    separation=(
        MinSeparation(roles=("target", "receptacle"), distance_m=SEPARATION_M),
        MinSeparation(roles=("target", "support"), distance_m=SEPARATION_M),
        MinSeparation(roles=("receptacle", "support"), distance_m=SEPARATION_M),
    ),
    held_out_assets=("cylinder", "peg-round", "nut-round"),
    salt="stack-insert/799",
)
