"""Offline rule of the chat: reads a small grammar, calls tools, and tells what they returned."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from coda.agents.rules_grammar import parse
from coda.agents.rules_words import axes_in

SIGNATURE = "(offline rules, not a language model)"

TEXTS: Mapping[str, str] = MappingProxyType(
    {
        "who": "I am the curriculum agent's offline rules: patterns and facts, not a language "
        "model. Start the chat with --model openai:<name> or anthropic:<name> for one.",
        "help": "Ask: what does it find hard · how is it going · what did you do in round 2 · why "
        "was mode 3 parked · which modes are there · which tests were refuted · show failed "
        "rollouts of yaw · list directives.\n"
        "Steer: make targets smaller (larger, lighter, heavier, more slippery) · more distractors "
        "· stop working on position · focus on yaw and size · resume position · aim for 30-60 % "
        "success · park (retire, activate) mode 3 because … · double the weight of mode 3 · run 5 "
        "rounds, 40 scenes, 3000 updates · use the fixed schedule · new mode: … · stop the run · "
        "undo d002. Several wishes may stand in one message.",
    }
)
"""Answers that need no look-up."""


def chat(facts: dict[str, Any]) -> dict[str, Any]:
    """Answer the task ``chat``: tool calls first, then the reply from what they returned."""
    parsed = parse(facts["message"], facts["run"])
    results = facts["tool_results"]
    if parsed.calls and not results:
        return {"tool_calls": parsed.calls}
    if [result["name"] for result in results] == ["show_run", "list_modes"]:
        run, modes = (json.loads(result["text"]) for result in results)
        parts = [_hard(run, modes, facts["message"])]
    else:
        parts = [tell(result, facts) for result in results]
    parts += [TEXTS.get(text, text) for text in parsed.texts]
    if parsed.unread:
        quoted = "; ".join(f"“{part}”" for part in parsed.unread)
        parts.append(f"I could not read {quoted}. Say “help” for what I understand.")
    text = "\n".join(part for part in parts if part)
    return {"text": f"{text or TEXTS['help']}\n{SIGNATURE}"}


def tell(result: dict[str, Any], facts: dict[str, Any]) -> str:
    """One tool result in English."""
    if not result["ok"]:
        return f"Not done: {str(result['text']).removeprefix('error: ')}"
    try:
        data = json.loads(result["text"])
    except json.JSONDecodeError:
        return str(result["text"])
    return _TELL[result["name"]](data, facts)


def _hard(run: dict[str, Any], modes: dict[str, Any], message: str) -> str:
    """What fails most: axes by their last scenes, held-out axes, and the modes behind them."""
    asked = axes_in(message.lower())
    lines = []
    for name, counts in (("generated", run["axes"]), ("held-out", run["ood_axes"])):
        shown = {a: c for a, c in _hardest(counts).items() if not asked or a in asked}
        if shown:
            lines.append(f"Last {name} scenes solved, hardest first: {_pairs(shown)}.")
    if not lines:
        lines.append("No scenes of that were measured yet.")
    found = [m for m in modes["modes"] if not asked or m["axis"] in asked]
    about = f" on {', '.join(asked)}" if asked else ""
    lines.append(_modes({"modes": found}, {}) if found else f"There are no modes{about} yet.")
    return "\n".join(lines)


def _run(data: dict[str, Any], facts: dict[str, Any]) -> str:
    del facts
    lines = [
        f"Run {data['run']} ({data['family']}) is {data['state']}; round {data['round']} of "
        f"{data['rounds']}, {data['schedule']} schedule."
    ]
    for split, name in (("in", "own distribution"), ("ood", "held-out scenes")):
        found = [
            f"round {s['round']}: {s['success']}" for s in data["success"] if s["split"] == split
        ]
        if found:
            lines.append(f"Success on {name}: {', '.join(found)}.")
    if data["axes"]:
        lines.append(f"Last generated scenes solved: {_pairs(_hardest(data['axes']))}.")
    if data["ood_axes"]:
        lines.append(f"Held-out by axis, hardest first: {_pairs(_hardest(data['ood_axes']))}.")
    if data["modes"]:
        lines.append(f"Modes: {', '.join(f'{n} {status}' for status, n in data['modes'].items())}.")
    if data["verdicts"]:
        verdicts = ", ".join(f"{n} {verdict}" for verdict, n in data["verdicts"].items())
        lines.append(f"Diagnoses tested: {verdicts}.")
    cost = data["cost"]
    lines.append(
        f"Cost: {cost['agent_calls']} agent calls, {cost['tokens']} tokens, "
        f"{cost['usd']:.2f} US dollars."
    )
    return "\n".join(lines)


def _modes(data: dict[str, Any], facts: dict[str, Any]) -> str:
    del facts
    if not data["modes"]:
        return "There are no such modes yet."
    lines = ["Modes, the least successful first:"]
    for mode in data["modes"][:12]:
        success = f"probes {mode['success']}" if mode["success"] else "not probed"
        lines.append(
            f"  {mode['mode_id']} {mode['status']}: {mode['title']} ({mode['axis']}, "
            f"{mode['mechanism']} at {mode['stage']}; {success})"
        )
    return "\n".join(lines)


def _mode(data: dict[str, Any], facts: dict[str, Any]) -> str:
    del facts
    lines = [
        f"{data['mode_id']} is {data['status']}: {data['title']} ({data['mechanism']} at "
        f"{data['stage']}, factor {data['factor_path']})."
    ]
    if data["reason"]:
        lines.append(f"Why: {data['reason']}")
    if data["pinned_by"]:
        lines.append(f"A person fixed this status with directive {data['pinned_by']}.")
    for step in data["history"]:
        why = f" ({step['reason']})" if step["reason"] else ""
        lines.append(f"  {step['node']}: {step['status']}{why}")
    if data["probes"]:
        lines.append(f"Probes: {', '.join(data['probes'])}.")
    lines += [f"Diagnosis {d['diagnosis_id']}: {d['explanation']}" for d in data["diagnoses"][:2]]
    lines += [_test_line(test) for test in data["tests"][:3]]
    return "\n".join(lines)


def _rounds(data: dict[str, Any], facts: dict[str, Any]) -> str:
    del facts
    if not data["rounds"]:
        return "No round has been played yet."
    many = len(data["rounds"]) > 1
    lines = []
    for row in data["rounds"]:
        lines.append(
            f"Round {row['round']}: {row['generated_scenes_solved']} generated scenes solved."
        )
        lines += [f"  {text}" for text in row["decisions"][: 2 if many else 12]]
        if not many:
            lines += [f"  program {text}" for text in row["programs"]]
        lines += [f"  diagnosed {text}" for text in row["diagnoses"]]
        lines += [f"  {_test_line(test)}" for test in row["tests"] if not many]
        lines += [f"  mode {text}" for text in row["modes"] if not many]
        if row["measured"]:
            lines.append(f"  measured {', '.join(row['measured'])}")
    return "\n".join(lines)


def _tests(data: dict[str, Any], facts: dict[str, Any]) -> str:
    del facts
    if not data["count"]:
        return "There are no such control tests."
    lines = [f"{data['count']} control tests, the latest first:"]
    return "\n".join([*lines, *(f"  {_test_line(test)}" for test in data["tests"][:8])])


def _rollouts(data: dict[str, Any], facts: dict[str, Any]) -> str:
    del facts
    if not data["count"]:
        return "There are no such rollouts."
    lines = [f"{data['count']} rollouts; success {_pairs(data['success_by_purpose'])}. Latest:"]
    for row in data["latest"][:6]:
        word = {True: "success", False: "failure", None: "crashed"}[row["success"]]
        lines.append(
            f"  {row['episode']} ({row['purpose']}, {row['axis'] or 'no axis'}): {word} after "
            f"{row['steps']} steps, progress {row['progress']}"
        )
    return "\n".join(lines)


def _directives(data: dict[str, Any], facts: dict[str, Any]) -> str:
    del facts
    if not data["directives"]:
        return "No directives were given."
    lines = []
    for row in data["directives"]:
        when = f" in round {row['consumed_round']}" if row["consumed_round"] is not None else ""
        lines.append(f"{row['directive_id']} {row['status']}{when}: {row['text']}")
    return "\n".join(lines)


def _steer(data: dict[str, Any], facts: dict[str, Any]) -> str:
    del facts
    return f"Recorded {data['recorded']}: {data['means']}; {data['when']}."


def _undo(data: dict[str, Any], facts: dict[str, Any]) -> str:
    del facts
    later = " The next plan steers without it." if data["was_consumed"] else ""
    return f"Undone {data['undone']} (“{data['text']}”).{later}"


_TELL: Mapping[str, Callable[[dict[str, Any], dict[str, Any]], str]] = MappingProxyType(
    {
        "show_run": _run,
        "list_modes": _modes,
        "explain_mode": _mode,
        "show_rounds": _rounds,
        "show_tests": _tests,
        "show_rollouts": _rollouts,
        "list_directives": _directives,
        "steer": _steer,
        "undo_directive": _undo,
    }
)


def _test_line(test: dict[str, Any]) -> str:
    arms = ", ".join(f"{name} {value}" for name, value in test["arms"].items())
    low, high = test["interval"]
    return (
        f"test {test['test_id']} {test['verdict']}: {arms}; effect {test['effect']} "
        f"[{low}, {high}]. {test['reason']}"
    )


def _hardest(counts: Mapping[str, str]) -> dict[str, str]:
    """Counts ``s/n`` by name, the lowest rate first."""

    def rate(name: str) -> float:
        successes, _, trials = counts[name].partition("/")
        return int(successes) / max(int(trials), 1)

    return {name: counts[name] for name in sorted(counts, key=rate)}


def _pairs(counts: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())
