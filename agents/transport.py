"""One request to a chat model: bounded waiting, failures sorted into a few kinds, all visible."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal

from langchain_core.exceptions import (
    ContextOverflowError,
    LangChainException,
    ModelAuthenticationError,
    ModelInvalidRequestError,
    ModelNotFoundError,
    ModelPermissionDeniedError,
    ModelRefusalError,
    ModelTimeoutError,
)
from langchain_core.messages import AIMessage, BaseMessage

Ask = Callable[[list[BaseMessage]], AIMessage]
"""Sends messages and returns the reply, or raises one of `wire_errors`."""
Kind = Literal[
    "ok",
    "empty",
    "malformed",
    "truncated",
    "refused",
    "rate-limited",
    "server-error",
    "timeout",
    "unreachable",
    "bad-request",
    "context-overflow",
    "denied",
    "bad-reply",
]
"""What came of one request."""

TRANSIENT: frozenset[Kind] = frozenset({"rate-limited", "server-error", "timeout", "unreachable"})
"""Kinds that waiting may cure."""
CHARS_PER_TOKEN = 4
"""Rough length of a token, where a server reports no usage."""


@dataclass(frozen=True)
class Patience:
    """How long a request may be retried."""

    tries: int = 4
    """Requests for one answer under rate limits and server errors."""
    timeouts: int = 2
    """Requests for one answer when the server does not reply in time."""
    first_wait_s: float = 1.0
    """Doubles with each try."""
    max_wait_s: float = 60.0
    """Longest single wait, whatever the server's Retry-After says."""


@dataclass(frozen=True)
class Usage:
    """Tokens of one reply."""

    tokens_in: int = 0
    tokens_out: int = 0
    estimated: bool = False
    """True where the server reported none and characters were counted instead."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What came of one request."""

    kind: Kind
    message: AIMessage | None = None
    detail: str = ""
    """The failure in words; may hold anything a server says, so redact it before recording."""
    usage: Usage = Usage()
    seconds: float = 0.0
    retry_after_s: float | None = None
    status_code: int | None = None


@dataclass
class Sender:
    """Sends requests with bounded retries; `sleep` and `clock` are replaced in tests."""

    patience: Patience = field(default_factory=Patience)
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.perf_counter

    def send(
        self,
        ask: Ask,
        messages: Sequence[BaseMessage],
        *,
        offline: bool = False,
        server_tries: int | None = None,
        note: Callable[[Reply], None] = lambda reply: None,
    ) -> Reply:
        """Ask once, and again after waiting where that may help.

        Args:
            ask: Sends the messages, e.g. a bound model's `invoke`.
            messages: What to send.
            offline: The model is our own rules; their errors are bugs and pass through.
            server_tries: Requests under server errors, where fewer than usual.
            note: Sees every reply but the last.
        """
        limits = {
            "timeout": self.patience.timeouts,
            "server-error": self.patience.tries if server_tries is None else server_tries,
        }
        seen: Counter[str] = Counter()
        wait_s = self.patience.first_wait_s
        while True:
            reply = self._once(ask, messages, offline=offline)
            seen[reply.kind] += 1
            if (
                reply.kind not in TRANSIENT
                or seen[reply.kind] >= limits.get(reply.kind, self.patience.tries)
                or seen.total() >= self.patience.tries
            ):
                return reply
            note(reply)
            asked_s = wait_s if reply.retry_after_s is None else reply.retry_after_s
            self.sleep(min(asked_s, self.patience.max_wait_s))
            wait_s *= 2.0

    def _once(self, ask: Ask, messages: Sequence[BaseMessage], *, offline: bool) -> Reply:
        start = self.clock()
        try:
            message = ask(list(messages))
        except wire_errors() as error:
            if offline:
                raise
            return failed(error, self.clock() - start)
        return read(message, messages, self.clock() - start, offline=offline)


class StreamBroken(LangChainException):
    """A streamed reply broke off after its first words, so asking again would repeat them."""


def wire_errors() -> tuple[type[Exception], ...]:
    """What the provider libraries raise for a failed request or a reply they cannot read.

    Besides their own errors these are built-in ones: a server that answers 200 with something else
    than its protocol ends in a ValueError, KeyError, TypeError, IndexError or AttributeError.
    """
    import anthropic
    import httpx
    import httpx2
    import openai

    return (
        LangChainException,
        openai.OpenAIError,
        anthropic.AnthropicError,
        httpx.HTTPError,
        httpx2.HTTPError,
        NotImplementedError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
    )


