"""The trace as plain data: rounds → nodes → agent calls → what they rest on. Filters; JSON.

The JSON of `trace_json` has ``"schema": 1``; fields may be added, none renamed or removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, get_args

from coda.graphs.facts import RunFacts, link_ids
from coda.graphs.state import NODES
from coda.memory.rows import AgentCallRow, CallStatus, EpisodeRow, NodeRunRow
from coda.sim.errors import CodaError, UnknownName

TRACE_SCHEMA = 1
ROLES = ("scene-builder", "critic", "refuter", "curriculum")
STATUSES: tuple[str, ...] = (*get_args(CallStatus), "abandoned")


@dataclass(frozen=True, kw_only=True)
class Filters:
    """What to show; None shows everything."""

    round: int | None = None
    node: str | None = None
    role: str | None = None
    status: str | None = None
    mode: str | None = None

    def check(self, facts: RunFacts) -> None:
        """Refuse what no part of the run can match.

        Raises:
            UnknownName: A node, role, status or mode that does not exist.
            CodaError: A round that the run has not come to.
        """
        nodes = dict.fromkeys((*NODES, *(row.node for row in facts.nodes)))
        roles = dict.fromkeys((*ROLES, *(call.role for call in facts.calls)))
        for kind, value, known in (
            ("node", self.node, nodes),
            ("role", self.role, roles),
            ("call status", self.status, STATUSES),
        ):
            if value is not None and value not in known:
                raise UnknownName(kind, value, list(known))
        if self.mode is not None and self.mode not in facts.modes:
            if not facts.modes:
                raise CodaError(f"no mode {self.mode}: this run has no modes yet.")
            raise UnknownName("mode", self.mode, facts.modes)
        rounds = sorted({row.round for row in facts.nodes if row.round is not None})
        if self.round is not None and self.round not in rounds:
            have = f"{rounds[0]} to {rounds[-1]}" if rounds else "none yet"
            raise CodaError(f"no round {self.round} in this run; it has rounds {have}.")

    @property
    def calls_only(self) -> bool:
        """Whether only agent calls can match."""
        return self.role is not None or self.status is not None


def trace_json(facts: RunFacts, filters: Filters) -> dict[str, Any]:
    """The whole trace, or the part that matches."""
    filters.check(facts)
    about = mode_ids(facts, filters.mode) if filters.mode is not None else None
    rounds: dict[int | None, list[dict[str, Any]]] = {}
    for row in facts.nodes:
        if filters.round not in (None, row.round) or filters.node not in (None, row.node):
            continue
        node = _node(facts, row, filters, about)
        filtered = filters.calls_only or about is not None
        if not filtered or any(node[part] for part in _PARTS):
            rounds.setdefault(row.round, []).append(node)
    chats = rounds.pop(None, [])
    return {
        "schema": TRACE_SCHEMA,
        "run": facts.name,
        "state": facts.state,
        "policy": facts.policy_label,
        "models": list(facts.model_labels),
        "rounds": [{"round": key, "nodes": nodes} for key, nodes in rounds.items()],
        "conversations": chats,
        "directives": [] if filters.calls_only or about is not None else _directives(facts),
    }


_PARTS = ("calls", "decisions", "proposals", "diagnoses", "tests", "modes", "measured")


def _node(
    facts: RunFacts, row: NodeRunRow, filters: Filters, about: frozenset[str] | None
) -> dict[str, Any]:
    def mine(rows: Iterable[Any]) -> list[Any]:
        return [r for r in rows if r.node_key == row.node_key]

    def about_it(item: Mapping[str, Any]) -> bool:
        return about is None or bool(about & set(link_ids(item)))

    calls = [call_json(facts, call) for call in mine(facts.calls) if _wanted(call, filters)]
    others = {} if filters.calls_only else _results(facts, mine)
    costs = {cost.kind: cost.amount for cost in mine(facts.costs)}
    return {
        "node_key": row.node_key,
        "node": row.node,
        "status": row.status,
        "started": row.started,
        "seconds": row.seconds,
        "attempts": row.attempts,
        "costs": costs,
        "calls": [c for c in calls if about_it(c)],
        **{part: [i for i in others.get(part, []) if about_it(i)] for part in _PARTS[1:]},
    }


def _results(facts: RunFacts, mine: Any) -> dict[str, list[dict[str, Any]]]:
    """What a node recorded besides its calls."""
    return {
        "decisions": [
            {"kind": d.kind, "text": d.text, "by": d.by, "links": dict(d.links)}
            for d in mine(facts.decisions)
        ],
        "proposals": [
            {
                "proposal_id": p.proposal_id,
                "program": p.program.name if p.program else None,
                "accepted": p.accepted,
                "rejected": p.rejected,
                "issues": [issue.line() for issue in p.issues],
                "mode_id": p.mode_id,
                "call_id": p.call_id,
            }
            for p in mine(facts.proposals)
        ],
        "diagnoses": [
            {**d.diagnosis.model_dump(mode="json"), "call_id": d.call_id}
            for d in mine(facts.diagnoses)
        ],
        "tests": [
            {**t.test.model_dump(mode="json"), "call_id": t.call_id} for t in mine(facts.tests)
        ],
        "modes": [
            {
                "mode_id": m.mode_id,
                "version": m.version,
                "title": m.mode.title,
                "status": m.mode.status,
                "reason": m.mode.reason,
                "omega_version": m.mode.omega_version,
                "phi_version": m.mode.phi_version,
            }
            for m in mine(facts.mode_versions)
        ],
        "measured": [
            {"split": p.split, "label": p.label, "successes": p.successes, "trials": p.trials}
            for p in mine(facts.progress)
        ],
    }


def _wanted(call: AgentCallRow, filters: Filters) -> bool:
    if filters.role not in (None, call.role):
        return False
    if filters.status == "abandoned":
        return call.abandoned
    return filters.status in (None, call.status)


def call_json(facts: RunFacts, call: AgentCallRow) -> dict[str, Any]:
    """One agent call without its messages, with the ids of what came of it."""
    came = [d.diagnosis_id for d in facts.diagnoses if d.call_id == call.call_id]
    came += [t.test_id for t in facts.tests if t.call_id == call.call_id]
    came += [p.proposal_id for p in facts.proposals if p.call_id == call.call_id]
    return {
        "call_id": call.call_id,
        "node_key": call.node_key,
        "seq": call.seq,
        "role": call.role,
        "task": call.task,
        "model": call.model,
        "status": call.status,
        "abandoned": call.abandoned,
        "attempts": call.attempts,
        "tokens_in": call.tokens_in,
        "tokens_out": call.tokens_out,
        "cost_usd": call.cost_usd,
        "seconds": call.seconds,
        "answer": call.answer,
        "tool_calls": [dict(item) for item in call.tool_calls],
        "links": dict(call.links),
        "led_to": came,
    }


def full_call_json(facts: RunFacts, call_id: str) -> dict[str, Any]:
    """One agent call in full: prompt, answer, tool calls, and what its links point to.

    Raises:
        CodaError: No such call; names the nearest.
    """
    call = facts.call.get(call_id)
    if call is None:
        if not facts.calls:
            raise CodaError(f"no agent call {call_id!r}: this run has recorded none yet.")
        near = ", ".join(get_close_matches(call_id, facts.call, n=3, cutoff=0.0))
        raise CodaError(
            f"no agent call named {call_id!r}. Nearest of {len(facts.call)}: {near}; "
            "'coda trace' shows them all."
        )
    whole = call_json(facts, call)
    whole["messages"] = [dict(message) for message in call.messages]
    whole["prompt_sha"] = call.prompt_sha
    ids = dict.fromkeys((*link_ids(call.links), *whole["led_to"]))
    whole["linked"] = [item for name in ids if (item := _linked(facts, name)) is not None]
    return whole


def _linked(facts: RunFacts, name: str) -> dict[str, Any] | None:
    """What an id stands for; None where it is not an id of this run."""
    if name in facts.episode:
        return {"kind": "rollout", "id": name, "text": episode_text(facts.episode[name])}
    if name in facts.modes:
        mode = facts.modes[name]
        return {"kind": "mode", "id": name, "text": f"{mode.title}: {mode.status}"}
    if name in facts.diagnosis:
        text = facts.diagnosis[name].diagnosis.explanation
        return {"kind": "diagnosis", "id": name, "text": text}
    for row in facts.tests:
        if row.test_id == name:
            text = f"{row.verdict}: {row.test.reason}"
            return {"kind": "control test", "id": name, "text": text}
    for proposal in facts.proposals:
        if proposal.proposal_id == name:
            text = f"{proposal.accepted} scenes accepted, {proposal.rejected} rejected"
            return {"kind": "proposal", "id": name, "text": text}
    scenes = [e for e in facts.episodes if e.scene_digest == name]
    if scenes:
        return {"kind": "scene", "id": name, "text": f"{len(scenes)} rollouts in it"}
    return None


def episode_text(row: EpisodeRow) -> str:
    """A rollout in one line."""
    outcome = {True: "success", False: "failure", None: "simulation crashed"}[row.success]
    axis = f", {row.axis}" if row.axis else ""
    return (
        f"{outcome} after {row.steps} steps, progress {row.progress:.2f} "
        f"({row.purpose}{axis}; scene {row.scene_digest})"
    )


def mode_ids(facts: RunFacts, mode_id: str) -> frozenset[str]:
    """A mode's id and those of its diagnoses, tests and proposals: what rows about it mention."""
    rows = [row.mode for row in facts.mode_versions if row.mode_id == mode_id]
    diagnoses = {name for mode in rows for name in mode.diagnosis_ids}
    tests = {row.test_id for row in facts.tests if row.diagnosis_id in diagnoses}
    proposals = {row.proposal_id for row in facts.proposals if row.mode_id == mode_id}
    return frozenset({mode_id, f"{mode_id}:before", *diagnoses, *tests, *proposals})


def _directives(facts: RunFacts) -> list[dict[str, Any]]:
    return [
        {
            "directive_id": d.directive_id,
            "text": d.text,
            "action": dict(d.action),
            "status": d.status,
            "consumed_round": d.consumed_round,
            "consumed_by": d.consumed_by,
        }
        for d in facts.directives
    ]
