"""The validity gate: which programs and scenes are sound, and what is wrong with the others.

Stages, cheap first: schema, semantics, bounded placement, instruction, save/reload; then, with
the simulator: compile, settle, interpenetration, reach, visibility, verifier false at reset and
after settling, verifier true at a constructed goal state. `GATE_CODES` documents every issue.
Whatever it is given, it answers with a report: in bounded time, and without an exception.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from coda.sim.errors import SceneError
from coda.sim.gate_checks import static_findings
from coda.sim.gate_codes import GATE_CODES, make_issue
from coda.sim.gate_guard import NOWHERE_HELD_OUT, split_findings
from coda.sim.gate_physics import physics_issues
from coda.sim.gate_program import parse_program, program_issues, schema_issues
from coda.sim.plain_data import NotPlain, check_plain, read_json, read_yaml
from coda.sim.program import GenerationProgram, Issue
from coda.sim.scene import Scene
from coda.sim.splits import Splits

__all__ = ["GATE_CODES", "Gate", "GateReport", "GateSummary", "summarise"]

BATCH = 64
"""Scenes simulated together."""


@dataclass(frozen=True, kw_only=True)
class GateReport:
    """What the gate says about one scene."""

    scene: Scene | None
    """The scene; None if it does not even follow the schema."""
    issues: tuple[Issue, ...]
    """Empty if the scene is accepted."""
    seconds: float
    """Wall time spent on it; simulated stages are shared out over their batch."""

    @property
    def accepted(self) -> bool:
        """No issue was found."""
        return not self.issues


@dataclass(frozen=True, kw_only=True)
class GateSummary:
    """What the gate said about many proposals."""

    proposed: int
    accepted: int
    codes: Mapping[str, int]
    """Proposals with an issue of each code, the most frequent first."""
    seconds: float
    """Wall time of all reports."""

    @property
    def rate(self) -> float:
        """Verification rate, accepted over proposed; 1 where nothing was proposed."""
        return self.accepted / self.proposed if self.proposed else 1.0

    def line(self) -> str:
        """One line for people."""
        counts = ", ".join(f"{n} {code}" for code, n in self.codes.items())
        refused = f"; refused by code: {counts}" if counts else ""
        return (
            f"verification rate: {self.accepted} of {self.proposed} accepted ({self.rate:.0%})"
            f"{refused}"
        )


def summarise(
    reports: Iterable[GateReport], rejected: Iterable[Sequence[Issue]] = ()
) -> GateSummary:
    """Count what the gate said; `rejected` are the issues of proposals that were never drawn."""
    told = list(reports)
    lists = [report.issues for report in told] + [tuple(issues) for issues in rejected]
    counts = Counter(code for issues in lists for code in {issue.code for issue in issues})
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return GateSummary(
        proposed=len(lists),
        accepted=sum(report.accepted for report in told),
        codes=MappingProxyType(dict(ordered)),
        seconds=sum(report.seconds for report in told),
    )


class Gate:
    """Checks programs and scenes.

    Args:
        splits: Refuse scenes in held-out cells too (the guard on training); None for none.
        threads: Worker threads for physics.
    """

    def __init__(self, splits: Splits | None = None, *, threads: int = 1) -> None:
        self._splits = splits
        self._threads = threads

    def check_program(
        self, source: str | Mapping[str, Any] | GenerationProgram
    ) -> GenerationProgram | tuple[Issue, ...]:
        """The program, or everything that is wrong with its schema or semantics."""
        try:
            data = read_json(source) if isinstance(source, str) else _plain(source)
        except NotPlain as error:
            code = "not-json" if isinstance(source, str) else "schema"
            remedy = "answer with one JSON object that follows the program schema"
            return (make_issue(code, "(whole)", str(error), "a generation program", remedy),)
        parsed = parse_program(data)
        if not isinstance(parsed, GenerationProgram):
            return parsed
        return program_issues(parsed) or parsed

    def check(
        self, scenes: Sequence[Scene | Mapping[str, Any] | str], *, deep: bool = True
    ) -> list[GateReport]:
        """Check scenes (records, mappings, or JSON or YAML text), one report each, in order.

        With `deep` off, only the stages that need no simulator run.
        """
        reports = [self._static(item) for item in scenes]
        passed = [i for i, report in enumerate(reports) if report.accepted]
        for first in range(0, len(passed) if deep else 0, BATCH):
            chosen = passed[first : first + BATCH]
            batch = [scene for i in chosen if (scene := reports[i].scene) is not None]
            start = time.perf_counter()
            found = physics_issues(batch, threads=self._threads)
            share = (time.perf_counter() - start) / len(batch)
            for i, issues in zip(chosen, found, strict=True):
                reports[i] = GateReport(
                    scene=reports[i].scene, issues=issues, seconds=reports[i].seconds + share
                )
        return reports

    def _static(self, item: Scene | Mapping[str, Any] | str) -> GateReport:
        start = time.perf_counter()
        scene, issues = _parse(item)
        if scene is not None:
            found = static_findings(scene)
            if not found and self._splits is not None:
                found = list(split_findings(scene, self._splits, NOWHERE_HELD_OUT))
            issues = tuple(finding.issue for finding in found)
        return GateReport(scene=scene, issues=issues, seconds=time.perf_counter() - start)


def _parse(item: Scene | Mapping[str, Any] | str) -> tuple[Scene | None, tuple[Issue, ...]]:
    """Validate again even a `Scene`, which may have been built without validation."""
    try:
        data = read_yaml(item) if isinstance(item, str) else _plain(item)
        if not isinstance(data, Mapping):
            raise NotPlain(
                f"a {type(data).__name__:.40}, and no mapping with tau, sigma, alpha, nu."
            )
        return Scene.model_validate(dict(data)), ()
    except ValidationError as error:
        return None, schema_issues(error)
    except SceneError as error:
        remedy = "write the scene with this version's schema"
        return None, (make_issue("schema", "(whole)", str(error), "a valid scene", remedy),)


def _plain(item: Any) -> Any:
    """A record or a mapping as plain data. Raises `NotPlain`."""
    if isinstance(item, Scene | GenerationProgram):
        try:
            item = item.model_dump(warnings=False)
        except (PydanticSerializationError, ValueError, TypeError, RecursionError) as error:
            words = " ".join(str(error).split())[:120]
            raise NotPlain(
                f"a {type(item).__name__} that cannot be written out: {words}."
            ) from None
    return check_plain(item)
