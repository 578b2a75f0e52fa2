"""Reading structured answers: out of tool calls or text, slightly broken JSON included."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, TypeVar

from langchain_core.messages import AIMessage
from pydantic import BaseModel, ValidationError

T = TypeVar("T", bound=BaseModel)

MAX_PROBLEMS = 6
"""Problems of one answer that are told to the model at once."""


def parse(message: AIMessage, schema: type[T], *, cut: bool = False) -> tuple[T | None, str, bool]:
    """Read an answer.

    Args:
        message: What the model replied, text or tool call.
        schema: What it must fit.
        cut: The reply was cut off at the length limit; then no missing bracket is supplied.

    Returns:
        (answer or None, the validator's words or "", whether there was any JSON object at all).
    """
    problems = ""
    found = False
    for data in _candidates(message, schema.__name__, close=not cut):
        found = True
        answer, words = _validated(data, schema)
        if answer is not None:
            return answer, "", True
        problems = problems or words
    return None, problems or "there is no JSON object in the answer", found


def said(message: AIMessage | None) -> str:
    """What a model answered as text, to show it again beside the validator's words."""
    if message is None:
        return "(no answer)"
    if message.tool_calls:
        return json.dumps(message.tool_calls[0]["args"], ensure_ascii=False)
    if message.invalid_tool_calls:
        return message.invalid_tool_calls[0]["args"] or "(an empty tool call)"
    return str(message.text).strip() or "(an empty answer)"


def _candidates(message: AIMessage, name: str, *, close: bool) -> Iterator[dict[str, Any]]:
    for call in message.tool_calls:
        if call["name"] == name:
            yield call["args"]
    for bad in message.invalid_tool_calls:
        yield from json_objects(bad["args"] or "", close=close)
    yield from json_objects(str(message.text), close=close)


def _validated(data: dict[str, Any], schema: type[T]) -> tuple[T | None, str]:
    """Validate; small models wrap the answer in its own name, so look inside one wrapper too."""
    try:
        return schema.model_validate(data), ""
    except ValidationError as error:
        words = validator_words(error)
    if len(data) == 1:
        (key, inner) = next(iter(data.items()))
        if key not in schema.model_fields and isinstance(inner, dict):
            try:
                return schema.model_validate(inner), ""
            except ValidationError:
                pass  # the words about the whole answer say more
    return None, words


def validator_words(error: ValidationError) -> str:
    """The first problems: where, what, and the value that was given."""
    problems = error.errors(include_url=False, include_context=False)
    lines = [
        f"{'.'.join(str(part) for part in p['loc']) or 'answer'}: {p['msg']}"
        + ("" if p["type"] == "missing" else f" (given: {p['input']!r:.80})")
        for p in problems[:MAX_PROBLEMS]
    ]
    if len(problems) > MAX_PROBLEMS:
        lines.append(f"and {len(problems) - MAX_PROBLEMS} more")
    return "; ".join(lines)


def json_objects(text: str, *, close: bool = True) -> Iterator[dict[str, Any]]:
    """The JSON objects in a text in order, the outermost ones; a broken first one is repaired.

    `close`: supply brackets that are missing at the end.
    """
    first = text.find("{")
    whole_ones = list(_objects(text))
    if first >= 0 and (not whole_ones or whole_ones[0][0] != first):
        repaired = repair(text[first:], close=close)
        if repaired is not None:
            yield repaired
    for _, data in whole_ones:
        yield data


def _objects(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    decoder = json.JSONDecoder()
    start = text.find("{")
    while start >= 0:
        try:
            data, end = decoder.raw_decode(text, start)
        except json.JSONDecodeError:
            end = start + 1
        else:
            if isinstance(data, dict):
                yield start, data
        start = text.find("{", end)


WORDS = {"True": "true", "False": "false", "None": "null", "NaN": "null"}
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+|\s+', re.DOTALL)


def repair(text: str, *, close: bool = True) -> dict[str, Any] | None:
    """The object that starts `text`, after small repairs; None where they are not enough.

    Repairs trailing commas, Python's True/False/None, single-quoted strings, and (with `close`)
    brackets that are missing at the end.
    """
    for candidate in (text, _single_quotes(text)):
        fixed = _rebuild(candidate, close=close)
        try:
            data = json.loads(fixed)
        except json.JSONDecodeError:
            continue
        if isinstance(data, dict):
            return data
    return None


def _single_quotes(text: str) -> str:
    return re.sub(r"'([^'\"\n]*)'", r'"\1"', text)


def _rebuild(text: str, *, close: bool) -> str:
    out: list[str] = []
    open_brackets: list[str] = []
    for token in TOKEN.findall(text):
        if token in ("{", "["):
            open_brackets.append("}" if token == "{" else "]")
        elif token in ("}", "]"):
            if not open_brackets or open_brackets[-1] != token:
                break
            open_brackets.pop()
            while out and (out[-1].isspace() or out[-1] == ","):
                out.pop()
        out.append(WORDS.get(token, token))
        if not open_brackets:
            break
    if close and open_brackets:
        while out and (out[-1].isspace() or out[-1] == ","):
            out.pop()
        out.extend(reversed(open_brackets))
    return "".join(out)
