"""Evaluation splits: which cells of the factor space are held out, and the guard on training.

Rule `RULE`: in each axis (`coda.sim.cells`) the cells other than the seed cell are ranked by
sha256(``"<salt>|<axis>|<cell>"``) and the first third is held out; of the assets, two are.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import ValidationError

from coda.sim.cells import CELLS, SEED_CELLS, cell
from coda.sim.errors import SceneError, UnknownName
from coda.sim.factors import TARGETS, WORKSPACE_X, WORKSPACE_Y
from coda.sim.program import (
    Choice,
    Edit,
    Fixed,
    GenerationProgram,
    MinSeparation,
    Mixture,
    RelativeToRole,
    Sampler,
    Uniform,
)
from coda.sim.roles import AXES, DISTRACTORS, Axis
from coda.sim.scene import Scene

SALT = "pick-place/338"
"""Fixes which cells are held out; changing it makes another benchmark.

The first of ``pick-place/2``, ``/3`` … whose held-out cells away from the seed range lie on several
sides of it, with others left for training: see the test of held-out cells.
"""
HELD_OUT_ASSETS = ("cereal", "can")
"""Never in a training scene, in any role; named rather than drawn (a box and a cylinder)."""
FILE_VERSION = 1
TARGET_TO_GOAL_M = 0.16
"""Least distance of target and receptacle centres in generated scenes [m]."""

RULE = (
    "Factor space: the grids of coda.sim.cells. Seed cell per axis: the one that holds the "
    "demonstrations' range. Held out: of the other cells of an axis, ranked by "
    f'sha256("{SALT}|<axis>|<cell>"), the first third (rounded); assets {HELD_OUT_ASSETS}. '
    "in: reference distribution with the guard on, per scene by turns the seed program, two of "
    "programs with each axis wide with probability 1/2, the wide program. "
    "ood: per axis 16 scenes with that axis in held-out cells and away from the seed range "
    "(coda.sim.cells.away) and all others in the seed range; 48 'combined' with three axes held "
    "out and away, the triples by turns. Scenes that the validity gate "
    "rejects are replaced by the next draw."
)
"""How the evaluation files were made; stored in them."""


def _third(axis: Axis) -> frozenset[str]:
    if axis == "asset":
        return frozenset(HELD_OUT_ASSETS)
    others = [name for name in CELLS[axis] if name != SEED_CELLS[axis]]
    others.sort(key=lambda name: hashlib.sha256(f"{SALT}|{axis}|{name}".encode()).hexdigest())
    return frozenset(others[: round(len(others) / 3)])


@cache
def held_out_cells() -> Mapping[Axis, frozenset[str]]:
    """The held-out cells of every axis."""
    return {axis: _third(axis) for axis in AXES}


SEED_YAW_SPREAD = 0.02
"""Half width of the demonstrations' yaw [rad]: aligned parts, so that they do not teach turning."""

