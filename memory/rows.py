"""Rows of the run database: one frozen dataclass a table, in and out.

A field whose type SQLite cannot hold is stored as JSON in the column ``<field>_json``. Every row
carries the `node_key` of the graph node that wrote it, which is what makes an interrupted node
exactly reversible (`coda.memory.rundb`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from coda.memory.records import ControlTest, Diagnosis, Mode
from coda.sim.program import GenerationProgram, Issue
from coda.sim.scene import Scene

Json = Mapping[str, Any]
"""A JSON object."""
CallStatus = Literal["ok", "retried", "fallback", "refused", "error"]
NodeStatus = Literal["running", "done", "abandoned"]
"""``abandoned``: rolled back because an earlier node is done again."""
DirectiveStatus = Literal["pending", "consumed", "undone"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """Base of every row."""

    table: ClassVar[str]
    key: ClassVar[tuple[str, ...]]
    """Columns of the primary key."""


@dataclass(frozen=True, kw_only=True)
class NodeRunRow(Row):
    """One visit of a graph node. Written by `begin_node` and `finish_node` only."""

    table: ClassVar[str] = "node_runs"
    key: ClassVar[tuple[str, ...]] = ("node_key",)

    node_key: str
    """``r02:refute``, or ``chat:001`` for a conversation."""
    round: int | None
    """None outside the rounds of a run."""
    node: str
    status: NodeStatus
    started: float
    """Seconds since the epoch."""
    seconds: float | None = None
    attempts: int = 1
    """Times the node was begun; more than 1 after an interruption."""
    summary: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SceneRow(Row):
    """One scene by its content hash."""

    table: ClassVar[str] = "scenes"
    key: ClassVar[tuple[str, ...]] = ("digest",)

    digest: str
    node_key: str
    scene: Scene


@dataclass(frozen=True, kw_only=True)
class EpisodeRow(Row):
    """One rollout."""

    table: ClassVar[str] = "episodes"
    key: ClassVar[tuple[str, ...]] = ("episode_id",)

    episode_id: str
    """Deterministic, e.g. ``r02:rollout:0013``."""
    node_key: str
    purpose: str
    """What it was for: demonstrate, explore, diagnose, validate, probe, evaluate, …"""
    scene_digest: str
    success: bool | None
    """None: crashed, which says nothing about the policy."""
    steps: int
    progress: float
    """Largest staged progress in [0, 1]."""
    axis: str = ""
    program: str = ""
    """Name of the generation program that the scene was drawn from."""
    mode_id: str | None = None
    detail: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ProposalRow(Row):
    """One generation program that the scene-builder proposed, with the gate's answer."""

    table: ClassVar[str] = "proposals"
    key: ClassVar[tuple[str, ...]] = ("proposal_id",)

    proposal_id: str
    node_key: str
    program: GenerationProgram | None
    """None where the answer was not a program at all; then `issues` says why."""
    accepted: int
    """Scenes that passed the gate."""
    rejected: int
    issues: tuple[Issue, ...] = ()
    """Some of the different issues."""
    codes: Json = field(default_factory=dict)
    """Rejected scenes with an issue of each code."""
    mode_id: str | None = None
    call_id: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class AgentCallRow(Row):
    """One call of an agent, whole: replayable after an interruption, kept when abandoned."""

    table: ClassVar[str] = "agent_calls"
    key: ClassVar[tuple[str, ...]] = ("call_id",)

    call_id: str
    """`call_id(node_key, seq)`, e.g. ``r02:refute#003``."""
    node_key: str
    seq: int
    """Place among the calls of its node, from 0."""
    role: str
    task: str
    model: str
    prompt_sha: str
    """Hash of all that the model was sent; a replay must match it."""
    messages: tuple[Json, ...]
    answer: Any
    """The structured answer as JSON; None where there was none."""
    tool_calls: tuple[Json, ...] = ()
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float | None = 0.0
    """None where the model's price is not known."""
    seconds: float = 0.0
    status: CallStatus = "ok"
    attempts: int = 1
    links: Json = field(default_factory=dict)
    """What the call rests on: episodes, scenes, tests, modes."""
    abandoned: bool = False
    """It belongs to an interrupted attempt of its node and has not been replayed."""


