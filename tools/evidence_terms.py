"""Predicates that evidence tells of: the goal's, and those about what a rollout manipulates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from coda.policy.program import Stage
from coda.sim.frame import SimFrame
from coda.sim.predicates import present
from coda.sim.roles import Role
from coda.sim.scene import Scene
from coda.sim.terms import PredicateName, PredicateTerm

GOALS: tuple[PredicateName, ...] = ("on", "inside", "inserted", "joint_at")
"""Predicates that say that a thing is where it belongs."""
PLACES: Mapping[Role, Role] = MappingProxyType({"target": "receptacle", "receptacle": "support"})
"""Where a manipulated object belongs."""


def goal_terms(scene: Scene) -> tuple[PredicateTerm, ...]:
    """The terms of a scene's verifier that say where things belong."""
    return tuple(term for term in scene.nu.terms if term.name in GOALS)


def margin_terms(
    frame: SimFrame, about: Role, stage: Stage, goal: Sequence[PredicateTerm]
) -> tuple[PredicateTerm, ...]:
    """Predicates whose margins are told: about what is manipulated, of the goal, of the stage."""
    terms = [
        PredicateTerm(name="near", subject=about),
        PredicateTerm(name="aligned", subject=about),
        PredicateTerm(name="opened", subject=about),
        PredicateTerm(name="grasped", subject=about),
    ]
    if about != "handle":
        terms.append(PredicateTerm(name="lifted", subject=about))
    if about in PLACES:
        terms.append(PredicateTerm(name="above", subject=about, reference=PLACES[about]))
    terms += [*goal, PredicateTerm(name="released", subject=about), stage.progress.term]
    found: dict[tuple[str, Role, Role | None], PredicateTerm] = {}
    for term in terms:  # of those that differ in their limits only, the first
        if present(term, frame)[0]:
            found.setdefault((term.name, term.subject, term.reference), term)
    return tuple(found.values())
