"""Whole debug runs over OpenAI's wire format, on loopback: a good model and a hostile one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from coda.agents.prompting import read_facts
from coda.agents.rules import RULES
from coda.graphs.config import make_config
from coda.graphs.runner import run
from coda.memory.rows import AgentCallRow, DecisionRow
from coda.memory.rundb import RunDb
from tests.fakes_http import Canned, FakeServer, Request, openai_chat, serving

KEY = "sk-test-a-key-that-must-not-be-written"


def text_of(message: dict[str, Any]) -> str:
    """Text of a message on the wire, its pictures left out."""
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part["type"] == "text")


class Thinker:
    """Answers every question as the rules would, but the first one of each task wrongly."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.pictures = 0

    def __call__(self, request: Request) -> Canned:
        messages = [m for m in request.body["messages"] if m["role"] == "user"]
        self.pictures += json.dumps(messages).count('"image_url": {"url": "data:image/')
        for message in reversed(messages):
            facts = read_facts(HumanMessage(text_of(message)))
            if facts is not None:
                break
        else:
            raise AssertionError("a question without facts")
        task = facts["task"]
        if task not in self.seen:
            self.seen.add(task)
            return openai_chat('{"nonsense": true}')
        return openai_chat(json.dumps(RULES[task](facts)))


def debug_run(tmp_path: Path, server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A debug run whose four agents ask `server`."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    config = make_config(
        "debug",
        name="llm",
        runs_dir=str(tmp_path),
        overrides=["models.default=openai:test-model", f"models.base_url={server.v1}"],
    )
    return run(config).run_dir


def written(run_dir: Path) -> bytes:
    """Every byte of a run folder."""
    return b"".join(p.read_bytes() for p in sorted(run_dir.rglob("*")) if p.is_file())


@pytest.mark.slow
def test_a_language_model_drives_a_whole_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    thinker = Thinker()
    with serving(thinker) as server:
        run_dir = debug_run(tmp_path, server, monkeypatch)
        assert server.requests
    with RunDb(run_dir / "run.db", read_only=True) as db:
        calls = db.rows(AgentCallRow)
    assert {call.role for call in calls} >= {"scene-builder", "critic", "refuter", "curriculum"}
    assert {call.status for call in calls} <= {"ok", "retried"}
    assert any(call.status == "retried" for call in calls)
    assert all(call.tokens_in > 0 for call in calls)
    assert thinker.pictures > 0
    assert KEY.encode() not in written(run_dir)


@pytest.mark.slow
def test_a_hostile_model_never_ends_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replies = (
        openai_chat("<script>alert(1)</script> I would rather not answer in JSON."),
        openai_chat(None, refusal="I cannot help with that."),
        openai_chat(""),
        openai_chat('{"program": {"name": "x", "family": "pick-place", "edits": [1e400]}}'),
        openai_chat('{"decision": "continue"', finish="length"),
    )
    count = 0

    def answer(request: Request) -> Canned:
        nonlocal count
        del request  # Unused.
        count += 1
        return replies[count % len(replies)]

    with serving(answer) as server:
        run_dir = debug_run(tmp_path, server, monkeypatch)
    with RunDb(run_dir / "run.db", read_only=True) as db:
        calls = db.rows(AgentCallRow)
        decisions = db.rows(DecisionRow)
    assert calls
    assert {call.status for call in calls} <= {"error", "refused"}
    assert all(call.attempts <= 3 for call in calls)
    fallbacks = [row for row in decisions if row.by == "rule:fallback"]
    assert any(row.node_key == "r01:plan" for row in fallbacks)
    assert any(row.node_key == "r01:build" for row in fallbacks)
    assert (run_dir / "result.json").is_file()
    page = (run_dir / "report.html").read_text(encoding="utf-8")
    assert "<script>alert(1)" not in page
    assert KEY.encode() not in written(run_dir)
