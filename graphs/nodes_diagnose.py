"""Nodes *diagnose* and *refute*: why groups of rollouts failed, and whether that stands a test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coda.agents import critic, refuter
from coda.agents.caller import AgentCaller
from coda.agents.critic import NothingToDiagnose
from coda.agents.record import NoAnswer
from coda.graphs.artifacts import (
    BuiltProgram,
    built_path,
    load_built,
    rollouts_path,
)
from coda.graphs.pairs import PairSource
from coda.graphs.state import RoundState, RoundUpdate
from coda.graphs.work import Work
from coda.memory.records import ControlTest, Diagnosis
from coda.memory.rows import ControlTestRow, DiagnosisRow
from coda.sim.errors import SimulationError
from coda.sim.families import program_task
from coda.tools.control_test import correct_round, run_control_test
from coda.tools.episode_store import load_trials
from coda.tools.evaluation import Trial
from coda.tools.evidence import Evidence, EvidenceError, build_evidence
from coda.tools.keyframes import keyframes


@dataclass(frozen=True, kw_only=True)
class FailureGroup:
    """Rollouts of one program."""

    built: BuiltProgram
    trials: tuple[Trial, ...]

    @property
    def failures(self) -> int:
        """Rollouts that failed; crashes are none."""
        return sum(trial.success is False for trial in self.trials)


def diagnose(work: Work, state: RoundState) -> RoundUpdate:
    """Ask the critic about the groups with the most failures, one axis after the other."""
    limits = work.deps.config.diagnosing
    groups = [g for g in failure_groups(work) if g.failures >= limits.min_failures]
    chosen = choose_groups(groups, limits.max_diagnoses)
    caller = work.caller()
    diagnosed: dict[str, str] = {}
    for i, group in enumerate(chosen):
        work.step(i, len(chosen), "diagnoses")
        found = _diagnose_group(work, caller, group, f"r{work.round:02d}:d{i + 1:02d}")
        if found is not None:
            diagnosed[found.diagnosis_id] = group.built.program_id
            work.tell(
                f"{found.diagnosis_id}: {group.failures} failures of {group.built.program.name}: "
                f"{found.mechanism} at {found.failed_stage}, blames {found.factor_path}"
            )
    if not diagnosed:
        work.tell("no group of failures could be diagnosed")
    return {"diagnosed": diagnosed}


def failure_groups(work: Work) -> list[FailureGroup]:
    """The round's rollouts by program."""
    built = load_built(built_path(work.deps.folder.path, work.round))
    trials = load_trials(rollouts_path(work.deps.folder.path, work.round))
    groups, start = [], 0
    for item in built:
        part = trials[start : start + len(item.scenes)]
        start += len(item.scenes)
        groups.append(FailureGroup(built=item, trials=tuple(part)))
    return groups


def choose_groups(groups: Sequence[FailureGroup], limit: int) -> list[FailureGroup]:
    """At most `limit` groups, most failures first, each axis once before any axis twice."""
    left = sorted(groups, key=lambda g: (-g.failures, g.built.program_id))
    chosen: list[FailureGroup] = []
    while left and len(chosen) < limit:
        taken = [g.built.slot["axis"] for g in chosen]
        best = min(left, key=lambda g: taken.count(g.built.slot["axis"]))
        left.remove(best)
        chosen.append(best)
    return chosen


def refute(work: Work, state: RoundState) -> RoundUpdate:
    """Test every diagnosis of the round against control and placebo scenes."""
    rows = work.deps.db.rows(DiagnosisRow, round_=work.round)
    if work.deps.config.switches.controls == "off":
        work.decide(
            "controls-off", f"believed {len(rows)} diagnoses without a test", "rule:controls-off"
        )
        return {"verdicts": {row.diagnosis_id: "confirmed" for row in rows}}
    programs = {
        item.program_id: item for item in load_built(built_path(work.deps.folder.path, work.round))
    }
    caller = work.caller()
    tests: list[ControlTest] = []
    calls: dict[str, str | None] = {}
    for i, row in enumerate(rows):
        work.step(i, len(rows), f"control tests, now {row.diagnosis_id}")
        built = programs[state["diagnosed"][row.diagnosis_id]]
        test = _test(work, state, caller, row.diagnosis, built, len(rows))
        calls[row.diagnosis_id] = work.last_call()
        if test is not None:
            tests.append(test)
    verdicts = {row.diagnosis_id: "undecided" for row in rows}
    for test in correct_round(tests, work.deps.config.diagnosing.fdr):
        verdicts[test.diagnosis_id] = test.verdict
        work.deps.db.add(
            ControlTestRow(
                test_id=test.test_id,
                node_key=work.key,
                diagnosis_id=test.diagnosis_id,
                verdict=test.verdict,
                test=test,
                call_id=calls[test.diagnosis_id],
            )
        )
        work.tell(f"{test.diagnosis_id} {test.verdict}: {test.reason}")
    return {"verdicts": verdicts}


def _diagnose_group(
    work: Work, caller: AgentCaller, group: FailureGroup, diagnosis_id: str
) -> Diagnosis | None:
    try:
        diagnosis = critic.diagnose(
            caller, _evidence(work, caller, group), diagnosis_id, work.round
        )
    except (NoAnswer, NothingToDiagnose, EvidenceError) as error:
        work.decide(
            "no-diagnosis",
            f"{group.built.program_id}: left undiagnosed ({error})",
            "rule:fallback",
            program=group.built.program_id,
        )
        return None
    work.deps.db.add(
        DiagnosisRow(
            diagnosis_id=diagnosis_id,
            node_key=work.key,
            diagnosis=diagnosis,
            call_id=work.last_call(),
        )
    )
    return diagnosis


def _evidence(work: Work, caller: AgentCaller, group: FailureGroup) -> Evidence:
    images: dict[str, bytes] = {}
    if caller.info_of(critic.ROLE).images:
        try:
            images = keyframes(group.trials, work.deps.base)
        except SimulationError as error:
            work.decide("no-images", f"the critic gets no pictures ({error})", "rule:no-gl")
    return build_evidence(
        group.built.program,
        [trial.episode for trial in group.trials],
        work.deps.base,
        program_task(group.built.program).seed,
        episode_ids=[trial.episode_id for trial in group.trials],
        keyframes=images,
    )


def _test(
    work: Work,
    state: RoundState,
    caller: AgentCaller,
    diagnosis: Diagnosis,
    built: BuiltProgram,
    tests_in_round: int,
) -> ControlTest | None:
    try:
        plan = refuter.design_controls(
            caller, diagnosis, built.program, program_task(built.program).seed
        )
    except NoAnswer as error:
        work.decide(
            "untested",
            f"{diagnosis.diagnosis_id}: stays undecided, no control was designed ({error})",
            "rule:fallback",
            diagnosis=diagnosis.diagnosis_id,
        )
        return None
    limits = work.deps.config.diagnosing
    pairs = PairSource(
        work=work,
        policy=work.deps.policy(state["policy"]),
        diagnosis=diagnosis,
        program=built.program,
        plan=plan,
        block=limits.pair_batch,
        pairs={},
    )
    return run_control_test(
        diagnosis.diagnosis_id,
        f"{diagnosis.diagnosis_id}:t",
        pairs.evaluate,
        batch=limits.pair_batch,
        max_pairs=limits.max_pairs,
        alpha=limits.alpha,
        delta=limits.delta,
        tests_in_round=tests_in_round,
    )
