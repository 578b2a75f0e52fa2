"""Node *consolidate*: confirmed diagnoses become modes; everything else is kept as a record."""

from __future__ import annotations

from coda.graphs.artifacts import built_path, load_built
from coda.graphs.state import RoundState, RoundUpdate
from coda.graphs.work import Work
from coda.memory.records import Diagnosis, Mode
from coda.memory.rows import DiagnosisRow
from coda.sim.program import GenerationProgram


def consolidate(work: Work, state: RoundState) -> RoundUpdate:
    """Merge confirmed diagnoses into known modes or make new ones; keep the others as records."""
    built = {b.program_id: b for b in load_built(built_path(work.deps.folder.path, work.round))}
    work.deps.vectors.reconcile(work.deps.db)  # an interrupted attempt may have left them apart
    changed: list[str] = []
    for row in work.deps.db.rows(DiagnosisRow, round_=work.round):
        verdict = state["verdicts"][row.diagnosis_id]
        if verdict == "confirmed":
            program = built[state["diagnosed"][row.diagnosis_id]].program
            changed.append(_remember(work, row.diagnosis, program))
            continue
        work.decide(
            "kept-as-record",
            f"{row.diagnosis_id} is {verdict}: kept as a record, makes no mode",
            "rule:verdict",
            diagnosis=row.diagnosis_id,
        )
    work.deps.vectors.reconcile(work.deps.db)
    return {"changed_modes": list(dict.fromkeys(changed))}


def _remember(work: Work, diagnosis: Diagnosis, program: GenerationProgram) -> str:
    modes = work.deps.modes
    candidate = Mode(
        mode_id=modes.next_id(),
        title=f"{diagnosis.mechanism} at {diagnosis.failed_stage} ({diagnosis.axis})",
        family=work.deps.config.family,
        status="candidate",
        axis=diagnosis.axis,
        factor_path=diagnosis.factor_path,
        stage=diagnosis.failed_stage,
        mechanism=diagnosis.mechanism,
        explanation=diagnosis.explanation,
        omega=program,
        diagnosis_ids=(diagnosis.diagnosis_id,),
        created_round=work.round,
        reason="a diagnosis was made",
    )
    why = f"{diagnosis.diagnosis_id} was confirmed by its control test"
    if work.deps.config.switches.controls == "off":
        why = f"{diagnosis.diagnosis_id} was believed without a test (controls are off)"
    known = modes.merge_candidate(candidate)
    if known is None:
        modes.put(work.key, candidate)
        modes.set_status(work.key, candidate.mode_id, "validated", why)
        work.decide(
            "new-mode",
            f"{candidate.mode_id}: {candidate.title}; {why}",
            "rule:consolidate",
            mode=candidate.mode_id,
            diagnosis=diagnosis.diagnosis_id,
        )
        return candidate.mode_id
    merged = known.model_copy(
        update={
            "diagnosis_ids": (*known.diagnosis_ids, diagnosis.diagnosis_id),
            "omega": program,
            "omega_version": known.omega_version + 1,
            "explanation": diagnosis.explanation,
        }
    )
    modes.put(work.key, merged)
    if known.status in ("mastered", "parked") and known.pinned_by is None:
        modes.set_status(work.key, known.mode_id, "validated", f"it is back: {why}")
    work.decide(
        "merge",
        f"{diagnosis.diagnosis_id} merged into {known.mode_id} ({known.title}); {why}",
        "rule:consolidate",
        mode=known.mode_id,
        diagnosis=diagnosis.diagnosis_id,
    )
    return known.mode_id
