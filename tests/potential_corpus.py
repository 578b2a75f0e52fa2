"""Flawed and sound potentials of every family, made by small changes of the base potentials.

`FLAWED` names the code by which each flaw has to be found, and the rollouts that show it; `SOUND`
must pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from coda.policy.program import Progress, Stage, TrainingProgram
from coda.sim.frame import SimFrame
from tests.potential_edits import FAMILIES, Family, term
from tests.potential_world import never_closing, never_releasing, successes

Rollouts = Callable[[str], tuple[SimFrame, ...]]


def both(name: str) -> tuple[SimFrame, ...]:
    """Failures before the grasp and at the goal."""
    return never_closing(name) + never_releasing(name)


def half_successes(name: str) -> tuple[SimFrame, ...]:
    """Failures, and as many successes that are called failures: nothing can tell them apart."""
    count = len(successes(name)) // 2
    return never_closing(name)[:count] + successes(name)[:count]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A potential and what the check has to say about it."""

    title: str
    family: str
    code: str
    """The code that has to be among the findings."""
    program: TrainingProgram
    failures: Rollouts = both
    failed_stage: str | None = None
    broken_numbers: bool = False
    """Whether the rollouts hold a number that is none."""

    def successes(self) -> list[SimFrame]:
        """Rollouts that succeeded."""
        rollouts = list(successes(self.family))
        if self.broken_numbers:
            pos = rollouts[0].pos.copy()
            pos[5] = np.nan
            rollouts[0] = replace(rollouts[0], pos=pos)
        return rollouts


def _about_text(f: Family) -> Iterator[tuple[str, str, TrainingProgram]]:
    """What can be seen without a rollout."""
    main = f.stage(f.main)
    other = f.stage("reach").progress.model_copy(update={"term": term("near", 0.0, of="support")})
    if f.name == "stack-insert":
        far = term("near", 0.0, of="distractor-3")
        other = other.model_copy(update={"term": far})
    yield "shares above one", "bad-shares", f.changed(f.main, share=0.9)
    yield "shares below one", "bad-shares", f.changed("reach", share=0.01)
    yield "a negative share", "bad-shares", f.weighted("rest", -0.1, f.base)
    yield "reach for another object", "wrong-object", f.changed("reach", progress=other)
    of_other = (*main.entry[1:], term("grasped", of="distractor-1"))
    yield "hold another object", "wrong-object", f.changed(f.main, entry=of_other)
    elsewhere = Progress(term=term("on", of="target", to="distractor-2"), start=-0.1, end=0.0)
    yield "put it onto another object", "wrong-object", f.changed("release", progress=elsewhere)
    nowhere = f.changed("release", entry=(term("on", of="target"),))
    yield "on nothing", "wrong-object", nowhere
    grasping = [s for s in f.upto("grasp") if s.name in ("reach", "descend", "grasp")]
    grasping[0] = grasping[0].model_copy(update={"entry": ()})
    yield "stops at the grasp", "goal-missing", f.scaled(*grasping)
    near = Progress(term=term("near", 0.0, of=f.part), start=-0.45, end=-0.015)
    yield "says nothing but near", "goal-missing", f.alone(near)


