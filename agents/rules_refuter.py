"""Offline rule of the refuter: revert the blamed axis; as placebo, the least related other."""

from __future__ import annotations

from typing import Any

BEFORE_GRASP = ("near", "aligned", "opened", "grasped")
"""Measures of stages up to the grasp: what decides later on matters least there."""

PLACEBOS_BEFORE = ("goal", "mass-friction", "asset", "yaw", "distractors", "size", "position")
PLACEBOS_AFTER = ("yaw", "position", "asset", "size", "distractors", "mass-friction", "goal")
"""Axes from the least to the most related to a failure before (after) the target is grasped."""

FIXTURE_BEFORE = ("mass-friction", "distractors", "goal", "size", "asset", "yaw", "position")
FIXTURE_AFTER = ("position", "yaw", "distractors", "asset", "size", "goal", "mass-friction")
"""The same for a fixture whose handle is taken (worked); its opening is on the goal axis."""

PLACEBOS_OTHER = ("mass-friction", "asset", "size", "yaw", "position", "distractors", "goal")
"""The same while something else than the target is moved: a storey, the handle of a container."""


def design_controls(facts: dict[str, Any]) -> dict[str, Any]:
    """Answer the task ``design-controls``."""
    diagnosis = facts["diagnosis"]
    blamed, stage = diagnosis["axis"], diagnosis["failed_stage"]
    varied: dict[str, list[str]] = facts["varied"]
    others = [axis for axis in _order(facts) if axis != blamed and varied.get(axis)]
    control = diagnosis["cure"][:4]
    if others:
        axis = others[0]
        placebo = [_fixed(path, facts["seed_values"][path]) for path in varied[axis][:4]]
        why = f"{axis} also varies and is least related to failing at {stage}"
    else:
        axis, edit = next((a, e) for a, e in facts["cosmetic"].items() if a != blamed)
        placebo = [_fixed(edit["path"], edit["value"])]
        why = f"nothing else varies, so only {edit['path']} changes, and little"
    return {
        "control": control,
        "placebo": placebo,
        "placebo_axis": axis,
        "reasoning": f"Rule: the control reverts {blamed} to the seed scene; placebo: {why}.",
    }


def _order(facts: dict[str, Any]) -> tuple[str, ...]:
    """Axes from the least to the most related to the stage that fails."""
    measure, _, rest = facts["diagnosis"]["measure"].partition("(")
    subject = rest.strip("()").split(",")[0].split(";")[0]
    before = measure in BEFORE_GRASP
    if subject == "target":
        return PLACEBOS_BEFORE if before else PLACEBOS_AFTER
    if subject == "handle" and "receptacle" not in facts["roles"]:
        return FIXTURE_BEFORE if before else FIXTURE_AFTER
    return PLACEBOS_OTHER


def _fixed(path: str, value: Any) -> dict[str, Any]:
    return {"path": path, "sampler": {"kind": "fixed", "value": value}}
