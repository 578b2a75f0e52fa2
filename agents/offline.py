"""A rule-based chat model in LangChain's interface: no language model, no network, no key.

It answers from the messages alone. The last human message with a facts block names a task; the
rule of that task gets the facts and returns its answer as data. What it returns comes out as the
binding asks: as a forced tool call where a schema is bound as a tool, as JSON text otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models.base import LanguageModelInput
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    ToolMessage,
)
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field

from coda.agents.prompting import jsonable, read_facts
from coda.sim.errors import CodaError, UnknownName

Rule = Callable[[dict[str, Any]], dict[str, Any]]
"""Facts → the answer of the schema, ``{"text": …}`` or ``{"tool_calls": [{name, args}]}``."""

OFFLINE_LABEL = "offline (rules)"
"""Shown wherever this model is named; it is not a language model."""
RULES_MODULE = "coda.agents.rules"


class OfflineError(CodaError):
    """The offline rules cannot answer what they were asked."""


def default_rules() -> Mapping[str, Rule]:
    """The rules of `coda.agents.rules`, loaded when first needed (they import the roles)."""
    rules: Mapping[str, Rule] = import_module(RULES_MODULE).RULES
    return rules


class OfflineChatModel(BaseChatModel):
    """Answers by rules. Reports no tokens and costs nothing."""

    model_name: str = OFFLINE_LABEL
    rules: Mapping[str, Rule] | None = Field(default=None, exclude=True, repr=False)
    """Task → rule; None for `coda.agents.rules.RULES`."""

    @property
    def _llm_type(self) -> str:
        return "offline-rules"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model_name": self.model_name}

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Bind tools; `tool_choice` as in OpenAI's protocol (``any``, ``required`` or a name)."""
        kwargs.pop("strict", None)
        formatted = [convert_to_openai_tool(tool) for tool in tools]
        return self.bind(tools=formatted, tool_choice=tool_choice, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        del stop, run_manager  # Unused.
        message = self._answer(messages, kwargs.get("tools") or [], kwargs.get("tool_choice"))
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        del stop  # Unused.
        answer = self._answer(messages, kwargs.get("tools") or [], kwargs.get("tool_choice"))
        for word in _pieces(str(answer.text)):
            piece = ChatGenerationChunk(message=AIMessageChunk(content=word))
            if run_manager:
                run_manager.on_llm_new_token(word, chunk=piece)
            yield piece
        calls = [
            tool_call_chunk(
                name=call["name"], args=json.dumps(call["args"]), id=call["id"], index=index
            )
            for index, call in enumerate(answer.tool_calls)
        ]
        yield ChatGenerationChunk(
            message=AIMessageChunk(
                content="",
                tool_call_chunks=calls,
                usage_metadata=answer.usage_metadata,
                response_metadata=answer.response_metadata,
            )
        )

    def _answer(
        self, messages: Sequence[BaseMessage], tools: Sequence[dict[str, Any]], choice: Any
    ) -> AIMessage:
        names = [tool["function"]["name"] for tool in tools]
        found = _find_facts(messages)
        if found is None:
            return self._explain(_forced(choice, names))
        facts, after = found
        rules = self._rules()
        if facts["task"] not in rules:
            raise UnknownName("offline rule for a task", facts["task"], rules)
        turn = {**facts, "tools": names, "tool_results": _tool_results(after)}
        result = jsonable(rules[facts["task"]](turn))
        return _message(result, tools, choice, len(messages))

    def _rules(self) -> Mapping[str, Rule]:
        return default_rules() if self.rules is None else self.rules

    def _explain(self, forced: bool) -> AIMessage:
        rules = self._rules()
        text = (
            "These are the offline rules, not a language model: they answer only messages that end "
            f"with a facts block naming a task ({', '.join(sorted(rules))})."
        )
        if forced:
            raise OfflineError(text)
        return AIMessage(content=text, **_metadata("stop"))


def _find_facts(
    messages: Sequence[BaseMessage],
) -> tuple[dict[str, Any], Sequence[BaseMessage]] | None:
    """The last facts block of a human message, and the messages after it."""
    for index in range(len(messages) - 1, -1, -1):
        if isinstance(messages[index], HumanMessage):
            facts = read_facts(messages[index])
            if facts is not None:
                return facts, messages[index + 1 :]
    return None


def _tool_results(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """What the tools called since the facts returned: name, args, text, ok."""
    calls = {
        call["id"]: call
        for message in messages
        if isinstance(message, AIMessage)
        for call in message.tool_calls
    }
    results: list[dict[str, Any]] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            call = calls.get(message.tool_call_id)
            results.append(
                {
                    "name": call["name"] if call else message.name,
                    "args": call["args"] if call else {},
                    "text": str(message.text),
                    "ok": message.status != "error",
                }
            )
    return results


def _message(
    result: dict[str, Any], tools: Sequence[dict[str, Any]], choice: Any, turn: int
) -> AIMessage:
    if "tool_calls" in result:
        wanted = [(call["name"], call.get("args", {})) for call in result["tool_calls"]]
        text = str(result.get("text", ""))
    elif (name := _answer_tool(result, tools, choice)) is not None:
        wanted, text = [(name, result)], ""
    elif result.keys() == {"text"}:
        wanted, text = [], str(result["text"])
    else:
        wanted, text = [], json.dumps(result, ensure_ascii=False)
    calls = [
        {"name": name, "args": args, "id": f"rule-{turn}-{index}", "type": "tool_call"}
        for index, (name, args) in enumerate(wanted)
    ]
    reason = "tool_calls" if calls else "stop"
    return AIMessage(content=text, tool_calls=calls, **_metadata(reason))


def _answer_tool(
    result: Mapping[str, Any], tools: Sequence[dict[str, Any]], choice: Any
) -> str | None:
    """The bound tool that stands for the answer's schema: the forced one, or the one that fits."""
    names = [tool["function"]["name"] for tool in tools]
    forced = choice
    if isinstance(choice, dict):
        forced = choice.get("name") or choice.get("function", {}).get("name")
    if forced in names:
        return str(forced)
    if not _forced(choice, names):
        return None
    fitting = [tool["function"]["name"] for tool in tools if _fits(result, tool["function"])]
    return fitting[0] if fitting else None


def _fits(result: Mapping[str, Any], function: Mapping[str, Any]) -> bool:
    parameters = function.get("parameters") or {}
    properties = set(parameters.get("properties") or {})
    return set(parameters.get("required") or ()) <= result.keys() <= properties


def _forced(choice: Any, names: Sequence[str]) -> bool:
    if isinstance(choice, dict):
        return choice.get("type") in ("any", "tool", "function")
    return choice is True or choice in ("any", "required") or choice in names


def _metadata(reason: str) -> dict[str, Any]:
    return {
        "usage_metadata": {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0},
        "response_metadata": {"model_name": OFFLINE_LABEL, "finish_reason": reason},
    }


def _pieces(text: str) -> Iterator[str]:
    """`text` word by word, nothing lost."""
    start = 0
    for index, letter in enumerate(text):
        if letter == " ":
            yield text[start : index + 1]
            start = index + 1
    if start < len(text):
        yield text[start:]
