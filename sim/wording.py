"""Instructions: naming objects by colour and noun, and checking that the names are unambiguous."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from coda.sim.assets import ASSETS
from coda.sim.roles import Role
from coda.sim.scene import ObjectAttributes, Scene

WORDINGS: tuple[str, ...] = (
    "pick up the {target} and place it on the {receptacle}",
    "put the {target} on the {receptacle}",
    "move the {target} onto the {receptacle}",
    "take the {target} and set it down on the {receptacle}",
)
"""Ways to say the task; the first is the default."""

COLOURS: Mapping[str, tuple[float, float, float]] = MappingProxyType(
    {
        "red": (0.8, 0.1, 0.1),
        "orange": (0.95, 0.5, 0.1),
        "yellow": (0.9, 0.8, 0.15),
        "green": (0.15, 0.6, 0.25),
        "blue": (0.15, 0.3, 0.85),
        "purple": (0.5, 0.2, 0.65),
        "pink": (0.95, 0.55, 0.7),
        "brown": (0.4, 0.25, 0.12),
        "white": (0.95, 0.95, 0.95),
        "grey": (0.5, 0.5, 0.5),
        "black": (0.06, 0.06, 0.06),
    }
)
"""Colour names and their typical (r, g, b) in [0, 1]."""


def colour_name(rgba: tuple[float, ...]) -> str:
    """The nearest colour name of (r, g, b[, a]) in [0, 1]; alpha is ignored."""

    def distance(name: str) -> float:
        return sum((a - b) ** 2 for a, b in zip(rgba, COLOURS[name], strict=False))

    return min(COLOURS, key=distance)


def rgba_of(colour: str) -> tuple[float, float, float, float]:
    """The opaque rgba that `colour_name` calls `colour`. Raises `KeyError`."""
    r, g, b = COLOURS[colour]
    return (r, g, b, 1.0)


def phrase(record: ObjectAttributes) -> str:
    """How an object is called, e.g. ``red cube``."""
    return f"{colour_name(record.rgba)} {ASSETS[record.asset].noun}"


def instruction(target: ObjectAttributes, receptacle: ObjectAttributes, wording: int = 0) -> str:
    """The instruction for a pair of objects in one of `WORDINGS`."""
    return WORDINGS[wording].format(target=phrase(target), receptacle=phrase(receptacle))


def wording_of(text: str) -> int:
    """Index of the wording that made `text`; 0 if none did."""
    for index, wording in enumerate(WORDINGS):
        pattern = re.escape(wording).replace(r"\{target\}", ".+").replace(r"\{receptacle\}", ".+")
        if re.fullmatch(pattern, text):
            return index
    return 0


def reword(scene: Scene, wording: int | None = None) -> Scene:
    """`scene` with an instruction that names its objects, in its own wording unless given."""
    index = wording_of(scene.tau.instruction) if wording is None else wording
    objects = scene.alpha.objects
    text = instruction(objects["target"], objects["receptacle"], index)
    return scene.model_copy(update={"tau": scene.tau.model_copy(update={"instruction": text})})


def goal_roles(scene: Scene) -> tuple[Role, ...]:
    """The goal's subject and, where it has one, its reference."""
    goal = scene.tau.goal
    return (goal.subject,) if goal.reference is None else (goal.subject, goal.reference)


def unnamed_roles(scene: Scene) -> tuple[Role, ...]:
    """Bound roles (target, receptacle) whose colour and noun the instruction does not say."""
    bound = goal_roles(scene)
    text = scene.tau.instruction.lower()

    def said(role: Role) -> bool:
        return re.search(rf"\b{re.escape(phrase(scene.alpha.objects[role]))}\b", text) is not None

    return tuple(role for role in bound if not said(role))


def ambiguous_roles(scene: Scene) -> tuple[Role, ...]:
    """Other roles that are called the same as a bound object."""
    bound = goal_roles(scene)
    taken = {phrase(scene.alpha.objects[role]) for role in bound}
    others = [role for role in scene.roles if role not in bound]
    return tuple(role for role in others if phrase(scene.alpha.objects[role]) in taken)
