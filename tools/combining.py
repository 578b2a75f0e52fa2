"""One generation program out of several, so that difficulties are also met together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coda.sim.factors import Factor, joined, task_factors
from coda.sim.families import program_task
from coda.sim.gate_program import drawable_tasks
from coda.sim.paths import narrowed
from coda.sim.program import (
    Edit,
    GenerationProgram,
    Mixture,
    RelativeToRole,
    Sampler,
)
from coda.sim.roles import DISTRACTORS
from coda.sim.splits import Splits

TASK_PATH = "tau.task"
MOST_EDITS, MOST_CONSTRAINTS = 32, 8
"""What a program holds at most."""


def combine(
    programs: Sequence[GenerationProgram], splits: Splits | None = None
) -> GenerationProgram:
    """The first program, widened by the edits of the others that its task knows.

    The task stays the first one's. Of an edit that was written for another task, only the values
    that this task allows are taken over, as `Splits.program` does. Of several edits of one path
    the first stays; but programs spell out the seed range of the axes that they leave alone, and
    with `splits` such an edit gives way to any other of its path.
    """
    table = _factors(programs[0])
    edits: dict[str, Edit] = {}
    wide: set[str] = set()
    for program in programs:
        narrow = _seed_range(program, splits)
        for edit in program.edits:
            own = program is programs[0]
            sampler: Sampler | None = edit.sampler
            if not own:
                known = edit.path != TASK_PATH and edit.path in table
                sampler = narrowed(edit.sampler, table[edit.path]) if known else None
            widens = edit.sampler != narrow.get(edit.path)
            replaces = edit.path not in edits or (widens and edit.path not in wide)
            if sampler is not None and (own or replaces):
                edits[edit.path] = edit.model_copy(update={"sampler": sampler})
                wide |= {edit.path} if widens else set()
    roles = {path.split(".")[1] for path in table}
    constraints = dict.fromkeys(c for program in programs for c in program.constraints)
    return GenerationProgram(
        name="+".join(program.name for program in programs)[:80],
        family=programs[0].family,
        edits=_ordered(list(edits.values()), table)[:MOST_EDITS],
        constraints=tuple(c for c in constraints if roles.issuperset(c.roles))[:MOST_CONSTRAINTS],
    )


def _factors(program: GenerationProgram) -> Mapping[str, Factor]:
    """What a program's edits may write, over the tasks that it may draw."""
    return joined(task_factors(program.family, name) for name in drawable_tasks(program))


def _seed_range(program: GenerationProgram, splits: Splits | None) -> Mapping[str, Sampler]:
    """Samplers of the seed range of a program's own task; none without `splits`."""
    if splits is None:
        return {}
    seed = splits.seed_program(program_task(program).name)
    return {edit.path: edit.sampler for edit in seed.edits}


def _ordered(edits: list[Edit], table: Mapping[str, Factor]) -> tuple[Edit, ...]:
    """Edits in the order of the factors, each after those that it needs to come before it."""
    order = {path: i for i, path in enumerate(table)}
    left = sorted(edits, key=lambda edit: order.get(edit.path, -1))
    found: list[Edit] = []
    while left:
        waiting = {edit.path for edit in left}
        ready = next((e for e in left if not _needs(e) & waiting), left[0])
        left.remove(ready)
        found.append(ready)
    return tuple(found)


def _needs(edit: Edit) -> set[str]:
    """Paths whose edits have to come before an edit."""
    sampler = edit.sampler
    parts = sampler.components if isinstance(sampler, Mixture) else (sampler,)
    roles = {part.role for part in parts if isinstance(part, RelativeToRole)}
    needs = {f"sigma.{role}.xy" for role in roles}
    middle = edit.path.split(".")[1]
    if middle in DISTRACTORS or roles & set(DISTRACTORS):
        needs.add("tau.distractors")
    return needs - {edit.path}
