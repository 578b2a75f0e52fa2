"""From messages to a valid structured answer: ways to ask in turn, bounded retries with words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from pydantic import BaseModel

from coda.agents.reading import parse, said
from coda.agents.session import CallFailed, CallSession, has_images, merged, without_images
from coda.agents.structured import (
    STRATEGIES,
    Strategy,
    StrategyMemory,
    bind,
    complaint,
    instruction,
)
from coda.agents.transport import Reply

T = TypeVar("T", bound=BaseModel)
Check = Callable[[Any], Sequence[str]]
"""What is wrong with an answer that fits its schema, in words; empty where nothing is."""

UNSUPPORTED = frozenset({"bad-request", "bad-reply", "server-error"})
"""Replies that may mean: the server does not know this way to ask."""


def structured_answer(
    session: CallSession,
    model: BaseChatModel,
    messages: Sequence[BaseMessage],
    schema: type[T],
    memory: StrategyMemory,
    *,
    check: Check | None,
    max_attempts: int,
) -> T:
    """Ask until an answer fits `schema` and `check`, at most `max_attempts` times.

    Raises:
        CallFailed: No valid answer.
        BudgetExhausted: Before a request.
    """
    label = session.info.label
    ways = STRATEGIES[session.info.provider]
    index = memory.start(label)
    history = list(messages)
    words = ""
    attempts = 0
    while attempts < (1 if session.offline else max_attempts):
        way, more = ways[index], index + 1 < len(ways)
        untried = more and not memory.proven(label, way)
        reply = _ask(session, model, history, schema, way, untried=untried)
        if reply.kind in UNSUPPORTED and has_images(history) and _blames_images(reply, more):
            session.note("images", "the model's server refused the images; asking without them")
            memory.learn_lack(label, "images")
            history = without_images(history)
            index = memory.start(label)
            continue
        if reply.kind in UNSUPPORTED and untried:
            session.note("strategy", f"{way} is not supported; trying {ways[index + 1]}")
            index += 1
            continue
        if reply.kind not in ("ok", "empty", "truncated"):
            raise session.fail(reply)
        attempts += 1
        session.attempts += 1
        answer, words, found = read_answer(reply, schema, check)
        if answer is not None and not words:
            memory.works(label, way, index)
            return answer
        session.note("malformed" if reply.kind == "ok" else reply.kind, words, strategy=way)
        if found:
            memory.works(label, way, index)  # it gives JSON; what is wrong is inside
        elif untried and reply.kind == "ok":
            index += 1  # it gave words although asked for JSON
        again = complaint(words)
        history += [AIMessage(content=said(reply.message)), again]
        session.show(again)
    raise CallFailed(f"no valid answer in {attempts} attempt(s); last: {words}")


def read_answer(reply: Reply, schema: type[T], check: Check | None) -> tuple[T | None, str, bool]:
    """(answer that fits the schema or None, what is wrong or "", whether it was JSON at all)."""
    answer, words, found = None, reply.detail, False
    if reply.message is not None:
        answer, words, found = parse(reply.message, schema, cut=reply.kind == "truncated")
    if answer is None:
        if reply.kind == "truncated":
            words = f"{reply.detail}; answer more briefly"
        elif reply.kind == "empty":
            words = reply.detail
        return None, words, found
    if check is not None and (wrong := list(check(answer))):
        return answer, "; ".join(wrong), True
    return answer, "", True


def _ask(
    session: CallSession,
    model: BaseChatModel,
    history: Sequence[BaseMessage],
    schema: type[BaseModel],
    way: Strategy,
    *,
    untried: bool,
) -> Reply:
    try:
        bound = bind(model, session.info.provider, way, schema)
    except NotImplementedError as error:
        return Reply(kind="bad-request", detail=f"{type(model).__name__} takes no tools: {error}")
    schema_words = instruction(way, schema)
    asked = [*history, schema_words] if schema_words is not None else list(history)
    sent = asked if session.offline else merged(asked)
    # A server that fails on an unknown way to ask may answer 500: ask such a one only twice.
    return session.request(bound.invoke, sent, server_tries=2 if untried else None)


def _blames_images(reply: Reply, more: bool) -> bool:
    return "image" in reply.detail.lower() or (reply.kind == "bad-request" and not more)
