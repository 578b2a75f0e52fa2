"""Offline rule of the critic: blames an axis by contrasts and symptoms. It can be wrong."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

LABEL = "Offline rule on privileged simulator evidence, not a language model"

BEFORE_GRASP = ("reach", "descend")
AFTER_GRASP = ("lift", "carry", "place")
PUSHED_M = 0.02
"""Displacement that counts as a push [m]."""

NOTICEABLE = 0.4
"""Mean distance of failures from the seed scene, in the feature's scale, below which a contrast
counts less: so little is within the seed range."""

HINTS: dict[str, tuple[str, float]] = {
    "misaligned-grasp": ("yaw", 0.5),
    "no-closure": ("size", 0.3),
    "slip": ("mass-friction", 0.5),
    "collision": ("distractors", 0.6),
    "wrong-object": ("distractors", 0.8),
    "reach-error": ("position", 0.2),
    "transport-error": ("goal", 0.4),
    "early-release": ("goal", 0.3),
}
"""Mechanism -> (axis it usually comes from, weight of that hint at a share of 1)."""


def diagnose(facts: dict[str, Any]) -> dict[str, Any]:
    """Answer the task ``diagnose``."""
    failures = [e for e in facts["episodes"] if not e["success"]]
    stage = max(facts["group"]["failed_at"], key=facts["group"]["failed_at"].get)
    symptoms = {e["episode"]: symptom(e) for e in failures}
    at_stage = [e for e in failures if e["stage"] == stage] or failures
    mechanism = Counter(symptoms[e["episode"]] for e in at_stage).most_common(1)[0][0]
    shares = Counter(symptoms.values())
    scores = axis_scores(facts, {m: n / len(failures) for m, n in shares.items()})
    ranked = sorted(scores, key=lambda axis: -scores[axis])
    axis, margin = ranked[0], scores[ranked[0]] - (scores[ranked[1]] if len(ranked) > 1 else 0.0)
    best = _strongest(facts, axis)
    return {
        "failed_stage": stage,
        "mechanism": mechanism,
        "axis": axis,
        "expected_effect": _effect(facts, scores[axis]),
        "confidence": _confidence(facts, margin),
        "explanation": _explain(facts, stage, mechanism, axis, best)[:600],
        "evidence": _references(at_stage),
    }


def symptom(episode: dict[str, Any]) -> str:
    """Mechanism of one failed rollout from its events, margins and contacts."""
    contacts, margins, stage = episode["contacts"], episode["margins"], episode["stage"]
    if contacts["distractors_grasped"]:
        return "wrong-object"
    held = contacts["lost_grasp"] != "never-held"
    bumped = contacts["distractor_moved_m"] > PUSHED_M or contacts["table_hit"]
    if not held:
        if bumped and contacts["distractor_moved_m"] > PUSHED_M:
            return "collision"
        return _no_grasp(contacts, margins, bumped)
    if contacts["lost_grasp"] == "slipped":
        return "slip"
    if contacts["lost_grasp"] == "opened":
        return "early-release" if stage != "release" else "stall"
    if stage == "release" or margins["on(target, receptacle)"] >= 0:
        return "no-release"
    if bumped and contacts["distractor_moved_m"] > PUSHED_M:
        return "collision"
    return "transport-error" if stage in ("carry", "place") else "stall"


def _no_grasp(contacts: dict[str, Any], margins: dict[str, float], bumped: bool) -> str:
    """The object was never held: what was in the way at the closest approach."""
    if margins["near(target)"] < -0.06:
        return "collision" if bumped else "reach-error"
    if margins["aligned(target)"] < 0:
        return "misaligned-grasp"
    if margins["near(target)"] >= -0.01 or contacts["fingers_closed"]:
        return "no-closure"
    return "misaligned-grasp" if contacts["target_moved_before_grasp_m"] > PUSHED_M else "stall"


def axis_scores(facts: dict[str, Any], shares: dict[str, float]) -> dict[str, float]:
    """Score of every edited axis: cautious contrast, progress correlation, distance, symptoms.

    Args:
        facts: The evidence.
        shares: Mechanism -> share of failures that show it.
    """
    n, ok = facts["group"]["rollouts"], facts["group"]["successes"]
    bad = n - ok
    scores = dict.fromkeys(facts["edited_axes"], 0.0)
    for row in facts["contrasts"]:
        if row["axis"] not in scores:
            continue
        g, away = row["effect"], row["deviation"]
        weaker = 0.5 * max(0.0, -row["progress_corr"] - 1.0 / math.sqrt(max(n, 1)))
        weaker *= min(1.0, away / NOTICEABLE)
        if bad >= 2 and ok >= 2:
            error = math.sqrt(n / (bad * ok) + g * g / (2.0 * n))
            far = max(0.0, g - error) * min(1.0, away / NOTICEABLE)
            score = far + weaker + 0.15 * min(away, 2.0)
        else:  # all of one kind: only the distance from the seed scene tells
            score = 0.5 * min(away, 3.0) + weaker
        scores[row["axis"]] = max(scores[row["axis"]], score)
    for mechanism, share in shares.items():
        axis, weight = HINTS.get(mechanism, ("", 0.0))
        if scores.get(axis, 0.0) > 0.0:  # a symptom alone blames nothing that does not vary
            scores[axis] += weight * share
    return scores


def _strongest(facts: dict[str, Any], axis: str) -> dict[str, Any] | None:
    rows = [row for row in facts["contrasts"] if row["axis"] == axis]
    return max(rows, key=lambda row: (row["effect"], row["deviation"]), default=None)


def _effect(facts: dict[str, Any], score: float) -> str:
    """Small, medium or large: no more than the failures leave room for."""
    group = facts["group"]
    room = 1.0 - group["successes"] / max(group["rollouts"], 1)
    if score > 1.2 and room > 0.55:
        return "large"
    return "medium" if score > 0.5 and room > 0.3 else "small"


def _confidence(facts: dict[str, Any], margin: float) -> str:
    bad = facts["group"]["rollouts"] - facts["group"]["successes"]
    if margin > 0.5 and bad >= 4:
        return "high"
    return "medium" if margin > 0.2 and bad >= 3 else "low"


def _explain(
    facts: dict[str, Any], stage: str, mechanism: str, axis: str, best: dict[str, Any] | None
) -> str:
    group = facts["group"]
    bad = group["rollouts"] - group["successes"]
    text = (
        f"{LABEL}: {bad} of {group['rollouts']} rollouts fail, "
        f"{group['failed_at'].get(stage, 0)} of them at {stage} ({mechanism}). "
    )
    if best is None:
        return f"{text}No factor contrast is available; {axis} is what the program edits."
    unit = f" {best['unit']}" if best["unit"] in ("m", "rad", "kg") else ""
    away = f"{best['failures_away']}{unit} from the seed scene's {best['seed']}"
    if best["successes_away"] is None:
        return (
            f"{text}None succeeded; failures are farthest in {axis}: {best['feature']} is {away}."
        )
    return (
        f"{text}Failures differ most from successes in {axis}: {best['feature']} is {away} on "
        f"average, against {best['successes_away']} for successes (effect size {best['effect']})."
    )


def _references(episodes: list[dict[str, Any]]) -> list[str]:
    """The last event after the reset of up to four rollouts; without one, the rollout's id."""
    return [_last_event(episode) for episode in episodes[:4]]


def _last_event(episode: dict[str, Any]) -> str:
    later = [ref for ref in episode["events"] if not ref.endswith("@0")]
    return str(later[-1] if later else episode["episode"])
