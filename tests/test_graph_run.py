"""A whole run of the debug preset in this process: the library's front door, and what it leaves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from coda.graphs.config import make_config
from coda.graphs.events import RunEvent
from coda.graphs.result import RunResult
from coda.graphs.runner import resume, run
from coda.graphs.state import NODES
from coda.memory.rows import (
    AgentCallRow,
    ControlTestRow,
    DecisionRow,
    DiagnosisRow,
    DirectiveRow,
    EpisodeRow,
    ModeVersionRow,
    NodeRunRow,
    ProgressRow,
    ProposalRow,
    SceneRow,
)
from coda.memory.rundb import RunDb
from coda.memory.vectors import VectorStore
from coda.sim.splits import Splits, evaluation_set


@dataclass(frozen=True)
class Done:
    """A finished run."""

    result: RunResult
    events: Sequence[RunEvent]
    db: RunDb


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    runs = tmp_path_factory.mktemp("runs")
    events: list[RunEvent] = []

    def listen(event: RunEvent) -> None:
        """Watch, and steer as another process would: between the first plan and the second."""
        events.append(event)
        if event.kind == "node-started" and (event.round, event.node) == (1, "train"):
            with RunDb(runs / "a" / "run.db") as db:
                db.direct("stop working on size", {"kind": "stop-axes", "axes": ["size"]})
                db.direct("smaller", {"kind": "budget", "scenes": 4})

    result = run(make_config("debug", name="a", runs_dir=str(runs)), on_event=listen)
    return Done(result, events, RunDb(result.run_dir / "run.db", read_only=True))


def test_every_node_ran_in_order(done: Done) -> None:
    keys = [row.node_key for row in done.db.rows(NodeRunRow)]
    first = [f"r{0 if name == 'seed' else 1:02d}:{name}" for name in NODES]
    assert keys[: len(first)] == first
    assert keys[-1] == "r03:plan"
    assert all(row.status == "done" for row in done.db.rows(NodeRunRow))


def test_success_is_measured_in_every_round(done: Done) -> None:
    assert done.result.stop == "all 2 rounds are done"
    for split, trials in (("in", 4), ("ood", 8)):
        rows = done.result.overall(split)
        assert [(row.round, row.trials) for row in rows] == [(0, trials), (1, trials), (2, trials)]
    labels = {row.label for row in done.db.rows(ProgressRow, split="ood")}
    assert labels == {"all", *evaluation_set("ood").axis}


def test_events_tell_steps_success_and_the_end(done: Done) -> None:
    kinds = [event.kind for event in done.events]
    assert kinds[0] == "run-started"
    assert kinds[-1] == "run-ended"
    assert kinds.count("success") == 6
    assert "step" in kinds


def test_no_training_scene_lies_in_a_held_out_cell(done: Done) -> None:
    scenes = {row.digest: row.scene for row in done.db.rows(SceneRow)}
    used = [row for row in done.db.rows(EpisodeRow) if row.purpose in ("diagnose", "probe")]
    assert used
    assert not [r for r in used if Splits().held_out(scenes[r.scene_digest])]


def test_seeds_of_different_purposes_draw_different_scenes(done: Done) -> None:
    by_purpose: dict[str, set[str]] = {}
    for row in done.db.rows(EpisodeRow):
        by_purpose.setdefault(row.purpose, set()).add(row.scene_digest)
    names = sorted(by_purpose)
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            assert not by_purpose[first] & by_purpose[second], (first, second)


def test_a_directive_of_another_process_changes_the_next_round(done: Done) -> None:
    rows = done.db.rows(DirectiveRow)
    assert [(row.status, row.consumed_round) for row in rows] == [("consumed", 2)] * 2
    decisions = done.db.rows(DecisionRow, node_key="r02:plan")
    assert decisions[0].by == "person"
    assert "size" in decisions[0].text
    axes = {row.axis for row in done.db.rows(EpisodeRow, node_key="r02:rollout")}
    assert "size" not in axes
    assert len(done.db.rows(EpisodeRow, node_key="r02:rollout")) <= 4


def test_nothing_of_the_evaluation_reaches_a_plan(done: Done) -> None:
    calls = done.db.rows(AgentCallRow, task="plan-round")
    assert len(calls) == 2
    for call in calls:
        assert "ood" not in json.dumps(call.messages[-1]).lower()
        assert '"in"' not in json.dumps(call.messages[-1])


def test_every_row_of_an_agents_making_names_its_call(done: Done) -> None:
    calls = {row.call_id: row for row in done.db.rows(AgentCallRow)}
    for proposal in done.db.rows(ProposalRow):
        assert calls[str(proposal.call_id)].role == "scene-builder"
    for diagnosis in done.db.rows(DiagnosisRow):
        assert calls[str(diagnosis.call_id)].role == "critic"
    for test in done.db.rows(ControlTestRow):
        assert calls[str(test.call_id)].role == "refuter"


def test_proposals_are_counted(done: Done) -> None:
    proposals = done.db.rows(ProposalRow)
    assert done.result.scenes_accepted == sum(row.accepted for row in proposals)
    assert done.result.scenes_proposed >= done.result.scenes_accepted > 0


def test_every_diagnosis_cites_rollouts_of_the_run(done: Done) -> None:
    known = {row.episode_id for row in done.db.rows(EpisodeRow)}
    rows = done.db.rows(DiagnosisRow)
    assert rows
    for row in rows:
        for reference in row.diagnosis.evidence:
            assert any(reference == e or reference.startswith(f"{e}:") for e in known), reference


def test_the_vector_memory_agrees_with_the_facts(done: Done) -> None:
    with VectorStore(done.result.run_dir / "chroma") as vectors:
        assert vectors.reconcile(done.db).agreed


def test_the_result_file_reads_back_and_a_finished_run_is_not_run_again(done: Done) -> None:
    data = json.loads((done.result.run_dir / "result.json").read_text(encoding="utf-8"))
    assert data["success"] == [row for row in done.result.to_json()["success"]]
    before = done.db.count(NodeRunRow)
    assert resume(done.result.run_dir) == done.result
    assert done.db.count(NodeRunRow) == before
    assert done.result.report.is_file()


@pytest.mark.slow
def test_modes_are_made_parked_by_a_person_and_taken_over_by_another_run(tmp_path: Path) -> None:
    def listen(event: RunEvent) -> None:
        if event.kind == "node-started" and (event.round, event.node) == (1, "measure"):
            park = {"kind": "mode-status", "mode_id": "m001", "change": "park", "reason": "later"}
            with RunDb(tmp_path / "a" / "run.db") as db:
                db.direct("park mode 1", park)

    config = make_config(
        "debug", overrides=["switches.controls=off"], name="a", runs_dir=str(tmp_path)
    )
    result = run(config, on_event=listen)
    with RunDb(result.run_dir / "run.db", read_only=True) as db:
        modes = {row.mode_id: row.mode for row in db.rows(ModeVersionRow)}
        trained = [row.label for row in db.rows(ProgressRow, split="probe", round_=2)]
    parked = modes["m001"]
    assert (parked.status, parked.pinned_by, parked.reason) == ("parked", "d001", "later")
    assert "m001" not in trained
    assert all(mode.phi is not None and mode.phi_version >= 1 for mode in modes.values())
    assert all(len(mode.probe_history) >= 2 for mode in modes.values())
    heir = run(
        make_config(
            "debug", name="b", runs_dir=str(tmp_path), rounds=0, import_memory=str(tmp_path / "a")
        )
    )
    assert sum(heir.modes.values()) == len(modes)
    with RunDb(heir.run_dir / "run.db", read_only=True) as db:
        assert db.rows(ModeVersionRow)[0].mode.lineage == ("a:m001",)
        assert db.rows(DecisionRow, kind="import-memory")


def test_an_exhausted_budget_stops_the_run_before_the_call(tmp_path: Path) -> None:
    config = make_config(
        "debug",
        overrides=[
            "models.default=openai:x",
            "models.base_url=http://127.0.0.1:9/v1",
            "models.max_tokens=0",
            "seeding.demonstrations=1",
            "seeding.updates=1",
        ],
        name="b",
        runs_dir=str(tmp_path),
    )
    result = run(config)
    assert "the token budget is used up" in result.stop
    assert not (result.run_dir / "result.json").exists()
    assert result.report.is_file()
    assert "the token budget is used up" in resume(result.run_dir).stop
