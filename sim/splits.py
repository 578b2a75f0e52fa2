"""Evaluation splits: which cells of the factor space are held out, and the guard on training.

Rule (`rule`): in each axis (`coda.sim.cells`) the cells other than the seed cells are ranked by
sha256(``"<salt>|<axis>|<cell>"``) and the first third is held out; of the assets, the family's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import ValidationError

from coda.sim.cells import cell, cells, seed_cells
from coda.sim.errors import SceneError, UnknownName
from coda.sim.factors import joined, task_factors
from coda.sim.families import family
from coda.sim.paths import narrowed
from coda.sim.program import Choice, Edit, Fixed, GenerationProgram, Sampler
from coda.sim.roles import AXES, Axis
from coda.sim.scene import Scene

FILE_VERSION = 2


def rule(family_name: str) -> str:
    """How a family's evaluation files are made; stored in them."""
    item = family(family_name)
    return (
        "Factor space: the grids of coda.sim.cells. Seed cells per axis: those that the "
        "demonstrations' range touches. Held out: of the other cells of an axis, ranked by "
        f'sha256("{item.salt}|<axis>|<cell>"), the first third (rounded); assets '
        f"{', '.join(item.held_out_assets)}. Tasks by turns. "
        "in: reference distribution with the guard on, per scene by turns the seed program, two of "
        "programs with each axis wide with probability 1/2, the wide program. "
        "ood: per axis 20 scenes with that axis in held-out cells and away from the seed range "
        "(coda.sim.cells.away) and all others in the seed range; 64 'combined' with three axes "
        "held out and away, the triples by turns. Scenes that the validity gate rejects are "
        "replaced by the next draw."
    )


def ranked(family_name: str, axis: Axis, salt: str) -> tuple[str, ...]:
    """Cells of an axis that a salt holds out."""
    item = family(family_name)
    if axis == "asset":
        return item.held_out_assets
    seed = seed_cells(axis, family_name)
    others = [name for name in cells(axis, family_name) if name not in seed]
    others.sort(key=lambda name: hashlib.sha256(f"{salt}|{axis}|{name}".encode()).hexdigest())
    return tuple(others[: round(len(others) / 3)])


@cache
def held_out_cells(family_name: str = "pick-place") -> Mapping[Axis, frozenset[str]]:
    """The held-out cells of every axis."""
    salt = family(family_name).salt
    return {axis: frozenset(ranked(family_name, axis, salt)) for axis in AXES}


@dataclass(frozen=True)
class Splits:
    """A family's held-out cells, the guard over them, and the reference programs."""

    family: str = "pick-place"

    @property
    def held(self) -> Mapping[Axis, frozenset[str]]:
        """The held-out cells of every axis."""
        return held_out_cells(self.family)

    def cells(self, axis: Axis) -> Mapping[str, bool]:
        """Every cell of an axis, and whether it is held out."""
        return {name: name in self.held[axis] for name in cells(axis, self.family)}

    def cell_name(self, axis: Axis, scene: Scene) -> str:
        """Name of the cell of `axis` in which `scene` lies."""
        return cell(axis, scene)

    def held_out(self, scene: Scene) -> tuple[Axis, ...]:
        """Axes on which `scene` lies in a cell that its family holds out.

        The asset axis looks at every role.
        """
        held = held_out_cells(scene.tau.family)
        axes = [axis for axis in AXES[:-1] if cell(axis, scene) in held[axis]]
        if any(record.asset in held["asset"] for record in scene.alpha.objects.values()):
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

    def program(
        self, wide: Collection[Axis], name: str = "", *, task: str | None = None
    ) -> GenerationProgram:
        """The reference program with the `wide` axes wide and the others in the seed range.

        Args:
            wide: Axes that take the whole factor space.
            name: The program's name; None derives one.
            task: Only this task of the family; None draws any with equal chance.

        Raises `UnknownName` for an axis or a task that does not exist.
        """
        item = family(self.family)
        for axis in wide:
            if axis not in AXES:
                raise UnknownName("axis", axis, AXES)
        tasks = tuple(item.tasks) if task is None else (task,)
        table = joined(task_factors(self.family, one) for one in tasks)
        edits: dict[str, Sampler] = {}
        if task is not None and len(item.tasks) > 1:
            edits["tau.task"] = Fixed(value=task)
        elif len(tasks) > 1:
            edits["tau.task"] = Choice(values=tasks)
        for axis in AXES:
            ranges = item.wide if axis in wide else item.narrow
            for path, sampler in ranges.get(axis, {}).items():
                part = narrowed(sampler, table[path]) if path in table else None
                if part is not None:
                    edits[path] = part
        roles = {role for one in tasks for role in item.tasks[one].seed.roles}
        chosen = ", ".join(axis for axis in AXES if axis in wide)
        return GenerationProgram(
            name=name or (f"wide: {chosen}" if wide else "seed range"),
            family=self.family,
            edits=tuple(Edit(path=path, sampler=sampler) for path, sampler in edits.items()),
            constraints=tuple(c for c in item.separation if set(c.roles) <= roles),
            rationale=f"Reference distribution; wide axes: {chosen or 'none'}.",
        )

    def seed_program(self, task: str | None = None) -> GenerationProgram:
        """The narrow region that demonstrations come from."""
        return self.program((), "seed range", task=task)

    def wide_program(self, task: str | None = None) -> GenerationProgram:
        """Every axis wide."""
        return self.program(AXES, "wide", task=task)


EvaluationName = Literal["in", "ood"]
COMBINED = "combined"


@dataclass(frozen=True, kw_only=True)
class EvaluationSet:
    """Frozen evaluation scenes and the rule that made them."""

    family: str
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
        family=data["family"],
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
        raise UnknownName("family with evaluation files", family, _families_with_files())
    return parse_evaluation(path.read_text(encoding="utf-8"), file_name(name, family))


def _families_with_files() -> tuple[str, ...]:
    folder = Path(__file__).parent / "data"
    return tuple(sorted(path.name.removesuffix(".in.json") for path in folder.glob("*.in.json")))
