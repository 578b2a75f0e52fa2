"""The validity gate: which programs and scenes are sound, and what is wrong with the others.

Stages, cheap first: schema, semantics, bounded placement, instruction, save/reload; then, with
the simulator: compile, settle, interpenetration, reach, visibility, verifier false at reset and
after settling, verifier true at a constructed goal state. `GATE_CODES` documents every issue.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from coda.sim.errors import SceneError
from coda.sim.gate_checks import static_findings
from coda.sim.gate_codes import GATE_CODES, make_issue
from coda.sim.gate_guard import NOWHERE_HELD_OUT, split_findings
from coda.sim.gate_physics import physics_issues
from coda.sim.gate_program import MAX_TEXT, parse_program, program_issues, schema_issues
from coda.sim.program import GenerationProgram, Issue
from coda.sim.scene import Scene
from coda.sim.splits import Splits

__all__ = ["GATE_CODES", "Gate", "GateReport"]

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
        if isinstance(source, GenerationProgram):
            source = source.model_dump()
        parsed = parse_program(source)
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
        if isinstance(item, str):
            if len(item) > MAX_TEXT:
                raise SceneError(f"{len(item)} characters, more than {MAX_TEXT}")
            return Scene.from_text(item), ()
        data = item.model_dump(warnings=False) if isinstance(item, Scene) else dict(item)
        return Scene.model_validate(data), ()
    except ValidationError as error:
        return None, schema_issues(error)
    except RecursionError:
        return None, (_schema("brackets nested too deeply"),)
    except SceneError as error:
        return None, (_schema(str(error)),)


def _schema(problem: str) -> Issue:
    remedy = "write the scene with this version's schema"
    return make_issue("schema", "(whole)", problem, "a valid scene", remedy)
