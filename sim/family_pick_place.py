"""Pick and place: put an object on a plate or a tray."""

from __future__ import annotations

import math
from types import MappingProxyType

from coda.sim.assets import ASSETS
from coda.sim.family import Family, Ranges, TaskSpec, crowd
from coda.sim.libero_assets import LIBERO_OBJECTS
from coda.sim.program import Choice, Fixed, MinSeparation, Mixture, RelativeToRole, Uniform
from coda.sim.roles import DISTRACTORS, Role
from coda.sim.scene import Attributes, ObjectAttributes, Pose, Scene, Spatial, Task, Verifier
from coda.sim.terms import PredicateTerm

RED = (0.80, 0.12, 0.10, 1.0)
WHITE = (0.93, 0.93, 0.90, 1.0)
WORKSPACE_X, WORKSPACE_Y = (0.32, 0.66), (-0.28, 0.28)
TARGETS = ("cube", "block", "cylinder", "can", "milk", "bread", "cereal")
RECEPTACLES = ("plate", "tray")
OBJECTS = (*TARGETS, "lemon")
"""Assets of distractors; a lemon rolls to its own rest and rarely passes the gate."""
CROWD: dict[Role, tuple[str, ...]] = dict.fromkeys(DISTRACTORS, OBJECTS)
OPTIONAL: dict[Role, tuple[str, ...]] = {
    "target": LIBERO_OBJECTS,
    "receptacle": ("libero:plate",),
    **dict.fromkeys(DISTRACTORS, LIBERO_OBJECTS),
}
"""Assets that may be asked for where the LIBERO-PRO package is installed."""
TARGET_TO_GOAL_M = 0.16
"""Least distance of target and receptacle centres in generated scenes [m]."""
SEED_YAW_SPREAD = 0.02
"""Half width of the demonstrations' yaw [rad]: aligned parts, so that they do not teach turning."""

PLACED = Verifier(
    terms=(
        PredicateTerm(name="on", subject="target", reference="receptacle"),
        PredicateTerm(name="released", subject="target"),
        PredicateTerm(name="settled", subject="target"),
    )
)
"""Success of pick-place: on the receptacle, let go, at rest."""

_SEED = Scene(
    tau=Task(
        family="pick-place",
        task="place",
        instruction="pick up the red block and place it on the white plate",
    ),
    sigma=Spatial(poses={"target": Pose(xy=(0.48, -0.10)), "receptacle": Pose(xy=(0.48, 0.14))}),
    alpha=Attributes(
        objects={
            "target": ObjectAttributes(asset="block", mass_kg=ASSETS["block"].mass_kg, rgba=RED),
            "receptacle": ObjectAttributes(
                asset="plate", mass_kg=ASSETS["plate"].mass_kg, rgba=WHITE
            ),
        }
    ),
    nu=PLACED,
)

NARROW: Ranges = {
    "position": {"sigma.target.xy": Uniform(low=(0.46, -0.12), high=(0.50, -0.08))},
    "yaw": {"sigma.target.yaw": Uniform(low=-SEED_YAW_SPREAD, high=SEED_YAW_SPREAD)},
    "size": {"alpha.target.scale": Uniform(low=0.97, high=1.03)},
    "mass-friction": {
        "alpha.target.mass_kg": Uniform(low=0.11, high=0.13),
        "alpha.target.friction": Uniform(low=0.95, high=1.05),
    },
    "distractors": {"tau.distractors": Fixed(value=0)},
    "goal": {"sigma.receptacle.xy": Uniform(low=(0.465, 0.125), high=(0.495, 0.155))},
    "asset": {"alpha.target.asset": Fixed(value="block")},
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
    "size": {"alpha.target.scale": Uniform(low=0.55, high=2.00)},
    "mass-friction": {
        "alpha.target.mass_kg": Uniform(low=0.03, high=1.50),
        "alpha.target.friction": Uniform(low=0.20, high=1.50),
    },
    "distractors": crowd(_NEAR_TARGET, _TURN),
    "goal": {"sigma.receptacle.xy": _TABLE},
    "asset": {"alpha.target.asset": Choice(values=TARGETS)},
}

PICK_PLACE = Family(
    name="pick-place",
    title="Pick and place",
    tasks=MappingProxyType(
        {
            "place": TaskSpec(
                name="place",
                title="Place an object on a plate",
                seed=_SEED,
                wordings=(
                    "pick up the {target} and place it on the {receptacle}",
                    "put the {target} on the {receptacle}",
                    "move the {target} onto the {receptacle}",
                    "take the {target} and set it down on the {receptacle}",
                ),
                assets=MappingProxyType({"target": TARGETS, "receptacle": RECEPTACLES, **CROWD}),
                optional=MappingProxyType(OPTIONAL),
            )
        }
    ),
    stages=("reach", "descend", "grasp", "lift", "carry", "place", "release", "rest"),
    narrow=NARROW,
    wide=WIDE,
    workspace_x=WORKSPACE_X,
    workspace_y=WORKSPACE_Y,
    separation=(MinSeparation(roles=("target", "receptacle"), distance_m=TARGET_TO_GOAL_M),),
    held_out_assets=("cereal", "can"),
    salt="pick-place/338",
)
