"""Servers on loopback that speak the wire formats of OpenAI and Anthropic, from a script."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """What a client sent."""

    path: str
    headers: dict[str, str]
    body: Json


@dataclass(frozen=True)
class Canned:
    """What the server replies."""

    body: Json | str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    events: Sequence[str] | None = None
    """Server-sent events; then `body` is not used."""
    delay_s: float = 0.0
    cut: bool = False
    """Close the connection in the middle of the events."""


Answer = Callable[[Request], Canned]


class FakeServer:
    """Runs in a thread; keeps every request."""

    def __init__(self, answer: Answer | Sequence[Canned]) -> None:
        """`answer`: a function of the request, or replies in order; one too many is a 418."""
        self.requests: list[Request] = []
        self._script = None if callable(answer) else list(answer)
        self._answer = answer if callable(answer) else self._next
        self._closing = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()

    @property
    def root(self) -> str:
        """The base URL, as Anthropic's client wants it."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def v1(self) -> str:
        """The base URL, as OpenAI's client wants it."""
        return f"{self.root}/v1"

    @property
    def bodies(self) -> list[Json]:
        """Bodies of the requests so far."""
        return [request.body for request in self.requests]

    def close(self) -> None:
        self._closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def assert_spent(self) -> None:
        """Fail if the code under test asked less often than scripted."""
        assert self._script == [], f"{len(self._script or ())} replies never asked for"

    def _next(self, request: Request) -> Canned:
        del request  # Unused.
        assert self._script is not None
        if not self._script:
            return Canned({"error": {"message": "unscripted request"}}, status=418)
        return self._script.pop(0)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers.get("content-length", 0))
                request = Request(
                    self.path,
                    {name.lower(): value for name, value in self.headers.items()},
                    json.loads(self.rfile.read(size) or b"{}"),
                )
                server.requests.append(request)
                canned = server._answer(request)
                if canned.delay_s:
                    server._closing.wait(canned.delay_s)
                with suppress(BrokenPipeError, ConnectionResetError):  # the client gave up
                    self._reply(canned)

            def _reply(self, canned: Canned) -> None:
                stream = canned.events is not None
                data = canned.body if isinstance(canned.body, str) else json.dumps(canned.body)
                payload = "".join(canned.events or ()).encode() if stream else data.encode()
                length = len(payload) + (100 if canned.cut else 0)
                self.send_response(canned.status)
                kind = "text/event-stream" if stream else "application/json"
                for name, value in {"content-type": kind, **canned.headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(length))
                self.end_headers()
                self.wfile.write(payload)
                self.close_connection = True

            def log_message(self, format: str, *args: Any) -> None:
                del format, args  # Silence.

        return Handler


@contextmanager
def serving(answer: Answer | Sequence[Canned]) -> Iterator[FakeServer]:
    """A server for the length of a with block."""
    server = FakeServer(answer)
    try:
        yield server
    finally:
        server.close()


def openai_chat(
    content: str | None,
    *,
    calls: Sequence[tuple[str, Json | str]] = (),
    finish: str | None = None,
    refusal: str | None = None,
    usage: tuple[int, int] | None = (11, 7),
) -> Canned:
    """A chat completion; `calls` are (name, arguments)."""
    message: Json = {"role": "assistant", "content": content, "refusal": refusal}
    if calls:
        message["tool_calls"] = [
            {
                "id": f"call_{index}",
                "type": "function",
                "function": {
                    "name": name,
                    "arguments": args if isinstance(args, str) else json.dumps(args),
                },
            }
            for index, (name, args) in enumerate(calls)
        ]
    body: Json = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "test-model",
        "choices": [
            {
                "index": 0,
                "message": message,
                "finish_reason": finish or ("tool_calls" if calls else "stop"),
            }
        ],
    }
    if usage is not None:
        body["usage"] = {
            "prompt_tokens": usage[0],
            "completion_tokens": usage[1],
            "total_tokens": sum(usage),
        }
    return Canned(body)


def openai_stream(
    pieces: Sequence[str], *, call: tuple[str, Json] | None = None, cut: bool = False
) -> Canned:
    """A streamed chat completion, tool-call arguments in two fragments."""
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in pieces]
    if call is not None:
        text = json.dumps(call[1])
        half = len(text) // 2
        head = {"index": 0, "id": "call_0", "type": "function"}
        deltas += [
            {"tool_calls": [{**head, "function": {"name": call[0], "arguments": text[:half]}}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": text[half:]}}]},
        ]
    common = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "test-model"}
    chunks: list[Json] = [
        {**common, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]
    end = "tool_calls" if call else "stop"
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    if not cut:
        chunks.append({**common, "choices": [{"index": 0, "delta": {}, "finish_reason": end}]})
        chunks.append({**common, "choices": [], "usage": usage})
    events = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return Canned(events=events if cut else [*events, "data: [DONE]\n\n"], cut=cut)


def openai_error(status: int, message: str, headers: dict[str, str] | None = None) -> Canned:
    """An error as OpenAI sends it."""
    error = {"message": message, "type": "error", "param": None, "code": None}
    return Canned({"error": error}, status=status, headers=headers or {})


def anthropic_message(
    text: str | None = None,
    *,
    calls: Sequence[tuple[str, Json]] = (),
    stop: str | None = None,
    usage: tuple[int, int] = (13, 5),
) -> Canned:
    """A message; `calls` are (name, input)."""
    content: list[Json] = [] if text is None else [{"type": "text", "text": text}]
    content += [
        {"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": args}
        for index, (name, args) in enumerate(calls)
    ]
    return Canned(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-test",
            "content": content,
            "stop_reason": stop or ("tool_use" if calls else "end_turn"),
            "stop_sequence": None,
            "usage": {"input_tokens": usage[0], "output_tokens": usage[1]},
        }
    )


def anthropic_stream(pieces: Sequence[str], *, call: tuple[str, Json] | None = None) -> Canned:
    """A streamed message."""
    start = anthropic_message()
    assert isinstance(start.body, dict)
    message = {**start.body, "stop_reason": None, "usage": {"input_tokens": 13, "output_tokens": 1}}
    sent: list[Json] = [{"type": "message_start", "message": message}]
    blocks: list[tuple[Json, list[Json]]] = []
    if pieces:
        deltas: list[Json] = [{"type": "text_delta", "text": piece} for piece in pieces]
        blocks.append(({"type": "text", "text": ""}, deltas))
    if call is not None:
        text = json.dumps(call[1])
        half = len(text) // 2
        parts: list[Json] = [
            {"type": "input_json_delta", "partial_json": part}
            for part in (text[:half], text[half:])
        ]
        blocks.append(({"type": "tool_use", "id": "toolu_0", "name": call[0], "input": {}}, parts))
    for index, (block, changes) in enumerate(blocks):
        sent.append({"type": "content_block_start", "index": index, "content_block": block})
        sent += [
            {"type": "content_block_delta", "index": index, "delta": change} for change in changes
        ]
        sent.append({"type": "content_block_stop", "index": index})
    end = {"stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None}
    usage = {"input_tokens": 13, "output_tokens": 5}
    sent.append({"type": "message_delta", "delta": end, "usage": usage})
    sent.append({"type": "message_stop"})
    return Canned(events=[f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in sent])


def anthropic_error(
    status: int, kind: str, message: str, headers: dict[str, str] | None = None
) -> Canned:
    """An error as Anthropic sends it."""
    body = {"type": "error", "error": {"type": kind, "message": message}}
    return Canned(body, status=status, headers=headers or {})
