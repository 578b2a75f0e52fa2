"""Where agent calls are recorded, and found again after an interruption."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Protocol

from coda.memory.rows import AgentCallRow


class CallJournal(Protocol):
    """Keeps every agent call. `coda.memory.rundb.RunDb` is one."""

    def add(self, /, *rows: AgentCallRow) -> None:
        """Keep calls."""
        ...

    def find_replay(self, key: str, seq: int, prompt_sha: str, /) -> AgentCallRow | None:
        """The call that an interrupted attempt of node `key` made at `seq` with this prompt."""
        ...

    def reinstate(self, call: str, /) -> None:
        """Take an abandoned call up again, unchanged."""
        ...


class MemoryJournal:
    """A journal in memory, for tests and for use without a run folder."""

    def __init__(self) -> None:
        self.calls: list[AgentCallRow] = []
        self._lock = threading.Lock()

    def add(self, *rows: AgentCallRow) -> None:
        """Keep calls; one of the same id is replaced."""
        with self._lock:
            ids = {row.call_id for row in rows}
            self.calls = [call for call in self.calls if call.call_id not in ids] + list(rows)

    def find_replay(self, key: str, seq: int, prompt_sha: str) -> AgentCallRow | None:
        """The abandoned call with this place and prompt."""
        with self._lock:
            for call in reversed(self.calls):
                place = (call.node_key, call.seq, call.prompt_sha)
                if call.abandoned and place == (key, seq, prompt_sha):
                    return call
        return None

    def reinstate(self, call: str) -> None:
        """Take an abandoned call up again, unchanged."""
        with self._lock:
            self.calls = [
                replace(row, abandoned=False) if row.call_id == call else row for row in self.calls
            ]

    def abandon(self, key: str) -> None:
        """Mark the calls of an interrupted node, as a run database does when it begins again."""
        with self._lock:
            self.calls = [
                replace(row, abandoned=True) if row.node_key == key else row for row in self.calls
            ]
