"""Offline rule of the refuter: revert the blamed axis; as placebo, the least related other."""

from __future__ import annotations

from typing import Any

FROM_GRASP = ("lift", "carry", "place", "release")
"""Stages after the grasp: where the target stood matters least there."""

PLACEBOS_BEFORE = ("goal", "mass-friction", "asset", "yaw", "distractors", "size", "position")
PLACEBOS_AFTER = ("yaw", "position", "asset", "size", "distractors", "mass-friction", "goal")
"""Axes from the least to the most related to a failure before (after) the grasp."""

COSMETIC = {
    "asset": ("alpha.target.rgba", (0.75, 0.14, 0.12, 1.0)),
    "goal": ("alpha.receptacle.rgba", (0.90, 0.90, 0.86, 1.0)),
}
"""Axis -> a colour a shade off the seed's: a placebo where nothing but the blamed axis varies."""


def design_controls(facts: dict[str, Any]) -> dict[str, Any]:
    """Answer the task ``design-controls``."""
    diagnosis = facts["diagnosis"]
    blamed = diagnosis["axis"]
    varied: dict[str, list[str]] = facts["varied"]
    order = PLACEBOS_AFTER if diagnosis["failed_stage"] in FROM_GRASP else PLACEBOS_BEFORE
    others = [axis for axis in order if axis != blamed and varied.get(axis)]
    control = diagnosis["cure"][:4]
    if others:
        axis = others[0]
        placebo = [_fixed(path, facts["seed_values"][path]) for path in varied[axis][:4]]
        why = f"{axis} also varies and is least related to failing at {diagnosis['failed_stage']}"
    else:
        axis = "goal" if blamed == "asset" else "asset"
        placebo = [_fixed(*COSMETIC[axis])]
        why = "nothing else varies, so only a colour changes"
    return {
        "control": control,
        "placebo": placebo,
        "placebo_axis": axis,
        "reasoning": f"Rule: the control reverts {blamed} to the seed scene; placebo: {why}.",
    }


def _fixed(path: str, value: Any) -> dict[str, Any]:
    return {"path": path, "sampler": {"kind": "fixed", "value": value}}
