"""Streamed replies, alike for every provider: text piece by piece, then the whole message."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ToolCall,
    message_chunk_to_message,
)
from langchain_core.runnables import Runnable

from coda.agents.transport import StreamBroken, wire_errors


class ChatStream(Iterator[str]):
    """Yields the text of one reply; afterwards `message` holds it with tool calls and usage."""

    def __init__(self, model: Runnable[Any, AIMessage], messages: Sequence[BaseMessage]) -> None:
        self._pieces = self._run(model, list(messages))
        self._whole: AIMessageChunk | None = None

    def __iter__(self) -> ChatStream:
        return self

    def __next__(self) -> str:
        return next(self._pieces)

    def drain(self, on_text: Callable[[str], None] | None = None) -> AIMessage:
        """Read to the end, giving every piece to `on_text`; returns the message.

        Raises:
            StreamBroken: It broke off after the first words.
        """
        told = False
        try:
            for piece in self:
                told = True
                if on_text is not None:
                    on_text(piece)
        except wire_errors() as error:
            if told and on_text is not None:
                words = f"the reply broke off: {type(error).__name__}: {error}"
                raise StreamBroken(words) from error
            raise
        return self.message

    @property
    def message(self) -> AIMessage:
        """The reply as far as it was read; whole once the stream is exhausted."""
        if self._whole is None:
            return AIMessage(content="")
        message = message_chunk_to_message(self._whole)
        assert isinstance(message, AIMessage)
        return message

    @property
    def tool_calls(self) -> list[ToolCall]:
        """Tool calls of the reply."""
        return self.message.tool_calls

    def _run(self, model: Runnable[Any, AIMessage], messages: list[BaseMessage]) -> Iterator[str]:
        for chunk in model.stream(messages):
            if not isinstance(chunk, AIMessageChunk):  # a model that cannot stream: the whole reply
                chunk = AIMessageChunk(content=chunk.content, tool_calls=chunk.tool_calls)
            self._whole = chunk if self._whole is None else self._whole + chunk
            if text := str(chunk.text):
                yield text


def stream_chat(model: Runnable[Any, AIMessage], messages: Sequence[BaseMessage]) -> ChatStream:
    """Start a streamed reply of a chat model, with or without bound tools; sent at the first read.

    Errors of the provider pass through (`coda.agents.transport.wire_errors`);
    `AgentCaller.converse` is the bounded and recorded way.
    """
    return ChatStream(model, messages)
