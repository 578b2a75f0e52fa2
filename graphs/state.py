"""State of the graph: names and counts only; everything heavy lies in the run folder."""

from __future__ import annotations

from typing import TypedDict

NODES = (
    "seed",
    "plan",
    "build",
    "rollout",
    "diagnose",
    "refute",
    "consolidate",
    "compile",
    "train",
    "measure",
)
"""Nodes of the graph in their order; all but the first repeat every round."""


def node_key(round_: int, node: str) -> str:
    """Key of one node run in the journal, e.g. ``r02:refute``."""
    return f"r{round_:02d}:{node}"


class Slot(TypedDict):
    """One generation program to be written in `build`."""

    slot_id: str
    kind: str
    """``focus`` on a mode, or ``explore`` an axis."""
    mode_id: str | None
    axis: str


class RoundUpdate(TypedDict, total=False):
    """What a node may change; it returns only the keys that it did. Every value is plain JSON."""

    round: int
    """Present round, from 1; 0 while the seed policy is made."""
    policy: str
    """File name of the present policy inside ``policies/``."""
    replay: str
    """File name of the present replay inside ``replay/``."""
    slots: list[Slot]
    focus_modes: list[str]
    program_ids: list[str]
    """Accepted generation programs of the round."""
    scene_count: int
    failures: int
    diagnosis_ids: list[str]
    verdicts: dict[str, str]
    """Verdict of each diagnosis of the round."""
    changed_modes: list[str]
    """Modes that are new or that changed in `consolidate`."""
    train_modes: list[str]
    updates: int
    """Gradient updates done so far."""
    stop: str
    """Why the run ends after this round; empty while it goes on."""


class RoundState(RoundUpdate, total=False):
    """What a node may read: all that was written before."""