def _along_successes(f: Family) -> Iterator[tuple[str, str, TrainingProgram]]:
    """What planner successes show."""
    near = term("near", 0.0, of=f.part)
    held = term("grasped", of=f.part)
    far_off = Progress(term=f.goal, start=1.5, end=2.5)
    yield "a range out of reach", "constant", f.alone(far_off)
    done = Progress(term=f.goal, start=-3.9, end=-3.5)
    yield "a range passed before", "constant", f.alone(done)
    yield "reaching is nearly all", "floods", f.weighted("reach", 0.9, f.base)
    yield "descending is nearly all", "floods", f.weighted("descend", 0.85, f.base)
    at_once = f.measured("reach", -2.0, -1.0)
    yield "reach done at once", "floods", f.weighted("reach", 0.55, at_once)
    yield "letting go is a switch", "jump", f.weighted("release", 0.65, f.base)
    switch = f.measured("grasp", -0.0005, 0.0, held)
    yield "grasping is a switch", "jump", f.weighted("grasp", 0.5, switch)
    yield f"{f.main} begins done", "jump", f.weighted(f.main, 0.5, f.measured(f.main, -3.0, -2.0))
    yield "nothing after the goal", "falls", f.scaled(*f.upto(f.main))
    holding = f.stage("release").model_copy(update={"entry": (f.goal, held), "share": 0.3})
    yield "worth it while it is held", "falls", f.scaled(*f.upto(f.main), holding)
    most = Progress(term=near, start=-0.45, end=-0.10)
    away = Progress(term=near, start=0.0, end=-0.3)
    yield "away from it", "no-rise", f.in_name_only(away)
    yield "the goal in name only", "unfinished", f.weighted("goal", 0.4, f.in_name_only(most))
    unfinished = f.weighted("rest", 0.5, f.measured("rest", 0.5, 1.0))
    yield "rest out of reach", "unfinished", unfinished
    never = f.changed(f.main, entry=(*f.stage(f.main).entry[:2], f.out_of_reach))
    yield f"{f.main} never entered", "unreachable-stage", never
    contradiction = f.changed("release", entry=(f.goal, held, term("released", of=f.part)))
    yield "held and let go at once", "unreachable-stage", contradiction
    at_once = f.changed("descend", entry=(term("near", 2.0, of=f.part),))
    yield "reach overruled at once", "shadowed-stage", at_once
    yield "descend overruled", "shadowed-stage", f.changed("grasp", entry=f.stage("descend").entry)
    yield "descend and grasp swapped", "stage-order", f.swapped("descend", "grasp")
    following = f.base.stages[f.at(f.main) + 1].name
    yield f"{f.main} and {following} swapped", "stage-order", f.swapped(f.main, following)
    first, *others = (s for s in f.base.stages if s.name != "release")
    early = f.of(first, f.stage("release"), *others)
    yield "letting go before taking hold", "stage-order", early
    yield f"{f.main} never scored", "dead-progress", f.measured(f.main, 1.0, 2.0)
    yield f"{f.main} always done", "dead-progress", f.measured(f.main, -3.0, -2.0)
    by_speed = term("settled", 0.0, of=f.part)
    at_rest = f.measured(f.main, 0.1, 0.5, by_speed)
    yield f"{f.main} by a margin that is never so large", "dead-progress", at_rest
    yield "reach backwards", "falling-progress", f.backwards("reach")
    yield f"{f.main} backwards", "falling-progress", f.backwards(f.main)


def _against_failures(f: Family) -> Iterator[Case]:
    """What only failures show."""
    upto_goal = f.scaled(*f.base.stages[: f.at("release")], f.stage("release").model_copy(
        update={"progress": Progress(term=f.goal, start=-0.1, end=-0.05)}
    ))  # fmt: skip
    yield Case(
        title="holding at the goal is enough",
        family=f.name,
        code="rewards-failure",
        program=upto_goal,
        failures=never_releasing,
    )
    near = Progress(term=term("near", 0.0, of=f.part), start=-0.45, end=-0.06)
    yield Case(
        title="rises while failing",
        family=f.name,
        code="rewards-failure",
        program=f.in_name_only(near),
        failures=never_closing,
    )
    yield Case(
        title="half of the failures are successes",
        family=f.name,
        code="no-separation",
        program=f.base,
        failures=half_successes,
    )
    yield Case(
        title="fails before the stage that is named",
        family=f.name,
        code="plateau-elsewhere",
        program=f.base,
        failures=never_closing,
        failed_stage=f.main,
    )
    yield Case(
        title="a number that is none",
        family=f.name,
        code="not-finite",
        program=f.base,
        broken_numbers=True,
    )


