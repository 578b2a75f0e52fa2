"""Event timelines: when each predicate of interest became true or false in a rollout."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coda.sim.errors import SceneError
from coda.sim.frame import SimFrame
from coda.sim.predicates import evaluate
from coda.sim.roles import DISTRACTORS, ROLES
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


WATCHED: tuple[PredicateTerm, ...] = (
    PredicateTerm(name="near", limit=0.03),
    PredicateTerm(name="aligned"),
    PredicateTerm(name="grasped"),
    PredicateTerm(name="lifted"),
    PredicateTerm(name="above", reference="receptacle"),
    PredicateTerm(name="on", reference="receptacle"),
    PredicateTerm(name="released"),
    PredicateTerm(name="upright"),
)
"""Terms that a timeline follows."""
HANDLE: tuple[PredicateTerm, ...] = (
    PredicateTerm(name="grasped", subject="handle"),
    PredicateTerm(name="joint_at", subject="handle"),
)
"""Terms that it follows beside them where a fixture with a handle is in the scene."""


def watched(frame: SimFrame) -> tuple[PredicateTerm, ...]:
    """Terms to follow in a scene: the standard ones, its handle's, its distractors' grasps."""
    handle = HANDLE if frame.present[0, ROLES.index("handle")] > 0 else ()
    extra = tuple(
        PredicateTerm(name="grasped", subject=role)
        for role in DISTRACTORS
        if frame.present[0, ROLES.index(role)] > 0
    )
    return (*WATCHED, *handle, *extra)


def timeline(episode: EpisodeData) -> tuple[Event, ...]:
    """Events of a rollout in time order. Needs `EpisodeData.fine`; raises `SceneError` without."""
    if episode.fine is None:
        raise SceneError("this rollout kept no control-step states; run it with keep_fine=True.")
    frame = SimFrame.unpack(np.concatenate((episode.frames[:1], episode.fine)))
    events: list[Event] = []
    for term in watched(frame):
        truth, margin = evaluate(term, frame)
        if truth[0]:
            events.append(Event(0, str(term), True, float(margin[0])))
        for step in np.flatnonzero(truth[1:] != truth[:-1]) + 1:
            events.append(Event(int(step), str(term), bool(truth[step]), float(margin[step])))
    return tuple(sorted(events, key=lambda e: (e.step, e.term)))
