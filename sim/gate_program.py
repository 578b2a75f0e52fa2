"""Checks of a generation program: schema and semantics, before anything is drawn."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from coda.sim.errors import UnknownName
from coda.sim.factors import FACTORS, Factor, joined, task_factors, value_issue
from coda.sim.families import Family, family
from coda.sim.gate_codes import make_issue
from coda.sim.program import (
    Choice,
    Fixed,
    GenerationProgram,
    Issue,
    Mixture,
    Normal,
    Polar,
    RelativeToRole,
    Sampler,
    Uniform,
)
from coda.sim.roles import DISTRACTORS, PLACED_ROLES, Role

MAX_TEXT = 100_000
"""Longest program text that is read [characters]."""
MAX_SCHEMA_ISSUES = 8
_UNION_TAGS = frozenset(
    {"fixed", "choice", "uniform", "normal", "polar", "relative-to-role", "mixture"}
    | {"constrained-float", "float", "int", "str"}
)


def parse_program(source: str | Mapping[str, Any]) -> GenerationProgram | tuple[Issue, ...]:
    """Read a program from JSON text or a mapping; every schema problem as an issue."""
    data: Any = source
    if isinstance(source, str):
        if len(source) > MAX_TEXT:
            return (_text_issue(f"{len(source)} characters", f"at most {MAX_TEXT} characters"),)
        try:
            data = json.loads(source)
        except RecursionError:
            return (_text_issue("brackets nested too deeply", "a flat program"),)
        except ValueError as error:
            return (_text_issue(f"{source[:60]!r}: {error}", "one JSON object"),)
    if not isinstance(data, Mapping):
        return (_text_issue(f"{data!r:.60}", "one JSON object"),)
    try:
        return GenerationProgram.model_validate(dict(data))
    except ValidationError as error:
        return schema_issues(error)


def _text_issue(value: str, limit: str) -> Issue:
    remedy = "answer with one JSON object that follows the program schema"
    return make_issue("not-json", "(whole)", value, limit, remedy)


def schema_issues(error: ValidationError) -> tuple[Issue, ...]:
    """The first problems of a validation error as issues, one a path."""
    found: dict[str, Issue] = {}
    for item in error.errors(include_url=False, include_context=False):
        parts = [str(part) for part in item["loc"]]
        path = ".".join(part for part in parts if not _is_tag(part))[:200] or "(whole)"
        remedy = "follow the schema: no other fields, finite numbers, the listed names"
        value = f"{item['input']!r:.80}"
        found.setdefault(path, make_issue("schema", path, value, item["msg"][:200], remedy))
        if len(found) == MAX_SCHEMA_ISSUES:
            break
    return tuple(found.values())


def _is_tag(part: str) -> bool:
    """Parts of an error's path that name a member of a union, not a field."""
    return part in _UNION_TAGS or part.startswith("tuple[")


def program_issues(program: GenerationProgram) -> tuple[Issue, ...]:
    """Every semantic problem of a program."""
    try:
        item = family(program.family)
    except UnknownName as error:
        return (
            make_issue(
                "unknown-family", "family", program.family, str(error), "use a known family"
            ),
        )
    tasks = drawable_tasks(program)
    table = joined(task_factors(item.name, task) for task in tasks)
    roles = _possible_roles(program, item, tasks)
    issues: list[Issue] = []
    seen: set[str] = set()
    for i, edit in enumerate(program.edits):
        where = f"edits.{i}.path"
        factor = table.get(edit.path)
        if edit.path in seen:
            issues.append(
                make_issue("duplicate-path", where, edit.path, "each path once", "merge the edits")
            )
        seen.add(edit.path)
        role = FACTORS[edit.path].role if edit.path in FACTORS else None
        if role is not None and role not in roles:
            issues.append(_absent(where, role, roles))
        elif factor is None:
            issues.append(_unknown_path(where, edit.path, table))
        if factor is not None:
            issues += sampler_issues(edit.sampler, factor, f"edits.{i}.sampler", roles)
    issues += _order_issues(program)
    for i, constraint in enumerate(program.constraints):
        where = f"constraints.{i}.roles"
        if constraint.roles[0] == constraint.roles[1]:
            issues.append(_contradiction(where, f"{constraint.roles}", "two different roles"))
        issues += [_absent(where, role, roles) for role in constraint.roles if role not in roles]
    return tuple(issues)


