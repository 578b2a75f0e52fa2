"""Node *plan*: take up directives, let the curriculum choose, lay out the round's slots."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from coda.agents import curriculum
from coda.agents.actions import ModeChange, NewMode
from coda.agents.curriculum import PlanFacts
from coda.agents.directives import Steering, parse_action, read_row
from coda.agents.record import NoAnswer
from coda.agents.rules_plan import plan_round as plan_by_rule
from coda.agents.schemas import PlanAnswer
from coda.graphs.plan_facts import gather, steering_in_force
from coda.graphs.state import Magnitude, RoundState, RoundUpdate, Settings, Slot
from coda.graphs.work import Work
from coda.memory.records import ModeStatus
from coda.sim.families import program_task
from coda.sim.roles import AXES, Axis

STATUS_OF: Mapping[ModeChange, ModeStatus] = {
    "park": "parked",
    "retire": "parked",
    "activate": "retained",
}
"""What a person's word makes of a mode."""
FULL_PROGRESS = 0.2
"""Mean learning progress from which training is worth the most updates."""
EXPLORE_SHARE: Mapping[str, float] = {"none": 0.0, "quarter": 0.25, "half": 0.5, "all": 1.0}


def plan(work: Work, state: RoundState) -> RoundUpdate:
    """Plan round `work.round`, or end the run."""
    fresh = [read_row(row) for row in work.deps.db.consume(work.key)]
    for directive in fresh:
        work.decide(
            "directive", f"took up {directive.line()}", "person", directive=directive.directive_id
        )
    steering = steering_in_force(work)
    _steer_modes(work, steering)
    rounds = steering.rounds if steering.rounds is not None else work.deps.config.rounds
    if steering.stop:
        return _stop(work, "a person asked to stop", "person")
    if work.round > rounds:
        return _stop(work, f"all {rounds} rounds are done", "rule:rounds")
    settings = _settings(work, steering)
    facts = gather(work, settings, steering, rounds)
    answer = _ask(work, facts)
    if answer.decision == "stop":
        return _stop(work, answer.rationale, "curriculum")
    work.decide("plan", answer.rationale, "curriculum", modes=list(answer.focus_modes))
    settings = _scheduled(work, settings, facts)
    wanted = [d.action for d in fresh if isinstance(d.action, NewMode)]
    slots = lay_out(work, answer, facts, wanted)
    return {
        "round": work.round,
        "settings": settings,
        "slots": slots,
        "focus_modes": list(answer.focus_modes),
        "program_ids": [],
        "diagnosed": {},
        "verdicts": {},
        "changed_modes": [],
        "train_modes": [],
    }


def lay_out(
    work: Work, answer: PlanAnswer, facts: PlanFacts, wanted: Sequence[NewMode]
) -> list[Slot]:
    """Slots of the round: exploring ones by turns over axes, the others by the modes' weights.

    Each time that an axis has its turn, in this round or a later one, it is about the next task.
    """
    total = facts.programs
    axes = [*(mode.axis for mode in wanted), *answer.explore_axes] or list(facts.open_axes)
    focus = [mode for mode in facts.modes if mode.mode_id in answer.focus_modes]
    explore = total if not focus else math.ceil(EXPLORE_SHARE[answer.explore_share] * total)
    explore = min(total, max(explore, len(wanted)))
    seen = {row.axis: row.success for row in facts.axes}
    easy = easy_from(facts.band)
    mastered = [axis for axis in facts.open_axes if (seen.get(axis) or 0.0) > easy]
    tasks = work.deps.config.family_tasks
    passes = math.ceil(explore / len(axes))
    slots: list[Slot] = []
    for i in range(explore):
        axis = axes[i % len(axes)]
        again = any(slot["axis"] == axis for slot in slots)
        far = magnitude_of(seen.get(axis), facts.band, again=again)
        joined = join(axis, mastered, i) if axis in mastered else []
        turn = (work.round - 1) * passes + i // len(axes)
        task = tasks[(AXES.index(axis) + turn) % len(tasks)]
        slots.append(_slot(work, len(slots), axis, task, None, seen.get(axis), far, joined))
    shares = apportion([mode.weight for mode in focus], total - explore)
    for mode, share in zip(focus, shares, strict=True):
        far = magnitude_of(mode.last_success, facts.band, again=False)
        task = program_task(work.deps.modes.require(mode.mode_id).omega).name
        for _ in range(share):
            slots.append(
                _slot(work, len(slots), mode.axis, task, mode.mode_id, mode.last_success, far)
            )
    return slots


def easy_from(band: tuple[float, float]) -> float:
    """Success from which scenes are easy: the upper quarter of the band and above."""
    low, high = band
    return high - (high - low) / 4


