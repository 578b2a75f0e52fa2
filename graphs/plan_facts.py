"""Facts that a plan rests on: directives in force, modes, axes and history of training scenes.

Nothing of the evaluation flows in here: neither its scenes nor its results.
"""

from __future__ import annotations

from collections.abc import Mapping

from coda.agents.curriculum import AxisFacts, ModeFacts, PlanFacts
from coda.agents.directives import Steering, apply_directives, read_row
from coda.graphs.state import Settings
from coda.graphs.work import Work
from coda.memory.progress import Count, ModeSignal, mode_weights
from coda.memory.records import Mode
from coda.memory.rows import ControlTestRow, EpisodeRow, ProgressRow
from coda.sim.roles import AXES, Axis


def steering_in_force(work: Work) -> Steering:
    """All directives that are consumed and not undone, folded in order."""
    rows = work.deps.db.directives("consumed")
    return apply_directives(Steering(), [read_row(row) for row in rows])


def gather(work: Work, settings: Settings, steering: Steering, rounds: int) -> PlanFacts:
    """Facts of the plan: modes, axes and history of training scenes; nothing of the evaluation."""
    spent = work.deps.budget.spent
    cap = work.deps.config.models
    return PlanFacts(
        round=work.round,
        rounds=rounds,
        programs=work.deps.config.build.programs,
        schedule=settings["schedule"],
        band=(settings["band"][0], settings["band"][1]),
        modes=tuple(mode_facts(work, settings["weights"])),
        axes=tuple(axis_facts(work, axis) for axis in AXES),
        open_axes=steering.open_axes,
        directives=tuple(read_row(row).line() for row in work.deps.db.directives("consumed")),
        stop_requested=steering.stop,
        history=tuple(_history(work, round_) for round_ in range(1, work.round)),
        budget=f"{spent.tokens} of {cap.max_tokens} tokens, {spent.usd:.2f} of "
        f"{cap.max_usd:.2f} US dollars used",
    )


def mode_facts(work: Work, factors: Mapping[str, float]) -> list[ModeFacts]:
    """Modes with their weights: uncertainty, learning progress and staleness, then steered."""
    modes = work.deps.modes.all()
    progress = {mode.mode_id: learning_progress_of(work, mode) for mode in modes}
    signals = [
        ModeSignal(
            mode_id=mode.mode_id,
            count=latest_probe(mode),
            learning_progress=progress[mode.mode_id] or 0.0,
            staleness=max(0, work.round - 1 - mode.last_probed_round),
        )
        for mode in modes
    ]
    weights = mode_weights(signals)
    found = []
    for mode, signal in zip(modes, signals, strict=True):
        found.append(
            ModeFacts(
                mode_id=mode.mode_id,
                title=mode.title,
                axis=mode.axis,
                stage=mode.stage,
                mechanism=mode.mechanism,
                status=mode.status,
                weight=weights[mode.mode_id] * factors.get(mode.mode_id, 1.0),
                last_success=signal.count.rate if signal.count.trials else None,
                trials=signal.count.trials,
                learning_progress=progress[mode.mode_id],
                rounds_since_probe=signal.staleness,
                pinned=mode.pinned_by is not None,
            )
        )
    return found


def latest_probe(mode: Mode) -> Count:
    """Counts of the mode's last probe; none before the first."""
    if not mode.probe_history:
        return Count(successes=0, trials=0)
    _, successes, trials = mode.probe_history[-1]
    return Count(successes=successes, trials=trials)


def learning_progress_of(work: Work, mode: Mode) -> float | None:
    """Change of success on the probe scenes in the round that trained the mode last."""
    before = work.deps.db.rows(ProgressRow, split="probe", label=f"{mode.mode_id}:before")
    if not before:
        return None
    key = before[-1].node_key
    after = work.deps.db.rows(ProgressRow, split="probe", label=mode.mode_id, node_key=key)
    rates = [row.successes / row.trials if row.trials else 0.0 for row in (before[-1], after[-1])]
    return rates[1] - rates[0]


def axis_facts(work: Work, axis: Axis) -> AxisFacts:
    """What the generated scenes of an axis showed when it was worked on last."""
    rows = work.deps.db.rows(EpisodeRow, purpose="diagnose", axis=axis)
    if not rows:
        return AxisFacts(axis=axis)
    last = rows[-1].node_key
    count = Count.of([row.success for row in rows if row.node_key == last])
    return AxisFacts(
        axis=axis,
        scenes=len(rows),
        success=count.rate if count.trials else None,
        last_explored=int(last[1:].partition(":")[0]),
    )


def _history(work: Work, round_: int) -> str:
    rows = work.deps.db.rows(EpisodeRow, purpose="diagnose", round_=round_)
    count = Count.of([row.success for row in rows])
    tests = work.deps.db.rows(ControlTestRow, round_=round_)
    verdicts = [
        f"{sum(t.verdict == v for t in tests)} {v}" for v in ("confirmed", "refuted", "undecided")
    ]
    return (
        f"round {round_}: {count.successes} of {count.trials} generated scenes solved; "
        f"diagnoses {', '.join(verdicts)}"
    )