def failed(error: Exception, seconds: float) -> Reply:
    """Sort an error of the provider libraries."""
    cut = _cut_short(error, seconds)
    if cut is not None:
        return cut
    code = getattr(error, "status_code", None)
    return Reply(
        kind=_kind(error, code),
        detail=f"{type(error).__name__}: {error}"[:600],
        seconds=seconds,
        retry_after_s=retry_after(error),
        status_code=code if isinstance(code, int) else None,
    )


def _kind(error: Exception, code: int | None) -> Kind:
    match error:
        case ModelRefusalError():
            return "refused"
        case ContextOverflowError():
            return "context-overflow"
        case ModelTimeoutError():
            return "timeout"
        case ModelAuthenticationError() | ModelPermissionDeniedError() | ModelNotFoundError():
            return "denied"
        case ModelInvalidRequestError() | NotImplementedError():
            return "bad-request"
        case _:
            return _kind_by_code(error, code)


def _kind_by_code(error: Exception, code: int | None) -> Kind:
    if code in (429, 503, 529):  # too many requests, or overloaded
        return "rate-limited"
    if code in (408, 504):
        return "timeout"
    if code in (401, 402, 403, 404):
        return "denied"
    if code == 413:
        return "context-overflow"
    if isinstance(code, int) and code >= 500:
        return "server-error"
    if isinstance(code, int):
        return "bad-request"
    name = type(error).__name__
    if "Timeout" in name:
        return "timeout"
    if "Connect" in name or "Protocol" in name or "Network" in name or name == "ReadError":
        return "unreachable"
    return "bad-reply"


def _cut_short(error: Exception, seconds: float) -> Reply | None:
    """OpenAI's client raises on a structured answer that was cut off or filtered."""
    import openai

    if isinstance(error, openai.LengthFinishReasonError):
        usage = error.completion.usage
        return Reply(
            kind="truncated",
            detail="the answer was cut off at the length limit",
            usage=Usage(usage.prompt_tokens, usage.completion_tokens) if usage else Usage(),
            seconds=seconds,
        )
    if isinstance(error, openai.ContentFilterFinishReasonError):
        return Reply(kind="refused", detail="stopped by the content filter", seconds=seconds)
    return None


def retry_after(error: Exception) -> float | None:
    """Seconds that the server asks to wait, from its Retry-After header."""
    headers = getattr(getattr(error, "response", None), "headers", None)
    value = headers.get("retry-after") if headers is not None else None
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError):
            return None
    return max(0.0, seconds) if seconds == seconds else None


def read(
    message: AIMessage, asked: Sequence[BaseMessage], seconds: float, *, offline: bool = False
) -> Reply:
    """Sort a reply that arrived: ok, empty, truncated or refused."""
    usage = usage_of(message, asked, offline=offline)
    text = str(message.text).strip()
    reason = stop_reason(message)
    refusal = message.additional_kwargs.get("refusal")
    if refusal or reason in ("refusal", "content_filter"):
        detail = str(refusal or text or message.response_metadata.get("stop_details") or reason)
        return Reply(kind="refused", message=message, detail=detail, usage=usage, seconds=seconds)
    kind: Kind = "ok"
    detail = ""
    if reason in ("length", "max_tokens"):
        kind, detail = "truncated", "the answer was cut off at the length limit"
    elif not text and not message.tool_calls and not message.invalid_tool_calls:
        kind, detail = "empty", "the answer was empty"
    return Reply(kind=kind, message=message, detail=detail, usage=usage, seconds=seconds)


def stop_reason(message: AIMessage) -> str | None:
    """Why the model stopped, in the provider's word."""
    data = message.response_metadata
    reason = data.get("finish_reason") or data.get("stop_reason")
    if reason is None and isinstance(data.get("incomplete_details"), dict):
        incomplete = data["incomplete_details"].get("reason")
        return "length" if incomplete == "max_output_tokens" else incomplete
    return None if reason is None else str(reason)


def usage_of(message: AIMessage, asked: Sequence[BaseMessage], *, offline: bool = False) -> Usage:
    """Tokens as reported, or estimated from characters where a server reports none."""
    reported = message.usage_metadata
    if offline:
        return Usage()
    tokens_in = reported["input_tokens"] if reported is not None else 0
    tokens_out = reported["output_tokens"] if reported is not None else 0
    if tokens_in > 0:
        return Usage(tokens_in, tokens_out)
    sent = sum(len(str(m.text)) for m in asked)
    got = len(str(message.text)) + sum(len(str(call["args"])) for call in message.tool_calls)
    return Usage(
        sent // CHARS_PER_TOKEN + 1, tokens_out or got // CHARS_PER_TOKEN + 1, estimated=True
    )
