"""`Work`: one run of one node, journalled so that a kill at any moment leaves no trace of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from coda.agents.caller import AgentCaller
from coda.graphs.deps import Deps
from coda.graphs.events import Kind, RunEvent
from coda.graphs.seeds import Purpose, rng, seed_int
from coda.graphs.state import RoundState, RoundUpdate
from coda.memory.progress import Band
from coda.memory.rows import AgentCallRow, NodeRunRow, node_key
from coda.sim.engine import CONTROL_HZ


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a node gets besides the state: the dependencies, its key, its seeds, its voice."""

    deps: Deps
    round: int
    node: str

    @property
    def key(self) -> str:
        """Key of this node run in the journal."""
        return node_key(self.round, self.node)

    def rng(self, purpose: Purpose, *labels: str | int) -> np.random.Generator:
        """Generator that depends on the run's seed, the purpose, this node run and the labels."""
        return rng(self.deps.config.seed, purpose, self.key, *labels)

    def seed(self, purpose: Purpose, *labels: str | int) -> int:
        """Integer seed of the same."""
        return seed_int(self.deps.config.seed, purpose, self.key, *labels)

    def caller(self) -> AgentCaller:
        """Asks the agents on behalf of this node run; calls are numbered from 0."""
        return self.deps.agents.at(self.key)

    def last_call(self) -> str | None:
        """Id of the latest agent call of this node run: what the row written next rests on."""
        calls = self.deps.db.rows(AgentCallRow, node_key=self.key, abandoned=False)
        return calls[-1].call_id if calls else None

    def band(self, state: RoundState) -> Band:
        """Success band of the round."""
        low, high = state["settings"]["band"]
        return Band(low=low, high=high)

    def tell(
        self, text: str, kind: Kind = "fact", data: Mapping[str, float | int | str] | None = None
    ) -> None:
        """Tell whoever watches."""
        self.deps.on_event(
            RunEvent(kind=kind, round=self.round, node=self.node, text=text, data=data or {})
        )

    def step(self, done: int, total: int, label: str) -> None:
        """Tell how far this node is."""
        self.tell(label, "step", {"done": done, "total": total})

    def charge_steps(self, steps: int) -> None:
        """Count simulated control steps, and the time they stand for."""
        self.deps.db.charge(self.key, "sim_steps", float(steps))
        self.deps.db.charge(self.key, "sim_s", steps / CONTROL_HZ)

    def decide(self, kind: str, text: str, by: str, **links: Any) -> None:
        """Record a decision and tell it; `by` is a role, ``rule:<name>`` or ``person``."""
        self.deps.db.decide(self.key, kind, text, by, links)
        self.tell(text)


Node = Callable[[Work, RoundState], RoundUpdate]


def journaled(
    name: str, node: Node, deps: Callable[[], Deps]
) -> Callable[[RoundState], RoundUpdate]:
    """Wrap a node: roll an interrupted attempt back, run, and record what it returned.

    A node that had finished when the process died before LangGraph's checkpoint was written is
    not run again: its recorded update is returned.
    """

    def run(state: RoundState) -> RoundUpdate:
        now = deps()
        round_ = state.get("round", 0) + (1 if name == "plan" else 0)
        work = Work(deps=now, round=round_, node=name)
        before = now.db.get(NodeRunRow, work.key)
        if before is not None and before.status == "done":
            update: RoundUpdate = before.summary["update"]
            return update
        now.db.begin_node(work.key)
        work.tell("", "node-started")
        cpu_s = time.process_time()
        update = node(work, state)
        now.db.charge(work.key, "cpu_s", time.process_time() - cpu_s)
        now.db.finish_node(work.key, {"update": update})
        work.tell("", "node-finished")
        return update

    return run
