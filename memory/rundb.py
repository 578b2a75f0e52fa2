"""`RunDb`: the facts of one run, with a journal that makes an interrupted node exactly reversible.

SQLite in WAL mode: any number of processes read, one run writes, and conversations write
directives meanwhile. Nodes of a run are a sequence, and every row names the node that wrote it::

    db.begin_node("r02:refute")     # rolls back what an interrupted attempt left
    db.add(EpisodeRow(node_key="r02:refute", ...))
    db.finish_node("r02:refute")

Nothing in an id depends on time or chance, so a run that was killed and resumed holds the same
rows as one that was not (times of day, durations and the number of attempts apart).
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from coda.memory.rows import (
    AgentCallRow,
    CostRow,
    DecisionRow,
    DirectiveRow,
    DirectiveStatus,
    Json,
    NodeRunRow,
    call_id,
    node_key,
)
from coda.memory.schema import ROLLED_BACK, SCHEMA_VERSION, RunDbError, codec
from coda.memory.store import RowStore
from coda.sim.errors import UnknownName

__all__ = [
    "SCHEMA_VERSION",
    "CallTotals",
    "NodeStart",
    "RunDb",
    "RunDbError",
    "call_id",
    "node_key",
]

_ROUND_KEY = re.compile(r"r(\d{2,}):(\S+)")
_OTHER_KEY = re.compile(r"([a-z]+):(\d{3,})")


@dataclass(frozen=True, kw_only=True)
class NodeStart:
    """What `begin_node` found."""

    attempt: int
    """1 for the first; more after an interruption."""
    rolled_back: tuple[str, ...]
    """Node keys whose rows were removed."""
    replayable_calls: int
    """Agent calls of the interrupted attempt, which `find_replay` can find."""


@dataclass(frozen=True, kw_only=True)
class CallTotals:
    """What agent calls cost, abandoned ones included: they were paid for."""

    calls: int
    tokens_in: int
    tokens_out: int
    cost_usd: float
    unpriced: int
    """Calls of models whose price is not known."""


class RunDb(RowStore):
    """The database of one run folder. See the module's text for the journal."""

    def begin_node(self, key: str) -> NodeStart:
        """Start a node, removing every row of an interrupted attempt of it.

        Where the node had been begun before, nodes begun after it are rolled back too: the graph's
        checkpoint is older than they are. Their agent calls stay, abandoned, to be replayed; the
        directives that they consumed are pending again.
        """
        round_, node = _parse(key)
        with self.transaction():
            found = self._execute("SELECT ordinal FROM node_runs WHERE node_key = ?", (key,))
            if not found:
                self.add(
                    NodeRunRow(
                        node_key=key, round=round_, node=node, status="running", started=time.time()
                    )
                )
                return NodeStart(attempt=1, rolled_back=(), replayable_calls=0)
            later = self._execute(
                "SELECT node_key FROM node_runs WHERE ordinal > ? AND round IS NOT NULL",
                found[0],
            )
            undone = (key, *(name for (name,) in later)) if round_ is not None else (key,)
            for name in undone:
                self._roll_back(name)
            self._execute(
                "UPDATE node_runs SET status = 'running', started = ?, attempts = attempts + 1 "
                "WHERE node_key = ?",
                (time.time(), key),
            )
            run = self.get(NodeRunRow, key)
            assert run is not None
            calls = self.count(AgentCallRow, node_key=key, abandoned=True)
        return NodeStart(attempt=run.attempts, rolled_back=undone, replayable_calls=calls)

    def finish_node(self, key: str, summary: Json | None = None) -> NodeRunRow:
        """Mark a node as done; its rows are on disk, even for a power failure, when this returns.

        Raises `RunDbError` if the node is not running.
        """
        with self._lock:
            self._execute("PRAGMA synchronous = FULL")
            try:
                with self.transaction():
                    run = self.get(NodeRunRow, key)
                    if run is None or run.status != "running":
                        state = "has not begun" if run is None else f"is {run.status}"
                        raise RunDbError(f"node {key!r} {state}; call begin_node before this.")
                    done = NodeRunRow(
                        node_key=key, round=run.round, node=run.node, status="done",
                        started=run.started, seconds=max(0.0, time.time() - run.started),
                        attempts=run.attempts, summary=summary or {},
                    )  # fmt: skip
                    self._execute(
                        "UPDATE node_runs SET status = ?, seconds = ?, summary_json = ? "
                        "WHERE node_key = ?",
                        (done.status, done.seconds, codec(NodeRunRow).encode(done)[-1], key),
                    )
            finally:
                self._execute("PRAGMA synchronous = NORMAL")
        return done

    def find_replay(self, key: str, seq: int, prompt_sha: str) -> AgentCallRow | None:
        """The call that an interrupted attempt of node `key` made at `seq` with this very prompt.

        Record it again with `add` (or `reinstate` it), and the journal is as if never interrupted.
        """
        found = self.rows(
            AgentCallRow, node_key=key, seq=seq, prompt_sha=prompt_sha, abandoned=True
        )
        return found[-1] if found else None

    def reinstate(self, call: str) -> None:
        """Take an abandoned call up again, unchanged."""
        with self.transaction():
            self._execute("UPDATE agent_calls SET abandoned = 0 WHERE call_id = ?", (call,))

    def decide(
        self, key: str, kind: str, text: str, by: str, links: Json | None = None
    ) -> DecisionRow:
        """Record who decided what and why; `by` is a role, ``rule:<name>`` or ``person``."""
        with self.transaction():
            seq = self.count(DecisionRow, node_key=key)
            row = DecisionRow(node_key=key, seq=seq, kind=kind, text=text, by=by, links=links or {})
            self.add(row)
        return row

    def charge(self, key: str, kind: str, amount: float) -> None:
        """Add to what a node cost, e.g. ``charge(key, "sim_steps", 4096)``."""
        self.add(CostRow(node_key=key, kind=kind, amount=amount))

    def direct(self, text: str, action: Json) -> DirectiveRow:
        """Record a person's order; the next `plan` consumes it. Any process may do this."""
        with self.transaction():
            number = int(self._execute("SELECT count(*) FROM directives")[0][0]) + 1
            row = DirectiveRow(
                directive_id=f"d{number:03d}", created=time.time(), text=text, action=action
            )
            self.add(row)
        return row

    def directives(self, status: DirectiveStatus | None = None) -> list[DirectiveRow]:
        """Directives, oldest first: all, or those of one status (``consumed``: in force)."""
        if status is None:
            return self.rows(DirectiveRow)
        return self.rows(DirectiveRow, status=status)

    def consume(self, key: str) -> list[DirectiveRow]:
        """Take up every pending directive in node `key`; returns them as they now are."""
        round_, _ = _parse(key)
        with self.transaction():
            pending = [row.directive_id for row in self.directives("pending")]
            self._execute(
                "UPDATE directives SET status = 'consumed', consumed_round = ?, consumed_by = ? "
                "WHERE status = 'pending'",
                (round_, key),
            )
            return [row for row in self.directives() if row.directive_id in pending]

    def undo(self, directive_id: str) -> DirectiveRow:
        """Take a directive back, consumed or not; the next `plan` steers without it.

        Raises `UnknownName`, or `RunDbError` if it is undone already.
        """
        with self.transaction():
            row = self.get(DirectiveRow, directive_id)
            if row is None:
                raise UnknownName(
                    "directive", directive_id, [r.directive_id for r in self.directives()]
                )
            if row.status == "undone":
                raise RunDbError(f"directive {directive_id} is undone already; nothing to do.")
            self._execute(
                "UPDATE directives SET status = 'undone' WHERE directive_id = ?", (directive_id,)
            )
            changed = self.get(DirectiveRow, directive_id)
            assert changed is not None
        return changed

    def cost_totals(self) -> dict[str, float]:
        """Sum of every kind of cost over the run."""
        found = self._execute("SELECT kind, sum(amount) FROM costs GROUP BY kind ORDER BY kind")
        return {str(kind): float(amount) for kind, amount in found}

    def call_totals(self) -> CallTotals:
        """What all agent calls of the run cost so far; a resumed run's budget starts from here."""
        calls, tokens_in, tokens_out, usd, unpriced = self._execute(
            "SELECT count(*), coalesce(sum(tokens_in), 0), coalesce(sum(tokens_out), 0), "
            "coalesce(sum(cost_usd), 0.0), coalesce(sum(cost_usd IS NULL), 0) FROM agent_calls"
        )[0]
        return CallTotals(
            calls=calls, tokens_in=tokens_in, tokens_out=tokens_out, cost_usd=usd, unpriced=unpriced
        )

    def _roll_back(self, key: str) -> None:
        for table in ROLLED_BACK:
            self._execute(f"DELETE FROM {table} WHERE node_key = ?", (key,))
        self._execute("UPDATE agent_calls SET abandoned = 1 WHERE node_key = ?", (key,))
        self._execute(
            "UPDATE directives SET consumed_round = NULL, consumed_by = NULL, status = "
            "CASE status WHEN 'consumed' THEN 'pending' ELSE status END WHERE consumed_by = ?",
            (key,),
        )
        self._execute(
            "UPDATE node_runs SET status = 'abandoned', seconds = NULL, summary_json = '{}' "
            "WHERE node_key = ?",
            (key,),
        )


def _parse(key: str) -> tuple[int | None, str]:
    """Round and node of a key; raises `RunDbError` for a key of another form."""
    if match := _ROUND_KEY.fullmatch(key):
        return int(match[1]), match[2]
    if match := _OTHER_KEY.fullmatch(key):
        return None, match[1]
    raise RunDbError(f"node key {key!r} is not like 'r02:refute' or 'chat:001'; use node_key().")
