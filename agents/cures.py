"""Edits that revert an axis to the seed scene, and which axes of a program vary at all."""

from __future__ import annotations

from coda.agents.samplers import varies
from coda.sim.factors import FACTORS, axis_of
from coda.sim.paths import read_factor
from coda.sim.program import Edit, Fixed, GenerationProgram, Value
from coda.sim.roles import AXES, Axis
from coda.sim.scene import Scene


def seed_values(program: GenerationProgram, seed_scene: Scene) -> dict[str, Value]:
    """The seed scene's value at every edited path that the seed scene has.

    The task is left out: a control reverts factors within the task, not the task.
    """
    here = set(seed_scene.roles)
    return {
        edit.path: read_factor(seed_scene, edit.path)
        for edit in program.edits
        if FACTORS[edit.path].role in (None, *here) and edit.path != "tau.task"
    }


def revert(program: GenerationProgram, axis: Axis, seed_scene: Scene) -> tuple[Edit, ...]:
    """Edits that put every path of `axis` that the program edits back to the seed scene's value.

    Paths of objects that the seed scene does not have need none: the count of distractors, also on
    their axis, removes them.
    """
    values = seed_values(program, seed_scene)
    paths = [edit.path for edit in program.edits if edit.path in values]
    if axis == "distractors" and "tau.distractors" not in paths:
        values["tau.distractors"] = read_factor(seed_scene, "tau.distractors")
        paths.append("tau.distractors")
    return tuple(
        Edit(path=path, sampler=Fixed(value=values[path]))
        for path in dict.fromkeys(paths)
        if axis_of(path) == axis
    )


def varied_paths(program: GenerationProgram, seed_scene: Scene) -> dict[Axis, list[str]]:
    """Paths by axis whose value varies, or is another than the seed scene's."""
    values = seed_values(program, seed_scene)
    found: dict[Axis, list[str]] = {}
    for edit in program.edits:
        path = edit.path
        fixed = isinstance(edit.sampler, Fixed) and edit.sampler.value == values.get(path)
        if (
            path in values
            and not fixed
            and (varies(edit.sampler) or isinstance(edit.sampler, Fixed))
        ):
            found.setdefault(axis_of(path), []).append(path)
    return {axis: found[axis] for axis in AXES if axis in found}
