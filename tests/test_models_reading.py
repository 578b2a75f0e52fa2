"""Reading structured answers out of text, and schemas for strict modes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, Literal

import httpx
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from pydantic import BaseModel, ConfigDict

from coda.agents.reading import json_objects, parse, repair
from coda.agents.schemas import DiagnosisAnswer, PlanAnswer, PotentialAnswer, ProgramAnswer
from coda.agents.session import merged
from coda.agents.structured import strict_schema
from coda.agents.toolloop import flattened
from coda.agents.transport import retry_after


class Item(BaseModel):
    """An item."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    n: int
    tags: tuple[str, ...] = ()


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "a", "n": 1}',
        'Here it is:\n```json\n{"name": "a", "n": 1}\n```\nDone.',
        'The set {x} holds {"name": "a", "n": 1}.',
        '{"name": "a", "n": 1,}',
        "{'name': 'a', 'n': 1}",
        '{"name": "a", "n": 1, "tags": ["x",]',
        '{"Item": {"name": "a", "n": 1}}',
        '{"note": "no"} and then {"name": "a", "n": 1}',
    ],
)
def test_answers_are_found_and_repaired(text: str) -> None:
    item, words, found = parse(AIMessage(text), Item)
    assert item is not None
    assert (item.name, item.n, words, found) == ("a", 1, "", True)


def test_a_cut_off_answer_is_not_completed() -> None:
    text = '{"name": "a", "n": 1, "tags": ["x"'
    assert parse(AIMessage(text), Item)[0] == Item(name="a", n=1, tags=("x",))
    item, _, found = parse(AIMessage(text), Item, cut=True)
    assert (item, found) == (None, False)


@pytest.mark.parametrize("text", ["", "no idea", "{", "}{", "[1, 2]", '{"a" 1}', "{{{{", '"{"'])
def test_what_is_no_object_is_none(text: str) -> None:
    item, words, _ = parse(AIMessage(text), Item)
    assert item is None
    assert words


def test_words_name_place_and_value() -> None:
    _, words, found = parse(AIMessage('{"name": 3, "m": 1}'), Item)
    assert found
    assert "name: Input should be a valid string (given: 3)" in words
    assert "n: Field required" in words
    assert "m: Extra inputs are not permitted" in words


def test_python_words_are_repaired() -> None:
    assert repair('{"a": True, "b": None, "c": [1, False,],}') == {
        "a": True,
        "b": None,
        "c": [1, False],
    }
    assert next(iter(json_objects('{"a": {"b": 1}, "c": True}'))) == {"a": {"b": 1}, "c": True}


def _walk(node: Any) -> Any:
    if isinstance(node, dict):
        yield node
        for child in node.values():
            yield from _walk(child)
    elif isinstance(node, list):
        for child in node:
            yield from _walk(child)


@pytest.mark.parametrize("schema", [DiagnosisAnswer, PlanAnswer, Item])
def test_flat_schemas_are_strict(schema: type[BaseModel]) -> None:
    strict = strict_schema(schema.model_json_schema())
    assert strict is not None
    for node in _walk(strict):
        assert not {"default", "minLength", "maxLength"} & node.keys()
        if isinstance(node.get("properties"), dict):
            assert node["required"] == list(node["properties"])
            assert node["additionalProperties"] is False


def test_a_field_may_be_called_like_a_keyword() -> None:
    class Odd(BaseModel):
        title: str
        default: Literal["a", "b"]

    strict = strict_schema(Odd.model_json_schema())
    assert strict is not None
    assert list(strict["properties"]) == ["title", "default"]


@pytest.mark.parametrize("schema", [ProgramAnswer])
def test_unions_are_not_strict(schema: type[BaseModel]) -> None:
    assert strict_schema(schema.model_json_schema()) is None
    json.dumps(PotentialAnswer.model_json_schema())


def test_a_history_with_tools_is_told_in_words() -> None:
    call: Any = {"name": "look", "args": {"axis": "yaw"}, "id": "1", "type": "tool_call"}
    history = [
        HumanMessage("go"),
        AIMessage("I look.", tool_calls=[call]),
        ToolMessage("hard", name="look", tool_call_id="1"),
        HumanMessage("answer"),
    ]
    flat = merged(flattened(history))
    assert [m.type for m in flat] == ["human", "ai", "human"]
    assert flat[-1].text == 'You called look({"axis": "yaw"}). It returned:\nhard\n\nanswer'


def test_retry_after_in_seconds_or_as_a_date() -> None:
    class Failure(Exception):
        def __init__(self, value: str | None) -> None:
            headers = {} if value is None else {"Retry-After": value}
            self.response = httpx.Response(429, headers=headers)

    assert retry_after(Failure("1.5")) == 1.5
    assert retry_after(Failure("-3")) == 0.0
    assert retry_after(Failure("soon")) is None
    assert retry_after(Failure(None)) is None
    assert retry_after(ValueError()) is None
    later = retry_after(Failure(format_datetime(datetime.now(UTC) + timedelta(seconds=30))))
    assert later is not None
    assert 25.0 < later <= 30.0
