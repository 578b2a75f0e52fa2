"""One agent call in progress: every request is within the budget, counted, and written down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage

from coda.agents.budget import Budget
from coda.agents.models import ModelInfo
from coda.agents.prices import Price, cost_usd
from coda.agents.prompting import transcript
from coda.agents.transport import Ask, Reply, Sender


class CallFailed(Exception):
    """The call cannot go on; the caller turns it into `NoAnswer` after recording it."""

    def __init__(self, reason: str, *, refused: bool = False) -> None:
        super().__init__(reason)
        self.refused = refused


@dataclass
class CallSession:
    """Counts and transcript of one agent call."""

    info: ModelInfo
    sender: Sender
    budget: Budget
    price: Price | None
    entries: list[dict[str, Any]] = field(default_factory=list)
    """Messages in order, and notes of what went wrong between them; not redacted yet."""
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    tokens_in: int = 0
    tokens_out: int = 0
    tools_failed: bool = False
    """A request with tools failed; if one without succeeds, the model takes none."""
    requests: int = 0
    attempts: int = 0
    """Answers that were read, valid or not."""

    @property
    def offline(self) -> bool:
        """Whether the rules answer."""
        return self.info.provider == "offline"

    @property
    def cost_usd(self) -> float | None:
        """Cost so far [US dollar]; None where the price is unknown."""
        return cost_usd(self.price, self.tokens_in, self.tokens_out)

    def request(
        self, ask: Ask, messages: Sequence[BaseMessage], *, server_tries: int | None = None
    ) -> Reply:
        """Send one request (with the sender's bounded retries).

        Raises:
            BudgetExhausted: Before sending, when the budget is used up.
        """
        if not self.offline:
            self.budget.check(priced=self.price is not None)
        reply = self.sender.send(
            ask, messages, offline=self.offline, server_tries=server_tries, note=self._retried
        )
        self._count(reply)
        if reply.message is not None:
            self.show(reply.message)
        if reply.kind != "ok":
            self.note(reply.kind, reply.detail, seconds=reply.seconds)
        return reply

    def show(self, *messages: BaseMessage) -> None:
        """Add messages to the transcript."""
        self.entries.extend(transcript(messages))

    def note(self, kind: str, text: str, **more: Any) -> None:
        """Add a note to the transcript: what went wrong, and what was done about it."""
        self.entries.append({"role": "note", "kind": kind, "text": text, **more})

    def fail(self, reply: Reply) -> CallFailed:
        """The error for a reply after which the call cannot go on."""
        words = f"{reply.kind} after {self.requests} request(s): {reply.detail}"
        return CallFailed(words, refused=reply.kind == "refused")

    def _retried(self, reply: Reply) -> None:
        self._count(reply)
        wait = {} if reply.retry_after_s is None else {"retry_after_s": reply.retry_after_s}
        self.note(reply.kind, f"{reply.detail} (asking again)", seconds=reply.seconds, **wait)

    def _count(self, reply: Reply) -> None:
        usage = reply.usage
        self.requests += 1
        self.tokens_in += usage.tokens_in
        self.tokens_out += usage.tokens_out
        cost = cost_usd(self.price, usage.tokens_in, usage.tokens_out)
        self.budget.spend(usage.tokens_in + usage.tokens_out, cost)
        if usage.estimated:
            self.note("usage", "the server reported no tokens; counted from characters")


def merged(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Messages with neighbouring human ones joined: some chat templates insist on alternation."""
    out: list[BaseMessage] = []
    for message in messages:
        if out and isinstance(message, HumanMessage) and isinstance(out[-1], HumanMessage):
            out[-1] = HumanMessage(content=_joined(out[-1].content, message.content))
        else:
            out.append(message)
    return out


def _joined(first: Any, second: Any) -> Any:
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return [*_blocks(first), *_blocks(second)]


def _blocks(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def without_images(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Messages with their text only."""
    return [
        HumanMessage(content=str(message.text)) if has_images([message]) else message
        for message in messages
    ]


def has_images(messages: Sequence[BaseMessage]) -> bool:
    """Whether any message carries an image."""
    return any(
        isinstance(block, dict) and block.get("type") == "image"
        for message in messages
        if isinstance(message.content, list)
        for block in message.content
    )
