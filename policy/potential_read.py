"""Read a training program that a person or a model wrote: every problem of its form is an issue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from coda.policy.potential_findings import issue
from coda.policy.program import TrainingProgram
from coda.sim.program import Issue

MAX_ISSUES = 12
_SHARES = "shares sum to"


def parse_training_program(data: Mapping[str, Any]) -> TrainingProgram | tuple[Issue, ...]:
    """A training program, or what is wrong with its form.

    The codes are ``bad-shares``, as `check_potential` has it, and ``schema`` for everything else.
    """
    try:
        return TrainingProgram.model_validate(dict(data))
    except ValidationError as error:
        return tuple(_issue(item) for item in error.errors(include_url=False)[:MAX_ISSUES])


def _issue(error: Mapping[str, Any]) -> Issue:
    path = ".".join(str(part) for part in error["loc"]) or "program"
    said = str(error["msg"]).removeprefix("Value error, ")
    given = "" if isinstance(error["input"], Mapping | list | tuple) else f"{error['input']!r:.60}"
    if path.endswith(".share") or said.startswith(_SHARES):
        where = path if path.endswith(".share") else "stages"
        value = given or said
        return issue("bad-shares", where, value, "each in (0, 1], sum 1", "rescale the shares")
    remedy = "follow the schema of a training program"
    return issue("schema", path, given or error["type"], said, remedy)
