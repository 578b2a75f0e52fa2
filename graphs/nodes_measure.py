"""Node *measure*: learning progress on probes, statuses of modes, success In and OOD."""

from __future__ import annotations

from coda.graphs.measuring import measure_sets, probe, record_progress
from coda.graphs.plan_facts import latest_probe
from coda.graphs.state import RoundState, RoundUpdate
from coda.graphs.work import Work
from coda.memory.progress import Band, Count, LearningProgress, learning_progress
from coda.memory.records import Mode
from coda.tools.acting import Acting


def measure(work: Work, state: RoundState) -> RoundUpdate:
    """Probe the trained modes before and after, and the stale ones after; evaluate In and OOD."""
    before = work.deps.policy(state["previous_policy"])
    after = work.deps.policy(state["policy"])
    band = work.band(state)
    trained = [work.deps.modes.require(mode_id) for mode_id in state["train_modes"]]
    stale = [
        mode
        for mode in work.deps.modes.due_for_probe(work.round)
        if mode.mode_id not in state["train_modes"]
    ]
    refine: list[str] = []
    for i, mode in enumerate([*trained, *stale]):
        work.step(i, len(trained) + len(stale), f"probes of {mode.mode_id}")
        first = _baseline(work, mode, before, band) if i < len(trained) else None
        progress = _probe_after(work, mode.mode_id, after, band, first)
        if progress is not None and needs_refinement(
            work.deps.modes.require(mode.mode_id), progress, band
        ):
            refine.append(mode.mode_id)
    measure_sets(work, after)
    work.deps.vectors.reconcile(work.deps.db)
    return {"refine": refine if work.deps.config.switches.signal != "no-refinement" else []}


def needs_refinement(mode: Mode, progress: LearningProgress, band: Band) -> bool:
    """Whether training under the mode's potential brought nothing where something is to be won."""
    resting = mode.status in ("mastered", "parked")
    return not resting and progress.value <= 0.0 and latest_probe(mode).rate <= band.high


def _baseline(work: Work, mode: Mode, before: Acting, band: Band) -> Count:
    """Success before this round's training; the last probe where that was of the same policy."""
    known = latest_probe(mode)
    label = f"{mode.mode_id}:before"
    if known.trials and mode.last_probed_round == work.round - 1:
        record_progress(work, "probe", label, known)
        return known
    count = probe(work, before, mode, band, label=label).count
    entry = (work.round - 1, count.successes, count.trials)
    update = {"probe_history": (*mode.probe_history, entry), "last_probed_round": work.round - 1}
    work.deps.modes.put(work.key, mode.model_copy(update=update))
    return count


def _probe_after(
    work: Work, mode_id: str, after: Acting, band: Band, first: Count | None
) -> LearningProgress | None:
    """Probe after training, move the mode along its lifecycle, and tell what came of it."""
    decision = probe(work, after, work.deps.modes.require(mode_id), band, label=mode_id)
    mode = work.deps.modes.advance(work.key, mode_id, work.round, decision)
    progress = learning_progress(first, decision.count) if first is not None else None
    change = "" if progress is None else f", learning progress {progress.value:+.0%}"
    work.decide(
        "probe",
        f"{mode_id}: {decision.count.successes}/{decision.count.trials} on its probes "
        f"({decision.membership}){change}; {mode.status}: {mode.reason}",
        "rule:learning-progress",
        mode=mode_id,
    )
    return progress
