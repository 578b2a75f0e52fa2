"""Words of the offline chat's grammar: axes, modes, rounds, and questions about a run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

AXIS_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "position": r"positions?|placements?|locations?",
        "yaw": r"yaws?|rotations?|rotated|orientations?|angles?",
        "size": r"sizes?|scales?",
        "mass-friction": r"mass(?:[- /]friction)?|friction|masses|weights? of (?:the )?objects?",
        "distractors": r"distractors?|clutter|obstacles?",
        "goal": r"goals?|receptacles?|plates?|trays?",
        "asset": r"assets?|object identit(?:y|ies)|identit(?:y|ies)|shapes?|object types?",
    }
)
"""Words for each axis."""

QUESTION = re.compile(
    r"^(?:so |and |but |ok(?:ay)?,? )?(?:what|why|how|which|who|when|where|did|does|do you|is|are|"
    r"was|were|has|have|show|list|explain|tell|describe|"
    r"can you (?:show|explain|tell|list)|give me (?:the|a) )"
)
MODE = re.compile(r"\b(?:modes?\s*#?\s*m?0*(\d+)|m0*(\d+))\b")
ROUND = re.compile(r"\bround\s*#?\s*(\d+)\b")


@dataclass
class Parsed:
    """What a message asks for."""

    calls: list[dict[str, Any]] = field(default_factory=list)
    """Tool calls ``{name, args}``."""
    texts: list[str] = field(default_factory=list)
    """Answers that need no tool, by name in `coda.agents.rules_chat.TEXTS`, or plain words."""
    unread: list[str] = field(default_factory=list)
    """Parts that no pattern fits."""

    def call(self, name: str, **args: Any) -> None:
        """Add a tool call once."""
        wanted = {"name": name, "args": args}
        if wanted not in self.calls:
            self.calls.append(wanted)

    def steer(self, words: str, kind: str, **args: Any) -> None:
        """Add a directive."""
        self.call("steer", kind=kind, words=words.strip()[:300], **args)


def mode_id(text: str) -> str | None:
    """The mode that a text names, e.g. ``mode 3`` → ``m003``."""
    match = MODE.search(text)
    return f"m{int(match.group(1) or match.group(2)):03d}" if match else None


def axes_in(text: str) -> list[str]:
    """Axes that a text names, in the order of its words."""
    at = {
        axis: match.start()
        for axis, words in AXIS_WORDS.items()
        if (match := re.search(rf"\b(?:{words})\b", text))
    }
    return sorted(at, key=lambda axis: at[axis])


def question(low: str, text: str, found: Parsed) -> None:
    """Read one sentence as a question."""
    mode, number = mode_id(low), ROUND.search(low)
    axes = axes_in(low)
    if re.search(r"\b(?:language model|llm|an ai|are you|who are you|gpt|claude)\b", low):
        found.texts.append("who")
    elif re.search(r"\b(?:help|what can (?:you|i)|commands|hello|hi|hey)\b", low):
        found.texts.append("help")
    elif re.search(r"\b(?:rollouts?|episodes?)\b", low):
        args: dict[str, Any] = {"mode_id": mode} if mode else {}
        args |= {"round": int(number.group(1))} if number else {}
        args |= {"axis": axes[0]} if axes else {}
        args |= {"failed": True} if re.search(r"\bfail", low) else {}
        found.call("show_rollouts", **args)
    elif mode:
        found.call("explain_mode", mode_id=mode)
    elif re.search(r"\b(?:directives?|orders?|asked (?:you|for)|wishes)\b", low):
        found.call("list_directives")
    elif number:
        found.call("show_rounds", round=int(number.group(1)))
    elif re.search(r"\b(?:tests?|refut\w+|confirm\w+|undecided|controls?)\b", low):
        verdict = re.search(r"\b(refuted|confirmed|undecided)\b", low)
        found.call("show_tests", **({"verdict": verdict.group(1)} if verdict else {}))
    elif axes or re.search(
        r"\b(?:hard\w*|difficult\w*|struggl\w+|fail\w*|weak\w*|worst|problems?)\b", low
    ):
        found.call("show_run")
        found.call("list_modes")
    elif re.search(r"\bmodes?\b", low):
        status = re.search(r"\b(candidate|validated|training|retained|mastered|parked)\b", low)
        found.call("list_modes", **({"status": status.group(1)} if status else {}))
    elif re.search(r"\b(?:rounds?|history|happened|so far|last plan|plans?|done)\b", low):
        found.call("show_rounds")
    elif re.search(r"\b(?:going|status|progress\w*|success|results?|doing|far|cost\w*|money|tokens?"
                   r"|expensive|eta|finished|run)\b", low):  # fmt: skip
        found.call("show_run")
    else:
        found.unread.append(text)
