"""What the vector memory holds, as text, built from the run database's facts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from coda.memory.records import Diagnosis, Mode
from coda.memory.rows import DiagnosisRow, ModeVersionRow, ProposalRow
from coda.memory.store import RowStore
from coda.policy.program import TrainingProgram
from coda.sim.program import GenerationProgram

Kind = Literal["mode", "diagnosis", "program", "trace"]
KINDS: tuple[Kind, ...] = ("mode", "diagnosis", "program", "trace")


@dataclass(frozen=True, kw_only=True)
class Document:
    """One text to remember, under an id that follows from the fact it tells of."""

    document_id: str
    kind: Kind
    text: str
    refers_to: str
    """Id of the fact: a mode, a diagnosis, a proposal."""

    def digest(self) -> str:
        """Content hash, 16 hex digits: equal exactly when nothing has to be written again."""
        whole = "\x1f".join((self.kind, self.refers_to, self.text))
        return hashlib.sha256(whole.encode("utf-8", "replace")).hexdigest()[:16]


def mode_text(mode: Mode) -> str:
    """What is compared when modes are merged by meaning: the claim, without ids and counts."""
    return (
        f"{mode.title}. {mode.explanation} The {mode.stage} stage fails by "
        f"{_words(mode.mechanism)}; blamed factor: {_words(mode.axis)} ({mode.factor_path})."
    )


def mode_document(mode: Mode) -> Document:
    """The present version of a mode."""
    return Document(
        document_id=f"mode:{mode.mode_id}",
        kind="mode",
        text=mode_text(mode),
        refers_to=mode.mode_id,
    )


def diagnosis_document(diagnosis: Diagnosis) -> Document:
    """A diagnosis of the critic."""
    text = (
        f"{diagnosis.explanation} The {diagnosis.failed_stage} stage fails by "
        f"{_words(diagnosis.mechanism)}; blamed factor: {_words(diagnosis.axis)} "
        f"({diagnosis.factor_path})."
    )
    return Document(
        document_id=f"diagnosis:{diagnosis.diagnosis_id}", kind="diagnosis", text=text,
        refers_to=diagnosis.diagnosis_id,
    )  # fmt: skip


def program_documents(mode: Mode) -> Iterator[Document]:
    """The generation program of a mode's version, and its training program where there is one."""
    yield Document(
        document_id=f"omega:{mode.mode_id}:{mode.omega_version}", kind="program",
        text=f"Generation program of {mode.title}: {_omega(mode.omega)}", refers_to=mode.mode_id,
    )  # fmt: skip
    if mode.phi is not None:
        yield Document(
            document_id=f"phi:{mode.mode_id}:{mode.phi_version}", kind="program",
            text=f"Training program of {mode.title}: {_phi(mode.phi)}", refers_to=mode.mode_id,
        )  # fmt: skip


def trace_document(row: ProposalRow) -> Document:
    """How one proposal of the scene-builder fared at the gate."""
    program = "no program at all" if row.program is None else _omega(row.program)
    issues = " ".join(issue.line() + "." for issue in row.issues[:8])
    text = (
        f"Scene construction: {program} {row.accepted} scenes accepted, {row.rejected} rejected. "
        f"{issues}"
    )
    return Document(
        document_id=f"trace:{row.proposal_id}", kind="trace", text=text.strip(),
        refers_to=row.proposal_id,
    )  # fmt: skip


def documents(db: RowStore) -> list[Document]:
    """Everything that the vector memory should hold for these facts, ids unique, sorted."""
    found: dict[str, Document] = {}
    for version in db.rows(ModeVersionRow):  # in order: later versions replace earlier ones
        for document in (mode_document(version.mode), *program_documents(version.mode)):
            found[document.document_id] = document
    for diagnosis in db.rows(DiagnosisRow):
        document = diagnosis_document(diagnosis.diagnosis)
        found[document.document_id] = document
    for proposal in db.rows(ProposalRow):
        document = trace_document(proposal)
        found[document.document_id] = document
    return [found[key] for key in sorted(found)]


def _omega(program: GenerationProgram) -> str:
    edits = ", ".join(f"{edit.path} {edit.sampler.kind}" for edit in program.edits) or "no edits"
    why = f" {program.rationale}" if program.rationale else ""
    return f"{program.name} for {program.family}, edits {edits}.{why}"


def _phi(program: TrainingProgram) -> str:
    stages = ", ".join(f"{s.name} on {s.progress.term} worth {s.share:.2f}" for s in program.stages)
    return f"{program.name} for {program.family}, stages {stages}. {program.source_text}".strip()


def _words(name: str) -> str:
    return name.replace("-", " ")
