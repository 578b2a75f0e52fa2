"""Conversations about a run: answers from its facts, directives, and plain refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
from langchain_core.messages import AIMessage

from coda.agents.actions import ACTION_KINDS, SetModeStatus
from coda.agents.chat import ChatSession
from coda.agents.chat_tools import Kind
from coda.agents.directives import Steering, apply_directives, in_force, read_row
from coda.agents.rules_chat import SIGNATURE
from coda.agents.rules_grammar import parse
from coda.memory.rows import AgentCallRow, DecisionRow, NodeRunRow
from coda.memory.rundb import RunDb, RunDbError
from tests.agents_world import ScriptedModel, make_run


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    path = tmp_path / "run"
    make_run(path)
    return path


def steered(message: str) -> list[dict[str, Any]]:
    run = {"rounds": 3, "live_directives": ["d001", "d002"], "family": "pick-place"}
    calls = parse(message, run).calls
    return [{k: v for k, v in call["args"].items() if k != "words"} for call in calls]


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        (
            "make targets smaller and stop working on position",
            [
                {"kind": "factor-bias", "path": "alpha.target.scale", "direction": "lower"},
                {"kind": "stop-axes", "axes": ["position"]},
            ],
        ),
        ("aim for 30–60 % success", [{"kind": "band", "low": 0.3, "high": 0.6}]),
        (
            "keep success between 0.3 and 0.6",
            [{"kind": "band", "low": 0.3, "high": 0.6}],
        ),
        ("2 more rounds please", [{"kind": "budget", "rounds": 5}]),
        (
            "run 5 rounds with 20 scenes and use the fixed schedule",
            [
                {"kind": "budget", "rounds": 5, "scenes": 20},
                {"kind": "schedule", "schedule": "fixed"},
            ],
        ),
        ("don't stop working on yaw", [{"kind": "resume-axes", "axes": ["yaw"]}]),
        ("no more distractors", [{"kind": "stop-axes", "axes": ["distractors"]}]),
        (
            "Please park mode 3 because it lags, and double the weight of m002",
            [
                {
                    "kind": "mode-status",
                    "mode_id": "m003",
                    "change": "park",
                    "reason": "it lags",
                },
                {"kind": "weight", "mode_id": "m002", "factor": 2.0},
            ],
        ),
        ("stop the run", [{"kind": "stop-run"}]),
        ("undo that", [{"directive_id": "d002"}]),
        (
            "new mode: it drops objects of large size",
            [{"kind": "new-mode", "text": "it drops objects of large size", "axis": "size"}],
        ),
    ],
)
def test_the_grammar_reads_wishes(message: str, wanted: list[dict[str, Any]]) -> None:
    assert steered(message) == wanted


@pytest.mark.parametrize(
    ("message", "tools"),
    [
        ("what does it find hard?", ["show_run", "list_modes"]),
        ("why was mode 3 parked?", ["explain_mode"]),
        ("What did you do in round 2?", ["show_rounds"]),
        ("how is it going", ["show_run"]),
        ("which tests were refuted?", ["show_tests"]),
        ("show failed rollouts of yaw", ["show_rollouts"]),
        ("why did you stop working on position?", ["show_run", "list_modes"]),
    ],
)
def test_questions_change_nothing(message: str, tools: list[str]) -> None:
    assert [call["name"] for call in parse(message, {}).calls] == tools


def test_the_steer_tool_knows_every_kind_of_action() -> None:
    assert get_args(Kind) == ACTION_KINDS


def test_rules_answer_from_the_runs_facts(run_dir: Path) -> None:
    with ChatSession(run_dir) as chat:
        assert chat.label == "offline (rules)"
        hard = chat.send("what does it find hard?").text
        yaw = chat.send("why does it fail on yaw?").text
        going = chat.send("how is it going?").text
        why = chat.send("why was mode 2 parked?").text
        round_1 = chat.send("what did you do in round 1?").text
        who = chat.send("are you a language model?").text
    assert "m002 parked: carries past far goals" in hard
    assert "Last generated scenes solved, hardest first: yaw 1/4, goal 1/4." in hard
    assert "m001 training" in yaw
    assert "m002" not in yaw
    assert "round 2: 12/64" in going
    assert "two probes below the band without progress" in why
    assert "round 1: 0/8, round 2: 0/8" in why
    assert "curriculum: explore yaw and goal" in round_1
    assert "confirmed: target 1/8" in round_1
    assert "not a language model" in who
    assert all(SIGNATURE in text for text in (hard, why, round_1, who))


def test_one_message_records_two_directives(run_dir: Path) -> None:
    pieces: list[str] = []
    with ChatSession(run_dir) as chat:
        reply = chat.send("make targets smaller and stop working on position", pieces.append)
        assert reply.directives == ("d001", "d002")
        assert "the next plan consumes it" in reply.text
        listed = chat.send("list directives").text
        assert "d001 pending: make targets smaller" in listed
        undone = chat.send("undo d001")
        assert undone.undone == ("d001",)
    assert "".join(pieces) == reply.text
    with RunDb(run_dir / "run.db") as db:
        db.begin_node("r03:plan")
        taken = [read_row(row) for row in db.consume("r03:plan")]
        assert [d.directive_id for d in taken] == ["d002"]
        assert in_force(db.directives()) == taken
        assert "position" not in apply_directives(Steering(), taken).open_axes


def test_every_turn_is_journaled_under_its_conversation(run_dir: Path) -> None:
    for message in ("aim for 30 to 60 % success", "how is it going"):
        with ChatSession(run_dir) as chat:
            chat.send(message)
    with ChatSession(run_dir):
        pass  # nothing said, nothing recorded
    with RunDb(run_dir / "run.db") as db:
        keys = [node.node_key for node in db.rows(NodeRunRow, node="chat")]
        assert keys == ["chat:001", "chat:002"]
        calls = db.rows(AgentCallRow, role="curriculum", task="chat")
        assert [call.node_key for call in calls] == keys
        assert calls[0].tool_calls[0]["name"] == "steer"
        decision = db.rows(DecisionRow, node_key="chat:001")[0]
        assert decision.by == "person"
        assert decision.links == {"directive": "d001"}


def test_impossible_wishes_are_answered_with_what_is_possible(run_dir: Path) -> None:
    with ChatSession(run_dir) as chat:
        unknown = chat.send("park mode 7").text
        nothing = chat.send("fewer distractors").text
        family = chat.send("switch to stacking").text
        garbled = chat.send("sing a song").text
        again = chat.send("undo that").text
    assert "Known: m001, m002" in unknown
    assert "cannot go lower than the seed scene's" in nothing
    assert "keeps its family" in family
    assert "I could not read “sing a song”" in garbled
    assert "no directive to undo" in again
    with RunDb(run_dir / "run.db") as db:
        assert db.directives() == []


def test_a_finished_run_keeps_the_directive_and_says_so(tmp_path: Path) -> None:
    make_run(tmp_path / "done", finished=True)
    with ChatSession(tmp_path / "done") as chat:
        reply = chat.send("activate mode 2")
        assert "this run is finished" in reply.text
        action = read_row(chat.db.directives()[0]).action
    assert action == SetModeStatus(
        mode_id="m002", change="activate", reason="a person asked for it"
    )


def test_a_language_model_steers_through_tool_calls(run_dir: Path) -> None:
    call = {
        "name": "steer",
        "args": {"kind": "stop-axes", "words": "no position", "axes": ["position"]},
        "id": "c1",
        "type": "tool_call",
    }
    bad = {"name": "steer", "args": {"kind": "band", "words": "x", "low": 0.9}, "id": "c2"}
    model = ScriptedModel(
        answers=[
            AIMessage(content="", tool_calls=[call, {**bad, "type": "tool_call"}]),
            AIMessage(content="Recorded d001."),
            AIMessage(content="As said."),
        ]
    )
    with ChatSession(run_dir, model) as chat:
        reply = chat.send("leave position alone")
        assert (reply.text, reply.directives) == ("Recorded d001.", ("d001",))
        chat.send("and now?")
    sent = [str(message.text) for message in model.prompts[1]]
    assert any('"recorded":"d001"' in text for text in sent)
    assert any("directive band.high" in text for text in sent)
    kinds = [message.type for message in model.prompts[2]]
    assert kinds == ["system", "human", "ai", "tool", "tool", "ai", "human"]


def test_a_folder_without_a_run_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(RunDbError, match="no run database at"):
        ChatSession(tmp_path)
