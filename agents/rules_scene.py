"""Offline rule of the scene-builder: widen one axis, recreate a mode, repair what was refused."""

from __future__ import annotations

import re
from typing import Any

from coda.agents.samplers import bias, blend, centre, read_sampler, shrink
from coda.sim.families import FAMILIES
from coda.sim.program import (
    Choice,
    Edit,
    Fixed,
    GenerationProgram,
    Issue,
    MinSeparation,
    Sampler,
    Uniform,
)
from coda.sim.roles import DISTRACTORS

MAGNITUDES = {"small": 0.35, "medium": 0.65, "large": 1.0}
"""Share of the way from the seed range to the widest range."""

ALONE = frozenset(next(iter(item.tasks)) for item in FAMILIES.values() if len(item.tasks) == 1)
"""Tasks that are their family's only one."""

KEEP = 0.7
"""Share of a range that a repair keeps."""

DROP = frozenset({"unknown-path", "duplicate-path", "role-absent", "edit-order"})
RESET = frozenset({"value-type", "schema", "wrong-role-asset"})
SEPARATE = frozenset({"too-close", "penetration", "hidden"})


class _Factors:
    """The factor table of the facts: seed and widest sampler of every path."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = {row["path"]: row for row in rows}
        self.seed: dict[str, Sampler] = {
            path: read_sampler(row["seed"]) for path, row in self.rows.items() if row["seed"]
        }
        self.wide: dict[str, Sampler] = {
            path: read_sampler(row["wide"]) for path, row in self.rows.items() if row["wide"]
        }

    def axis(self, path: str) -> str:
        row = self.rows.get(path)
        return str(row["axis"]) if row else ""

    def of_axis(self, axis: str) -> list[str]:
        """Paths of an axis that have a widest range, in program order."""
        return [path for path in self.rows if path in self.wide and self.axis(path) == axis]


def write_program(facts: dict[str, Any]) -> dict[str, Any]:
    """Answer the task ``write-program``."""
    factors = _Factors(facts["factors"])
    slot = facts["slot"]
    issues = [Issue.model_validate(issue) for issue in facts["issues"]]
    if facts["previous"] is not None and issues:
        program = GenerationProgram.model_validate(facts["previous"])
    else:
        program = _draft(facts, factors)
    for issue in issues:
        program = _repair(program, issue, slot["axis"], factors)
    program = _present(program)
    if issues:
        codes = ", ".join(sorted({issue.code for issue in issues}))
        text = f"{program.rationale.split(' Repaired')[0]} Repaired by rule: {codes}."
        program = program.model_copy(update={"rationale": text[:600]})
    return {"program": program.model_dump(mode="json")}


def _draft(facts: dict[str, Any], factors: _Factors) -> GenerationProgram:
    slot = facts["slot"]
    axis, mode = slot["axis"], slot["mode"]
    if slot["kind"] == "focus" and mode is not None:
        edits, constraints, why = _focus(slot, factors)
    else:
        edits = dict(factors.seed)
        for other in slot["joined"]:
            _widen(edits, other, MAGNITUDES["large"], factors)
        _widen(edits, axis, MAGNITUDES[slot["magnitude"]], factors)
        constraints = tuple(MinSeparation.model_validate(c) for c in facts["constraints"])
        together = " with " + ", ".join(slot["joined"]) if slot["joined"] else ""
        why = f"Rule: widen {axis} ({slot['magnitude']}){together}, the rest in the seed range."
    asked, ignored = _apply_requests(edits, slot, factors)
    why += f" Requested: {', '.join(asked)}." if asked else ""
    why += f" Rules cannot follow: {'; '.join(ignored)}." if ignored else ""
    for path in list(edits):
        if factors.axis(path) in slot["avoid_axes"] and path in factors.seed:
            edits[path] = factors.seed[path]
    ordered = sorted(edits, key=list(factors.rows).index)
    return GenerationProgram(
        name=f"focus-{mode['mode_id']}" if mode else _exploration(slot),
        family=facts["family"],
        edits=tuple(Edit(path=path, sampler=edits[path]) for path in ordered),
        constraints=constraints,
        rationale=why[:600],
    )


def _present(program: GenerationProgram) -> GenerationProgram:
    """The program without edits and constraints of distractors that it never switches on."""
    count = next((e.sampler for e in program.edits if e.path == "tau.distractors"), None)
    absent = DISTRACTORS[largest(count) :]
    edits = tuple(e for e in program.edits if not any(f".{role}." in e.path for role in absent))
    kept = tuple(c for c in program.constraints if not set(c.roles) & set(absent))
    return program.model_copy(update={"edits": edits, "constraints": kept})


def largest(count: Sampler | None) -> int:
    """The largest number of distractors that a sampler can draw."""
    match count:
        case Fixed():
            return int(count.value) if isinstance(count.value, int | float) else 0
        case Choice():
            return max((int(v) for v in count.values if isinstance(v, int | float)), default=0)
        case None:
            return 0
        case _:
            return len(DISTRACTORS)


def _exploration(slot: dict[str, Any]) -> str:
    about = "+".join([slot["axis"], *slot["joined"]])
    task = "" if slot["task"] in ALONE else f"{slot['task']}-"
    return f"explore-{task}{about}-{slot['magnitude']}"[:80]


def _widen(edits: dict[str, Sampler], axis: str, share: float, factors: _Factors) -> None:
    """Write the axis' samplers into `edits`, a share of the way to its widest range."""
    for path in factors.of_axis(axis):
        wide = factors.wide[path]
        edits[path] = blend(factors.seed[path], wide, share) if path in factors.seed else wide
        if isinstance(wide, Choice):  # names and counts: only what the seed scene does not have
            usual = centre(factors.seed[path]) if path in factors.seed else None
            new = tuple(v for v in edits[path].values if v != usual)  # type: ignore[union-attr]
            edits[path] = Choice(values=new) if new else edits[path]


