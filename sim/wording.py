"""Instructions: naming objects by colour and noun, and checking that the names are unambiguous."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from types import MappingProxyType

from coda.sim.assets import ASSETS
from coda.sim.families import task_of
from coda.sim.roles import PLACED_ROLES, Role
from coda.sim.scene import ObjectAttributes, Scene

_SLOT = re.compile(r"\{([a-z0-9-]+)\}")

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


@lru_cache(maxsize=4096)
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


def say(wording: str, objects: Mapping[Role, ObjectAttributes]) -> str:
    """A wording with its roles' names filled in. Raises `KeyError` for a role that is not there."""
    return _SLOT.sub(lambda slot: phrase(objects[_role(slot[1])]), wording)


def named_roles(wording: str) -> tuple[Role, ...]:
    """Roles in the braces of a wording, in its order, each once."""
    return tuple(dict.fromkeys(_role(name) for name in _SLOT.findall(wording)))


def _role(name: str) -> Role:
    return PLACED_ROLES[PLACED_ROLES.index(name)]


def bound_roles(scene: Scene) -> tuple[Role, ...]:
    """Roles that the instruction has to name: those of the task's wordings."""
    return named_roles(task_of(scene).wordings[0])


def wording_of(scene: Scene) -> int:
    """Index of the task's wording that made the scene's instruction; 0 if none did."""
    text = scene.tau.instruction
    for index, wording in enumerate(task_of(scene).wordings):
        if made_by(wording, text):
            return index
    return 0


def made_by(wording: str, text: str) -> bool:
    """Whether a wording can have made a text, for any objects."""
    return _pattern(wording).fullmatch(text) is not None


@cache
def _pattern(wording: str) -> re.Pattern[str]:
    """What a wording can say: any colour and noun in its slots."""
    nouns = "|".join(sorted({re.escape(asset.noun) for asset in ASSETS.values()}))
    anything = f"(?:{'|'.join(COLOURS)}) (?:{nouns})"
    return re.compile(anything.join(re.escape(part) for part in _SLOT.split(wording)[::2]))


def reword(scene: Scene, wording: int | None = None) -> Scene:
    """`scene` with an instruction that names its objects, in its own wording unless given."""
    index = wording_of(scene) if wording is None else wording
    text = say(task_of(scene).wordings[index], scene.alpha.objects)
    return scene.model_copy(update={"tau": scene.tau.model_copy(update={"instruction": text})})


def says(text: str, words: str) -> bool:
    """Whether a text holds words, as whole words and in any case."""
    return re.search(rf"\b{re.escape(words)}\b", text, re.IGNORECASE) is not None


def unnamed_roles(scene: Scene) -> tuple[Role, ...]:
    """Bound roles whose colour and noun the instruction does not say."""
    text, objects = scene.tau.instruction, scene.alpha.objects
    return tuple(r for r in bound_roles(scene) if not says(text, phrase(objects[r])))


def ambiguous_roles(scene: Scene) -> tuple[Role, ...]:
    """Roles that a bound role's name fits too; of two bound roles called the same, the later."""
    names = {role: phrase(scene.alpha.objects[role]) for role in scene.roles}
    bound = [role for role in scene.roles if role in bound_roles(scene)]
    found = [
        other
        for i, role in enumerate(bound)
        for other in names
        if other not in bound[: i + 1] and says(names[other], names[role])
    ]
    found += [
        later
        for i, later in enumerate(bound)
        if any(says(names[earlier], names[later]) for earlier in bound[:i])
    ]
    return tuple(dict.fromkeys(found))
