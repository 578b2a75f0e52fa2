"""The vector memory: upserts, search by kind, reconciling with SQLite, kills, no network."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from coda.memory.documents import Document, Kind, documents
from coda.memory.records import Diagnosis
from coda.memory.rows import DiagnosisRow, ProposalRow
from coda.memory.rundb import RunDb
from coda.memory.vectors import VectorError, VectorStore
from coda.sim.errors import UnknownName
from coda.sim.program import Edit, Fixed, GenerationProgram, Issue


@pytest.fixture
def store(tmp_path: Path) -> Iterator[VectorStore]:
    with VectorStore(tmp_path / "chroma") as opened:
        yield opened


def document(number: int, text: str, kind: Kind = "mode") -> Document:
    return Document(document_id=f"{kind}:{number}", kind=kind, text=text, refers_to=str(number))


GRASP = document(1, "the gripper closes beside a rotated block")
SLIP = document(2, "the heavy tray slips out of the fingers during transport")
NOTE = document(3, "a rotated block is grasped badly", "diagnosis")


def facts(db: RunDb) -> None:
    db.begin_node("r00:diagnose")
    diagnosis = Diagnosis(
        diagnosis_id="r00:d0", round=0, failed_stage="grasp", mechanism="misaligned-grasp",
        axis="yaw", factor_path="sigma.target.yaw", expected_effect=0.6, confidence="high",
        explanation="the fingers close across the long side",
        cure=(Edit(path="sigma.target.yaw", sampler=Fixed(value=0.0)),), evidence=("ep1",),
    )  # fmt: skip
    program = GenerationProgram(
        name="turned", family="pick-place", rationale="turn the target",
        edits=(Edit(path="sigma.target.yaw", sampler=Fixed(value=0.5)),),
    )  # fmt: skip
    issue = Issue(code="overlap", path="sigma.target.xy", value="0", limit=">0.02 m", remedy="move")
    db.add(
        DiagnosisRow(diagnosis_id="r00:d0", node_key="r00:diagnose", diagnosis=diagnosis),
        ProposalRow(
            proposal_id="p0", node_key="r00:diagnose", program=program, accepted=3, rejected=1,
            issues=(issue,),
        ),
    )  # fmt: skip


def test_nearest_ranks_by_meaning_and_filters_by_kind(store: VectorStore) -> None:
    store.upsert([GRASP, SLIP, NOTE])
    found = store.nearest("rotated block, grasp misses", k=2)
    assert {n.document_id for n in found} == {"mode:1", "diagnosis:3"}
    assert found[0].similarity >= found[1].similarity
    only = store.nearest("rotated block, grasp misses", k=5, kind="mode")
    assert [n.refers_to for n in only] == ["1", "2"]
    assert store.nearest(SLIP.text, k=1)[0].similarity == pytest.approx(1.0, abs=1e-4)
    with pytest.raises(UnknownName, match=r"no kind of memory named 'modes'\. Did you mean"):
        store.nearest("x", kind="modes")  # type: ignore[arg-type]


def test_an_empty_memory_has_no_neighbours(store: VectorStore) -> None:
    assert store.nearest("anything") == []


def test_upsert_replaces_and_survives_reopening(tmp_path: Path) -> None:
    with VectorStore(tmp_path / "c") as first:
        first.upsert([GRASP, SLIP])
        first.upsert([document(1, "a lemon rolls away")])
    with VectorStore(tmp_path / "c") as again:
        assert again.ids() == ["mode:1", "mode:2"]
        assert again.nearest("a lemon rolls away", k=1)[0].document_id == "mode:1"


def test_reconcile_makes_it_equal_to_the_facts(store: VectorStore, tmp_path: Path) -> None:
    with RunDb(tmp_path / "run.db") as db:
        facts(db)
        wanted = {d.document_id: d for d in documents(db)}
        assert set(wanted) == {"diagnosis:r00:d0", "trace:p0"}
        assert "3 scenes accepted, 1 rejected. overlap: sigma.target.xy" in wanted["trace:p0"].text
        stale = Document(document_id="trace:p0", kind="trace", text="old", refers_to="p0")
        store.upsert([GRASP, stale])
        done = store.reconcile(db)
        assert (done.added, done.changed, done.removed) == (
            ("diagnosis:r00:d0",),
            ("trace:p0",),
            ("mode:1",),
        )
        assert store.reconcile(db).agreed
        assert store.nearest("fingers across the long side", k=1)[0].refers_to == "r00:d0"
        db.begin_node("r00:diagnose")  # the node is rolled back
        assert store.reconcile(db).removed == ("diagnosis:r00:d0", "trace:p0")
        assert store.ids() == []


def test_unusable_folders_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(VectorError, match=r"cannot make the memory folder .*; choose a run folder"):
        VectorStore(tmp_path / "file" / "chroma")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "chroma.sqlite3").write_text("garbage, not a database" * 40)
    with pytest.raises(VectorError, match=r"delete that folder: it is built again from run.db"):
        VectorStore(tmp_path / "bad")


_WRITER = textwrap.dedent(
    """
    import socket, sys

    def refuse(*args, **kwargs):
        raise AssertionError("the network was touched")

    socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
    from coda.memory.documents import Document
    from coda.memory.vectors import VectorStore

    with VectorStore(sys.argv[1]) as store:
        print("open", flush=True)
        for i in range(10_000):
            sys.stdin.readline()
            store.upsert([Document(
                document_id=f"mode:{i}", kind="mode", text=f"mode number {i}", refers_to=str(i))])
            print(len(store.nearest("mode number", k=99)), flush=True)
    """
)


def test_another_process_writes_offline_a_reader_follows_and_a_kill_leaves_it_readable(
    tmp_path: Path,
) -> None:
    script = tmp_path / "writer.py"
    script.write_text(_WRITER)
    command = [sys.executable, "-P", str(script), str(tmp_path / "chroma")]
    writer = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert writer.stdin is not None
    assert writer.stdout is not None

    def write_one() -> str:
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdin.write("\n")
        return writer.stdout.readline().strip()

    assert writer.stdout.readline() == "open\n"
    assert write_one() == "1"
    with VectorStore(tmp_path / "chroma", follow=True) as reader:
        assert len(reader.nearest("mode", k=9)) == 1
        assert write_one() == "2"
        assert len(reader.nearest("mode", k=9)) == 2
    writer.stdin.write("\n")  # in the middle of the next one
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    with VectorStore(tmp_path / "chroma") as again:
        assert len(again.ids()) in (2, 3)
        assert len(again.nearest("mode", k=9)) == len(again.ids())
        with RunDb(tmp_path / "run.db") as db:
            again.reconcile(db)
        assert again.ids() == []
