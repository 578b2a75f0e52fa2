"""`RunFacts`: all that a run has recorded so far, read once, for the trace and the report."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from coda.graphs.config import RunConfig
from coda.graphs.runfolder import RunFolder, open_folder
from coda.graphs.state import NODES
from coda.memory.records import Mode
from coda.memory.rows import (
    AgentCallRow,
    ControlTestRow,
    CostRow,
    DecisionRow,
    DiagnosisRow,
    DirectiveRow,
    EpisodeRow,
    ModeVersionRow,
    NodeRunRow,
    ProgressRow,
    ProposalRow,
)
from coda.memory.rundb import RunDb
from coda.policy.backbones import policy_label


@dataclass(frozen=True)
class RunFacts:
    """Rows of ``run.db`` in the order they were written, also while the run goes on."""

    folder: RunFolder
    config: RunConfig
    versions: Mapping[str, Any]
    nodes: tuple[NodeRunRow, ...]
    calls: tuple[AgentCallRow, ...]
    decisions: tuple[DecisionRow, ...]
    directives: tuple[DirectiveRow, ...]
    mode_versions: tuple[ModeVersionRow, ...]
    diagnoses: tuple[DiagnosisRow, ...]
    tests: tuple[ControlTestRow, ...]
    proposals: tuple[ProposalRow, ...]
    progress: tuple[ProgressRow, ...]
    costs: tuple[CostRow, ...]
    episodes: tuple[EpisodeRow, ...]

    @property
    def name(self) -> str:
        """Name of the run."""
        return self.folder.path.name

    @property
    def state(self) -> str:
        """``finished``, or ``not finished`` (it goes on, or was stopped)."""
        return "finished" if self.folder.finished else "not finished"

    @property
    def policy_label(self) -> str:
        """What the policy is and sees, e.g. ``flow, privileged state``."""
        return policy_label(self.config.switches.backbone, self.config.policy)

    @property
    def model_labels(self) -> tuple[str, ...]:
        """Models that answered, by their label, e.g. ``offline (rules)``."""
        return tuple(dict.fromkeys(call.model for call in self.calls))

    @cached_property
    def modes(self) -> dict[str, Mode]:
        """Present version of each mode by id."""
        return {row.mode_id: row.mode for row in self.mode_versions}

    @cached_property
    def episode(self) -> dict[str, EpisodeRow]:
        """Rollouts by id."""
        return {row.episode_id: row for row in self.episodes}

    @cached_property
    def diagnosis(self) -> dict[str, DiagnosisRow]:
        """Diagnoses by id."""
        return {row.diagnosis_id: row for row in self.diagnoses}

    @cached_property
    def call(self) -> dict[str, AgentCallRow]:
        """Agent calls by id."""
        return {row.call_id: row for row in self.calls}

    def test_of(self, diagnosis_id: str) -> ControlTestRow | None:
        """The control test of a diagnosis, if it came to one."""
        found = [row for row in self.tests if row.diagnosis_id == diagnosis_id]
        return found[-1] if found else None

    def cost(self, kind: str) -> float:
        """Sum of one kind of cost over the run."""
        return sum(row.amount for row in self.costs if row.kind == kind)

    def measured(self, split: str, label: str = "all") -> tuple[ProgressRow, ...]:
        """Success of a split under one label, by round; the last word of a round counts."""
        rows = {r.round: r for r in self.progress if r.split == split and r.label == label}
        return tuple(rows[round_] for round_ in sorted(rows))


def read_facts(run_dir: Path) -> RunFacts:
    """Read a run folder, also while the run goes on in another process.

    Raises:
        CodaError: It is not a run folder, or one of another version.
    """
    folder = open_folder(run_dir)
    versions = json.loads((folder.path / "versions.json").read_text(encoding="utf-8"))
    with RunDb(folder.db, read_only=True) as db:
        return RunFacts(
            folder=folder,
            config=folder.read_config(),
            versions=versions,
            calls=tuple(db.rows(AgentCallRow)),
            decisions=tuple(db.rows(DecisionRow)),
            directives=tuple(db.rows(DirectiveRow)),
            mode_versions=tuple(db.rows(ModeVersionRow)),
            diagnoses=tuple(db.rows(DiagnosisRow)),
            tests=tuple(db.rows(ControlTestRow)),
            proposals=tuple(db.rows(ProposalRow)),
            progress=tuple(db.rows(ProgressRow)),
            costs=tuple(db.rows(CostRow)),
            episodes=tuple(db.rows(EpisodeRow)),
            # Last: while the run goes on, every row read above has its node.
            nodes=tuple(sorted(db.rows(NodeRunRow), key=_node_order)),
        )


def _node_order(row: NodeRunRow) -> tuple[bool, int, int]:
    """By round, then by the graph's order; conversations last, in theirs."""
    place = NODES.index(row.node) if row.node in NODES else len(NODES)
    return row.round is None, row.round or 0, place


def link_ids(links: Mapping[str, Any]) -> tuple[str, ...]:
    """Every id that a links record holds, whatever it is called."""

    def walk(value: Any) -> Iterable[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            for item in value.values():
                yield from walk(item)
        elif isinstance(value, list | tuple):
            for item in value:
                yield from walk(item)

    return tuple(dict.fromkeys(walk(dict(links))))
