"""Codes of the validity gate: one per check, with what it means."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from coda.sim.program import Issue

GATE_CODES: Mapping[str, str] = MappingProxyType(
    {
        # schema
        "not-json": "The text is not one JSON object.",
        "schema": "A field is missing, unknown, of the wrong type, too long, or not finite.",
        # semantics of a program
        "unknown-family": "The base family does not exist.",
        "unknown-task": "The family has no such task.",
        "unknown-path": "An edit writes a factor path that does not exist.",
        "duplicate-path": "Two edits write the same path.",
        "value-type": "A value or sampler has the wrong type or length for its path.",
        "value-range": "A value or a sampler's bound is outside the path's allowed range.",
        "bad-sampler": "A sampler contradicts itself: empty range, weights, negative radius.",
        "role-absent": "A role is used that the scene or program does not switch on.",
        "edit-order": "An edit comes before one that it builds on: the task, the count, the role.",
        # semantics and bounded placement of a scene
        "too-wide": "What the gripper has to take is wider than it can close around.",
        "too-heavy": "An object is too heavy for its friction: it slips out of the gripper.",
        "no-fit": "The subject does not fit into, onto or around what is to take it up.",
        "role-extra": "The scene has a role that its task does not have.",
        "unknown-asset": "The asset is not in the catalogue.",
        "missing-package": "The asset is of an optional package that is not installed.",
        "wrong-role-asset": "The asset cannot play its role.",
        "off-workspace": "An object lies outside the reachable part of the table.",
        "off-table": "A footprint sticks out over the table's edge.",
        "too-close": "Footprints of two objects, swept ones included, overlap or nearly touch.",
        "start-blocked": "An object stands where the robot's hand starts.",
        "min-separation": "A separation constraint of the program does not hold.",
        "held-out": "The scene lies in a cell that is held out for evaluation.",
        "cannot-place": "No draw within the bounded number satisfied every check.",
        # physics
        "compile": "The simulator's model could not be built.",
        "unstable": "The simulation diverged while settling.",
        "drift": "An object moved while settling.",
        "rotation-drift": "An object turned or tipped over while settling.",
        "joint-drift": "A fixture opened or closed by itself while settling.",
        "penetration": "Two bodies overlap at the start.",
        "unreachable-grasp": "No arm posture reaches the grasp of an object that is to be moved.",
        "unreachable-goal": "No arm posture reaches the place at or above the goal.",
        "unreachable-handle": "No arm posture reaches the handle on its way to the goal opening.",
        "out-of-view": "An object of the task is outside the agent camera's picture.",
        "hidden": "An object of the task is hidden from the agent camera.",
        "solved-at-reset": "The verifier holds before anything was done.",
        "goal-not-recognised": "The verifier does not hold at a constructed goal state.",
        # instruction and storage
        "instruction": "The instruction does not name the objects, or asks for another task.",
        "ambiguous-instruction": "The instruction's words fit more than one object.",
        "goal-mismatch": "The goal is another than the task's.",
        "verifier-mismatch": "The verifier tests something else than the task's goal.",
        "reload": "The scene does not survive saving and loading.",
    }
)
"""Every code of a gate issue, cheap checks first."""


def make_issue(code: str, path: str, value: str, limit: str, remedy: str) -> Issue:
    """An `Issue` whose code is in `GATE_CODES`; long values are cut."""
    if code not in GATE_CODES:
        raise KeyError(code)
    return Issue(code=code, path=path, value=value[:200], limit=limit, remedy=remedy)