def drawable_tasks(program: GenerationProgram) -> tuple[str, ...]:
    """Tasks that some draw of a program can have; the family's default where it draws none.

    Raises `UnknownName` for an unknown family.
    """
    known = family(program.family).tasks
    for edit in program.edits:
        if edit.path == "tau.task":
            named = dict.fromkeys(name for name in _names(edit.sampler) if name in known)
            return tuple(named) or (next(iter(known)),)
    return (next(iter(known)),)


def _names(sampler: Sampler) -> tuple[Any, ...]:
    """Names that a sampler can give."""
    if isinstance(sampler, Mixture):
        return tuple(name for part in sampler.components for name in _names(part))
    if isinstance(sampler, Fixed):
        return (sampler.value,)
    return sampler.values if isinstance(sampler, Choice) else ()


def _possible_roles(
    program: GenerationProgram, item: Family, tasks: Sequence[str]
) -> tuple[Role, ...]:
    """Roles that some draw of the program can have."""
    have = {role for task in tasks for role in item.tasks[task].seed.roles}
    most = sum(role in DISTRACTORS for role in have)
    for edit in program.edits:
        if edit.path == "tau.distractors":
            most = _largest(edit.sampler)
    crowd = DISTRACTORS[: max(0, most)]
    return tuple(r for r in PLACED_ROLES if r in crowd or (r in have and r not in DISTRACTORS))


def _largest(sampler: Sampler) -> int:
    """Largest whole number that a sampler can give; 0 where it gives none."""
    if isinstance(sampler, Mixture):
        return max(_largest(part) for part in sampler.components)
    values: tuple[Any, ...] = ()
    if isinstance(sampler, Fixed):
        values = (sampler.value,)
    elif isinstance(sampler, Choice):
        values = sampler.values
    elif isinstance(sampler, Uniform | Normal):
        values = (sampler.high,)
    numbers = [min(int(v), len(DISTRACTORS)) for v in values if isinstance(v, int | float)]
    return max(numbers, default=0)


def _unknown_path(where: str, path: str, table: Mapping[str, Factor]) -> Issue:
    close = get_close_matches(path, table, n=3)
    limit = "did you mean " + ", ".join(close) if close else "one of " + ", ".join(table)
    return make_issue("unknown-path", where, path, limit, "use a factor path of the program's task")


def _absent(where: str, role: Role, roles: tuple[Role, ...]) -> Issue:
    return make_issue(
        "role-absent", where, role, "roles of the program: " + ", ".join(roles),
        "raise tau.distractors, choose a task that has the role, or leave it out",
    )  # fmt: skip


def _contradiction(where: str, value: str, limit: str) -> Issue:
    return make_issue("bad-sampler", where, value, limit, "correct the sampler")


def sampler_issues(
    sampler: Sampler, factor: Factor, where: str, roles: tuple[Role, ...]
) -> Iterator[Issue]:
    """What is wrong with a sampler for a factor."""
    if isinstance(sampler, Mixture):
        yield from _weight_issues(sampler.weights, len(sampler.components), where)
        for i, part in enumerate(sampler.components):
            yield from sampler_issues(part, factor, f"{where}.components.{i}", roles)
    elif isinstance(sampler, Fixed):
        yield from _value_issues(factor, sampler.value, f"{where}.value")
    elif isinstance(sampler, Choice):
        yield from _weight_issues(sampler.weights, len(sampler.values), where)
        for i, value in enumerate(sampler.values):
            yield from _value_issues(factor, value, f"{where}.values.{i}")
    elif isinstance(sampler, Uniform):
        yield from _uniform_issues(sampler, factor, where)
    elif isinstance(sampler, Normal):
        yield from _kind_issues(factor, ("number",), "normal", where)
        if sampler.low > sampler.high:
            yield _contradiction(where, f"low {sampler.low} > high {sampler.high}", "low <= high")
        elif factor.kind == "number":
            yield from _value_issues(factor, sampler.low, f"{where}.low")
            yield from _value_issues(factor, sampler.high, f"{where}.high")
    else:
        yield from _planar_issues(sampler, factor, where, roles)


