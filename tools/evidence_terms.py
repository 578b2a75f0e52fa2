"""Predicates that evidence tells of: the goal's, and those about what a rollout manipulates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from coda.policy.program import Stage
from coda.sim.errors import SceneError
from coda.sim.events import Event, watched
from coda.sim.frame import SimFrame
from coda.sim.predicates import evaluate, present
from coda.sim.roles import Role
from coda.sim.rollout import EpisodeData
from coda.sim.scene import Scene
from coda.sim.terms import PredicateName, PredicateTerm
from coda.tools.contacts import manipulated

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
    released = PredicateTerm(name="released", subject=about)
    return _distinct((*terms, *goal, released, stage.progress.term), frame)


def timeline(episode: EpisodeData) -> tuple[Event, ...]:
    """Changes of the goal's terms, of grasps and of all watched terms, in time order.

    Needs `EpisodeData.fine`; raises `SceneError` without.
    """
    if episode.fine is None:
        raise SceneError("this rollout kept no control-step states; run it with keep_fine=True.")
    frame = SimFrame.unpack(np.concatenate((episode.frames[:1], episode.fine)))
    events: list[Event] = []
    for term in _followed(frame, goal_terms(episode.scene)):
        truth, margin = evaluate(term, frame)
        steps = [0] if truth[0] else []
        steps += (np.flatnonzero(truth[1:] != truth[:-1]) + 1).tolist()
        events += [Event(k, str(term), bool(truth[k]), float(margin[k])) for k in steps]
    return tuple(sorted(events, key=lambda event: (event.step, event.term)))


def _followed(frame: SimFrame, goal: Sequence[PredicateTerm]) -> tuple[PredicateTerm, ...]:
    """Terms of a timeline; those of a target that the gripper cannot take are left out."""
    roles = manipulated(frame)
    terms = list(goal)
    for role in roles:
        terms += [
            PredicateTerm(name="near", subject=role, limit=0.03),
            PredicateTerm(name="aligned", subject=role),
            PredicateTerm(name="grasped", subject=role),
            PredicateTerm(name="released", subject=role),
        ]
    terms += [term for term in watched(frame, goal) if term.subject != "target" or "target" in roles]
    return _distinct(terms, frame)


def _distinct(terms: Iterable[PredicateTerm], frame: SimFrame) -> tuple[PredicateTerm, ...]:
    """Terms about roles that are there; of those that differ in their limits only, the first."""
    found: dict[tuple[str, Role, Role | None], PredicateTerm] = {}
    for term in terms:
        if present(term, frame)[0]:
            found.setdefault((term.name, term.subject, term.reference), term)
    return tuple(found.values())
