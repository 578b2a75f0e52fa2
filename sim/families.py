"""The catalogue of task families: one literal, no import side effects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from coda.sim.errors import UnknownName
from coda.sim.family import Family, TaskSpec
from coda.sim.family_articulated import ARTICULATED_FAMILY
from coda.sim.family_pick_place import PICK_PLACE
from coda.sim.family_put_inside import PUT_INSIDE
from coda.sim.family_stack_insert import STACK_INSERT
from coda.sim.program import Choice, Fixed, GenerationProgram
from coda.sim.scene import Scene

__all__ = ["FAMILIES", "Family", "TaskSpec", "family", "program_task", "step_limits", "task_of"]

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {item.name: item for item in (PICK_PLACE, ARTICULATED_FAMILY, PUT_INSIDE, STACK_INSERT)}
)


def family(name: str) -> Family:
    """Look a family up, or raise `UnknownName` with the nearest match."""
    try:
        return FAMILIES[name]
    except KeyError:
        raise UnknownName("task family", name, FAMILIES) from None


def task_of(scene: Scene) -> TaskSpec:
    """The task of a scene. Raises `UnknownName` for a family or a task that does not exist."""
    tasks = family(scene.tau.family).tasks
    try:
        return tasks[scene.tau.task]
    except KeyError:
        raise UnknownName(f"{scene.tau.family} task", scene.tau.task, tasks) from None


def program_task(program: GenerationProgram) -> TaskSpec:
    """The task of a program's scenes; of several that it may draw, the first.

    Raises `UnknownName` for a family or a task that does not exist.
    """
    item = family(program.family)
    name: object = next(iter(item.tasks))
    for edit in program.edits:
        if edit.path == "tau.task":
            sampler = edit.sampler
            name = sampler.value if isinstance(sampler, Fixed) else name
            name = sampler.values[0] if isinstance(sampler, Choice) else name
    if name not in item.tasks:
        raise UnknownName(f"{program.family} task", str(name), item.tasks)
    return item.tasks[str(name)]


def step_limits(scenes: Sequence[Scene], most: int | None = None) -> npt.NDArray[np.int64]:
    """Episode limit of every scene [control steps]: its task's own, at most `most`; (B,)."""
    limits = np.array([task_of(scene).max_steps for scene in scenes], dtype=np.int64)
    return limits if most is None else np.minimum(limits, most)
