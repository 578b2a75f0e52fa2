"""`ModeStore`: the difficulty modes of a run, versioned in SQLite and searchable by meaning."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from coda.memory.documents import Document, Kind, mode_document, mode_text, program_documents
from coda.memory.lifecycle import PATIENCE, ModeError, after_probe, check_step
from coda.memory.progress import BandDecision
from coda.memory.records import Mode, ModeStatus
from coda.memory.rows import ControlTestRow, DiagnosisRow, ModeVersionRow
from coda.memory.rundb import RunDb
from coda.sim.errors import UnknownName
from coda.sim.families import program_task

__all__ = ["MERGE_SIMILARITY", "Match", "ModeError", "ModeIndex", "ModeStore"]

MERGE_SIMILARITY = 0.8
"""Cosine from which two modes of one axis are the same difficulty. Measured on ten hand-written
modes: same difficulty in other words 0.79-0.88, others of the same axis 0.66-0.79."""

Inherited = Literal["validated", "retained"]
_INHERITED: dict[ModeStatus, Inherited] = {
    "validated": "validated",
    "training": "validated",
    "parked": "validated",
    "retained": "retained",
    "mastered": "retained",
}
"""Status of a mode in a run that starts from another's memory; candidates stay behind."""


class Hit(Protocol):
    """What a search returns."""

    @property
    def refers_to(self) -> str: ...
    @property
    def similarity(self) -> float: ...


class ModeIndex(Protocol):
    """Search by meaning; `coda.memory.vectors.VectorStore` is one."""

    def upsert(self, items: Sequence[Document], /) -> None: ...
    def nearest(self, text: str, k: int = 5, *, kind: Kind | None = None) -> Sequence[Hit]: ...


@dataclass(frozen=True, kw_only=True)
class Match:
    """A known mode that a new one belongs to."""

    mode: Mode
    by: Literal["structure", "embedding"]
    similarity: float


