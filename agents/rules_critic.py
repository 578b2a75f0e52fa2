"""Offline rule of the critic: blames an axis by contrasts and symptoms. It can be wrong."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

LABEL = "Offline rule on privileged simulator evidence, not a language model"

PUSHED_M = 0.02
"""Displacement that counts as a push [m]."""
OFTEN = 2
"""Grasps lost from which that is the mechanism, though the last grasp held."""
CARRYING = ("above", "on", "inside", "inserted")
"""Measures of stages that take what is held to its place."""
LETTING_GO = ("released", "settled")
"""Measures of stages after the goal was reached."""

NOTICEABLE = 0.4
"""Mean distance of failures from the seed scene, in the feature's scale, below which a contrast
counts less: so little is within the seed range."""

Hint = tuple[str, float]

HINTS: Mapping[str, tuple[Hint, ...]] = MappingProxyType(
    {
        "misaligned-grasp": (("yaw", 0.5),),
        "no-closure": (("size", 0.3),),
        "slip": (("mass-friction", 0.5),),
        "collision": (("distractors", 0.6),),
        "wrong-object": (("distractors", 0.8),),
        "reach-error": (("position", 0.2),),
        "transport-error": (("goal", 0.4),),
        "early-release": (("goal", 0.3),),
    }
)
"""Mechanism -> axes it usually comes from, with the weight of that hint at a share of 1."""

FIXTURE_HINTS: Mapping[str, tuple[Hint, ...]] = MappingProxyType(
    {"stall": (("mass-friction", 0.5),)}
)
"""The same where a fixture's joint is worked: stiff joints stop it."""
ARC_HINTS: Mapping[str, tuple[Hint, ...]] = MappingProxyType(
    {
        "slip": (("mass-friction", 0.4), ("size", 0.3)),
        "stall": (("mass-friction", 0.4), ("size", 0.3)),
    }
)
"""The same where its handle moves on an arc, whose radius grows with its size."""
INSERTION_HINTS: Mapping[str, tuple[Hint, ...]] = MappingProxyType(
    {"stall": (("size", 0.4), ("yaw", 0.3)), "transport-error": (("goal", 0.3), ("yaw", 0.2))}
)
"""The same where the target has to fit: clearance and parallel sides decide."""
OF_THE_TARGET = ("position", "yaw", "size", "mass-friction", "asset")
"""Axes that describe the target: a failure about something else is the goal axis' instead."""
ELSEWHERE = 0.4
"""Factor on the scores of those axes then."""


def diagnose(facts: dict[str, Any]) -> dict[str, Any]:
    """Answer the task ``diagnose``."""
    failures = [e for e in facts["episodes"] if not e["success"]]
    stage = max(facts["group"]["failed_at"], key=facts["group"]["failed_at"].get)
    goal: list[str] = facts["goal"]
    symptoms = {e["episode"]: symptom(e, facts["measures"][e["stage"]], goal) for e in failures}
    at_stage = [e for e in failures if e["stage"] == stage] or failures
    mechanism = Counter(symptoms[e["episode"]] for e in at_stage).most_common(1)[0][0]
    scores = axis_scores(facts, hinted([(symptoms[e["episode"]], e) for e in failures], goal))
    scores = _about_the_target(scores, at_stage, goal)
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


