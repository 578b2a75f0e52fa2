"""The catalogue of task families: one literal, no import side effects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from coda.sim.assets import ASSETS
from coda.sim.errors import UnknownName
from coda.sim.scene import (
    Attributes,
    ObjectAttributes,
    Pose,
    Scene,
    Spatial,
    Task,
    Verifier,
)
from coda.sim.terms import PredicateTerm

PLACED = Verifier(
    terms=(
        PredicateTerm(name="on", subject="target", reference="receptacle"),
        PredicateTerm(name="released", subject="target"),
        PredicateTerm(name="settled", subject="target"),
    )
)
"""Success of pick-place: on the receptacle, let go, at rest."""

RED = (0.80, 0.12, 0.10, 1.0)
WHITE = (0.93, 0.93, 0.90, 1.0)


def _pick_place_seed() -> Scene:
    return Scene(
        tau=Task(
            family="pick-place",
            instruction="pick up the red block and place it on the white plate",
        ),
        sigma=Spatial(
            poses={"target": Pose(xy=(0.48, -0.10)), "receptacle": Pose(xy=(0.48, 0.14))}
        ),
        alpha=Attributes(
            objects={
                "target": ObjectAttributes(
                    asset="block", mass_kg=ASSETS["block"].mass_kg, rgba=RED
                ),
                "receptacle": ObjectAttributes(
                    asset="plate", mass_kg=ASSETS["plate"].mass_kg, rgba=WHITE
                ),
            }
        ),
        nu=PLACED,
    )


@dataclass(frozen=True, kw_only=True)
class Family:
    """A task family."""

    name: str
    title: str
    seed: Scene
    """The scene that every generation program edits."""
    stages: tuple[str, ...]
    """Names of the base potential's stages, in order."""


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "pick-place": Family(
            name="pick-place",
            title="Pick and place",
            seed=_pick_place_seed(),
            stages=("reach", "descend", "grasp", "lift", "carry", "place", "release", "rest"),
        ),
    }
)


def family(name: str) -> Family:
    """Look a family up, or raise `UnknownName` with the nearest match."""
    try:
        return FAMILIES[name]
    except KeyError:
        raise UnknownName("task family", name, FAMILIES) from None
