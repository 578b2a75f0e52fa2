"""The small grammar of the offline chat: patterns of English that become tool calls.

Wishes (each becomes one directive; several may stand in one message):

- ``make targets smaller``, ``lighter``, ``more slippery``, ``more distractors`` …
- ``stop working on position``, ``avoid clutter`` · ``focus on yaw and size`` · ``resume position``
- ``aim for 30-60 % success``
- ``park mode 3 because …``, ``retire m003``, ``activate mode 3`` · ``double the weight of mode 3``
- ``run 5 rounds``, ``2 more rounds``, ``40 scenes``, ``3000 updates``
- ``use the fixed schedule`` · ``stop the run`` · ``undo d002``
- ``new mode: it drops tall objects (size)``

Questions: what is hard, how is it going, which modes, why was mode 3 parked, round 2, tests,
rollouts of an axis, directives, costs, help.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from coda.agents.rules_words import QUESTION, Parsed, axes_in, mode_id, question

BIASES: tuple[tuple[str, str, str], ...] = (
    (r"\b(?:small(?:er)?|tin(?:y|ier))\b", "alpha.target.scale", "lower"),
    (r"\b(?:larger?|bigg?(?:er)?)\b", "alpha.target.scale", "higher"),
    (r"\b(?:lighter|less heavy)\b", "alpha.target.mass_kg", "lower"),
    (r"\bheav(?:y|ier)\b", "alpha.target.mass_kg", "higher"),
    (r"\b(?:more slippery|slipperier|smoother|less friction|lower friction)\b",
     "alpha.target.friction", "lower"),
    (r"\b(?:less slippery|rougher|grippier|more friction|higher friction)\b",
     "alpha.target.friction", "higher"),
    (r"\b(?:more (?:distractors|clutter|obstacles)|more cluttered)\b", "tau.distractors", "higher"),
    (r"\b(?:fewer|less) (?:distractors|clutter|obstacles)\b", "tau.distractors", "lower"),
)  # fmt: skip
"""(pattern, factor path, direction)."""

NOT_TARGET = re.compile(
    r"\b(?:plates?|receptacles?|goals?|trays?|distractors?|robots?|grippers?)\b"
)
VERB = (
    r"make|use|aim|focus|stop|park|retire|activate|run|set|switch|add|give|double|halve|undo|keep|"
    r"try|resume|allow|only|concentrate|avoid|skip|ignore|generate|train|quit|pause"
)
NEXT = re.compile(rf"\b(?:and|then|but|,)\s+(?=(?:please |also |to )?(?:{VERB})\b)", re.IGNORECASE)
PERCENT = re.compile(
    r"(\d+(?:\.\d+)?)\s*(%|percent)?\s*(?:-|–|—|to|and)\s*(\d+(?:\.\d+)?)\s*(%|percent)?"
)


def parse(message: str, run: Mapping[str, Any]) -> Parsed:
    """Read a message; `run` gives what relative wishes need (``rounds``) and the last directive."""
    found = Parsed()
    for sentence in re.split(r"(?<=[.?!;])\s+|\n+", message.strip()):
        text = sentence.strip()
        low = _plain(text).strip(" .?!;")
        if not low:
            continue
        if QUESTION.match(low) or not _wishes(text, run, found):
            question(low, text, found)
    return found


def _wishes(text: str, run: Mapping[str, Any], found: Parsed) -> bool:
    """Read the wishes of one sentence; whether there were any."""
    parts = [part.strip(" .?!;,") for part in NEXT.split(text)]
    done = [any(pattern(_plain(part), part, run, found) for pattern in _PATTERNS) for part in parts]
    if any(done):
        found.unread += [part for part, read in zip(parts, done, strict=True) if not read]
    return any(done)


def _plain(text: str) -> str:
    """Lower case, single spaces, plain apostrophes."""
    return re.sub(r"\s+", " ", text.lower().replace("’", "'"))


def _undo(low: str, text: str, run: Mapping[str, Any], found: Parsed) -> bool:
    del text
    match = re.search(r"\b(?:undo|take back|revert|cancel)\b\s*(?:directive\s*)?(.*)", low)
    if not match:
        return False
    ids = re.findall(r"\bd\d{3,}\b", match.group(1))
    live: list[str] = list(run.get("live_directives") or [])
    if re.search(r"\b(?:all|everything)\b", match.group(1)):
        ids = live
    elif not ids and live:
        ids = live[-1:]
    for directive in ids:
        found.call("undo_directive", directive_id=directive)
    if not ids:
        found.texts.append("There is no directive to undo.")
    return True


def _stop_run(low: str, text: str, run: Mapping[str, Any], found: Parsed) -> bool:
    del run
    if re.search(r"\b(?:stop|end|finish|abort) (?:the |this )?(?:run|after this round|now)\b", low):
        found.steer(text, "stop-run")
        return True
    return False


def _band(low: str, text: str, run: Mapping[str, Any], found: Parsed) -> bool:
    del run
    about = re.search(r"\b(?:aim|target|band|success|solv|between)\w*", low)
    match = PERCENT.search(low)
    if not about or not match:
        return False
    low_rate, high_rate = float(match.group(1)), float(match.group(3))
    if match.group(2) or match.group(4) or high_rate > 1.0:
        low_rate, high_rate = low_rate / 100.0, high_rate / 100.0
    found.steer(text, "band", low=round(low_rate, 4), high=round(high_rate, 4))
    return True


def _schedule(low: str, text: str, run: Mapping[str, Any], found: Parsed) -> bool:
    del run
    match = re.search(r"\b(adaptive|fixed)\b", low)
    if not match or "schedule" not in low:
        return False
    found.steer(text, "schedule", schedule=match.group(1))
    return True


def _budget(low: str, text: str, run: Mapping[str, Any], found: Parsed) -> bool:
    amounts: dict[str, int] = {}
    for number, more, noun in re.findall(r"\b(\d+)\s+(more\s+)?(rounds?|scenes?|updates?)\b", low):
        key = noun.rstrip("s") + "s"
        base = int(run.get("rounds") or 0) if more and key == "rounds" else 0
        amounts[key] = int(number) + base
    if not amounts:
        return False
    found.steer(text, "budget", **amounts)
    return True


def _weight(low: str, text: str, run: Mapping[str, Any], found: Parsed) -> bool:
    del run
    mode = mode_id(low)
    if mode is None or not re.search(r"\b(?:weigh\w*|double|triple|halve|boost|priorit\w+)\b", low):
        return False
    number = re.search(r"\b(?:by|to|factor)\s*(?:of\s*)?(\d+(?:\.\d+)?)", low)
    words = {"double": 2.0, "triple": 3.0, "halve": 0.5, "half": 0.5, "less": 0.5, "more": 2.0}
    factor = next((value for word, value in words.items() if word in low), 2.0)
    found.steer(text, "weight", mode_id=mode, factor=float(number.group(1)) if number else factor)
    return True


def _mode_status(low: str, text: str, run: Mapping[str, Any], found: Parsed) -> bool:
    del run
    verbs = (
        ("activate", r"\b(?:activate|unpark|revive|resume|bring back|reopen|reactivate)\b"),
        ("retire", r"\b(?:retire|drop|forget|remove|delete)\b"),
        ("park", r"\b(?:park|pause|shelve|stop|skip|ignore|avoid)\b"),
    )
    mode = mode_id(low)
    change = next((name for name, pattern in verbs if re.search(pattern, low)), None)
    if mode is None or change is None:
        return False
    because = re.search(r"\b(?:because|since|as) (.+)", low)
    reason = because.group(1) if because else "a person asked for it"
    found.steer(text, "mode-status", mode_id=mode, change=change, reason=reason[:300])
    return True


def _new_mode(low: str, text: str, run: Mapping[str, Any], found: Parsed) -> bool:
    del run
    match = re.search(
        r"\b(?:new mode|add a mode|new difficulty|it (?:also )?fails when)\b:?\s*(.*)", low
    )
    if not match:
        return False
    axes = axes_in(match.group(1))
    if not axes:
        found.texts.append(
            "A new mode needs one axis to test it on: position, yaw, size, mass-friction, "
            "distractors, goal or asset. Name it in the sentence."
        )
        return True
    found.steer(text, "new-mode", text=(match.group(1) or low)[:300], axis=axes[0])
    return True


def _bias(low: str, text: str, run: Mapping[str, Any], found: Parsed) -> bool:
    del run
    hits = [(path, way) for pattern, path, way in BIASES if re.search(pattern, low)]
    if not hits or re.search(r"\bno more (?:distractors|clutter|obstacles)\b", low):
        return False
    if re.search(r"\b(?:don't|do not|no|never|stop|without|not)\b", low):
        found.texts.append("To take a factor wish back, say 'undo' and its directive.")
        return True
    for path, way in hits:
        other = NOT_TARGET.search(low)
        if path.startswith("alpha.target") and other and not re.search(r"\btargets?\b", low):
            found.texts.append(
                f"I can make targets smaller, larger, lighter, heavier, more or less slippery, and "
                f"scenes more cluttered; I cannot change that for the {other.group(0)}."
            )
        else:
            found.steer(text, "factor-bias", path=path, direction=way)
    return True


def _axes(low: str, text: str, run: Mapping[str, Any], found: Parsed) -> bool:
    del run
    axes = axes_in(low)
    if not axes:
        return False
    kinds = (
        (
            "resume-axes",
            r"\b(?:(?:don't|do not|never) stop|resume|allow|reopen|continue)\b|\bagain\b",
        ),
        (
            "stop-axes",
            r"\b(?:stop|quit|avoid|ignore|skip|leave|no more|don't|do not|without|pause)\b",
        ),
        ("focus-axes", r"\b(?:focus|concentrate|only|work on|explore|train on|prioriti[sz]e)\b"),
    )
    kind = next((name for name, pattern in kinds if re.search(pattern, low)), None)
    if kind is None:
        return False
    found.steer(text, kind, axes=axes)
    return True


def _family(low: str, text: str, run: Mapping[str, Any], found: Parsed) -> bool:
    del text
    if not re.search(
        r"\b(?:famil(?:y|ies)|stack(?:ing)?|drawers?|doors?|insert\w*|articulated)\b", low
    ):
        return False
    found.texts.append(
        f"This run trains the family {run.get('family') or 'pick-place'}, and a run keeps its "
        "family. I can change axes, the band, modes, factors, the budget and the schedule."
    )
    return True


_PATTERNS: tuple[Callable[[str, str, Mapping[str, Any], Parsed], bool], ...] = (
    _undo, _stop_run, _new_mode, _weight, _mode_status, _band, _schedule, _budget, _bias, _axes,
    _family,
)  # fmt: skip
"""Tried in this order on every part of a sentence; the first that fits takes it."""