def symptom(episode: dict[str, Any], measure: str, goal: list[str]) -> str:
    """Mechanism of one failed rollout from its events, margins and contacts.

    Args:
        episode: Facts of the rollout.
        measure: What the stage that it did not complete measures, e.g. ``above(target, …)``.
        goal: The terms of the task's goal, e.g. ``on(target, receptacle)``.
    """
    contacts, measured = episode["contacts"], measure.split("(")[0]
    if contacts["distractors_grasped"]:
        return "wrong-object"
    bumped = max(contacts["distractor_moved_m"], contacts["goal_moved_m"]) > PUSHED_M
    fell = contacts.get("storey_fell", False) and contacts["about"] == "target"
    if contacts["lost_grasp"] == "never-held":
        if contacts["still_held"]:
            return "no-release"  # of what came before it
        return "collision" if bumped or fell else _no_grasp(contacts, episode["margins"])
    if fell:
        return "collision"
    if contacts["lost_grasp"] == "slipped":
        return "slip"
    if contacts["lost_grasp"] == "opened":
        return "stall" if measured in LETTING_GO else "early-release"
    if measured == "released" or episode["at_goal"]:
        return "no-release"
    if bumped:
        return "collision"
    lost: dict[str, int] = contacts["times_lost"]
    if sum(lost.values()) >= OFTEN:
        return "slip" if lost["slipped"] >= lost["opened"] else "early-release"
    if _inserts(goal) and _margin(episode["margins"], "above", contacts["about"]) >= 0:
        return "stall"  # over the mouth, and does not go in
    return "transport-error" if measured in CARRYING else "stall"


def _no_grasp(contacts: dict[str, Any], margins: dict[str, float]) -> str:
    """It was never held: what was in the way at the closest approach."""
    near = _margin(margins, "near", contacts["about"])
    if near < -0.06:
        return "collision" if contacts["table_hit"] else "reach-error"
    if _margin(margins, "aligned", contacts["about"]) < 0:
        return "misaligned-grasp"
    if near >= -0.01 or contacts["fingers_closed"]:
        return "no-closure"
    return "misaligned-grasp" if contacts["moved_before_grasp_m"] > PUSHED_M else "stall"


def _margin(margins: dict[str, float], name: str, subject: str) -> float:
    """Margin of the term of that name about a role; -1, as of an absent role, without one."""
    said = f"{name}({subject}"
    found = [v for term, v in margins.items() if term.startswith((f"{said})", f"{said},"))]
    return found[0] if found else -1.0


def _inserts(goal: list[str]) -> bool:
    return any(term.startswith("inserted(") for term in goal)


def _about_the_target(
    scores: dict[str, float], episodes: list[dict[str, Any]], goal: list[str]
) -> dict[str, float]:
    """Scores with less for the target's own axes where most failures are about something else."""
    other = [e for e in episodes if not _own(e["contacts"]["about"], goal)]
    if 2 * len(other) <= len(episodes):
        return scores
    return {axis: s * (ELSEWHERE if axis in OF_THE_TARGET else 1.0) for axis, s in scores.items()}


def _own(about: str, goal: list[str]) -> bool:
    """Whether a manipulated role is the target or, in tasks about a joint, the target's handle."""
    return about == "target" or any(term.startswith("joint_at(") for term in goal)


def hinted(symptoms: list[tuple[str, dict[str, Any]]], goal: list[str]) -> dict[str, float]:
    """Weight of what failures' symptoms say of each axis, by (mechanism, rollout)."""
    found: dict[str, float] = {}
    for mechanism, episode in symptoms:
        for axis, weight in _hints(mechanism, episode["contacts"], goal):
            found[axis] = found.get(axis, 0.0) + weight / len(symptoms)
    return found


def _hints(mechanism: str, contacts: dict[str, Any], goal: list[str]) -> tuple[Hint, ...]:
    """Axes that a mechanism usually comes from, given what is manipulated."""
    about, table = contacts["about"], HINTS
    if about == "handle":
        table = {**HINTS, **(ARC_HINTS if contacts.get("joint") == "hinge" else FIXTURE_HINTS)}
    elif about == "target" and _inserts(goal):
        table = {**HINTS, **INSERTION_HINTS}
    own = _own(about, goal)
    return tuple(
        ("goal" if axis in OF_THE_TARGET and not own else axis, weight)
        for axis, weight in table.get(mechanism, ())
    )


def axis_scores(facts: dict[str, Any], hints: dict[str, float]) -> dict[str, float]:
    """Score of every edited axis: cautious contrast, progress correlation, distance, symptoms.

    Args:
        facts: The evidence.
        hints: Weight of what the symptoms say of each axis.
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
    for axis, weight in hints.items():
        if scores.get(axis, 0.0) > 0.0:  # a symptom alone blames nothing that does not vary
            scores[axis] += weight
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
