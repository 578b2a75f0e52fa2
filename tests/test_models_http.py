"""Chat models over HTTP: OpenAI's and Anthropic's wire formats, on loopback."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import SystemMessage
from langchain_core.tools import BaseTool, tool
from pydantic import BaseModel, ConfigDict, Field

from coda.agents import caller as caller_module
from coda.agents.budget import Budget, BudgetExhausted
from coda.agents.caller import AgentCaller, NoAnswer
from coda.agents.journal import MemoryJournal
from coda.agents.models import make_model
from coda.agents.prices import Price
from coda.agents.prompting import human
from coda.agents.streaming import stream_chat
from coda.agents.transport import Patience, Sender
from tests.fakes_http import (
    Canned,
    FakeServer,
    Request,
    anthropic_error,
    anthropic_message,
    anthropic_stream,
    openai_chat,
    openai_error,
    openai_stream,
    serving,
)

KEY = "sk-test-" + "k" * 24
FACTS = {"group": "g1", "failures": 5}
GOOD = {"cause": "slip", "weight": 0.5}


class Finding(BaseModel):
    """Why it failed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cause: Literal["slip", "stall"]
    weight: float = Field(ge=0.0, le=1.0)


@tool
def count(axis: str) -> str:
    """Count failures along an axis."""
    if axis == "hue":
        raise ValueError("no axis named hue")
    return f"3 failures along {axis}"


