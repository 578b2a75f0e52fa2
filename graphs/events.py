"""What a run tells while it goes on; the live view and library callers listen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal[
    "run-started", "node-started", "step", "fact", "success", "node-finished", "run-ended"
]


@dataclass(frozen=True, kw_only=True)
class RunEvent:
    """One event. `data` holds numbers and short strings only."""

    kind: Kind
    round: int = 0
    node: str = ""
    text: str = ""
    """One line for people."""
    data: Mapping[str, float | int | str] = field(default_factory=dict)
    """``step``: done, total. ``success``: split, successes, trials, low, high."""


Listener = Callable[[RunEvent], None]


def silent(event: RunEvent) -> None:
    """Listen to nothing."""
    del event