@dataclass(frozen=True, kw_only=True)
class DecisionRow(Row):
    """Who decided what, and why. Written by `RunDb.decide`."""

    table: ClassVar[str] = "decisions"
    key: ClassVar[tuple[str, ...]] = ("node_key", "seq")

    node_key: str
    seq: int
    kind: str
    text: str
    by: str
    """A role, ``rule:<name>``, or ``person``."""
    links: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class DirectiveRow(Row):
    """A person's order to the curriculum. Written by `RunDb.direct`, also while a run goes."""

    table: ClassVar[str] = "directives"
    key: ClassVar[tuple[str, ...]] = ("directive_id",)

    directive_id: str
    """``d001`` …"""
    created: float
    """Seconds since the epoch."""
    text: str
    """In the person's words."""
    action: Json
    status: DirectiveStatus = "pending"
    consumed_round: int | None = None
    consumed_by: str | None = None
    """The node that took it up; kept when a consumed directive is undone."""


@dataclass(frozen=True, kw_only=True)
class ModeVersionRow(Row):
    """One version of a difficulty mode; the highest is the present one."""

    table: ClassVar[str] = "mode_versions"
    key: ClassVar[tuple[str, ...]] = ("mode_id", "version")

    mode_id: str
    version: int
    node_key: str
    mode: Mode


@dataclass(frozen=True, kw_only=True)
class DiagnosisRow(Row):
    """One diagnosis of the critic."""

    table: ClassVar[str] = "diagnoses"
    key: ClassVar[tuple[str, ...]] = ("diagnosis_id",)

    diagnosis_id: str
    node_key: str
    diagnosis: Diagnosis
    call_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class ControlTestRow(Row):
    """One control test of a diagnosis."""

    table: ClassVar[str] = "control_tests"
    key: ClassVar[tuple[str, ...]] = ("test_id",)

    test_id: str
    node_key: str
    diagnosis_id: str
    verdict: str
    test: ControlTest
    call_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class ProgressRow(Row):
    """Measured success, overall (label ``all``), per axis, or on a mode's probe scenes."""

    table: ClassVar[str] = "progress"
    key: ClassVar[tuple[str, ...]] = ("node_key", "split", "label")

    node_key: str
    round: int
    split: Literal["in", "ood", "probe"]
    label: str
    """``all``, an axis, or a mode id (``m001`` after training, ``m001:before`` before)."""
    successes: int
    trials: int


@dataclass(frozen=True, kw_only=True)
class CostRow(Row):
    """What a node cost. Written by `RunDb.charge`, which sums."""

    table: ClassVar[str] = "costs"
    key: ClassVar[tuple[str, ...]] = ("node_key", "kind")

    node_key: str
    kind: str
    """``sim_steps``, ``sim_s``, ``cpu_s``, ``gpu_s``, ``tokens_in``, ``tokens_out``, ``usd``, …"""
    amount: float


ROW_TYPES: tuple[type[Row], ...] = (
    NodeRunRow,
    SceneRow,
    EpisodeRow,
    ProposalRow,
    AgentCallRow,
    DecisionRow,
    DirectiveRow,
    ModeVersionRow,
    DiagnosisRow,
    ControlTestRow,
    ProgressRow,
    CostRow,
)
"""Every table's row."""


def node_key(round_: int, node: str) -> str:
    """Key of a node of a round, e.g. ``r02:refute``."""
    return f"r{round_:02d}:{node}"


def call_id(key: str, seq: int) -> str:
    """Id of the agent call `seq` of a node, e.g. ``r02:refute#003``."""
    return f"{key}#{seq:03d}"
