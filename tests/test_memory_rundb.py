"""The run database: typed rows, the journal, directives, refusals, and `kill -9`."""

from __future__ import annotations

import dataclasses
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from coda.memory.records import ArmResult, ControlTest, Diagnosis
from coda.memory.rows import (
    ROW_TYPES,
    AgentCallRow,
    ControlTestRow,
    CostRow,
    DecisionRow,
    DiagnosisRow,
    DirectiveRow,
    EpisodeRow,
    NodeRunRow,
    ProgressRow,
    ProposalRow,
    Row,
)
from coda.memory.rundb import RunDb, RunDbError, call_id, node_key
from coda.memory.schema import codec
from coda.sim.errors import UnknownName
from coda.sim.program import Edit, Fixed, GenerationProgram, Issue


@pytest.fixture
def db(tmp_path: Path) -> Iterator[RunDb]:
    with RunDb(tmp_path / "run" / "run.db") as opened:
        yield opened


def episode(key: str, number: int, **fields: object) -> EpisodeRow:
    base = EpisodeRow(
        episode_id=f"{key}:{number:04d}", node_key=key, purpose="probe", scene_digest="ab",
        success=True, steps=40, progress=0.5,
    )  # fmt: skip
    return dataclasses.replace(base, **fields)  # type: ignore[arg-type]


def call(key: str, seq: int, sha: str = "s", **fields: object) -> AgentCallRow:
    base = AgentCallRow(
        call_id=call_id(key, seq), node_key=key, seq=seq, role="critic", task="diagnose",
        model="offline", prompt_sha=sha, messages=({"role": "user", "content": "why?"},),
        answer={"mechanism": "slip"}, tokens_in=10, tokens_out=5,
    )  # fmt: skip
    return dataclasses.replace(base, **fields)  # type: ignore[arg-type]


