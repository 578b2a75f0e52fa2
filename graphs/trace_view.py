"""`coda trace`: the trace as a tree for people, or as JSON for scripts; one call in full."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unicodedata import category

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text
from rich.tree import Tree

from coda.graphs.facts import RunFacts, link_ids, read_facts
from coda.graphs.trace_data import Filters, full_call_json, trace_json

_SHORT = 150
"""Characters of an answer in the tree; `--call` shows all."""
_TONES = {
    "ok": "green",
    "retried": "yellow",
    "fallback": "yellow",
    "refused": "red",
    "error": "red",
    "confirmed": "green",
    "refuted": "red",
    "undecided": "yellow",
}


def show(
    run_dir: Path,
    *,
    filters: Filters | None = None,
    call: str | None = None,
    json_output: bool = False,
    console: Console | None = None,
) -> None:
    """Print the trace of a run, or one agent call in full.

    Args:
        run_dir: Folder of a run, finished or going on.
        filters: What to show; None shows everything.
        call: Id of one agent call, e.g. ``r02:refute#003``.
        json_output: One JSON document instead of a tree; see `coda.graphs.trace_data`.
        console: Where to print; standard output by default.

    Raises:
        CodaError: Not a run folder, or nothing of that name in it; one line.
    """
    out = console or Console(highlight=False, emoji=False, markup=False)
    facts = read_facts(run_dir)
    if call is not None:
        whole = full_call_json(facts, call)
        if json_output:
            _print_json(out, whole)
        else:
            out.print(call_page(visible(whole)))
        return
    data = trace_json(facts, filters or Filters())
    if json_output:
        _print_json(out, data)
    else:
        out.print(trace_tree(facts, visible(data)))


def _print_json(out: Console, data: Mapping[str, Any]) -> None:
    out.file.write(json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def visible(data: Any) -> Any:
    """The same data with control characters replaced, so that no text can drive the terminal."""
    if isinstance(data, str):
        return "".join("\ufffd" if category(c)[0] == "C" and c not in "\n\t" else c for c in data)
    if isinstance(data, Mapping):
        return {key: visible(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [visible(value) for value in data]
    return data


def trace_tree(facts: RunFacts, data: Mapping[str, Any]) -> Tree:
    """The trace as a tree; `data` comes from `trace_json`."""
    models = ", ".join(data["models"]) or "no agent calls yet"
    tree = Tree(Text.assemble(
        (data["run"], "bold"), f" · {data['state']} · policy: {data['policy']} · {models}"
    ))  # fmt: skip
    by_round: dict[int | None, list[Mapping[str, Any]]] = {}
    for directive in data["directives"]:
        by_round.setdefault(directive["consumed_round"], []).append(directive)
    for round_ in data["rounds"]:
        name = "seed policy" if round_["round"] == 0 else f"round {round_['round']}"
        branch = tree.add(Text(name, style="bold"))
        for directive in by_round.pop(round_["round"], []):
            branch.add(_directive(directive))
        for node in round_["nodes"]:
            _add_node(branch, facts, node)
    for chat in data["conversations"]:
        _add_node(tree, facts, chat)
    for directive in (item for items in by_round.values() for item in items):
        tree.add(_directive(directive))
    if not tree.children:
        tree.add(Text("nothing matches these filters", style="dim"))
    return tree


def _directive(item: Mapping[str, Any]) -> Text:
    return Text.assemble(
        (f"directive {item['directive_id']} ", "magenta"),
        f"“{item['text']}” ",
        (f"{item['status']}", "dim"),
    )


def _add_node(tree: Tree, facts: RunFacts, node: Mapping[str, Any]) -> None:
    took = "" if node["seconds"] is None else f" {node['seconds']:.1f} s"
    state = "" if node["status"] == "done" else f" · {node['status']}"
    again = f" · begun {node['attempts']} times" if node["attempts"] > 1 else ""
    branch = tree.add(Text.assemble((node["node"], "cyan"), (f"{took}{state}{again}", "dim")))
    for call in node["calls"]:
        _add_call(branch, call)
    for item in node["proposals"]:
        branch.add(_proposal(item))
    for item in node["diagnoses"]:
        text = (
            f"{item['axis']} blamed for {item['mechanism']} at stage {item['failed_stage']} "
            f"({item['confidence']} confidence): {item['explanation']}"
        )
        leaf = branch.add(_labelled("diagnosis", item["diagnosis_id"], text))
        _add_evidence(leaf, facts, item["evidence"])
    for item in node["tests"]:
        _add_test(branch, item)
    for item in node["modes"]:
        text = f"v{item['version']} {item['status']}: {item['title']}. {item['reason']}"
        branch.add(_labelled("mode", item["mode_id"], text))
    for split in dict.fromkeys(item["split"] for item in node["measured"]):
        rates = [
            f"{item['label']} {item['successes']}/{item['trials']}"
            for item in node["measured"]
            if item["split"] == split
        ]
        name = {"in": "In", "ood": "OOD"}.get(split, split)
        branch.add(_labelled("measured", name, " · ".join(rates)))
    for item in node["decisions"]:
        leaf = branch.add(_labelled("decision", f"by {item['by']}", item["text"]))
        _add_links(leaf, item["links"])


def _labelled(kind: str, name: str, text: str) -> Text:
    return Text.assemble((f"{kind} ", "magenta"), (f"{name} ", "bold"), text)


def _add_call(branch: Tree, call: Mapping[str, Any]) -> None:
    leaf = branch.add(call_head(call))
    answer = json.dumps(call["answer"], ensure_ascii=False)
    leaf.add(Text(answer if len(answer) <= _SHORT else f"{answer[:_SHORT]} …", style="dim"))
    for item in call["tool_calls"]:
        leaf.add(_tool(item, _SHORT))
    _add_links(leaf, call["links"])
    if call["led_to"]:
        leaf.add(Text.assemble(("led to ", "dim"), ", ".join(call["led_to"])))


def call_head(call: Mapping[str, Any]) -> Text:
    """Id, role, task, model, status, tokens, cost and latency of a call in one line."""
    status = "abandoned" if call["abandoned"] else str(call["status"])
    price = "price unknown" if call["cost_usd"] is None else f"${call['cost_usd']:.4f}"
    attempts = f" in {call['attempts']} attempts" if call["attempts"] > 1 else ""
    return Text.assemble(
        (f"{call['call_id']} ", "bold"),
        f"{call['role']} · {call['task']} · {call['model']} · ",
        (status, _TONES.get(status, "dim")),
        f"{attempts} · {call['tokens_in']}→{call['tokens_out']} tokens · {price} · "
        f"{call['seconds']:.2f} s",
    )


def _tool(item: Mapping[str, Any], limit: int) -> Text:
    arguments = json.dumps(item.get("args", {}), ensure_ascii=False)
    result = " ".join(str(item.get("result", "")).split())
    shown = result if len(result) <= limit else f"{result[:limit]} …"
    return Text.assemble((f"tool {item.get('name', '?')}", "blue"), f"({arguments}) → {shown}")


def _proposal(item: Mapping[str, Any]) -> Text:
    name = item["program"] or "no program"
    counts = f"{name}: {item['accepted']} scenes accepted, {item['rejected']} rejected"
    issues = f"; first issue: {item['issues'][0]}" if item["issues"] else ""
    return _labelled("proposal", item["proposal_id"], counts + issues)


def _add_test(branch: Tree, item: Mapping[str, Any]) -> None:
    arms = ", ".join(
        f"{arm['name']} {arm['successes']}/{arm['trials']} (progress {arm['progress_mean']:.2f})"
        for arm in item["arms"]
    )
    low, high = item["interval"]
    line = Text.assemble(
        ("control test ", "magenta"),
        (f"{item['test_id']} ", "bold"),
        (item["verdict"], _TONES.get(item["verdict"], "")),
        f": {arms}; effect {item['effect']:+.2f} [{low:+.2f}, {high:+.2f}], "
        f"e = {item['e_value']:.3g} for, {item['e_value_refute']:.3g} against. {item['reason']}",
    )
    leaf = branch.add(line)
    for arm in item["arms"]:
        _add_links(leaf, {arm["name"]: arm["episode_ids"]})


def _add_evidence(leaf: Tree, facts: RunFacts, evidence: Sequence[str]) -> None:
    """Cited references: a rollout id, or ``<rollout>:<predicate>@<step>``."""
    for ref in evidence:
        owner = next((name for name in facts.episode if ref.startswith(name)), None)
        known = (
            "" if owner is None else " · success" if facts.episode[owner].success else " · failure"
        )
        leaf.add(Text.assemble(("cites ", "dim"), ref, (known, "dim")))


def _add_links(leaf: Tree, links: Mapping[str, Any]) -> None:
    for key, value in links.items():
        ids = link_ids({key: value})
        if not ids:
            continue
        shown = ", ".join(ids[:6]) + (f" … ({len(ids)} in all)" if len(ids) > 6 else "")
        leaf.add(Text.assemble((f"{key}: ", "dim"), shown))


def call_page(call: Mapping[str, Any]) -> RenderableType:
    """One call in full; `call` comes from `full_call_json`."""
    parts: list[RenderableType] = [call_head(call)]
    for message in call["messages"]:
        parts.append(Rule(_speaker(message), align="left"))
        parts.append(Text(_said(message)))
    if call["tool_calls"]:
        parts.append(Rule("tool calls", align="left"))
        parts += [_tool(item, 100_000) for item in call["tool_calls"]]
    parts.append(Rule("answer", align="left"))
    parts.append(Text(json.dumps(call["answer"], indent=2, ensure_ascii=False)))
    parts.append(Rule("rests on and led to", align="left"))
    for item in call["linked"]:
        parts.append(
            Padding(
                Text.assemble(
                    (f"{item['kind']} ", "magenta"), (item["id"], "bold"), f" {item['text']}"
                ),
                (0, 0, 0, 1),
            )
        )
    if not call["linked"]:
        parts.append(Text(" nothing recorded", style="dim"))
    return Group(*parts)


def _speaker(message: Mapping[str, Any]) -> str:
    """Who said it: a role, the tool's name, or what a note is about."""
    names = (message.get("role", "message"), message.get("kind"), message.get("name"))
    return " ".join(str(name) for name in names if name)


def _said(message: Mapping[str, Any]) -> str:
    """Text of a message, the tools it asked for, and where its pictures lie."""
    lines = [str(message.get("text", ""))]
    for tool in message.get("tool_calls", ()):
        lines.append(f"[asks for {tool['name']}({json.dumps(tool['args'], ensure_ascii=False)})]")
    for image in message.get("images", ()):
        lines.append(f"[picture {image.get('path') or image.get('sha256')}]")
    return "\n".join(line for line in lines if line)