def _focus(
    slot: dict[str, Any], factors: _Factors
) -> tuple[dict[str, Sampler], tuple[MinSeparation, ...], str]:
    """The mode's own program, easier or harder by its last success against the band."""
    mode, (low, high) = slot["mode"], slot["band"]
    omega = GenerationProgram.model_validate(mode["omega"])
    edits = {edit.path: edit.sampler for edit in omega.edits if edit.path in factors.rows}
    last = slot["last_success"]
    if last is None or low <= last <= high:
        return edits, omega.constraints, f"Rule: recreate {mode['mode_id']} as it is."
    for path in [p for p in edits if factors.axis(p) == mode["axis"] and p in factors.seed]:
        if last < low:
            edits[path] = shrink(edits[path], centre(factors.seed[path]), 0.75)
        elif path in factors.wide:
            edits[path] = blend(edits[path], factors.wide[path], 0.35)
    word = "easier" if last < low else "harder"
    why = f"Rule: recreate {mode['mode_id']} {word}: last success {last:.0%}, band {low:.0%}"
    return edits, omega.constraints, f"{why} to {high:.0%}."


def _apply_requests(
    edits: dict[str, Sampler], slot: dict[str, Any], factors: _Factors
) -> tuple[list[str], list[str]]:
    """Bias the paths that requests like ``alpha.target.scale lower`` name."""
    asked, ignored = [], []
    for request in slot["requests"]:
        found = re.fullmatch(r"(\S+) (lower|higher)", request)
        path = found.group(1) if found else ""
        if not found or path not in factors.wide or path not in factors.seed:
            ignored.append(request)
        elif factors.axis(path) not in slot["avoid_axes"]:
            now = edits.get(path, factors.seed[path])
            direction: Any = found.group(2)
            edits[path] = bias(now, factors.seed[path], factors.wide[path], direction)
            asked.append(request)
    return asked, ignored