def _value_issues(factor: Factor, value: Any, where: str) -> Iterator[Issue]:
    problem = value_issue(factor, value)
    if problem is not None:
        yield problem.model_copy(update={"path": f"{where} ({factor.path})"})


def _kind_issues(factor: Factor, kinds: tuple[str, ...], name: str, where: str) -> Iterator[Issue]:
    if factor.kind not in kinds:
        yield make_issue(
            "value-type", f"{where} ({factor.path})", f"a {name} sampler", factor.limit(),
            "use fixed or choice" if factor.kind in ("name", "count") else "use uniform",
        )  # fmt: skip


def _uniform_issues(sampler: Uniform, factor: Factor, where: str) -> Iterator[Issue]:
    if factor.kind == "name":
        yield from _kind_issues(factor, (), "uniform", where)
        return
    yield from _value_issues(factor, sampler.low, f"{where}.low")
    yield from _value_issues(factor, sampler.high, f"{where}.high")
    low = sampler.low if isinstance(sampler.low, tuple) else (sampler.low,)
    high = sampler.high if isinstance(sampler.high, tuple) else (sampler.high,)
    if len(low) == len(high) and any(a > b for a, b in zip(low, high, strict=True)):
        yield _contradiction(where, f"low {sampler.low} > high {sampler.high}", "low <= high")


def _planar_issues(
    sampler: Polar | RelativeToRole, factor: Factor, where: str, roles: tuple[Role, ...]
) -> Iterator[Issue]:
    if not factor.path.endswith(".xy"):
        yield from _kind_issues(factor, (), sampler.kind, where)
        return
    for name, (low, high) in (("radius", sampler.radius), ("angle", sampler.angle)):
        if low > high:
            yield _contradiction(f"{where}.{name}", f"{low} > {high}", "(low, high)")
    if sampler.radius[0] < 0.0:
        yield _contradiction(f"{where}.radius", f"{sampler.radius[0]}", "0 or more")
    if isinstance(sampler, Polar):
        yield from _value_issues(factor, sampler.center, f"{where}.center")
    elif sampler.role == factor.role:
        yield _contradiction(f"{where}.role", sampler.role, "another role than the path's")
    elif sampler.role not in roles:
        yield _absent(f"{where}.role", sampler.role, roles)


def _weight_issues(weights: tuple[float, ...] | None, count: int, where: str) -> Iterator[Issue]:
    if weights is not None and (len(weights) != count or sum(weights) <= 0.0):
        limit = f"{count} weights that do not sum to 0"
        yield _contradiction(f"{where}.weights", f"{weights!r:.60}", limit)


def _order_issues(program: GenerationProgram) -> Iterator[Issue]:
    """The task comes first; relative-to-role follows the edits that move or add its role."""
    paths = [edit.path for edit in program.edits]
    if "tau.task" in paths[1:]:
        yield make_issue(
            "edit-order", f"edits.{paths.index('tau.task', 1)}.path", "tau.task",
            "before every other edit: it starts from another scene", "put tau.task first",
        )  # fmt: skip
    for i, edit in enumerate(program.edits):
        later = paths[i + 1 :]
        parts = edit.sampler.components if isinstance(edit.sampler, Mixture) else (edit.sampler,)
        for role in {p.role for p in parts if isinstance(p, RelativeToRole)}:
            if f"sigma.{role}.xy" in later or (role in DISTRACTORS and "tau.distractors" in later):
                yield make_issue(
                    "edit-order", f"edits.{i}.path", edit.path,
                    f"after the edits of sigma.{role}.xy and tau.distractors",
                    "move this edit to the end",
                )  # fmt: skip
        factor = FACTORS.get(edit.path)
        if factor is not None and factor.role in DISTRACTORS and "tau.distractors" in later:
            yield make_issue(
                "edit-order", f"edits.{i}.path", edit.path, "after tau.distractors",
                "put tau.distractors first",
            )  # fmt: skip
