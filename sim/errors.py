"""Errors of the project; every one says what was wrong, what is allowed, and what to do next."""

from __future__ import annotations

import difflib
from collections.abc import Collection


class CodaError(Exception):
    """Base of every error raised on purpose. The command line prints it as one line."""


class SceneError(CodaError):
    """A scene or a generation program breaks a rule."""


class SimulationError(CodaError):
    """The simulator cannot be built or driven as asked."""


class UnknownName(CodaError):
    """A name is not in a catalogue."""

    def __init__(self, kind: str, name: str, known: Collection[str]) -> None:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        super().__init__(f"no {kind} named {name!r}.{hint} Known: {', '.join(sorted(known))}.")
        self.name = name