def join(axis: Axis, mastered: Sequence[Axis], turn: int) -> list[Axis]:
    """Two or three other mastered axes to widen with a mastered one, by turns.

    What is mastered alone teaches nothing more alone; together it may.
    """
    others = [other for other in mastered if other != axis]
    count = min(len(others), 2 + turn % 2)
    return [others[(turn + i) % len(others)] for i in range(count)]


def apportion(weights: Sequence[float], seats: int) -> list[int]:
    """Seats by weight (Sainte-Laguë); the earlier wins a tie, and zero weights get none."""
    given = [0] * len(weights)
    for _ in range(seats if any(weight > 0 for weight in weights) else 0):
        best = max(range(len(weights)), key=lambda i: (weights[i] / (2 * given[i] + 1), -i))
        given[best] += 1
    return given


def magnitude_of(last: float | None, band: tuple[float, float], *, again: bool) -> Magnitude:
    """How far exploration goes: wide at first and where it succeeds, closer where nothing does.

    `again`: another program of the round explores the same axis; it looks at another distance.
    """
    low, _ = band
    chosen: Magnitude = "medium"
    if last is None or last > easy_from(band):
        chosen = "large"
    elif last < low:
        chosen = "small"
    if not again:
        return chosen
    return "large" if chosen == "medium" else "medium"


def _slot(
    work: Work,
    index: int,
    axis: Axis,
    task: str,
    mode_id: str | None,
    last: float | None,
    far: Magnitude,
    joined: Sequence[Axis] = (),
) -> Slot:
    return Slot(
        slot_id=f"r{work.round:02d}:p{index + 1:02d}",
        kind="explore" if mode_id is None else "focus",
        mode_id=mode_id,
        task=task,
        axis=axis,
        joined=list(joined),
        magnitude=far,
        last_success=last,
    )


def _ask(work: Work, facts: PlanFacts) -> PlanAnswer:
    try:
        return curriculum.plan_round(work.caller(), facts)
    except NoAnswer as error:
        work.decide(
            "fallback", f"planned by rule instead of the curriculum ({error})", "rule:fallback"
        )
        return PlanAnswer.model_validate(plan_by_rule(facts.facts()))


def _settings(work: Work, steering: Steering) -> Settings:
    config = work.deps.config
    scenes = config.build.programs * config.build.scenes
    return Settings(
        band=steering.band or config.measuring.band,
        scenes=steering.scenes or scenes,
        updates=steering.updates or config.training.updates,
        schedule=steering.schedule or config.switches.schedule,
        avoid_axes=[axis for axis in AXES if axis not in steering.open_axes],
        requests=list(steering.requests),
        weights=dict(steering.weights),
    )


def _scheduled(work: Work, settings: Settings, facts: PlanFacts) -> Settings:
    """Adaptive: train longer where training helps, shorter where it does not, before generating."""
    known = [m.learning_progress for m in facts.modes if m.learning_progress is not None]
    if settings["schedule"] == "fixed" or not known:
        return settings
    updates = adaptive_updates(settings["updates"], known)
    work.decide(
        "schedule",
        f"{updates} updates instead of {settings['updates']}: mean learning progress "
        f"{sum(known) / len(known):+.0%} over {len(known)} modes",
        "rule:adaptive-schedule",
    )
    return {**settings, "updates": updates}


def adaptive_updates(updates: int, progress: Sequence[float]) -> int:
    """Updates of the next round: 3/4 without progress, up to 5/4 from `FULL_PROGRESS` on."""
    mean = sum(progress) / len(progress)
    share = min(1.0, max(0.0, mean / FULL_PROGRESS))
    return round(updates * (0.75 + 0.5 * share))


def _steer_modes(work: Work, steering: Steering) -> None:
    """Set the statuses that people asked for, and let go of those whose directive was undone."""
    source = {
        action.mode_id: row.directive_id
        for row in work.deps.db.directives("consumed")
        if (action := parse_action(dict(row.action))).kind == "mode-status"
    }
    changes = {change.mode_id: change for change in steering.mode_changes}
    for mode in work.deps.modes.all():
        change = changes.get(mode.mode_id)
        if change is None and mode.pinned_by is not None:
            work.deps.modes.unpin(work.key, mode.mode_id)
        elif change is not None and mode.pinned_by != source[mode.mode_id]:
            work.deps.modes.pin(
                work.key,
                mode.mode_id,
                STATUS_OF[change.change],
                source[mode.mode_id],
                change.reason,
            )


def _stop(work: Work, why: str, by: str) -> RoundUpdate:
    work.decide("stop", why, by)
    return {"stop": why}
