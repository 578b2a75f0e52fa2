"""A finding of the gate: an issue, and where another draw could cure it."""

from __future__ import annotations

from dataclasses import dataclass

from coda.sim.gate_codes import make_issue
from coda.sim.program import Issue


@dataclass(frozen=True, kw_only=True)
class Finding:
    """An issue, and the paths through which another draw could cure it, best first."""

    issue: Issue
    paths: tuple[str, ...]


def finding(
    code: str, path: str, value: str, limit: str, remedy: str, *other_paths: str
) -> Finding:
    """A finding at `path`, which another draw of it or of `other_paths` could cure."""
    return Finding(issue=make_issue(code, path, value, limit, remedy), paths=(path, *other_paths))
