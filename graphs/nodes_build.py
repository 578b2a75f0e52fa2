"""Nodes *build* and *rollout*: write programs, draw scenes that pass the gate, run the policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coda.agents import scene_builder
from coda.agents.caller import AgentCaller
from coda.agents.record import NoAnswer
from coda.graphs.artifacts import (
    BuiltProgram,
    built_path,
    load_built,
    rollouts_path,
    save_built,
)
from coda.graphs.runfolder import RunError
from coda.graphs.state import RoundState, RoundUpdate, Settings, Slot
from coda.graphs.work import Work
from coda.memory.progress import membership
from coda.memory.records import Mode
from coda.memory.rows import ProposalRow
from coda.sim.gate import GateReport, summarise
from coda.sim.program import GenerationProgram, Issue
from coda.sim.sampling import Rejected, sample_scene
from coda.sim.scene import Scene
from coda.tools.episode_store import save_trials
from coda.tools.evaluation import Label, Origin, tally

MAX_ISSUES = 8
"""Issues that go back to the scene-builder at once; more repeat themselves."""


@dataclass(frozen=True, kw_only=True)
class Draw:
    """Scenes drawn from one program, and why others were refused."""

    scenes: tuple[Scene, ...]
    proposed: int
    issues: tuple[Issue, ...]
    codes: Mapping[str, int]
    """Refused scenes with an issue of each code."""


def build(work: Work, state: RoundState) -> RoundUpdate:
    """Fill every slot with a program and its accepted scenes."""
    settings, slots = state["settings"], state["slots"]
    wanted = max(1, round(settings["scenes"] / max(1, len(slots))))
    caller = work.caller()
    built: list[BuiltProgram] = []
    for i, slot in enumerate(slots):
        work.step(i, len(slots), "programs")
        built.append(fill_slot(work, caller, slot, settings, wanted))
    built = [item for item in built if item.scenes]
    if not built:
        raise RunError(
            f"no scene of round {work.round} passed the validity gate, not even of the reference "
            "program; run 'coda doctor' to check the simulator."
        )
    save_built(built_path(work.deps.folder.path, work.round), built)
    proposals = work.deps.db.rows(ProposalRow, node_key=work.key)
    accepted = sum(row.accepted for row in proposals)
    proposed = accepted + sum(row.rejected for row in proposals)
    scenes = sum(len(item.scenes) for item in built)
    work.tell(
        f"{len(built)} programs, {scenes} scenes; {accepted} of {proposed} proposals accepted"
    )
    return {"program_ids": [item.program_id for item in built], "scene_count": scenes}


def fill_slot(
    work: Work, caller: AgentCaller, slot: Slot, settings: Settings, wanted: int
) -> BuiltProgram:
    """Ask for a program, gate its scenes, and send what was refused back for repair."""
    mode = work.deps.modes.get(slot["mode_id"]) if slot["mode_id"] else None
    order = scene_builder.Slot(
        kind=slot["kind"],
        axis=slot["axis"],
        task=slot["task"],
        joined=tuple(slot["joined"]),
        mode=mode,
        magnitude=slot["magnitude"],
        band=(settings["band"][0], settings["band"][1]),
        last_success=slot["last_success"],
        avoid_axes=tuple(settings["avoid_axes"]),
        requests=tuple(settings["requests"]),
    )
    best: tuple[GenerationProgram, Draw] | None = None
    previous: GenerationProgram | None = None
    issues: tuple[Issue, ...] = ()
    for attempt in range(1 + work.deps.config.build.repairs):
        try:
            program = scene_builder.write_program(
                caller, order, issues, previous=previous, splits=work.deps.splits
            )
        except NoAnswer as error:
            return _fall_back(work, slot, mode, wanted, f"{error}")
        draw = propose(work, slot, program, wanted, f"{attempt}", work.last_call())
        if best is None or len(draw.scenes) > len(best[1].scenes):
            best = (program, draw)
        if 2 * len(draw.scenes) >= wanted:
            break
        previous, issues = program, draw.issues[:MAX_ISSUES]
    if best is None or not best[1].scenes:
        first = issues[0].line() if issues else "no scene"
        return _fall_back(work, slot, mode, wanted, f"no scene passed the gate: {first}")
    return BuiltProgram(
        program_id=slot["slot_id"], slot=slot, program=best[0], scenes=best[1].scenes
    )


def propose(
    work: Work,
    slot: Slot,
    program: GenerationProgram,
    wanted: int,
    attempt: str,
    call_id: str | None = None,
) -> Draw:
    """Draw and gate scenes of a program, and journal the proposal."""
    draw = draw_scenes(work, program, wanted, f"{slot['slot_id']}.{attempt}")
    work.deps.db.add(
        ProposalRow(
            proposal_id=f"{slot['slot_id']}.{attempt}",
            node_key=work.key,
            program=program,
            accepted=len(draw.scenes),
            rejected=draw.proposed - len(draw.scenes),
            issues=draw.issues[:MAX_ISSUES],
            codes=dict(draw.codes),
            mode_id=slot["mode_id"],
            call_id=call_id,
        )
    )
    return draw


def draw_scenes(work: Work, program: GenerationProgram, wanted: int, label: str) -> Draw:
    """Up to `wanted` scenes under the split guard that pass the gate."""
    checked = work.deps.gate.check_program(program)
    if not isinstance(checked, GenerationProgram):
        codes = summarise((), [checked]).codes
        return Draw(scenes=(), proposed=wanted, issues=tuple(checked), codes=codes)
    rng = work.rng("build", label)
    scenes: list[Scene] = []
    reports: list[GateReport] = []
    undrawn: list[tuple[Issue, ...]] = []
    for _ in range(work.deps.config.build.draws):
        batch: list[Scene] = []
        for _ in range(wanted - len(scenes)):
            try:
                batch.append(sample_scene(checked, rng, guard=work.deps.splits))
            except Rejected as rejected:
                undrawn.append(rejected.issues)
        told = work.deps.gate.check(batch)
        reports += told
        scenes += [r.scene for r in told if r.accepted and r.scene is not None]
        if len(scenes) >= wanted or (not batch and not scenes):
            break
    summary = summarise(reports, undrawn)
    lists = [*undrawn, *(report.issues for report in reports)]
    different = dict.fromkeys(issue for issues in lists for issue in issues)
    return Draw(
        scenes=tuple(scenes),
        proposed=summary.proposed,
        issues=tuple(different),
        codes=summary.codes,
    )


def rollout(work: Work, state: RoundState) -> RoundUpdate:
    """Run the policy once in every accepted scene of the round."""
    built = load_built(built_path(work.deps.folder.path, work.round))
    scenes = [scene for item in built for scene in item.scenes]
    labels = [
        Label(axis=item.slot["axis"], program=item.program_id, mode_id=item.slot["mode_id"])
        for item in built
        for _ in item.scenes
    ]
    trials = work.deps.evaluator.evaluate(
        work.deps.policy(state["policy"]),
        scenes,
        seed=work.seed("diagnose"),
        origin=Origin(node_key=work.key, purpose="diagnose", prefix=work.key),
        labels=labels,
        keep_fine=True,
        keep_states=True,
        on_batch=lambda done, total: work.step(done, total, "rollouts"),
    )
    path = rollouts_path(work.deps.folder.path, work.round)
    path.parent.mkdir(exist_ok=True)
    save_trials(path, trials)
    start = 0
    for item in built:
        part = trials[start : start + len(item.scenes)]
        start += len(item.scenes)
        decision = membership(tally(part), work.band(state))
        where = decision.membership.replace("undecided", "undecided about")
        count = decision.count
        work.decide(
            "band",
            f"{item.program.name}: {count.successes}/{count.trials}, {where} the band",
            "rule:band",
            program=item.program_id,
        )
    failures = sum(trial.success is False for trial in trials)
    work.tell(f"{len(trials) - failures} of {len(trials)} generated scenes solved")
    return {"failures": failures}


def _fall_back(work: Work, slot: Slot, mode: Mode | None, wanted: int, why: str) -> BuiltProgram:
    """Use the mode's own program, or the reference program of the axis, and say so."""
    known = [mode.omega] if mode is not None else []
    reference = work.deps.splits.program((slot["axis"],), task=slot["task"])
    programs: Sequence[GenerationProgram] = [*known, reference]
    program, draw = programs[0], Draw(scenes=(), proposed=0, issues=(), codes={})
    for i, program in enumerate(programs):
        draw = propose(work, slot, program, wanted, f"fallback{i}")
        if draw.scenes:
            break
    work.decide(
        "fallback",
        f"{slot['slot_id']}: used {program.name!r} instead of the scene-builder's answer ({why})",
        "rule:fallback",
        slot=slot["slot_id"],
    )
    return BuiltProgram(
        program_id=slot["slot_id"], slot=slot, program=program, scenes=draw.scenes, fallback=True
    )
