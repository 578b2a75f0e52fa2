"""Offline rule of the curriculum's plan: which modes to train on, what to explore, when to stop."""

from __future__ import annotations

import math
from typing import Any

MOST_MODES = 4
"""Modes that one round works on at most."""
MOST_AXES = 7
"""Axes that one round explores at most."""
SHARES = {"none": 0.0, "quarter": 0.25, "half": 0.5, "all": 1.0}
"""Part of the round's programs that explore, one axis each."""
LIVE = ("candidate", "validated", "training", "retained", "mastered")
"""Statuses whose modes may be worked on; parked modes rest."""


def plan_round(facts: dict[str, Any]) -> dict[str, Any]:
    """Answer the task ``plan-round``."""
    stop = _stop_reason(facts)
    modes = _ranked_modes(facts)
    axes = _ranked_axes(facts)
    focus = [] if stop else [mode["mode_id"] for mode in modes[:MOST_MODES]]
    explore = [] if stop else axes
    share = _share(focus, explore, facts)
    if share == "none":
        explore = []
    if share == "all":
        focus = []
    explore = explore[: math.ceil(SHARES[share] * facts["programs"])]
    return {
        "decision": "stop" if stop else "continue",
        "focus_modes": focus,
        "explore_axes": explore,
        "explore_share": share,
        "rationale": _rationale(facts, stop, focus, explore, share)[:800],
    }


def _ranked_modes(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Modes worth training, by weight; of mastered ones only those not probed for 2 rounds."""
    low, high = facts["band"]
    open_axes = facts["open_axes"]

    def worth(mode: dict[str, Any]) -> bool:
        if mode["status"] not in LIVE or mode["axis"] not in open_axes:
            return False
        if mode["status"] == "mastered":
            return bool(mode["rounds_since_probe"] >= 2)
        return True

    def rank(mode: dict[str, Any]) -> tuple[bool, float, str]:
        last = mode["last_success"]
        outside = last is not None and not low <= last <= high
        return outside, -mode["weight"], mode["mode_id"]

    return sorted((m for m in facts["modes"] if worth(m)), key=rank)


def _ranked_axes(facts: dict[str, Any]) -> list[str]:
    """Open axes, the least explored first, then those where the policy fails most."""
    rows = [row for row in facts["axes"] if row["axis"] in facts["open_axes"]]

    def rank(row: dict[str, Any]) -> tuple[bool, bool, int, float]:
        known = row["success"] is not None
        mastered = known and row["success"] > facts["band"][1]
        return known, mastered, row["last_explored"] or 0, row["success"] or 0.0

    return [row["axis"] for row in sorted(rows, key=rank)]


def _share(focus: list[str], explore: list[str], facts: dict[str, Any]) -> str:
    if not explore:
        return "none"
    if not focus:
        return "all"
    if any(row["success"] is None for row in facts["axes"] if row["axis"] in explore):
        return "half"
    return "half" if len(focus) < 3 else "quarter"


def _stop_reason(facts: dict[str, Any]) -> str:
    """Why to stop; empty to go on. The fixed schedule always goes on."""
    if facts["stop_requested"]:
        return "a person asked to stop"
    if facts["schedule"] == "fixed":
        return ""
    high = facts["band"][1]
    axes = [row for row in facts["axes"] if row["axis"] in facts["open_axes"]]
    known = all(row["success"] is not None for row in axes)
    easy = known and all(row["success"] > high for row in axes)
    live = [m for m in facts["modes"] if m["status"] in ("candidate", "validated", "training")]
    if easy and not live and facts["modes"]:
        return "every mode is mastered, retained or parked and every axis is above the band"
    return ""


def _rationale(
    facts: dict[str, Any], stop: str, focus: list[str], explore: list[str], share: str
) -> str:
    text = f"Rule, round {facts['round']} of {facts['rounds']}: "
    if stop:
        return f"{text}stop, because {stop}."
    parts = []
    if focus:
        parts.append(f"work on {', '.join(focus)} (highest weights, inside the band first)")
    if explore:
        parts.append(f"explore {', '.join(explore)} with share {share} (least explored first)")
    if facts["directives"]:
        parts.append(f"directives in force: {'; '.join(facts['directives'])}")
    closed = [r["axis"] for r in facts["axes"] if r["axis"] not in facts["open_axes"]]
    if closed:
        parts.append(f"left alone: {', '.join(closed)}")
    return text + ". ".join(parts) + "."
