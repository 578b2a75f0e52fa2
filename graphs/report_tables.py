"""Data engine, agent calls, directives, costs, time and versions in the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from coda.graphs.facts import RunFacts
from coda.graphs.markup import Content, Html, chip, details, section, table, tag
from coda.graphs.progress import clock_text
from coda.graphs.state import NODES
from coda.memory.rows import AgentCallRow


def engine_section(facts: RunFacts) -> Html:
    """Proposals of the scene-builder and what the validity gate refused."""
    accepted = sum(row.accepted for row in facts.proposals)
    proposed = accepted + sum(row.rejected for row in facts.proposals)
    codes = Counter[str]()
    for row in facts.proposals:
        codes.update(row.codes)
    sample = {issue.code: issue.line() for row in facts.proposals for issue in row.issues}
    if not proposed:
        return section("Data engine", tag("p", "No proposals yet.", klass="dim"), anchor="engine")
    return section(
        "Data engine",
        tag(
            "p",
            f"{accepted} of {proposed} proposed scenes passed the validity gate: a verification "
            f"rate of {accepted / proposed:.0%}. Programs were written or repaired "
            f"{len(facts.proposals)} times.",
        ),
        tag("h3", "Why proposals were refused"),
        table(
            ("code", "example", "scenes refused"),
            (
                (tag("code", code), sample.get(code, "not kept"), count)
                for code, count in codes.most_common()
            ),
            numeric=1,
        ),
        details(
            "All proposals",
            table(
                ("proposal", "program", "for", "accepted", "rejected"),
                (
                    (
                        row.proposal_id,
                        row.program.name if row.program else "not a program",
                        row.mode_id or "exploration",
                        row.accepted,
                        row.rejected,
                    )
                    for row in facts.proposals
                ),
                numeric=2,
            ),
        ),
        anchor="engine",
    )


def agents_section(facts: RunFacts) -> Html:
    """Agent calls per role and model."""
    groups: dict[tuple[str, str], list[AgentCallRow]] = {}
    for call in facts.calls:
        groups.setdefault((call.role, call.model), []).append(call)
    note = (
        "“offline (rules)” is a rule-based stand-in for a language model: it answers the same "
        "questions in the same format, at no cost."
    )
    rules = any("(rules)" in label for label in facts.model_labels)
    return section(
        "Agents",
        tag("p", note, klass="dim") if rules else None,
        table(
            ("role", "model", "calls", "not ok", "tokens in", "tokens out", "cost", "latency"),
            (_role_row(role, model, calls) for (role, model), calls in groups.items()),
            numeric=6,
        ),
        tag("p", "One call in full: ", tag("code", "coda trace --call ID"), klass="small dim"),
        anchor="agents",
    )


def _role_row(role: str, model: str, calls: Sequence[AgentCallRow]) -> tuple[Content, ...]:
    priced = [call.cost_usd for call in calls if call.cost_usd is not None]
    cost = f"${sum(priced):.4f}" if len(priced) == len(calls) else "price unknown"
    mean = sum(call.seconds for call in calls) / len(calls)
    return (
        role,
        model,
        len(calls),
        sum(call.status != "ok" or call.abandoned for call in calls),
        sum(call.tokens_in for call in calls),
        sum(call.tokens_out for call in calls),
        cost,
        f"{mean:.2f} s, {max(call.seconds for call in calls):.2f} s at most",
    )


def directives_section(facts: RunFacts) -> Html:
    """What people told the run, and what the curriculum decided."""
    tones = {"consumed": "good", "pending": "mid", "undone": ""}
    return section(
        "Directives and decisions",
        table(
            ("directive", "words", "action", "status"),
            (
                (
                    row.directive_id,
                    row.text,
                    tag("code", _action(row.action)),
                    chip(_status(row.status, row.consumed_round), tones[row.status]),
                )
                for row in facts.directives
            ),
        )
        if facts.directives
        else tag("p", "No directives: nobody steered this run.", klass="dim"),
        details(
            f"Decisions ({len(facts.decisions)})",
            table(
                ("node", "by", "kind", "decision"),
                ((row.node_key, row.by, row.kind, row.text) for row in facts.decisions),
            ),
        ),
        anchor="directives",
    )


def _action(action: Any) -> str:
    rest = ", ".join(f"{k}={v}" for k, v in action.items() if k != "kind" and v is not None)
    return f"{action.get('kind', '?')}({rest})"


def _status(status: str, round_: int | None) -> str:
    return f"{status} by round {round_}" if status == "consumed" else status


def costs_section(facts: RunFacts) -> Html:
    """What the run cost, in all and per accepted environment; time per node."""
    accepted = sum(row.accepted for row in facts.proposals)
    tokens = sum(call.tokens_in + call.tokens_out for call in facts.calls)
    usd = sum(call.cost_usd or 0.0 for call in facts.calls)
    unpriced = sum(call.cost_usd is None for call in facts.calls)
    amounts = (
        ("tokens", float(tokens), "{:,.0f}"),
        ("agents, US dollar", usd, "{:.4f}"),
        ("simulated hours", facts.cost("sim_s") / 3600, "{:.3f}"),
        ("CPU hours", facts.cost("cpu_s") / 3600, "{:.4f}"),
        ("GPU hours", facts.cost("gpu_s") / 3600, "{:.4f}"),
        ("control steps", facts.cost("sim_steps"), "{:,.0f}"),
    )
    rows = [
        (name, form.format(total), form.format(total / accepted) if accepted else None)
        for name, total, form in amounts
    ]
    warning = f"Calls to models of unknown price, counted as 0: {unpriced}."
    return section(
        "Costs",
        tag("p", warning) if unpriced else None,
        table(("", "whole run", f"per accepted environment ({accepted})"), rows, numeric=2),
        tag("h3", "Wall-clock and simulation per node"),
        table(
            ("node", "visits", "wall-clock", "CPU seconds", "control steps"),
            _node_rows(facts),
            numeric=4,
        ),
        anchor="costs",
    )


def _node_rows(facts: RunFacts) -> list[tuple[Content, ...]]:
    rows: list[tuple[Content, ...]] = []
    names = dict.fromkeys((*NODES, *(run.node for run in facts.nodes)))
    for name in names:
        runs = [run for run in facts.nodes if run.node == name]
        keys = {run.node_key for run in runs}
        if not runs:
            continue
        costs = {
            kind: sum(c.amount for c in facts.costs if c.kind == kind and c.node_key in keys)
            for kind in ("cpu_s", "sim_steps")
        }
        seconds = sum(run.seconds or 0.0 for run in runs)
        cells = (f"{costs['cpu_s']:.1f}", f"{costs['sim_steps']:,.0f}")
        rows.append((name, len(runs), clock_text(seconds), *cells))
    total = sum(run.seconds or 0.0 for run in facts.nodes)
    rows.append((tag("b", "in all"), len(facts.nodes), clock_text(total), None, None))
    return rows


def versions_section(facts: RunFacts) -> Html:
    """Versions and the resolved configuration."""
    packages = facts.versions.get("packages", {})
    return section(
        "Versions and configuration",
        tag(
            "dl",
            *(part for name, version in packages.items() for part in _pair(name, version)),
            *_pair("Python", facts.versions.get("python")),
            *_pair("machine", facts.versions.get("machine")),
        ),
        details("Resolved configuration (config.yaml)", tag("pre", facts.config.to_yaml())),
        anchor="versions",
    )


def _pair(name: str, value: Content) -> tuple[Html, Html]:
    return tag("dt", name), tag("dd", value)
