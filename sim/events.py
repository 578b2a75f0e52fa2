"""Event timelines: when each predicate of interest became true or false in a rollout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from coda.sim.errors import SceneError
from coda.sim.frame import SimFrame
from coda.sim.predicates import evaluate, graspable, present
from coda.sim.roles import DISTRACTORS, Role
from coda.sim.rollout import EpisodeData
from coda.sim.terms import PredicateTerm


@dataclass(frozen=True)
class Event:
    """A predicate changed its truth value."""

    step: int
    """Control step after which the change was seen; 0 is the reset."""
    term: str
    """The term as text, e.g. ``grasped(target)``."""
    became: bool
    margin: float
    """Margin at that moment, in the predicate's unit."""

    def reference(self, episode_id: str) -> str:
        """How evidence cites it, e.g. ``ep12:grasped(target)@34``."""
        name = self.term if self.became else f"lost {self.term}"
        return f"{episode_id}:{name}@{self.step}"


NEAR_M = 0.03
"""Distance at which the gripper is said to be near something [m]."""
_HELD: tuple[PredicateTerm, ...] = (
    PredicateTerm(name="near", limit=NEAR_M),
    PredicateTerm(name="aligned"),
    PredicateTerm(name="grasped"),
)
_CARRIED: tuple[PredicateTerm, ...] = (PredicateTerm(name="lifted"), PredicateTerm(name="upright"))
_WHERE: Mapping[Role, Role] = MappingProxyType({"receptacle": "support", "target": "receptacle"})
"""What carries what, bottom up."""
_PLACED = PredicateTerm(name="on", reference="receptacle")


def watched(frame: SimFrame, goal: Sequence[PredicateTerm] = ()) -> tuple[PredicateTerm, ...]:
    """Terms to follow in a rollout of one scene, in the order in which they usually happen.

    Args:
        frame: States of the scene.
        goal: Terms of its verifier, which say what is carried where and what is opened. Without
            any, the target is taken to go on the receptacle.
    """
    terms: list[PredicateTerm] = []
    goal = goal or (_PLACED,)
    subjects = {term.subject for term in goal}
    if "handle" not in subjects and frame.joint_kind[0] > 0:
        terms += _about("handle", (*_HELD, PredicateTerm(name="joint_at")))
    elif "handle" in subjects:
        terms += _about("handle", _HELD)
    for role, reference in _WHERE.items():
        if role in subjects and graspable(frame, role)[0]:
            terms += _about(role, (*_HELD, *_CARRIED))
            terms.append(PredicateTerm(name="above", subject=role, reference=reference))
    terms += goal
    terms += [PredicateTerm(name="released", subject=t.subject) for t in terms if t.name == "near"]
    terms += [PredicateTerm(name="grasped", subject=role) for role in DISTRACTORS]
    distinct = {(t.name, t.subject, t.reference): t for t in reversed(terms)}
    kept = [t for t in terms if distinct.get((t.name, t.subject, t.reference)) is t]
    return tuple(term for term in kept if present(term, frame)[0])


def _about(role: Role, terms: Sequence[PredicateTerm]) -> list[PredicateTerm]:
    return [term.model_copy(update={"subject": role}) for term in terms]


def timeline(episode: EpisodeData) -> tuple[Event, ...]:
    """Events of a rollout in time order, but for its comings to rest, which are many.

    Needs `EpisodeData.fine`; raises `SceneError` without.
    """
    if episode.fine is None:
        raise SceneError("this rollout kept no control-step states; run it with keep_fine=True.")
    frame = SimFrame.unpack(np.concatenate((episode.frames[:1], episode.fine)))
    events: list[Event] = []
    goal = [term for term in episode.scene.nu.terms if term.name != "settled"]
    for term in watched(frame, goal):
        truth, margin = evaluate(term, frame)
        steps = [0] if truth[0] else []
        steps += (np.flatnonzero(truth[1:] != truth[:-1]) + 1).tolist()
        events += [Event(k, str(term), bool(truth[k]), float(margin[k])) for k in steps]
    return tuple(sorted(events, key=lambda e: (e.step, e.term)))