def _repair(
    program: GenerationProgram, issue: Issue, axis: str, factors: _Factors
) -> GenerationProgram:
    """One issue answered by one change of the program."""
    named = _named_paths(program, issue)
    if issue.code in DROP:
        edits = tuple(e for i, e in enumerate(program.edits) if not _dropped(program, i, named))
        return program.model_copy(update={"edits": edits or program.edits[:1]})
    if issue.code in RESET:
        return _with(program, {p: factors.seed[p] for p in named if p in factors.seed})
    if issue.code in SEPARATE:
        return _separate(program, issue)
    if issue.code == "min-separation":
        return _relax(program)
    if issue.code in ("value-range", "bad-sampler"):
        return _with(program, _clipped(program, named, factors))
    chosen = named or [e.path for e in program.edits if factors.axis(e.path) == axis]
    changed = {
        edit.path: shrink(
            edit.sampler,
            centre(factors.seed[edit.path]) if edit.path in factors.seed else None,
            KEEP,
        )
        for edit in program.edits
        if edit.path in chosen
    }
    program = _with(program, changed)
    return _relax(program) if issue.code == "cannot-place" else program


def _named_paths(program: GenerationProgram, issue: Issue) -> list[str]:
    """Edited paths that an issue names by path, by role, or by the number of the edit."""
    paths = [edit.path for edit in program.edits]
    exact = [path for path in paths if path in issue.path]
    if exact:
        return exact
    number = re.search(r"edits[.\[](\d+)", issue.path)
    if number and int(number.group(1)) < len(paths):
        return [paths[int(number.group(1))]]
    return [path for path in paths if issue.path and path.startswith(f"{issue.path}.")]


def _dropped(program: GenerationProgram, index: int, named: list[str]) -> bool:
    """Whether to drop an edit; of edits that repeat a path, the first stays."""
    path = program.edits[index].path
    earlier = [edit.path for edit in program.edits[:index]]
    repeated = [edit.path for edit in program.edits].count(path) > 1
    return path in named and (path in earlier if repeated else True)


def _with(program: GenerationProgram, changed: dict[str, Sampler]) -> GenerationProgram:
    edits = tuple(
        Edit(path=e.path, sampler=changed[e.path]) if e.path in changed else e
        for e in program.edits
    )
    return program.model_copy(update={"edits": edits})


def _clipped(program: GenerationProgram, named: list[str], factors: _Factors) -> dict[str, Sampler]:
    """Samplers moved inside the widest range; the seed's where that is impossible."""
    changed: dict[str, Sampler] = {}
    for edit in program.edits:
        if edit.path not in named or edit.path not in factors.seed:
            continue
        seed, wide = factors.seed[edit.path], factors.wide.get(edit.path)
        changed[edit.path] = seed
        if isinstance(edit.sampler, Uniform) and isinstance(wide, Uniform):
            changed[edit.path] = wide
    return changed


def _separate(program: GenerationProgram, issue: Issue) -> GenerationProgram:
    """Add, or raise by 3 cm, a least distance between the objects that an issue names."""
    text = f"{issue.path} {issue.value}"
    roles = [r for r in ("receptacle", "distractor-1", "distractor-2", "distractor-3") if r in text]
    kept = {c.roles: c for c in program.constraints}
    for role in roles or ["receptacle"]:
        pair: Any = ("target", role)
        distance = kept[pair].distance_m + 0.03 if pair in kept else 0.12
        kept[pair] = MinSeparation(roles=pair, distance_m=round(min(distance, 0.3), 3))
    return program.model_copy(update={"constraints": tuple(kept.values())[:8]})


def _relax(program: GenerationProgram) -> GenerationProgram:
    eased = tuple(
        c.model_copy(update={"distance_m": round(c.distance_m * 0.8, 3)})
        for c in program.constraints
    )
    return program.model_copy(update={"constraints": eased})
