"""Articulated fixtures: open and close drawers, doors and lids, turn knobs and back."""

from __future__ import annotations

from types import MappingProxyType

from coda.sim.assets import ASSETS
from coda.sim.family import Family, Ranges, TaskSpec, crowd
from coda.sim.program import Choice, Fixed, Mixture, RelativeToRole, Uniform
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
ORANGE: Rgba = (0.95, 0.50, 0.10, 1.0)
WORKSPACE_X, WORKSPACE_Y = (0.49, 0.67), (-0.22, 0.22)
DRAWERS = ("drawer-wide", "drawer-tall", "drawer-narrow")
DOORS = ("door-left", "door-right", "door-low")
LIDS = ("box-lid", "chest-lid", "case-lid")
KNOBS = ("dial", "knob-low", "lever", "crank")
CROWD: dict[Role, tuple[str, ...]] = dict.fromkeys(
    DISTRACTORS, ("cube", "block", "cylinder", "can", "bread", "milk")
)
SEED_XY = (0.56, 0.0)
SEED_YAW_SPREAD = 0.02
"""Half width of the demonstrations' yaw [rad]."""
OPEN_LIMIT, CLOSED_LIMIT = 0.15, 0.06
"""Largest distance from the goal opening that counts, as a share of the travel."""
DRAWER_STEPS, STEPS = 96, 128


def _verifier(relation: Relation) -> Verifier:
    """The joint is where the task wants it, the handle let go and at rest."""
    limit = OPEN_LIMIT if relation == "open" else CLOSED_LIMIT
    return Verifier(
        terms=(
            PredicateTerm(name="joint_at", subject="handle", limit=limit),
            PredicateTerm(name="released", subject="handle"),
            PredicateTerm(name="settled", subject="handle"),
        )
    )


OPENED, CLOSED = _verifier("open"), _verifier("closed")


def _task(
    name: str,
    title: str,
    relation: Relation,
    assets: tuple[str, ...],
    rgba: Rgba,
    colour: str,
    wordings: tuple[str, ...],
) -> TaskSpec:
    """A task whose seed scene has the first of its fixtures, at the other end of its travel."""
    first = ASSETS[assets[0]]
    seed = Scene(
        tau=Task(
            family="articulated",
            task=name,
            instruction=wordings[0].format(target=f"{colour} {first.noun}"),
            goal=Goal(relation=relation, reference=None),
            opening=0.0 if relation == "open" else 1.0,
        ),
        sigma=Spatial(poses={"target": Pose(xy=SEED_XY)}),
        alpha=Attributes(
            objects={"target": ObjectAttributes(asset=assets[0], mass_kg=first.mass_kg, rgba=rgba)}
        ),
        nu=OPENED if relation == "open" else CLOSED,
    )
    return TaskSpec(
        name=name,
        title=title,
        seed=seed,
        wordings=wordings,
        assets=MappingProxyType({"target": assets, **CROWD}),
        max_steps=DRAWER_STEPS if assets == DRAWERS else STEPS,
    )


_TASKS = (
    _task(
        "open-drawer", "Open a drawer", "open", DRAWERS, BLUE, "blue",
        (
            "open the {target}",
            "pull out the {target}",
            "pull the {target} open",
            "slide the {target} all the way open",
        ),
    ),
    _task(
        "close-drawer", "Close a drawer", "closed", DRAWERS, BLUE, "blue",
        (
            "close the {target}",
            "push the {target} shut",
            "push the {target} back in",
            "slide the {target} closed",
        ),
    ),
    _task(
        "open-door", "Open a door", "open", DOORS, RED, "red",
        (
            "open the {target}",
            "pull the {target} open",
            "swing the {target} open",
            "open the {target} all the way",
        ),
    ),
    _task(
        "close-door", "Close a door", "closed", DOORS, RED, "red",
        (
            "close the {target}",
            "push the {target} shut",
            "swing the {target} closed",
            "shut the {target}",
        ),
    ),
    _task(
        "open-lid", "Open a lid", "open", LIDS, GREEN, "green",
        (
            "open the {target}",
            "lift the {target}",
            "raise the {target} by its handle",
            "flip the {target} open",
        ),
    ),
    _task(
        "close-lid", "Close a lid", "closed", LIDS, GREEN, "green",
        (
            "close the {target}",
            "shut the {target}",
            "lower the {target}",
            "push the {target} down until it is closed",
        ),
    ),
    _task(
        "turn-knob", "Turn a knob or a lever", "open", KNOBS, ORANGE, "orange",
        (
            "turn the {target}",
            "turn the {target} all the way",
            "rotate the {target} to its end",
            "switch the {target} on",
        ),
    ),
    _task(
        "turn-knob-back", "Turn a knob or a lever back", "closed", KNOBS, ORANGE, "orange",
        (
            "turn the {target} back",
            "turn the {target} back to its start",
            "rotate the {target} back",
            "switch the {target} off",
        ),
    ),
)  # fmt: skip

NARROW: Ranges = {
    "position": {"sigma.target.xy": Uniform(low=(0.54, -0.02), high=(0.58, 0.02))},
    "yaw": {"sigma.target.yaw": Uniform(low=-SEED_YAW_SPREAD, high=SEED_YAW_SPREAD)},
    "size": {"alpha.target.scale": Uniform(low=0.97, high=1.03)},
    "mass-friction": {
        "alpha.target.damping": Uniform(low=0.9, high=1.1),
        "alpha.target.friction": Uniform(low=0.95, high=1.05),
    },
    "distractors": {"tau.distractors": Fixed(value=0)},
    "goal": {"tau.opening": Choice(values=(0.0, 1.0))},
    "asset": {"alpha.target.asset": Choice(values=(DRAWERS[0], DOORS[0], LIDS[0], KNOBS[0]))},
}
"""Shared by the tasks: each takes what it can of openings and assets."""

_TABLE = Uniform(low=(WORKSPACE_X[0], WORKSPACE_Y[0]), high=(WORKSPACE_X[1], WORKSPACE_Y[1]))
_BEHIND = RelativeToRole(role="target", radius=(0.13, 0.22), angle=(-2.2, 2.2))
"""Beside and behind the fixture: its front needs room."""
_BESIDE = Mixture(components=(_BEHIND, _BEHIND, _TABLE))
_TURN = Uniform(low=-1.5, high=1.5)

WIDE: Ranges = {
    "position": {"sigma.target.xy": _TABLE},
    "yaw": {"sigma.target.yaw": Uniform(low=-0.6, high=0.6)},
    "size": {"alpha.target.scale": Uniform(low=0.82, high=1.25)},
    "mass-friction": {
        "alpha.target.damping": Uniform(low=0.25, high=4.0),
        "alpha.target.friction": Uniform(low=0.4, high=1.5),
    },
    "distractors": crowd(_BESIDE, _TURN),
    "goal": {"tau.opening": Uniform(low=0.0, high=1.0)},
    "asset": {"alpha.target.asset": Choice(values=(*DRAWERS, *DOORS, *LIDS, *KNOBS))},
}

ARTICULATED_FAMILY = Family(
    name="articulated",
    title="Articulated fixtures",
    tasks=MappingProxyType({task.name: task for task in _TASKS}),
    stages=("reach", "descend", "grasp", "move", "release", "rest"),
    narrow=NARROW,
    wide=WIDE,
    workspace_x=WORKSPACE_X,
    workspace_y=WORKSPACE_Y,
    held_out_assets=("drawer-narrow", "door-low", "case-lid", "crank"),
    salt="articulated/71",
)
"""The articulated family."""
