"""The trace: the tree, its filters, one call in full, JSON, and the errors of a typing mistake."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from coda.graphs.facts import read_facts
from coda.graphs.runfolder import RunError
from coda.graphs.trace_data import TRACE_SCHEMA, Filters, trace_json
from coda.graphs.trace_view import show, visible
from coda.memory.rundb import RunDb
from coda.sim.errors import CodaError


def _printed(run: Path, **options: Any) -> str:
    out = io.StringIO()
    show(run, console=Console(file=out, width=200), **options)
    return out.getvalue()


def _json(run: Path, **filters: Any) -> Any:
    return json.loads(_printed(run, filters=Filters(**filters), json_output=True))


def test_the_tree_tells_who_decided_what_on_which_grounds(sample_run: Path) -> None:
    text = _printed(sample_run)
    assert "sample · not finished · policy: flow, privileged state · offline (rules)" in text
    assert "directive d001 “make targets smaller” consumed" in text
    assert "decision by curriculum explore yaw" in text
    assert "r01:diagnose#000 critic · diagnose · offline (rules) · ok" in text
    assert "led to r01:d00" in text
    assert "cites r01:rollout:0001:grasped(target)@31 · failure" in text
    assert "control test r01:t00 confirmed: target 2/16" in text
    assert "mode m001 v2 training" in text
    assert "measured OOD all 17/32 · yaw 8/16 · size 1/8" in text
    assert "plan · running" in text


def test_json_keeps_its_shape(sample_run: Path) -> None:
    data = _json(sample_run)
    assert data["schema"] == TRACE_SCHEMA == 1
    assert [r["round"] for r in data["rounds"]] == [0, 1, 2]
    node = next(n for n in data["rounds"][1]["nodes"] if n["node"] == "refute")
    assert set(node) >= {"node_key", "node", "status", "started", "seconds", "calls", "tests"}
    assert set(node["calls"][0]) >= {
        "call_id", "role", "task", "model", "status", "tokens_in", "tokens_out", "cost_usd",
        "seconds", "answer", "tool_calls", "links", "led_to",
    }  # fmt: skip
    assert node["costs"]["sim_steps"] == 4000.0
    assert data["directives"][0]["consumed_by"] == "r01:plan"


@pytest.mark.parametrize(
    ("filters", "calls"),
    [
        ({"round": 1, "node": "plan"}, ["r01:plan#000"]),
        ({"role": "refuter"}, ["r01:refute#000", "r01:refute#001"]),
        ({"status": "retried"}, ["r01:build#000"]),
        ({"mode": "m001"}, ["r01:build#000", "r01:diagnose#000", "r01:refute#000"]),
        ({"status": "abandoned"}, []),
    ],
)
def test_filters(sample_run: Path, filters: dict[str, Any], calls: list[str]) -> None:
    data = _json(sample_run, **filters)
    found = [c["call_id"] for r in data["rounds"] for n in r["nodes"] for c in n["calls"]]
    assert found == calls


def test_a_mode_is_followed_to_its_diagnosis_and_test(sample_run: Path) -> None:
    nodes = {n["node"]: n for r in _json(sample_run, mode="m001")["rounds"] for n in r["nodes"]}
    assert [d["diagnosis_id"] for d in nodes["diagnose"]["diagnoses"]] == ["r01:d00"]
    assert [t["test_id"] for t in nodes["refute"]["tests"]] == ["r01:t00"]
    assert "seed" not in nodes


def test_an_interrupted_call_stays_visible(sample_run: Path) -> None:
    with RunDb(sample_run / "run.db") as db:
        db.begin_node("r01:refute")
    data = _json(sample_run, status="abandoned")
    assert [n["node"] for n in data["rounds"][0]["nodes"]] == ["refute"]
    assert "begun 2 times" in _printed(sample_run)


def test_one_call_in_full(sample_run: Path) -> None:
    text = _printed(sample_run, call="r01:diagnose#000")
    assert "You are the critic." in text
    assert "[picture ab12]" in text
    assert '[asks for rollouts({"n": 2})]' in text
    assert "note invalid" in text
    assert "rollout r01:rollout:0001 failure after 61 steps" in text
    whole = json.loads(_printed(sample_run, call="r01:diagnose#000", json_output=True))
    assert whole["messages"][0]["role"] == "system"
    assert {item["kind"] for item in whole["linked"]} == {"rollout", "diagnosis"}


def test_an_unknown_call_names_the_nearest(sample_run: Path) -> None:
    with pytest.raises(
        CodaError, match=r"no agent call named 'r01:diagnos#000'. Nearest of 6: r01:d"
    ):
        show(sample_run, call="r01:diagnos#000")


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        (Filters(node="refutee"), "no node named 'refutee'. Did you mean 'refute'?"),
        (Filters(role="critics"), "Did you mean 'critic'?"),
        (Filters(status="retry"), "Known: abandoned, error, fallback, ok, refused, retried"),
        (Filters(mode="m002"), "no mode named 'm002'. Did you mean 'm001'?"),
        (Filters(round=7), "no round 7 in this run; it has rounds 0 to 2."),
    ],
)
def test_a_filter_that_cannot_match_is_refused(
    sample_run: Path, filters: Filters, message: str
) -> None:
    with pytest.raises(CodaError) as caught:
        trace_json(read_facts(sample_run), filters)
    assert message in str(caught.value)


def test_it_is_not_a_run_folder(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not a run folder"):
        show(tmp_path)


def test_text_of_a_model_cannot_drive_the_terminal() -> None:
    hostile = {"answer": ["\x1b[2Jgone\x07", "a\nb", "café ω"]}
    assert visible(hostile) == {"answer": ["�[2Jgone�", "a\nb", "café ω"]}


def test_reading_does_not_disturb_a_run_that_goes_on(sample_run: Path) -> None:
    with RunDb(sample_run / "run.db") as writer:
        writer.decide("r02:plan", "plan", "go on", "curriculum")
        assert "go on" in _printed(sample_run)
        writer.finish_node("r02:plan")
    assert "plan · running" not in _printed(sample_run)
