"""Measuring a policy: on the frozen evaluation sets, and on the fixed probe scenes of a mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from coda.graphs.artifacts import load_scenes, save_scenes
from coda.graphs.seeds import rng, seed_int
from coda.graphs.work import Work
from coda.memory.progress import Band, BandDecision, Count, top_up, wilson
from coda.memory.records import Mode
from coda.memory.rows import ProgressRow
from coda.sim.program import GenerationProgram
from coda.sim.sampling import Rejected, sample_scene
from coda.sim.scene import Scene
from coda.sim.splits import EvaluationSet, evaluation_set
from coda.tools.acting import Acting
from coda.tools.episode_store import save_trials
from coda.tools.evaluation import Label, Origin, tally

PROBE_DRAWS = 6
"""Scenes drawn for each probe scene wanted, at most."""


def measure_sets(work: Work, policy: Acting) -> dict[str, Count]:
    """Evaluate In and OOD, journal and tell success overall and by label; totals by split.

    The policy's noise is the same in every round, so that rounds differ by the policy only.
    """
    limits = work.deps.config.measuring
    totals: dict[str, Count] = {}
    for split, wanted in (("in", limits.in_scenes), ("ood", limits.ood_scenes)):
        totals[split] = _measure_set(work, policy, "in" if split == "in" else "ood", wanted)
    return totals


def balanced(labels: Sequence[str], wanted: int) -> list[int]:
    """Indices of `wanted` scenes, taking turns between labels, in the order of the set."""
    queues = {name: [i for i, label in enumerate(labels) if label == name] for name in labels}
    chosen: list[int] = []
    while len(chosen) < min(wanted, len(labels)):
        for queue in queues.values():
            if queue and len(chosen) < wanted:
                chosen.append(queue.pop(0))
    return sorted(chosen)


def _measure_set(work: Work, policy: Acting, split: Literal["in", "ood"], wanted: int) -> Count:
    full: EvaluationSet = evaluation_set(split, work.deps.config.family)
    tasks = work.deps.config.family_tasks
    ours = [i for i, scene in enumerate(full.scenes) if scene.tau.task in tasks]
    chosen = [ours[k] for k in balanced([full.axis[i] for i in ours], wanted)]
    axes = [full.axis[i] for i in chosen]
    trials = work.deps.evaluator.evaluate(
        policy,
        [full.scenes[i] for i in chosen],
        seed=seed_int(work.deps.config.seed, "evaluate", split),
        origin=Origin(node_key=work.key, purpose=f"evaluate-{split}", prefix=f"{work.key}:{split}"),
        labels=[Label(axis=axis, program=f"{split} {full.digest[:12]}") for axis in axes],
        on_batch=lambda done, total: work.step(done, total, f"{split} evaluation"),
    )
    path = work.deps.folder.path / "episodes" / f"r{work.round:02d}-{split}.npz"
    path.parent.mkdir(exist_ok=True)
    save_trials(path, trials)
    count = tally(trials)
    rows = {"all": count}
    if len(set(axes)) > 1:
        for axis in dict.fromkeys(axes):
            rows[axis] = tally([t for t, a in zip(trials, axes, strict=True) if a == axis])
    for label, c in rows.items():
        record_progress(work, split, label, c)
    low, high = wilson(count.successes, count.trials)
    name = {"in": "In", "ood": "OOD"}[split]
    work.tell(
        f"{name} success {count.rate:.0%} [{low:.0%}, {high:.0%}] "
        f"({count.successes}/{count.trials})",
        "success",
        {
            "split": split,
            "successes": count.successes,
            "trials": count.trials,
            "low": low,
            "high": high,
        },
    )
    return count


def probe(work: Work, policy: Acting, mode: Mode, band: Band, *, label: str) -> BandDecision:
    """Success on the mode's fixed probe scenes, more of them while the band is undecided.

    Args:
        work: The node run.
        policy: Whom to probe.
        mode: Whose scenes.
        band: Success rates in which a scene teaches.
        label: Label of the journal's row, e.g. ``m001:before``.
    """
    scenes = probe_scenes(work, mode)
    first = work.deps.config.measuring.probe_scenes
    steps = [min(n, len(scenes)) for n in (first, 2 * first, 4 * first)]

    def evaluate(indices: range) -> list[bool | None]:
        trials = work.deps.evaluator.evaluate(
            policy,
            [scenes[i] for i in indices],
            seed=seed_int(work.deps.config.seed, "probe", mode.mode_id, indices.start),
            origin=Origin(
                node_key=work.key,
                purpose="probe",
                prefix=f"{work.key}:{label}:{indices.start:03d}",
            ),
            labels=Label(axis=mode.axis, program=mode.omega.name, mode_id=mode.mode_id),
        )
        return [trial.success for trial in trials]

    decision = top_up(evaluate, band, steps=steps)
    record_progress(work, "probe", label, decision.count)
    return decision


def probe_scenes(work: Work, mode: Mode) -> list[Scene]:
    """The mode's fixed probe scenes, drawn and gated once from seeds of their own."""
    path = work.deps.folder.path / "probes" / f"{mode.mode_id}.json"
    if not path.exists():
        wanted = 4 * work.deps.config.measuring.probe_scenes
        save_scenes(path, _draw_probes(work, mode.omega, mode.mode_id, wanted))
    return load_scenes(path)


def _draw_probes(work: Work, program: GenerationProgram, mode_id: str, wanted: int) -> list[Scene]:
    source = rng(work.deps.config.seed, "probe", mode_id)
    scenes: list[Scene] = []
    for _ in range(PROBE_DRAWS):
        batch: list[Scene] = []
        for _ in range(wanted - len(scenes)):
            try:
                batch.append(sample_scene(program, source, guard=work.deps.splits))
            except Rejected:
                continue
        reports = work.deps.gate.check(batch)
        scenes += [r.scene for r in reports if r.accepted and r.scene is not None]
        if len(scenes) >= wanted:
            break
    return scenes


def record_progress(
    work: Work, split: Literal["in", "ood", "probe"], label: str, count: Count
) -> None:
    """Journal success on a split or a mode's probe scenes."""
    work.deps.db.add(
        ProgressRow(
            node_key=work.key,
            round=work.round,
            split=split,
            label=label,
            successes=count.successes,
            trials=count.trials,
        )
    )