def _flawed() -> Iterator[Case]:
    for f in FAMILIES:
        for make in (_about_text, _along_successes):
            for title, code, program in make(f):
                yield Case(title=title, family=f.name, code=code, program=program)
        yield from _against_failures(f)


FLAWED: tuple[Case, ...] = tuple(_flawed())
"""Flawed potentials of every family."""


@dataclass(frozen=True, kw_only=True)
class Sound:
    """A potential that the check must let pass."""

    title: str
    family: str
    program: TrainingProgram


SHARE_DRAWS = 6
"""Draws of shares a family, each within 30 % of the base potential's."""


def _redrawn(f: Family, seed: int) -> TrainingProgram:
    """Every share times a number from 0.7 to 1.3."""
    factors = np.random.default_rng(seed).uniform(0.7, 1.3, len(f.base.stages))
    return f.scaled(
        *(
            s.model_copy(update={"share": s.share * float(by)})
            for s, by in zip(f.base.stages, factors, strict=True)
        )
    )


def _inserted(f: Family, new: Stage, before: str, *, ends: float) -> TrainingProgram:
    """A stage of its own before another; the one before it ends where it begins."""
    stages = list(f.base.stages)
    i = f.at(before)
    old = stages[i - 1].progress
    shorter = Progress(term=old.term, start=old.start, end=ends)
    stages[i - 1] = stages[i - 1].model_copy(update={"progress": shorter})
    return f.scaled(*stages[:i], new, *stages[i:])


def _approached(f: Family) -> TrainingProgram:
    """Reaching in two steps."""
    near = term("near", 0.0, of=f.part)
    approach = Stage(
        name="approach",
        entry=(term("near", 0.22, of=f.part), *f.stage("reach").entry),
        progress=Progress(term=near, start=-0.22, end=-0.10),
        share=0.1,
    )
    return _inserted(f, approach, "descend", ends=-0.22)


def _last_part(f: Family) -> TrainingProgram:
    """The last part of the main stage as a stage of its own."""
    main = f.stage(f.main)
    middle = -0.5 if f.main == "move" else -0.15
    if f.main == "move":
        entry = (*main.entry, term("joint_at", 0.5, of="handle"))
    else:
        entry = (*main.entry[:3], term("above", 0.15, to="receptacle"))
    last = Stage(
        name="last-part",
        entry=entry,
        progress=Progress(term=main.progress.term, start=middle, end=main.progress.end),
        share=0.1,
    )
    following = f.base.stages[f.at(f.main) + 1].name
    return _inserted(f, last, following, ends=middle)


def _without(f: Family, name: str) -> TrainingProgram:
    return f.scaled(*(stage for stage in f.base.stages if stage.name != name))


def _spared(f: Family) -> TrainingProgram:
    """No distractor may be close while descending."""
    entry = (*f.stage("descend").entry[:3], term("near", 0.04, of="distractor-1", negate=True))
    return f.changed("descend", entry=entry)


def _sound() -> Iterator[Sound]:
    for f in FAMILIES:
        made: list[tuple[str, TrainingProgram]] = [("base", f.base)]
        made += [(f"other shares, draw {seed}", _redrawn(f, seed)) for seed in range(SHARE_DRAWS)]
        made += [
            ("reach in two steps", _approached(f)),
            (f"{f.main} in two steps", _last_part(f)),
            ("no descend", _without(f, "descend")),
            ("no rest", _without(f, "rest")),
            ("reach from farther", f.measured("reach", -0.6, -0.1)),
            ("twice as much for the grasp", f.weighted("grasp", 0.2, f.base)),
            (f"half of it for {f.main}", f.weighted(f.main, 0.5, f.base)),
            ("three times as much for letting go", f.weighted("release", 0.15, f.base)),
            ("spare a distractor", _spared(f)),
        ]
        for title, program in made:
            yield Sound(title=title, family=f.name, program=program)


SOUND: tuple[Sound, ...] = tuple(_sound())
"""Sound potentials of every family."""