class ModeStore:
    """Modes with all their versions. Every change is a new version, written by a node."""

    def __init__(self, db: RunDb, vectors: ModeIndex) -> None:
        self._db = db
        self._vectors = vectors

    def all(self, status: ModeStatus | None = None) -> list[Mode]:
        """Present version of every mode, or of those with one status, by id."""
        latest = {row.mode_id: row.mode for row in self._db.rows(ModeVersionRow)}
        modes = [latest[key] for key in sorted(latest, key=_number)]
        return [mode for mode in modes if status in (None, mode.status)]

    def get(self, mode_id: str) -> Mode | None:
        """Present version of a mode, or None."""
        versions = self._db.rows(ModeVersionRow, mode_id=mode_id)
        return versions[-1].mode if versions else None

    def require(self, mode_id: str) -> Mode:
        """Present version of a mode; raises `UnknownName`, naming those there are."""
        mode = self.get(mode_id)
        if mode is None:
            raise UnknownName("mode", mode_id, [m.mode_id for m in self.all()])
        return mode

    def history(self, mode_id: str) -> list[ModeVersionRow]:
        """All versions of a mode, oldest first."""
        return self._db.rows(ModeVersionRow, mode_id=mode_id)

    def next_id(self) -> str:
        """The id that a new mode takes: ``m001`` …"""
        used = [_number(row.mode_id) for row in self._db.rows(ModeVersionRow)]
        return f"m{max(used, default=0) + 1:03d}"

    def put(self, node_key: str, mode: Mode) -> int:
        """Write a mode as its next version and return that; an unchanged one is not written."""
        _number(mode.mode_id)  # refuse an id of another form before it is stored
        with self._db.transaction():
            versions = self.history(mode.mode_id)
            if versions and versions[-1].mode == mode:
                return versions[-1].version
            version = versions[-1].version + 1 if versions else 1
            self._db.add(
                ModeVersionRow(mode_id=mode.mode_id, version=version, node_key=node_key, mode=mode)
            )
        self._vectors.upsert([mode_document(mode), *program_documents(mode)])
        return version

    def set_status(self, node_key: str, mode_id: str, status: ModeStatus, reason: str) -> Mode:
        """Move a mode along its lifecycle.

        Raises `ModeError` for a step that the lifecycle lacks, or where a person fixed the status.
        """
        mode = self.require(mode_id)
        if mode.pinned_by is not None and status != mode.status:
            raise ModeError(
                f"mode {mode_id} was set to {mode.status} by directive {mode.pinned_by}; "
                "undo that directive first."
            )
        check_step(mode, status)
        return self._write(node_key, mode, status=status, reason=reason)

    def pin(
        self, node_key: str, mode_id: str, status: ModeStatus, directive_id: str, reason: str = ""
    ) -> Mode:
        """Fix the status of a mode on a person's word; rules then leave it alone."""
        why = reason or f"set by a person (directive {directive_id})"
        mode = self.require(mode_id)
        return self._write(node_key, mode, status=status, reason=why, pinned_by=directive_id)

    def unpin(self, node_key: str, mode_id: str) -> Mode:
        """Let rules decide again: the status goes back to that before the person's word."""
        mode = self.require(mode_id)
        if mode.pinned_by is None:
            return mode
        free = [row.mode for row in self.history(mode_id) if row.mode.pinned_by is None]
        status = free[-1].status if free else mode.status
        why = f"directive {mode.pinned_by} no longer holds"
        return self._write(node_key, mode, status=status, reason=why, pinned_by=None)

    def advance(
        self,
        node_key: str,
        mode_id: str,
        round_: int,
        decision: BandDecision,
        *,
        patience: int = PATIENCE,
    ) -> Mode:
        """Record a probe after training and move the mode as `lifecycle.after_probe` says."""
        mode = self.require(mode_id)
        probe = (round_, decision.count.successes, decision.count.trials)
        probed = mode.model_copy(
            update={"probe_history": (*mode.probe_history, probe), "last_probed_round": round_}
        )
        status, reason = mode.status, mode.reason
        if mode.pinned_by is None:
            status, reason = after_probe(probed, decision, patience=patience)
        return self._write(node_key, probed, status=status, reason=reason)

    def due_for_probe(self, round_: int, *, every: int = 2, limit: int | None = None) -> list[Mode]:
        """Mastered and parked modes not probed for `every` rounds, the stalest first."""
        resting = [mode for mode in self.all() if mode.status in ("mastered", "parked")]
        due = [mode for mode in resting if round_ - mode.last_probed_round >= every]
        return sorted(due, key=lambda m: (m.last_probed_round, _number(m.mode_id)))[:limit]

    def nearest(self, text: str, k: int = 5) -> list[tuple[Mode, float]]:
        """The `k` modes nearest in meaning to `text`, with their similarity."""
        known = {mode.mode_id: mode for mode in self.all()}
        hits = self._vectors.nearest(text, k, kind="mode")
        return [(known[h.refers_to], h.similarity) for h in hits if h.refers_to in known]

    def match(self, candidate: Mode, *, threshold: float = MERGE_SIMILARITY) -> Match | None:
        """The known mode that `candidate` is another find of, or None.

        Only modes of the same task. Structure first: same axis, factor path without its
        distractor number, stage and mechanism. Then meaning: the nearest of the same axis, from
        `threshold` on.
        """
        task = program_task(candidate.omega)
        others = [
            mode
            for mode in self.all()
            if mode.mode_id != candidate.mode_id and program_task(mode.omega) is task
        ]
        for mode in others:
            if structure(mode) == structure(candidate):
                return Match(mode=mode, by="structure", similarity=1.0)
        same_axis = {mode.mode_id: mode for mode in others if mode.axis == candidate.axis}
        if not same_axis:
            return None
        hits = self._vectors.nearest(mode_text(candidate), len(self.all()) + 1, kind="mode")
        best = next((hit for hit in hits if hit.refers_to in same_axis), None)
        if best is None or best.similarity < threshold:
            return None
        return Match(
            mode=same_axis[best.refers_to], by="embedding", similarity=best.similarity
        )  # fmt: skip

    def merge_candidate(self, candidate: Mode) -> Mode | None:
        """The mode of `match`, where only that is of interest."""
        found = self.match(candidate)
        return None if found is None else found.mode

    def import_from(self, node_key: str, run_dir: Path | str) -> list[Mode]:
        """Take over the modes of an earlier run, with their diagnoses and control tests.

        They get the next free ids, ``validated`` or ``retained``, no probes (those measured another
        policy), and their origin in `lineage`. A mode that was imported before is left out.

        Raises:
            RunDbError: There is no run of this version in `run_dir`.
        """
        folder = Path(run_dir)
        origin = folder.resolve().name
        taken: list[Mode] = []
        with RunDb(folder / "run.db", read_only=True) as source:
            latest = {row.mode_id: row.mode for row in source.rows(ModeVersionRow)}
            known = {step for mode in self.all() for step in mode.lineage}
            with self._db.transaction():
                for key in sorted(latest, key=_number):
                    mode = latest[key]
                    if mode.status == "candidate" or f"{origin}:{key}" in known:
                        continue
                    self._take_evidence(node_key, source, origin, mode)
                    taken.append(self._inherit(node_key, origin, mode))
        return taken

    def _inherit(self, node_key: str, origin: str, mode: Mode) -> Mode:
        inherited = mode.model_copy(
            update={
                "mode_id": self.next_id(),
                "status": _INHERITED[mode.status],
                "reason": f"from run {origin}, where {mode.mode_id} was {mode.status}",
                "diagnosis_ids": tuple(f"{origin}/{name}" for name in mode.diagnosis_ids),
                "created_round": 0,
                "last_probed_round": 0,
                "probe_history": (),
                "pinned_by": None,
                "lineage": (*mode.lineage, f"{origin}:{mode.mode_id}"),
            }
        )
        self.put(node_key, inherited)
        return inherited

    def _take_evidence(self, node_key: str, source: RunDb, origin: str, mode: Mode) -> None:
        """Copy the diagnoses of a mode and their tests, ids and references under the origin."""
        for name in mode.diagnosis_ids:
            row, new = source.get(DiagnosisRow, name), f"{origin}/{name}"
            if row is None or self._db.get(DiagnosisRow, new) is not None:
                continue
            evidence = tuple(f"{origin}/{reference}" for reference in row.diagnosis.evidence)
            diagnosis = row.diagnosis.model_copy(
                update={"diagnosis_id": new, "evidence": evidence}
            )  # fmt: skip
            self._db.add(DiagnosisRow(diagnosis_id=new, node_key=node_key, diagnosis=diagnosis))
            for test in source.rows(ControlTestRow, diagnosis_id=name):
                renamed = {"test_id": f"{origin}/{test.test_id}", "diagnosis_id": new}
                self._db.add(
                    ControlTestRow(
                        test_id=renamed["test_id"], node_key=node_key, diagnosis_id=new,
                        verdict=test.verdict, test=test.test.model_copy(update=renamed),
                    )
                )  # fmt: skip

    def _write(self, node_key: str, mode: Mode, **update: object) -> Mode:
        changed = mode.model_copy(update=update)
        self.put(node_key, changed)
        return changed


def structure(mode: Mode) -> tuple[str, str, str, str, str]:
    """What makes two modes the same: task, axis, factor path, stage and mechanism."""
    path = re.sub(r"distractor-\d+", "distractor", mode.factor_path)
    return program_task(mode.omega).name, mode.axis, path, mode.stage, mode.mechanism


def _number(mode_id: str) -> int:
    match = re.fullmatch(r"m(\d+)", mode_id)
    if match is None:
        raise ModeError(f"mode id {mode_id!r} is not like 'm001'; use ModeStore.next_id().")
    return int(match[1])
