"""State of the graph: names and counts only; everything heavy lies in the run folder."""

from __future__ import annotations

from typing import Literal, TypedDict

from coda.sim.roles import Axis

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


Magnitude = Literal["small", "medium", "large"]
"""How far beyond the seed range a program goes."""


class Slot(TypedDict):
    """One generation program to be written in `build`."""

    slot_id: str
    """``r01:p02``; also the id of the program that fills it."""
    kind: Literal["explore", "focus"]
    mode_id: str | None
    task: str
    """The family's task that its scenes are about."""
    axis: Axis
    joined: list[Axis]
    """Axes to widen together with it."""
    magnitude: Magnitude
    last_success: float | None
    """Success on the last scenes of the mode, or of the axis."""


class Settings(TypedDict):
    """What the round goes by: the configuration, as changed by directives."""

    band: tuple[float, float]
    scenes: int
    """Accepted scenes wanted in the round, in all."""
    updates: int
    schedule: Literal["adaptive", "fixed"]
    avoid_axes: list[Axis]
    requests: list[str]
    """What a person asked of the scenes, e.g. ``alpha.target.scale lower``."""
    weights: dict[str, float]
    """Factors on modes' weights."""


class RoundUpdate(TypedDict, total=False):
    """What a node may change; it returns only the keys that it did. Every value is plain JSON."""

    round: int
    """Present round, from 1; 0 while the seed policy is made."""
    policy: str
    """File name of the present policy inside ``policies/``."""
    previous_policy: str
    """The policy before this round's training."""
    settings: Settings
    slots: list[Slot]
    focus_modes: list[str]
    program_ids: list[str]
    """Accepted generation programs of the round."""
    scene_count: int
    failures: int
    diagnosed: dict[str, str]
    """Program of each diagnosis of the round."""
    verdicts: dict[str, str]
    """Verdict of each diagnosis of the round."""
    changed_modes: list[str]
    """Modes that are new or that changed in `consolidate`."""
    refine: list[str]
    """Modes whose training program did not help; `compile` refines them in the next round."""
    train_modes: list[str]
    updates: int
    """Gradient updates done so far."""
    stop: str
    """Why the run ends after this round; empty while it goes on."""


class RoundState(RoundUpdate, total=False):
    """What a node may read: all that was written before."""
