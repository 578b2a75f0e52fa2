"""Stages that the offline Text2potential inserts, about whatever the failing stage is about.

Every function takes the part of a potential that is about one role and says what to insert before
which stage; the terms of the role's stages that wait for something else to be done are carried on.
"""

from __future__ import annotations

from dataclasses import dataclass

from coda.policy.program import Progress, Stage
from coda.sim.roles import DISTRACTORS, Role
from coda.sim.terms import PredicateName, PredicateTerm

CLOSE_M = 0.16
"""Distance from what is taken at which the last part of the way to it begins [m]."""
MOST_TERMS = 4
"""Terms that an entry holds at most."""

Insertion = tuple[int, tuple[Stage, ...]]
"""(index of the stage to insert before, new stages)."""


@dataclass(frozen=True)
class Part:
    """The stretch of a potential's stages that is about one role."""

    stages: tuple[Stage, ...]
    """All stages of the potential."""
    start: int
    """Index of the part's first stage."""
    stop: int
    """Index after its last."""

    @classmethod
    def around(cls, stages: tuple[Stage, ...], name: str) -> Part:
        """The part that holds the stage of that name; the last one where there is none."""
        names = [stage.name for stage in stages]
        k = names.index(name) if name in names else len(stages) - 1
        subject = stages[k].progress.term.subject
        start = stop = k
        while start > 0 and stages[start - 1].progress.term.subject == subject:
            start -= 1
        while stop < len(stages) and stages[stop].progress.term.subject == subject:
            stop += 1
        return cls(stages, start, stop)

    @property
    def subject(self) -> Role:
        """What the part is about."""
        return self.stages[self.start].progress.term.subject

    def find(self, *measures: PredicateName) -> int | None:
        """Index of the first stage that measures one of these and has a stage after it."""
        for k in range(self.start, min(self.stop, len(self.stages) - 1)):
            if self.stages[k].progress.term.name in measures:
                return k
        return None

    def term(
        self, name: PredicateName, limit: float | None = None, reference: Role | None = None
    ) -> PredicateTerm:
        """A term about the part's role."""
        return PredicateTerm(name=name, subject=self.subject, limit=limit, reference=reference)

    @property
    def held(self) -> tuple[PredicateTerm, ...]:
        """The gripper holds the role, in the words of the part's own stages where they say it."""
        for stage in self.stages[self.start : self.stop]:
            said = {term.name: term for term in stage.entry if not term.negate}
            if "grasped" in said and "near" in said:
                return said["grasped"], said["near"]
        return self.term("grasped"), self.term("near", 0.035)

    @property
    def waits(self) -> tuple[PredicateTerm, ...]:
        """What has to be done before the part, where the scene has it."""
        terms = (t for stage in self.stages[self.start : self.stop] for t in stage.entry)
        return tuple(dict.fromkeys(t for t in terms if t.if_absent is not None))

    def stage(self, name: str, share: float, progress: Progress, *entry: PredicateTerm) -> Stage:
        """A new stage; of too many entry terms, those named last are left out."""
        waits = self.waits
        own = entry[: MOST_TERMS - len(waits)]
        return Stage(name=name, share=share, progress=progress, entry=(*own, *waits))


def approach(part: Part) -> Insertion | None:
    """The last part of the way to the role by itself, fingers open."""
    k = part.find("near")
    if k is None:
        return None
    new = part.stage(
        "approach", 0.10, _closer(part, k, CLOSE_M), part.term("near", CLOSE_M), part.term("opened")
    )
    return k + 1, (new,)


def clear(part: Part) -> Insertion | None:
    """The same, away from the distractors."""
    k = part.find("near")
    if k is None:
        return None
    away = (
        PredicateTerm(name="near", subject=role, limit=0.06, negate=True) for role in DISTRACTORS
    )
    new = part.stage("clear", 0.10, _closer(part, k, CLOSE_M), part.term("near", CLOSE_M), *away)
    return k + 1, (new,)


def align(part: Part) -> Insertion | None:
    """Turning to the role's yaw before going down to it."""
    k = part.find("near")
    if k is None:
        return None
    turn = Progress(term=part.term("aligned", 0.0), start=-0.9, end=-0.2)
    at, before = part.term("near", 0.12), part.stages[k + 1].progress.term.name == "near"
    if before:
        return k + 1, (part.stage("align", 0.12, turn, at),)
    down = part.stage(
        "close-in", 0.05, _closer(part, k, 0.10),
        part.term("near", 0.10), part.term("aligned"), part.term("opened"),
    )  # fmt: skip
    return k + 1, (part.stage("align", 0.07, turn, at), down)


def steady(part: Part) -> Insertion | None:
    """The first centimetres of lifting by themselves; half of the way where nothing is lifted."""
    k = part.find("lifted")
    if k is None:
        return near_goal(part)
    up = Progress(term=part.term("lifted", 0.0), start=0.02, end=0.05)
    return k + 1, (part.stage("steady", 0.10, up, part.term("lifted", 0.02), *part.held),)


def near_goal(part: Part) -> Insertion | None:
    """The last part of the way to the goal, in hold."""
    return _last_part(part, "near-goal", 0.15, 0.5, lifted=True)


def centre(part: Part) -> Insertion | None:
    """Being over the middle of the goal before lowering; a joint nearly where it should be."""
    return _last_part(part, "centre", 0.08, 0.3, lifted=False)


def _closer(part: Part, k: int, start_m: float) -> Progress:
    """From `start_m` away to where stage k ends."""
    term = part.term("near", 0.0)
    return Progress(term=term, start=-start_m, end=part.stages[k].progress.end)


def _last_part(
    part: Part, name: str, left_m: float, left_share: float, *, lifted: bool
) -> Insertion | None:
    """The last `left_m` over to the goal, or the last `left_share` of a joint's travel."""
    k = part.find("above", "joint_at")
    if k is None:
        return None
    way = part.stages[k].progress
    left = left_m
    if way.term.name == "joint_at":  # not where the next stage has begun already
        left = max(left_share, 0.15 + _entered_at(part.stages[k + 1], way.term))
    here = way.term.model_copy(update={"limit": left})
    up = (part.term("lifted", 0.05),) if lifted and part.find("lifted") is not None else ()
    progress = Progress(term=way.term, start=-left, end=way.end)
    return k + 1, (part.stage(name, 0.10, progress, here, *part.held[:1], *up, *part.held[1:]),)


def _entered_at(stage: Stage, measure: PredicateTerm) -> float:
    """The limit at which a stage is entered in terms of a measure; 0 where it is not."""
    same = (t for t in stage.entry if (t.name, t.subject) == (measure.name, measure.subject))
    return max((t.limit for t in same if t.limit is not None), default=0.0)