def dump(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Every table without times of day, durations and attempt counts."""
    volatile = {"started", "seconds", "attempts", "created"}
    tables: dict[str, list[tuple[object, ...]]] = {}
    with RunDb(path, read_only=True) as db:
        for row in ROW_TYPES:
            kept = [f.name for f in dataclasses.fields(row) if f.name not in volatile]
            tables[row.table] = [tuple(getattr(r, n) for n in kept) for r in db.rows(row)]
    return tables


@pytest.mark.parametrize("row", ROW_TYPES, ids=lambda r: r.table)
def test_every_row_class_names_exactly_the_columns_of_its_table(db: RunDb, row: type[Row]) -> None:
    with sqlite3.connect(db.path) as raw:
        columns = {item[1]: item[5] for item in raw.execute(f"PRAGMA table_info({row.table})")}
    raw.close()
    assert set(columns) - {"ordinal"} == set(codec(row).columns)
    if row.table != "node_runs":
        assert tuple(c for c, part in columns.items() if part) == row.key


def test_rows_come_back_as_they_went_in(db: RunDb) -> None:
    key = node_key(2, "refute")
    db.begin_node(key)
    diagnosis = Diagnosis(
        diagnosis_id="r02:d0", round=2, failed_stage="grasp", mechanism="slip", axis="size",
        factor_path="alpha.target.scale", expected_effect=0.6, confidence="high",
        explanation="wide",
        cure=(Edit(path="alpha.target.scale", sampler=Fixed(value=1.0)),), evidence=("ep1",),
    )  # fmt: skip
    test = ControlTest(
        test_id="r02:d0:t", diagnosis_id="r02:d0", outcome="success", effect=0.7,
        arms=(ArmResult(name="target", successes=1, trials=8, progress_mean=0.2),),
        interval=(0.2, 0.9), e_value=40.0, e_value_refute=0.1, p_value=0.025, verdict="confirmed",
        reason="",
    )  # fmt: skip
    rows: list[Row] = [
        episode(key, 0, success=None, detail={"μ": [1, 2.5, None]}),
        call(key, 0, answer=None, cost_usd=None, links={"episodes": ["a"]}, status="refused"),
        DiagnosisRow(diagnosis_id="r02:d0", node_key=key, diagnosis=diagnosis),
        ControlTestRow(
            test_id="r02:d0:t", node_key=key, diagnosis_id="r02:d0", verdict="confirmed", test=test
        ),
        ProposalRow(
            proposal_id="p0",
            node_key=key,
            accepted=3,
            rejected=1,
            program=GenerationProgram(name="wide", family="pick-place"),
            issues=(Issue(code="overlap", path="x", value="1", limit="2", remedy="move"),),
        ),
        ProgressRow(node_key=key, round=2, split="ood", label="yaw", successes=3, trials=9),
    ]
    db.add(*rows)
    for row in rows:
        assert db.get(type(row), *(getattr(row, k) for k in row.key)) == row
    assert db.rows(EpisodeRow, success=None) == [rows[0]]
    assert db.rows(EpisodeRow, round_=2, purpose="probe") == [rows[0]]
    assert db.count(EpisodeRow, round_=1) == 0


def test_text_that_is_not_unicode_is_stored_all_the_same(db: RunDb) -> None:
    db.begin_node("r00:plan")
    db.add(call("r00:plan", 0, answer={"text": "half \ud83d pair"}))
    assert db.rows(AgentCallRow)[0].answer == {"text": "half ? pair"}


def test_a_row_outside_a_node_and_a_second_row_of_one_key_are_refused(db: RunDb) -> None:
    with pytest.raises(RunDbError, match=r"names a node that has not begun; call begin_node first"):
        db.add(episode("r00:rollout", 0))
    db.begin_node("r00:rollout")
    db.add(episode("r00:rollout", 0))
    with pytest.raises(RunDbError, match=r"UNIQUE constraint failed: episodes.episode_id"):
        db.add(episode("r00:rollout", 1), episode("r00:rollout", 0))
    assert db.count(EpisodeRow) == 1  # the whole call is undone
    with pytest.raises(RunDbError, match=r"cannot be searched by 'colour'; choose of axis, "):
        db.rows(EpisodeRow, colour="red")
    with pytest.raises(RunDbError, match=r"is not like 'r02:refute' or 'chat:001'"):
        db.begin_node("refute")
    with pytest.raises(RunDbError, match=r"node 'r00:plan' has not begun"):
        db.finish_node("r00:plan")


def test_decisions_and_costs_are_numbered_and_summed(db: RunDb) -> None:
    db.begin_node("r01:plan")
    db.decide("r01:plan", "focus", "work on yaw", "curriculum", {"modes": ["m001"]})
    second = db.decide("r01:plan", "stop", "no", "rule:budget")
    assert [d.seq for d in db.rows(DecisionRow)] == [0, 1]
    assert second.by == "rule:budget"
    db.charge("r01:plan", "sim_steps", 10)
    db.charge("r01:plan", "sim_steps", 5)
    assert db.rows(CostRow) == [CostRow(node_key="r01:plan", kind="sim_steps", amount=15)]
    assert db.cost_totals() == {"sim_steps": 15}


def test_begin_again_rolls_back_that_node_and_all_after_it(db: RunDb) -> None:
    for node in ("plan", "rollout", "refute"):
        key = node_key(1, node)
        db.begin_node(key)
        db.add(episode(key, 0), call(key, 0))
        db.charge(key, "sim_steps", 1)
        db.finish_node(key, {"episodes": 1})
    db.begin_node("chat:001")
    db.add(call("chat:001", 0))
    start = db.begin_node("r01:rollout")
    assert (start.attempt, start.replayable_calls) == (2, 1)
    assert start.rolled_back == ("r01:rollout", "r01:refute")
    assert [e.node_key for e in db.rows(EpisodeRow)] == ["r01:plan"]
    assert [(n.node_key, n.status) for n in db.rows(NodeRunRow)] == [
        ("r01:plan", "done"),
        ("r01:rollout", "running"),
        ("r01:refute", "abandoned"),
        ("chat:001", "running"),
    ]
    assert [c.node_key for c in db.rows(AgentCallRow, abandoned=False)] == ["r01:plan", "chat:001"]
    assert db.call_totals().calls == 4  # abandoned calls were paid for


def test_an_abandoned_call_is_replayed_only_for_the_same_prompt(db: RunDb) -> None:
    db.begin_node("r00:plan")
    db.add(call("r00:plan", 0, "sha-a"), call("r00:plan", 1, "sha-b"))
    assert db.find_replay("r00:plan", 0, "sha-a") is None  # live, not abandoned
    db.begin_node("r00:plan")
    found = db.find_replay("r00:plan", 0, "sha-a")
    assert found is not None
    assert found.abandoned
    db.add(found)
    assert db.find_replay("r00:plan", 1, "other") is None
    db.add(call("r00:plan", 1, "other"))
    ids = [(c.call_id, c.abandoned) for c in db.rows(AgentCallRow)]
    assert sorted(ids) == [
        ("r00:plan#000", False),
        ("r00:plan#001", False),
        ("r00:plan#001~1", True),
    ]
    db.begin_node("r00:plan")
    found = db.find_replay("r00:plan", 1, "other")
    assert found is not None
    db.reinstate(found.call_id)
    assert db.find_replay("r00:plan", 1, "other") is None


def test_directives_from_another_connection_are_consumed_undone_and_unconsumed(db: RunDb) -> None:
    db.begin_node("r01:plan")
    with RunDb(db.path) as chat:
        chat.direct("make targets smaller", {"kind": "weight", "axis": "size"})
        chat.direct("aim for 30-60 %", {"kind": "band", "low": 0.3, "high": 0.6})
    taken = db.consume("r01:plan")
    assert [(d.directive_id, d.status, d.consumed_round) for d in taken] == [
        ("d001", "consumed", 1),
        ("d002", "consumed", 1),
    ]
    assert db.consume("r01:plan") == []
    assert db.undo("d001").consumed_round == 1
    assert [d.directive_id for d in db.directives("consumed")] == ["d002"]
    with pytest.raises(RunDbError, match="d001 is undone already"):
        db.undo("d001")
    with pytest.raises(UnknownName, match=r"no directive named 'd003'\..*Known: d001, d002"):
        db.undo("d003")
    db.begin_node("r01:plan")
    assert [(d.status, d.consumed_by) for d in db.rows(DirectiveRow)] == [
        ("undone", None),
        ("pending", None),
    ]


def test_threads_of_two_connections_write_without_losing_a_directive(db: RunDb) -> None:
    def work() -> None:
        with RunDb(db.path) as other:
            for _ in range(10):
                other.direct("x", {})

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [d.directive_id for d in db.directives()] == [f"d{i:03d}" for i in range(1, 31)]


def test_meta_and_read_only(db: RunDb) -> None:
    db.set_meta("config_digest", "abc")
    with RunDb(db.path, read_only=True) as reader:
        assert reader.meta("config_digest") == "abc"
        assert reader.meta("nothing") is None
        with pytest.raises(RunDbError, match="readonly"):
            reader.set_meta("a", "b")
    with pytest.raises(RunDbError, match="is fixed when the database is made"):
        db.set_meta("schema_version", "2")


def test_another_schema_version_is_refused_in_one_line(db: RunDb) -> None:
    db.close()
    with sqlite3.connect(db.path) as raw:
        raw.execute("UPDATE meta SET value = '7' WHERE key = 'schema_version'")
    raw.close()
    for read_only in (False, True):
        with pytest.raises(RunDbError) as caught:
            RunDb(db.path, read_only=read_only)
        assert "has schema version 7" in str(caught.value)
        assert "Open it with the coda that wrote it, or start a new run" in str(caught.value)
        assert "\n" not in str(caught.value)


def test_other_files_and_folders_are_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(RunDbError, match=r"no run database at .*; give the folder of a run"):
        RunDb(tmp_path / "none.db", read_only=True)
    with pytest.raises(RunDbError, match="no run database at"):
        RunDb(tmp_path / "none.db", create=False)
    text = tmp_path / "notes.db"
    text.write_text("not a database, but long enough to have a header" * 10)
    with pytest.raises(RunDbError, match="is not a CoDA run database"):
        RunDb(text)
    foreign = tmp_path / "foreign.db"
    with sqlite3.connect(foreign) as raw:
        raw.execute("CREATE TABLE other (x)")
    raw.close()
    before = foreign.read_bytes()
    with pytest.raises(RunDbError, match="is not a CoDA run database"):
        RunDb(foreign)
    assert foreign.read_bytes() == before
    with pytest.raises(RunDbError, match=r"cannot make the run folder .*; choose one you can"):
        RunDb(text / "run.db")


def test_an_unwritable_folder_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(RunDbError, match="is not writable; choose one you can write to"):
        RunDb(tmp_path / "run.db")


_WORKER = textwrap.dedent(
    """
    import sys, time
    from coda.memory.rows import AgentCallRow, EpisodeRow, NodeRunRow, ProgressRow, call_id
    from coda.memory.rundb import RunDb, node_key

    path, hang = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    asked = 0
    with RunDb(path) as db:
        for round_ in (0, 1):
            for node in ("plan", "rollout"):
                key = node_key(round_, node)
                run = db.get(NodeRunRow, key)
                if run is not None and run.status == "done":
                    continue
                db.begin_node(key)
                if node == "plan":
                    if round_ == 1:
                        db.consume(key)
                    answer = db.find_replay(key, 0, "sha")
                    if answer is None:
                        asked += 1
                        answer = AgentCallRow(
                            call_id=call_id(key, 0), node_key=key, seq=0, role="curriculum",
                            task="plan", model="m", prompt_sha="sha", messages=(), answer={"n": 6},
                            tokens_in=7)
                    db.add(answer)
                    db.decide(key, "focus", "yaw", "curriculum")
                else:
                    if round_ == 0 and not db.directives():
                        db.direct("smaller", {"axis": "size"})
                    for i in range(6):
                        db.add(EpisodeRow(
                            episode_id=f"{key}:{i:04d}", node_key=key, purpose="explore",
                            scene_digest="d", success=i % 2 == 0, steps=i, progress=i / 6))
                        db.charge(key, "sim_steps", i)
                        if hang == f"{key}:{i}":
                            print("hanging", flush=True)
                            time.sleep(60)
                    db.add(ProgressRow(node_key=key, round=round_, split="in", label="all",
                                       successes=3, trials=6))
                if hang == key:
                    print("hanging", flush=True)
                    time.sleep(60)
                db.finish_node(key, {"ok": True})
    print("asked", asked)
    """
)


def _start(script: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-P", str(script), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("hang", ["r00:rollout:3", "r01:plan", "r01:rollout:0"])
def test_kill_9_in_a_node_and_resume_equals_never_killed(tmp_path: Path, hang: str) -> None:
    script = tmp_path / "worker.py"
    script.write_text(_WORKER)
    whole = _start(script, str(tmp_path / "whole.db"))
    killed = _start(script, str(tmp_path / "killed.db"), hang)
    assert killed.stdout is not None
    assert killed.stdout.readline() == "hanging\n"
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert whole.communicate()[0] == "asked 2\n"
    resumed = _start(script, str(tmp_path / "killed.db"))
    printed = resumed.communicate()[0]
    # The plan of round 1 is asked by whoever came to it first; a killed one is replayed.
    assert printed == ("asked 1\n" if hang == "r00:rollout:3" else "asked 0\n")
    assert dump(tmp_path / "killed.db") == dump(tmp_path / "whole.db")
    with RunDb(tmp_path / "killed.db", read_only=True) as db:
        assert [n.attempts for n in db.rows(NodeRunRow)].count(2) == 1