def png() -> bytes:
    """A 1×1 image."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    body = zlib.compress(b"\x00\xff\x00\x00")
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


@pytest.fixture(autouse=True)
def _keys_and_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(
        caller_module, "system", lambda role, values=None: SystemMessage(f"You are the {role}.")
    )


class Rig:
    """A caller against a scripted server."""

    def __init__(self, server: FakeServer, kind: str = "openai", **options: Any) -> None:
        self.server = server
        self.waits: list[float] = []
        self.journal = MemoryJournal()
        budget = options.pop("budget", None)
        timeout_s = options.pop("timeout_s", 5.0)
        self.model = model_on(server, kind, timeout_s)
        sender = Sender(Patience(tries=3, first_wait_s=0.5, max_wait_s=20.0), self.waits.append)
        self.caller = AgentCaller(
            self.model, self.journal, budget, node_key="r01:diagnose", sender=sender, **options
        )

    def ask(self, **options: Any) -> Finding:
        answer = self.caller.ask("critic", "diagnose", Finding, FACTS, **options)
        return answer.value

    @property
    def row(self) -> Any:
        """The last recorded call."""
        return self.journal.calls[-1]

    @property
    def notes(self) -> list[str]:
        """Kinds of the notes in the last recorded call."""
        return [entry["kind"] for entry in self.row.messages if entry["role"] == "note"]


def model_on(server: FakeServer, kind: str, timeout_s: float = 5.0) -> BaseChatModel:
    url = server.v1 if kind == "openai" else server.root
    return make_model(f"{kind}:test-model", base_url=url, timeout_s=timeout_s)


@pytest.fixture
def serve() -> Iterator[Callable[..., FakeServer]]:
    servers: list[FakeServer] = []

    def start(*replies: Canned, answer: Callable[[Request], Canned] | None = None) -> FakeServer:
        servers.append(FakeServer(answer or list(replies)))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


Serve = Callable[..., FakeServer]


def test_openai_answers_in_its_schema_mode(serve: Serve) -> None:
    rig = Rig(serve(openai_chat(json.dumps(GOOD))))
    assert rig.ask().cause == "slip"
    (body,) = rig.server.bodies
    assert rig.server.requests[0].path == "/v1/chat/completions"
    assert rig.server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    wanted = body["response_format"]
    assert wanted["type"] == "json_schema"
    assert wanted["json_schema"]["strict"] is True
    assert wanted["json_schema"]["schema"]["additionalProperties"] is False
    assert body["messages"][0] == {"role": "system", "content": "You are the critic."}
    last = body["messages"][1]["content"]
    assert last.endswith('```json\n{"task": "diagnose", "group": "g1", "failures": 5}\n```')
    assert (rig.row.tokens_in, rig.row.tokens_out, rig.row.status) == (11, 7, "ok")
    assert rig.row.cost_usd is None  # a server of one's own has no list price
    assert rig.row.answer == GOOD


def test_anthropic_answers_in_its_schema_mode(serve: Serve) -> None:
    rig = Rig(serve(anthropic_message(json.dumps(GOOD))), "anthropic")
    assert rig.ask().weight == 0.5
    (body,) = rig.server.bodies
    assert rig.server.requests[0].path.startswith("/v1/messages")
    headers = rig.server.requests[0].headers
    assert headers.get("x-api-key", headers.get("authorization", "")).endswith(KEY)
    assert body["output_config"]["format"]["type"] == "json_schema"
    assert body["system"] == "You are the critic."
    assert (rig.row.tokens_in, rig.row.tokens_out) == (13, 5)
    assert rig.row.model.startswith("anthropic:test-model@127.0.0.1:")


def only(allowed: str, status: int) -> Callable[[Request], Canned]:
    """An OpenAI-like server that knows one way to ask."""

    def answer(request: Request) -> Canned:
        way = request.body.get("response_format", {}).get("type")
        way = way or ("tool" if request.body.get("tools") else "text")
        if way != allowed:
            return openai_error(status, f"unknown field for {way}")
        if way == "tool":
            assert request.body["tool_choice"]["function"]["name"] == "Finding"
            return openai_chat(None, calls=[("Finding", GOOD)])
        if way == "json_object":
            assert "schema" in request.body["response_format"]
        if way == "text":
            assert "JSON schema" in request.body["messages"][-1]["content"]
            return openai_chat(f"Sure!\n```json\n{json.dumps(GOOD)[:-1]},}}\n```")
        return openai_chat(json.dumps(GOOD))

    return answer


@pytest.mark.parametrize("status", [400, 500])
@pytest.mark.parametrize("allowed", ["json_object", "tool", "text"])
def test_a_way_to_ask_that_fails_is_left_and_remembered(
    serve: Serve, allowed: str, status: int
) -> None:
    rig = Rig(serve(answer=only(allowed, status)))
    assert rig.ask().cause == "slip"
    first = len(rig.server.requests)
    assert first > 1
    assert "strategy" in rig.notes
    assert rig.row.status == "retried"
    assert rig.ask().cause == "slip"
    assert len(rig.server.requests) == first + 1
    assert rig.row.status == "ok"


def test_anthropic_falls_back_to_a_forced_tool(serve: Serve) -> None:
    def answer(request: Request) -> Canned:
        if "output_config" in request.body:
            return anthropic_error(400, "invalid_request_error", "output_config: unknown field")
        assert request.body["tool_choice"] == {"type": "tool", "name": "Finding"}
        return anthropic_message(calls=[("Finding", GOOD)])

    rig = Rig(serve(answer=answer), "anthropic")
    assert rig.ask().cause == "slip"
    assert len(rig.server.requests) == 2


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_tools_are_called_and_their_errors_go_back(serve: Serve, kind: str) -> None:
    first: list[tuple[str, Any]] = [("count", {"axis": "yaw"}), ("count", {"axis": "hue"})]
    if kind == "openai":
        replies = [openai_chat("", calls=first), openai_chat("yaw"), openai_chat(json.dumps(GOOD))]
    else:
        replies = [
            anthropic_message("I look.", calls=first),
            anthropic_message("yaw"),
            anthropic_message(json.dumps(GOOD)),
        ]
    rig = Rig(serve(*replies), kind)
    tools: list[BaseTool] = [count]
    assert rig.ask(tools=tools).cause == "slip"
    rig.server.assert_spent()
    results = [(call["args"]["axis"], call["ok"]) for call in rig.row.tool_calls]
    assert results == [("yaw", True), ("hue", False)]
    assert "no axis named hue" in rig.row.tool_calls[1]["result"]
    second, third = (json.dumps(body["messages"]) for body in rig.server.bodies[1:])
    assert "3 failures along yaw" in second
    assert "error: no axis named hue" in second
    assert "You called count(" in third  # told in words where an answer is asked for
    assert "tool_use" not in third
    assert rig.row.tokens_in in (33, 39)


def test_tool_calls_are_bounded(serve: Serve) -> None:
    def answer(request: Request) -> Canned:
        if "response_format" in request.body:
            return openai_chat(json.dumps(GOOD))
        return openai_chat("", calls=[("count", {"axis": "yaw"})])

    rig = Rig(serve(answer=answer))
    assert rig.ask(tools=[count]).cause == "slip"
    assert len(rig.row.tool_calls) == 6
    assert "No more tools may be called" in json.dumps(rig.server.bodies[-1]["messages"])


def test_a_closing_message_that_is_the_answer_saves_a_request(serve: Serve) -> None:
    rig = Rig(serve(openai_chat(json.dumps(GOOD))))
    assert rig.ask(tools=[count]).cause == "slip"
    rig.server.assert_spent()


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_images_are_sent_and_recorded_by_hash(serve: Serve, kind: str, tmp_path: Any) -> None:
    text = json.dumps(GOOD)
    rig = Rig(
        serve(openai_chat(text) if kind == "openai" else anthropic_message(text)),
        kind,
        image_dir=tmp_path / "images",
    )
    rig.ask(images=[png()])
    blocks = rig.server.bodies[0]["messages"][-1]["content"]
    data = base64.b64encode(png()).decode()
    if kind == "openai":
        assert blocks[1] == {
            "type": "image_url",
            "image_url": {"url": f"data:image/png;base64,{data}"},
        }
    else:
        assert blocks[1]["source"] == {"type": "base64", "media_type": "image/png", "data": data}
    (kept,) = next(entry["images"] for entry in rig.row.messages if "images" in entry)
    assert (tmp_path / kept["path"]).read_bytes() == png()
    assert data not in json.dumps(rig.row.messages)


def test_a_server_without_eyes_is_asked_again_without_images(serve: Serve) -> None:
    def answer(request: Request) -> Canned:
        if "image_url" in json.dumps(request.body):
            return openai_error(400, "this model does not support image input")
        return openai_chat(json.dumps(GOOD))

    rig = Rig(serve(answer=answer))
    assert rig.ask(images=[png()]).cause == "slip"
    assert "images" in rig.notes
    rig.ask(images=[png()])
    assert len(rig.server.requests) == 3  # remembered


def test_a_server_without_tools_is_asked_without_them(serve: Serve) -> None:
    def answer(request: Request) -> Canned:
        if "tools" in request.body:
            return openai_error(500, "tools: not implemented")
        return openai_chat(json.dumps(GOOD))

    rig = Rig(serve(answer=answer))
    assert rig.ask(tools=[count]).cause == "slip"
    first = len(rig.server.requests)
    rig.ask(tools=[count])
    assert len(rig.server.requests) == first + 1  # remembered


def test_an_outage_teaches_nothing_about_the_model(serve: Serve) -> None:
    down = [True]

    def answer(request: Request) -> Canned:
        return openai_error(500, "down") if down[0] else openai_chat(json.dumps(GOOD))

    rig = Rig(serve(answer=answer))
    with pytest.raises(NoAnswer, match="server-error"):
        rig.ask(tools=[count], images=[png()])
    down[0] = False
    assert rig.ask(tools=[count], images=[png()]).cause == "slip"
    last = rig.server.bodies[-1]
    assert "image_url" in json.dumps(last)
    assert "tools" in last


def test_a_rate_limit_is_waited_out_as_asked(serve: Serve) -> None:
    slow = {"retry-after": "7"}
    rig = Rig(serve(openai_error(429, "slow down", slow), openai_chat(json.dumps(GOOD))))
    assert rig.ask().cause == "slip"
    assert rig.waits == [7.0]
    assert (rig.row.status, rig.notes) == ("retried", ["rate-limited"])


def test_a_long_retry_after_is_capped_and_tries_are_bounded(serve: Serve) -> None:
    slow = openai_error(429, "slow down", {"retry-after": "86400"})
    rig = Rig(serve(slow, slow, slow))
    with pytest.raises(NoAnswer, match="rate-limited after 3 request"):
        rig.ask()
    assert rig.waits == [20.0, 20.0]
    assert rig.row.status == "error"


def test_an_overloaded_anthropic_is_waited_out(serve: Serve) -> None:
    busy = anthropic_error(529, "overloaded_error", "Overloaded")
    rig = Rig(serve(busy, busy, anthropic_message(json.dumps(GOOD))), "anthropic")
    assert rig.ask().cause == "slip"
    assert rig.waits == [0.5, 1.0]


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_a_broken_server_ends_in_no_answer(serve: Serve, kind: str) -> None:
    broken = Canned({"error": {"message": "boom", "type": "api_error"}}, status=500)
    rig = Rig(serve(answer=lambda request: broken), kind)
    with pytest.raises(NoAnswer, match="server-error"):
        rig.ask()
    assert len(rig.server.requests) <= 9
    assert rig.row.status == "error"
    assert rig.row.answer is None


def test_one_server_error_does_not_change_the_way_to_ask(serve: Serve) -> None:
    rig = Rig(serve(openai_error(500, "hiccup"), openai_chat(json.dumps(GOOD))))
    assert rig.ask().cause == "slip"
    assert "response_format" in rig.server.bodies[1]
    assert rig.notes == ["server-error"]


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_a_timeout_is_bounded(serve: Serve, kind: str) -> None:
    late = Canned({}, delay_s=5.0)
    rig = Rig(serve(late, late, late), kind, timeout_s=0.2)
    with pytest.raises(NoAnswer, match="timeout after 2 request"):
        rig.ask()
    assert rig.notes == ["timeout", "timeout", "no-answer"]


def test_nobody_at_the_address(serve: Serve) -> None:
    server = serve()
    rig = Rig(server)
    server.close()
    with pytest.raises(NoAnswer, match="unreachable after 3 request"):
        rig.ask()


def test_a_wrong_key_is_not_retried_and_never_recorded(serve: Serve) -> None:
    wrong = openai_error(401, f"Incorrect API key provided: {KEY}. Bearer {KEY}")
    rig = Rig(serve(wrong))
    with pytest.raises(NoAnswer) as caught:
        rig.ask()
    assert len(rig.server.requests) == 1
    assert "denied" in str(caught.value)
    assert KEY not in str(caught.value)
    assert KEY not in repr(rig.journal.calls)
    assert "[redacted]" in repr(rig.row.messages)


def test_a_refusal_is_recorded_as_one(serve: Serve) -> None:
    rig = Rig(serve(openai_chat(None, refusal="I cannot help with that.")))
    with pytest.raises(NoAnswer, match="I cannot help") as caught:
        rig.ask()
    assert caught.value.status == rig.row.status == "refused"
    assert caught.value.call_id == "r01:diagnose#000"
    other = Rig(serve(anthropic_message("I will not.", stop="refusal")), "anthropic")
    with pytest.raises(NoAnswer, match="I will not"):
        other.ask()
    filtered = Rig(serve(openai_chat("", finish="content_filter")))
    with pytest.raises(NoAnswer, match="content filter"):
        filtered.ask()


def test_empty_answers_are_bounded(serve: Serve) -> None:
    rig = Rig(serve(answer=lambda request: openai_chat("")))
    with pytest.raises(NoAnswer, match="the answer was empty"):
        rig.ask()
    assert len(rig.server.requests) == 3
    assert rig.row.attempts == 3


def test_a_cut_off_answer_is_asked_for_more_briefly(serve: Serve) -> None:
    rig = Rig(serve(openai_chat('{"cause": "sl', finish="length"), openai_chat(json.dumps(GOOD))))
    assert rig.ask().cause == "slip"
    assert "answer more briefly" in rig.server.bodies[1]["messages"][-1]["content"]
    assert rig.notes[:1] == ["truncated"]
    assert rig.row.tokens_in == 22


def test_a_malformed_answer_is_retried_with_the_validators_words(serve: Serve) -> None:
    bad = {"cause": "gremlins", "weight": 3}
    rig = Rig(serve(openai_chat(json.dumps(bad)), openai_chat(json.dumps(GOOD))))
    assert rig.ask().cause == "slip"
    asked = rig.server.bodies[1]["messages"]
    assert asked[-2]["content"] == json.dumps(bad)
    assert "cause: Input should be 'slip' or 'stall'" in asked[-1]["content"]
    assert "(given: 'gremlins')" in asked[-1]["content"]
    assert (rig.row.status, rig.row.attempts) == ("retried", 2)


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_three_malformed_answers_are_no_answer(serve: Serve, kind: str) -> None:
    bad = json.dumps({"cause": "gremlins", "weight": 0.1})
    reply = openai_chat(bad) if kind == "openai" else anthropic_message(bad)
    rig = Rig(serve(reply, reply, reply), kind)
    with pytest.raises(NoAnswer, match="no valid answer in 3 attempt"):
        rig.ask()
    rig.server.assert_spent()
    assert rig.notes.count("malformed") == 3


def test_a_callers_own_check_goes_back_too(serve: Serve) -> None:
    stall = {"cause": "stall", "weight": 0.2}
    rig = Rig(serve(openai_chat(json.dumps(GOOD)), openai_chat(json.dumps(stall))))
    found = rig.ask(check=lambda a: ["slip contradicts ep3"] if a.cause == "slip" else [])
    assert found.cause == "stall"
    assert "slip contradicts ep3" in rig.server.bodies[1]["messages"][-1]["content"]


@pytest.mark.parametrize(
    "body", ["<html>hello</html>", '{"choices": null}', "{}", '{"choices":[]}']
)
def test_a_server_that_speaks_something_else(serve: Serve, body: str) -> None:
    rig = Rig(serve(answer=lambda request: Canned(body)))
    with pytest.raises(NoAnswer):
        rig.ask()
    assert len(rig.server.requests) <= 9


def test_the_budget_stops_before_a_call(serve: Serve) -> None:
    server = serve(openai_chat(json.dumps(GOOD)))
    price = {"test-model": Price(1e6, 0.0)}
    rig = Rig(server, budget=Budget(max_usd=5.0), prices=price)
    rig.ask()
    assert rig.row.cost_usd == 11.0
    with pytest.raises(BudgetExhausted, match=r"11\.00 of 5\.00 US dollars"):
        rig.ask()
    server.assert_spent()
    assert len(server.requests) == 1
    tokens = Rig(serve(), budget=Budget(max_tokens=18, tokens=18))
    with pytest.raises(BudgetExhausted, match="18 of 18"):
        tokens.ask()
    assert tokens.server.requests == []


def test_usage_is_estimated_where_a_server_reports_none(serve: Serve) -> None:
    rig = Rig(serve(openai_chat(json.dumps(GOOD), usage=None)))
    rig.ask()
    assert rig.row.tokens_in > 10
    assert rig.notes == ["usage"]


def test_an_interrupted_call_is_replayed_without_a_request(serve: Serve) -> None:
    rig = Rig(serve(openai_chat(json.dumps(GOOD)), openai_chat(json.dumps(GOOD))))
    rig.ask()
    rig.journal.abandon("r01:diagnose")
    again = rig.caller.at("r01:diagnose")
    answer = again.ask("critic", "diagnose", Finding, FACTS)
    assert answer.replayed
    assert answer.value == Finding(cause="slip", weight=0.5)
    assert len(rig.server.requests) == 1
    assert [call.abandoned for call in rig.journal.calls] == [False]
    rig.journal.abandon("r01:diagnose")
    changed = rig.caller.at("r01:diagnose").ask("critic", "diagnose", Finding, {"group": "g2"})
    assert not changed.replayed
    rig.server.assert_spent()


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_streamed_text_and_tool_calls(serve: Serve, kind: str) -> None:
    make = openai_stream if kind == "openai" else anthropic_stream
    server = serve(make(["Let me", " look."], call=("count", {"axis": "yaw"})))
    stream = stream_chat(model_on(server, kind).bind_tools([count]), [human("which axis?")])
    assert list(stream) == ["Let me", " look."]
    (call,) = stream.tool_calls
    assert (call["name"], call["args"]) == ("count", {"axis": "yaw"})
    usage = stream.message.usage_metadata
    assert usage is not None
    assert usage["output_tokens"] in (5, 7)
    assert server.bodies[0]["stream"] is True


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_a_conversation_streams_calls_tools_and_is_recorded(serve: Serve, kind: str) -> None:
    make = openai_stream if kind == "openai" else anthropic_stream
    server = serve(make([], call=("count", {"axis": "yaw"})), make(["Mostly", " yaw."]))
    rig = Rig(server, kind)
    heard: list[str] = []
    spoken = rig.caller.converse(
        "curriculum", [human("what is hard?")], [count], on_text=heard.append
    )
    assert (spoken.text, heard) == ("Mostly yaw.", ["Mostly", " yaw."])
    assert [m.type for m in spoken.messages] == ["ai", "tool", "ai"]
    assert rig.row.tool_calls[0]["result"] == "3 failures along yaw"
    assert rig.row.answer == {"text": "Mostly yaw."}
    assert rig.row.tokens_in in (22, 26)


def test_a_stream_that_breaks_off_is_not_repeated(serve: Serve) -> None:
    rig = Rig(serve(openai_stream(["Half a"], cut=True)))
    heard: list[str] = []
    with pytest.raises(NoAnswer, match="broke off"):
        rig.caller.converse("curriculum", [human("hello")], on_text=heard.append)
    assert heard == ["Half a"]
    assert len(rig.server.requests) == 1


def test_a_streamed_rate_limit_is_waited_out(serve: Serve) -> None:
    rig = Rig(serve(openai_error(429, "slow", {"retry-after": "2"}), openai_stream(["Hi."])))
    assert rig.caller.converse("curriculum", [human("hello")]).text == "Hi."
    assert rig.waits == [2.0]


def test_serving_closes() -> None:
    with serving([]) as server:
        assert server.root.startswith("http://127.0.0.1:")
