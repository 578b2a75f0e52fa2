"""The bounded loop in which a model calls tools before it answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, ToolException

from coda.agents.session import CallSession
from coda.agents.structured import StrategyMemory
from coda.agents.transport import Ask, Reply
from coda.sim.errors import CodaError

MAX_RESULT_CHARS = 8000
"""Longest tool result that is sent back; the rest is cut."""
ENOUGH = "No more tools may be called. Give the final answer from what you know."

AskOf = Callable[[Any], Ask]
"""How a bound model is asked; streaming or not."""


def use_tools(
    session: CallSession,
    model: BaseChatModel,
    messages: Sequence[BaseMessage],
    tools: Sequence[BaseTool],
    memory: StrategyMemory,
    *,
    limit: int,
    ask_of: AskOf = lambda bound: bound.invoke,
) -> tuple[list[BaseMessage], AIMessage | None]:
    """Let the model call tools until it answers or `limit` calls were made.

    Errors of tools go back to the model as messages.

    Returns:
        (the messages with all tool calls and results, the closing message without tool calls;
        None where the limit ended the loop, or the model takes no tools).

    Raises:
        CallFailed: The model cannot be reached or refuses.
        BudgetExhausted: Before a request.
    """
    history = list(messages)
    bound = _bound(session, model, tools, memory)
    used = 0
    while bound is not None:
        reply = session.request(ask_of(bound), history, server_tries=2 if used == 0 else None)
        if reply.kind in ("bad-request", "bad-reply", "server-error") and used == 0:
            session.note("tools", "the model's server does not take tools; going on without them")
            session.tools_failed = True
            return history, None
        if reply.message is None or reply.kind == "refused":
            raise session.fail(reply)
        if not _calls(reply.message):
            return history, reply.message
        history.append(reply.message)
        used = _answer_calls(session, history, reply, tools, used, limit)
        if used >= limit:
            closing = HumanMessage(content=ENOUGH)
            history.append(closing)
            session.show(closing)
            return history, None
    return history, None


def flattened(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Messages with tool calls and results told in words.

    So a final answer can be asked for in any way: some providers refuse a history with tool calls
    in a request that offers none, and some local chat templates know no tool messages.
    """
    out: list[BaseMessage] = []
    calls: dict[str | None, Any] = {}
    for message in messages:
        if isinstance(message, AIMessage) and _calls(message):
            calls |= {call["id"]: call for call in message.tool_calls}
            if text := str(message.text).strip():
                out.append(AIMessage(content=text))
        elif isinstance(message, ToolMessage):
            call = calls.get(message.tool_call_id)
            args = json.dumps(call["args"], ensure_ascii=False) if call else ""
            words = f"You called {message.name}({args}). It returned:\n{message.text}"
            out.append(HumanMessage(content=words))
        else:
            out.append(message)
    return out


def run_tool(tools: Sequence[BaseTool], name: str, args: dict[str, Any]) -> tuple[str, bool]:
    """(result or error in words, whether it worked)."""
    tool = next((tool for tool in tools if tool.name == name), None)
    if tool is None:
        known = ", ".join(sorted(tool.name for tool in tools))
        return f"error: there is no tool named {name!r}. Known: {known}.", False
    try:
        result = tool.invoke(args)
    except (CodaError, ToolException, ValueError, LookupError, TypeError) as error:
        return f"error: {error}", False  # pydantic's ValidationError is a ValueError
    text = result if isinstance(result, str) else json.dumps(result, default=str)
    if len(text) > MAX_RESULT_CHARS:
        text = f"{text[:MAX_RESULT_CHARS]}… (cut; {len(text)} characters in all)"
    return text, True


def _bound(
    session: CallSession, model: BaseChatModel, tools: Sequence[BaseTool], memory: StrategyMemory
) -> Any | None:
    if not tools or memory.lacks(session.info.label, "tools"):
        return None
    try:
        return model.bind_tools(list(tools))
    except NotImplementedError:
        memory.learn_lack(session.info.label, "tools")
        session.note("tools", "the model takes no tools; going on without them")
        return None


def _calls(message: AIMessage) -> bool:
    return bool(message.tool_calls or message.invalid_tool_calls)


def _answer_calls(
    session: CallSession,
    history: list[BaseMessage],
    reply: Reply,
    tools: Sequence[BaseTool],
    used: int,
    limit: int,
) -> int:
    """Run the calls of a reply and append their results; returns the calls made so far."""
    assert reply.message is not None
    asked: list[tuple[str, dict[str, Any] | None, str | None]] = [
        (call["name"], call["args"], call["id"]) for call in reply.message.tool_calls
    ]
    asked += [(bad["name"] or "", None, bad["id"]) for bad in reply.message.invalid_tool_calls]
    for name, args, call_id in asked:
        if used >= limit:
            text, worked = f"not run: at most {limit} tool calls are allowed", False
        elif args is None:
            text, worked = "error: the arguments are not a JSON object", False
        else:
            text, worked = run_tool(tools, name, args)
        used += 1
        session.tool_calls.append({"name": name, "args": args, "result": text, "ok": worked})
        message = ToolMessage(
            content=text,
            name=name,
            tool_call_id=call_id or f"call-{used}",
            status="success" if worked else "error",
        )
        history.append(message)
        session.show(message)
    return used
