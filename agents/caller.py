"""`AgentCaller`: puts one task to a role's chat model and returns a valid answer, or says why not.

Every call is within the budget, bounded in time and requests, recorded whole and without secrets,
and found again when an interrupted node repeats it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import BaseTool
from pydantic import BaseModel

from coda.agents.answering import Check, read_answer, structured_answer
from coda.agents.budget import Budget
from coda.agents.journal import CallJournal
from coda.agents.models import ModelInfo, model_info
from coda.agents.prices import Price
from coda.agents.prompting import facts_block, human, system, task_text
from coda.agents.record import Answer, NoAnswer, OpenCall, Shared
from coda.agents.redact import Redactor
from coda.agents.session import CallFailed, CallSession
from coda.agents.streaming import stream_chat
from coda.agents.toolloop import flattened, use_tools
from coda.agents.transport import Ask, Reply, Sender
from coda.memory.rows import CallStatus, Json
from coda.sim.errors import UnknownName

__all__ = ["AgentCaller", "Answer", "NoAnswer", "Spoken"]

T = TypeVar("T", bound=BaseModel)


@dataclass(frozen=True, kw_only=True)
class Spoken:
    """A turn of a conversation."""

    text: str
    messages: tuple[BaseMessage, ...]
    """What was added to the conversation: tool calls, their results, the reply."""
    call_id: str
    status: CallStatus


class AgentCaller:
    """Asks the roles' chat models on behalf of one graph node; `at` gives one for another node."""

    def __init__(
        self,
        model: BaseChatModel | Mapping[str, BaseChatModel],
        journal: CallJournal,
        budget: Budget | None = None,
        *,
        node_key: str = "",
        prices: Mapping[str, Price] | None = None,
        sender: Sender | None = None,
        redactor: Redactor | None = None,
        image_dir: Path | None = None,
        max_attempts: int = 3,
        max_tool_calls: int = 6,
    ) -> None:
        """Nothing is sent yet.

        Args:
            model: One for all roles, or role → model with ``default`` for the others.
            journal: Where calls are recorded.
            budget: Shared by all nodes of a run; None for no caps.
            node_key: The node that the calls belong to, e.g. ``r02:refute``.
            prices: Prices that take precedence over the built-in table.
            sender: How requests are sent and retried.
            redactor: What is masked; by default the environment's secrets and anything key-like.
            image_dir: Where images that were sent are kept; None to keep only their hash.
            max_attempts: Malformed answers before `NoAnswer`.
            max_tool_calls: Tool calls of one task.
        """
        self._shared = Shared(
            models={"default": model} if isinstance(model, BaseChatModel) else dict(model),
            journal=journal,
            budget=budget or Budget(),
            prices=prices or {},
            sender=sender or Sender(),
            redactor=redactor or Redactor(),
            image_dir=image_dir,
            max_attempts=max_attempts,
            max_tool_calls=max_tool_calls,
        )
        self.node_key = node_key
        self._sequence = itertools.count()

    def at(self, node_key: str) -> AgentCaller:
        """A caller for another node, numbering its calls from 0; all else is shared."""
        other = AgentCaller.__new__(AgentCaller)
        other._shared = self._shared
        other.node_key = node_key
        other._sequence = itertools.count()
        return other

    def model_of(self, role: str) -> BaseChatModel:
        """The role's chat model.

        Raises:
            UnknownName: There is neither one for the role nor a default.
        """
        models = self._shared.models
        for name in (role, role.replace("-", "_"), "default"):
            if name in models:
                return models[name]
        raise UnknownName("model for a role", role, models)

    def info_of(self, role: str) -> ModelInfo:
        """What may be shown of the role's model."""
        return model_info(self.model_of(role))

    def ask(
        self,
        role: str,
        task: str,
        schema: type[T],
        facts: Mapping[str, Any],
        images: Sequence[bytes] = (),
        tools: Sequence[BaseTool] = (),
        links: Json | None = None,
        *,
        text: str | None = None,
        values: Mapping[str, str] | None = None,
        check: Check | None = None,
    ) -> Answer[T]:
        """Put a task to a role.

        Args:
            role: Names the prompt file ``prompts/<role>.md`` and the model.
            task: First field of the facts block; what the offline rules go by.
            schema: What the answer must be.
            facts: JSON data that the answer rests on.
            images: PNG, JPEG, GIF or WebP bytes; not sent to models known to take none.
            tools: What the model may call before it answers.
            links: What the call rests on (episodes, scenes, tests), for the trace.
            text: The task in words; by default ``prompts/<role>.<task>.md`` or the task's name.
            values: What the role's prompt file asks to be filled in.
            check: Says what is wrong with an answer that fits the schema; goes back to the model
                as the validator's words do.

        Raises:
            NoAnswer: No valid answer; recorded.
            BudgetExhausted: Before a request; what was done until then is recorded.
        """
        model = self.model_of(role)
        info = model_info(model)
        lacks = self._shared.memory.lacks(info.label, "images")
        sent = images if info.images and not lacks else ()
        words = task_text(role, task) if text is None else text
        asked = human(f"{words}\n\n{facts_block(task, facts)}", sent)
        messages = [system(role, values), asked]
        call = self._open(role, task, info, links)
        sha = call.open(messages, images, {"schema": schema.model_json_schema(), "tools": tools})
        replay = call.replay(schema, sha)
        if replay is not None:
            return replay
        with call:
            answer = self._answer(call.session, model, messages, schema, tools, check)
            call.answer = answer.model_dump(mode="json")
        return Answer(
            value=answer,
            call_id=call.call_id,
            status=call.status,
            attempts=max(1, call.session.attempts),
        )

    def converse(
        self,
        role: str,
        messages: Sequence[BaseMessage],
        tools: Sequence[BaseTool] = (),
        links: Json | None = None,
        *,
        task: str = "chat",
        on_text: Callable[[str], None] | None = None,
    ) -> Spoken:
        """One turn of a conversation: streamed text to `on_text`, tools as in `ask`, recorded.

        Raises:
            NoAnswer: The model cannot be reached, refuses, or says nothing; recorded.
            BudgetExhausted: Before a request.
        """
        model = self.model_of(role)
        call = self._open(role, task, model_info(model), links)
        call.open(messages, (), {"tools": tools})

        def ask_of(bound: Any) -> Ask:
            return lambda sent: stream_chat(bound, sent).drain(on_text)

        with call:
            session = call.session
            history, closing = use_tools(
                session, model, messages, tools, self._shared.memory,
                limit=self._shared.max_tool_calls, ask_of=ask_of,
            )  # fmt: skip
            if closing is None:
                reply = session.request(ask_of(model), flattened(history))
                closing = reply.message
                if closing is None or reply.kind == "refused":
                    raise session.fail(reply)
            if not str(closing.text).strip():
                raise CallFailed("the reply was empty")
            added = (*history[len(messages) :], closing)
            call.answer = {"text": str(closing.text)}
        return Spoken(
            text=str(closing.text), messages=added, call_id=call.call_id, status=call.status
        )

    def _open(self, role: str, task: str, info: ModelInfo, links: Json | None) -> OpenCall:
        return OpenCall(
            self._shared,
            self.node_key,
            next(self._sequence),
            role=role,
            task=task,
            info=info,
            links=links or {},
        )

    def _answer(
        self,
        session: CallSession,
        model: BaseChatModel,
        messages: Sequence[BaseMessage],
        schema: type[T],
        tools: Sequence[BaseTool],
        check: Check | None,
    ) -> T:
        shared = self._shared
        history, closing = use_tools(
            session, model, messages, tools, shared.memory, limit=shared.max_tool_calls
        )
        if closing is not None:
            answer, words, _ = read_answer(Reply(kind="ok", message=closing), schema, check)
            if answer is not None and not words:
                session.attempts += 1
                return answer
            if str(closing.text).strip():
                history.append(AIMessage(content=str(closing.text)))
                history.append(human("Give the final answer in the form that is asked for."))
        return structured_answer(
            session,
            model,
            history if session.offline else flattened(history),
            schema,
            shared.memory,
            check=check,
            max_attempts=shared.max_attempts,
        )
