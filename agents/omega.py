"""ω of a mode: the generation program that recreates its difficulty and nothing else."""

from __future__ import annotations

import numpy as np

from coda.agents.samplers import Bound, narrowed
from coda.memory.records import Diagnosis, Mode
from coda.sim.errors import SceneError
from coda.sim.factors import axis_of
from coda.sim.families import program_task
from coda.sim.paths import read_factor
from coda.sim.program import Edit, GenerationProgram
from coda.sim.scene import Scene
from coda.sim.splits import Splits
from coda.tools.factor_table import TASK_PATH

FEWEST = 6
"""Failures from which the blamed range may be narrowed to where they lie."""


def compile_generation(
    mode: Mode,
    program: GenerationProgram,
    diagnosis: Diagnosis,
    *,
    failures: tuple[Scene, ...] = (),
    splits: Splits | None = None,
) -> GenerationProgram:
    """The program that recreates a mode: the blamed axis as found, all others in the seed range.

    Args:
        mode: Gives the name and the version.
        program: The program that the failures came from.
        diagnosis: Names the blamed axis.
        failures: Scenes that failed; from `FEWEST` on, numbers on the blamed axis are narrowed to
            the range where nine in ten of them lie.
        splits: The family's seed range.
    """
    splits = splits or Splits(family=program.family)
    blamed = [e for e in program.edits if axis_of(e.path) == diagnosis.axis and e.path != TASK_PATH]
    seed = splits.seed_program(program_task(program).name)
    others = [e for e in seed.edits if axis_of(e.path) != diagnosis.axis or e.path == TASK_PATH]
    edits = tuple(_around_failures(edit, failures) for edit in blamed)
    ordered = sorted((*others, *edits), key=lambda edit: edit.path != "tau.task")  # it comes first
    version = mode.omega_version
    return GenerationProgram(
        name=f"{mode.mode_id}-omega-v{version}",
        family=program.family,
        edits=tuple(ordered),
        constraints=program.constraints or seed.constraints,
        rationale=f"Recreates {mode.mode_id} ({mode.title}): {diagnosis.axis} as in "
        f"{program.name}, everything else in the seed range."[:600],
    )


def _around_failures(edit: Edit, failures: tuple[Scene, ...]) -> Edit:
    """The edit with a uniform range narrowed to the middle 90 % of the failures' values."""
    values = []
    for scene in failures:
        try:
            values.append(read_factor(scene, edit.path))
        except SceneError:
            continue  # the scene does not have this object
    if len(values) < FEWEST or any(isinstance(value, str) for value in values):
        return edit
    found = np.array(values, dtype=np.float64)
    low: Bound = _plain(np.quantile(found, 0.05, axis=0))
    high: Bound = _plain(np.quantile(found, 0.95, axis=0))
    return Edit(path=edit.path, sampler=narrowed(edit.sampler, low, high))


def _plain(value: np.ndarray | np.floating) -> Bound:
    item = np.round(value, 4).tolist()
    return tuple(item) if isinstance(item, list) else float(item)