_SEED: dict[Axis, dict[str, Sampler]] = {
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


def _wide(axis: Axis) -> dict[str, Sampler]:
    if axis == "distractors":
        crowd: dict[str, Sampler] = {"tau.distractors": Choice(values=(0, 1, 2, 3))}
        for role in DISTRACTORS:
            crowd[f"sigma.{role}.xy"] = _NEAR_TARGET
            crowd[f"sigma.{role}.yaw"] = Uniform(low=-math.pi / 2, high=math.pi / 2)
        return crowd
    wide: dict[Axis, dict[str, Sampler]] = {
        "position": {"sigma.target.xy": _TABLE},
        "yaw": {"sigma.target.yaw": Uniform(low=-math.pi / 2, high=math.pi / 2)},
        "size": {"alpha.target.scale": Uniform(low=0.55, high=2.00)},
        "mass-friction": {
            "alpha.target.mass_kg": Uniform(low=0.03, high=1.50),
            "alpha.target.friction": Uniform(low=0.20, high=1.50),
        },
        "goal": {"sigma.receptacle.xy": _TABLE},
        "asset": {"alpha.target.asset": Choice(values=TARGETS)},
    }
    return wide[axis]


@dataclass(frozen=True)
class Splits:
    """Held-out cells of every axis, the guard over them, and the reference programs."""

    family: str = "pick-place"
    held: Mapping[Axis, frozenset[str]] = field(default_factory=held_out_cells)

    def cells(self, axis: Axis) -> Mapping[str, bool]:
        """Every cell of an axis, and whether it is held out."""
        return {name: name in self.held[axis] for name in CELLS[axis]}

    def cell_name(self, axis: Axis, scene: Scene) -> str:
        """Name of the cell of `axis` in which `scene` lies."""
        return cell(axis, scene)

    def held_out(self, scene: Scene) -> tuple[Axis, ...]:
        """Axes on which `scene` lies in a held-out cell; the asset axis looks at every role."""
        axes = [axis for axis in AXES[:-1] if cell(axis, scene) in self.held[axis]]
        if any(record.asset in self.held["asset"] for record in scene.alpha.objects.values()):
            axes.append("asset")
        return tuple(axes)

    def check(self, scene: Scene) -> None:
        """Refuse a scene for training. Raises `SceneError` if any axis is held out."""
        axes = self.held_out(scene)
        if axes:
            where = ", ".join(f"{axis} {cell(axis, scene)}" for axis in axes)
            raise SceneError(
                f"scene {scene.digest()} lies in cells held out for evaluation ({where}); "
                "train only on scenes outside them (sample with the guard on)."
            )

    def program(self, wide: Collection[Axis], name: str = "") -> GenerationProgram:
        """The reference program with the `wide` axes wide and the others in the seed range."""
        for axis in wide:
            if axis not in AXES:
                raise UnknownName("axis", axis, AXES)
        edits: dict[str, Sampler] = {}
        for axis in AXES:
            edits |= _wide(axis) if axis in wide else _SEED[axis]
        chosen = ", ".join(axis for axis in AXES if axis in wide)
        return GenerationProgram(
            name=name or (f"wide: {chosen}" if wide else "seed range"),
            family=self.family,
            edits=tuple(Edit(path=path, sampler=sampler) for path, sampler in edits.items()),
            constraints=(
                MinSeparation(roles=("target", "receptacle"), distance_m=TARGET_TO_GOAL_M),
            ),
            rationale=f"Reference distribution; wide axes: {chosen or 'none'}.",
        )

    def seed_program(self) -> GenerationProgram:
        """The narrow region that demonstrations come from."""
        return self.program((), "seed range")

    def wide_program(self) -> GenerationProgram:
        """Every axis wide."""
        return self.program(AXES, "wide")


EvaluationName = Literal["in", "ood"]
COMBINED = "combined"


@dataclass(frozen=True, kw_only=True)
class EvaluationSet:
    """Frozen evaluation scenes and the rule that made them."""

    name: EvaluationName
    digest: str
    """sha256 over everything else in the file."""
    rule: str
    seed: int
    scenes: tuple[Scene, ...]
    axis: tuple[str, ...]
    """Label of each scene: an axis, ``combined``, or ``in``."""

    def select(self, label: str) -> tuple[int, ...]:
        """Indices of the scenes with a label. Raises `UnknownName`."""
        if label not in self.axis:
            raise UnknownName("evaluation label", label, set(self.axis))
        return tuple(i for i, name in enumerate(self.axis) if name == label)

    def scenes_by_digest(self) -> dict[str, Scene]:
        """Scenes by their content hash."""
        return {scene.digest(): scene for scene in self.scenes}


def file_name(name: EvaluationName, family: str = "pick-place") -> str:
    """Name of an evaluation file in ``sim/data``."""
    return f"{family}.{name}.json"


def content_digest(data: Mapping[str, Any]) -> str:
    """sha256 of a file's content without its ``digest``, in canonical JSON."""
    rest = {key: value for key, value in data.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def parse_evaluation(text: str, source: str) -> EvaluationSet:
    """Read an evaluation file's text. Raises `SceneError` if it was changed or is malformed."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise SceneError(f"{source} is not JSON ({error}); restore it from the package.") from None
    if not isinstance(data, dict) or data.get("file_version") != FILE_VERSION:
        raise SceneError(
            f"{source} is not an evaluation file of version {FILE_VERSION}; "
            "restore it from the package."
        )
    if content_digest(data) != data.get("digest"):
        raise SceneError(
            f"{source} was changed: its content does not match its digest "
            f"{data.get('digest')!r:.24}; restore it, or make it again with "
            "python -m coda.sim.make_splits."
        )
    try:
        scenes = tuple(Scene.model_validate(item) for item in data["scenes"])
    except ValidationError as error:
        raise SceneError(f"{source} holds an invalid scene: {error.errors()[0]['msg']}.") from None
    return EvaluationSet(
        name=data["name"],
        digest=data["digest"],
        rule=data["rule"],
        seed=data["seed"],
        scenes=scenes,
        axis=tuple(data["axis"]),
    )


@cache
def evaluation_set(name: EvaluationName, family: str = "pick-place") -> EvaluationSet:
    """The frozen set `name`, its digest verified. Raises `UnknownName` or `SceneError`."""
    if name not in get_args(EvaluationName):
        raise UnknownName("evaluation set", name, get_args(EvaluationName))
    path = Path(__file__).parent / "data" / file_name(name, family)
    if not path.is_file():
        raise UnknownName("family with evaluation files", family, ("pick-place",))
    return parse_evaluation(path.read_text(encoding="utf-8"), file_name(name, family))
