"""Prompts: files rendered strictly, the facts block that ends a message, images, and their hash."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from pydantic import BaseModel

from coda.sim.errors import CodaError, UnknownName

PROMPTS = Path(__file__).parent / "prompts"
FENCE = re.compile(r"^```json[ \t]*\n", re.MULTILINE)
MAGIC = ((b"\x89PNG\r\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))


class PromptError(CodaError):
    """A prompt and its values do not fit, or facts cannot be written as JSON."""


def prompt_names() -> list[str]:
    """Names of the prompt files, sorted."""
    return sorted(path.name.removesuffix(".md") for path in PROMPTS.glob("*.md"))


def render(name: str, values: Mapping[str, str] | None = None) -> str:
    """Fill `agents/prompts/<name>.md`: ``$name`` stands for a value, ``$$`` for a dollar sign.

    Raises:
        UnknownName: There is no such prompt file.
        PromptError: A value is missing or not used, or a dollar sign stands alone.
    """
    path = PROMPTS / f"{name}.md"
    if name not in prompt_names():
        raise UnknownName("prompt", name, prompt_names())
    template = Template(path.read_text(encoding="utf-8"))
    given = dict(values or {})
    if not template.is_valid():
        raise PromptError(f"prompt {name!r} has a stray '$'; write '$$' for a dollar sign.")
    wanted = set(template.get_identifiers())
    if wanted != given.keys():
        raise PromptError(
            f"prompt {name!r} takes {sorted(wanted)}, but was given {sorted(given)}; "
            "give exactly those values."
        )
    return template.substitute(given).strip()


def jsonable(value: Any) -> Any:
    """`value` as JSON data: records, numpy values, tuples; non-finite numbers become null.

    Raises:
        PromptError: A value has no JSON form.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, BaseModel):
        return jsonable(value.model_dump(mode="json"))
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(jsonable(item) for item in value)
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        return jsonable(value.tolist())
    raise PromptError(
        f"facts hold a {type(value).__name__}, which JSON has no form for: {value!r:.80}."
    )


def facts_block(task: str, facts: Mapping[str, Any]) -> str:
    """The fenced JSON block that ends a human message; ``task`` is its first field."""
    body = {"task": task, **{k: v for k, v in facts.items() if k != "task"}}
    return f"```json\n{json.dumps(jsonable(body), ensure_ascii=False)}\n```"


def read_facts(message: BaseMessage) -> dict[str, Any] | None:
    """The last facts block of a message that names a task, or None."""
    text = str(message.text)
    for fence in reversed(list(FENCE.finditer(text))):
        block, closed, _ = text[fence.end() :].partition("\n```")
        if not closed:
            continue
        try:
            facts = json.loads(block)
        except json.JSONDecodeError:
            continue
        if isinstance(facts, dict) and isinstance(facts.get("task"), str):
            return facts
    return None


def image_type(data: bytes) -> str:
    """MIME type by the first bytes.

    Raises:
        PromptError: Neither PNG, JPEG, GIF nor WebP.
    """
    for magic, kind in MAGIC:
        if data.startswith(magic):
            return kind
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    raise PromptError(f"an image starts with {data[:8]!r}; give PNG, JPEG, GIF or WebP bytes.")


def human(text: str, images: Sequence[bytes] = ()) -> HumanMessage:
    """A human message of text and images, in LangChain's standard content blocks."""
    if not images:
        return HumanMessage(content=text)
    blocks: list[str | dict[str, Any]] = [{"type": "text", "text": text}]
    for data in images:
        blocks.append(
            {
                "type": "image",
                "base64": base64.b64encode(data).decode("ascii"),
                "mime_type": image_type(data),
            }
        )
    return HumanMessage(content=blocks)


def system(role: str, values: Mapping[str, str] | None = None) -> SystemMessage:
    """The system message of a role: its prompt file."""
    return SystemMessage(content=render(role, values))


def task_text(role: str, task: str) -> str:
    """What a task asks: `agents/prompts/<role>.<task>.md` where there is one, else its name."""
    name = f"{role}.{task}"
    return render(name) if name in prompt_names() else f"Task: {task}."


def image_hash(data: bytes) -> str:
    """First 16 hex digits of the SHA-256 of an image."""
    return hashlib.sha256(data).hexdigest()[:16]


def transcript(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """Messages as plain data for a journal; an image is replaced by its type and hash."""
    return [_entry(message) for message in messages]


def _entry(message: BaseMessage) -> dict[str, Any]:
    entry: dict[str, Any] = {"role": message.type, "text": str(message.text)}
    images = [
        {"mime_type": block["mime_type"], "sha256": image_hash(base64.b64decode(block["base64"]))}
        for block in (message.content if isinstance(message.content, list) else [])
        if isinstance(block, dict) and block.get("type") == "image"
    ]
    if images:
        entry["images"] = images
    if isinstance(message, AIMessage) and message.tool_calls:
        entry["tool_calls"] = [
            {"name": call["name"], "args": call["args"]} for call in message.tool_calls
        ]
    if isinstance(message, ToolMessage):
        entry["name"] = message.name
        entry["status"] = message.status
    return entry


def prompt_hash(parts: Mapping[str, Any]) -> str:
    """SHA-256 of what determines an answer: the messages, the schema, the tools, the model."""
    text = json.dumps(jsonable(parts), sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
