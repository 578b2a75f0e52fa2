"""Structured answers: ways to ask for one, and which of them each provider and model takes."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import Runnable
from pydantic import BaseModel

from coda.agents.models import Provider

Strategy = Literal["json_schema", "json_object", "tool", "text"]
"""Ways to ask: the provider's schema mode, its JSON mode with the schema in words, a forced tool
call, or plain text from which the JSON is parsed and repaired."""

STRATEGIES: Mapping[Provider, tuple[Strategy, ...]] = MappingProxyType(
    {
        "offline": ("tool",),
        "openai": ("json_schema", "json_object", "tool", "text"),
        "anthropic": ("json_schema", "tool", "text"),
        "other": ("tool", "text"),
    }
)
"""Best first."""

NOT_STRICT = frozenset({"oneOf", "prefixItems", "allOf", "not", "patternProperties"})
"""Keywords that OpenAI's strict mode refuses; such a schema is sent without `strict`."""
DROPPED_IN_STRICT = frozenset({"default", "minLength", "maxLength", "title"})
"""Keywords left out in strict mode; pydantic checks them afterwards."""


class StrategyMemory:
    """Which way to ask works with which model, so that one that failed is not tried again."""

    def __init__(self) -> None:
        self._first: dict[str, int] = {}
        self._proven: set[tuple[str, Strategy]] = set()
        self._lacks: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def start(self, label: str) -> int:
        """Index of the first strategy still worth trying with a model."""
        with self._lock:
            return self._first.get(label, 0)

    def proven(self, label: str, strategy: Strategy) -> bool:
        """Whether the strategy gave an answer before."""
        with self._lock:
            return (label, strategy) in self._proven

    def works(self, label: str, strategy: Strategy, index: int) -> None:
        """The strategy at `index` answered: those before it are not tried again."""
        with self._lock:
            self._proven.add((label, strategy))
            self._first[label] = max(index, self._first.get(label, 0))

    def lacks(self, label: str, feature: Literal["images", "tools"]) -> bool:
        """Whether the model is known not to take images, or tools."""
        with self._lock:
            return (label, feature) in self._lacks

    def learn_lack(self, label: str, feature: Literal["images", "tools"]) -> None:
        """Remember that the model refused images, or tools."""
        with self._lock:
            self._lacks.add((label, feature))


def bind(
    model: BaseChatModel, provider: Provider, strategy: Strategy, schema: type[BaseModel]
) -> Runnable[Any, AIMessage]:
    """The model with a request for an answer of `schema`.

    Raises:
        NotImplementedError: The model takes no tools (then `text` is left).
    """
    if strategy == "text":
        return model
    if strategy == "tool":
        return model.bind_tools([tool_of(schema)], tool_choice=schema.__name__)
    if strategy == "json_object":
        wanted = {"type": "json_object", "schema": schema.model_json_schema()}
        # The vendor's own server refuses unknown fields; its JSON mode takes the schema in words.
        own = provider == "openai" and _vendor(model)
        return model.bind(response_format={"type": "json_object"} if own else wanted)
    if provider == "anthropic":
        from anthropic import transform_schema

        return model.bind(
            output_config={"format": {"type": "json_schema", "schema": transform_schema(schema)}}
        )
    strict = strict_schema(schema.model_json_schema())
    return model.bind(
        response_format={
            "type": "json_schema",
            "json_schema": {
                "name": schema.__name__,
                "schema": schema.model_json_schema() if strict is None else strict,
                "strict": strict is not None,
            },
        }
    )


def instruction(strategy: Strategy, schema: type[BaseModel]) -> HumanMessage | None:
    """The schema in words, for the strategies that do not carry it otherwise."""
    if strategy in ("json_schema", "tool"):
        return None
    text = json.dumps(schema.model_json_schema(), ensure_ascii=False)
    return HumanMessage(
        content="Answer with one JSON object and nothing else. It must be valid under this JSON "
        f"schema:\n{text}"
    )


def tool_of(schema: type[BaseModel]) -> dict[str, Any]:
    """The schema as a tool in OpenAI's form, which every provider's binding converts."""
    return {
        "type": "function",
        "function": {
            "name": schema.__name__,
            "description": (schema.__doc__ or "The answer.").strip(),
            "parameters": schema.model_json_schema(),
        },
    }


def strict_schema(schema: dict[str, Any]) -> dict[str, Any] | None:
    """The schema as OpenAI's strict mode wants it (all fields required, closed), or None."""
    try:
        strict = _strict(schema)
    except _NotStrict:
        return None
    assert isinstance(strict, dict)
    return strict


class _NotStrict(Exception):
    pass


def _strict(node: Any) -> Any:
    if isinstance(node, list):
        return [_strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    if NOT_STRICT & node.keys():
        raise _NotStrict
    if isinstance(node.get("additionalProperties"), dict):
        raise _NotStrict
    out: dict[str, Any] = {}
    for key, item in node.items():
        if key in ("properties", "$defs"):
            out[key] = {name: _strict(child) for name, child in item.items()}
        elif key in ("enum", "const", "required"):
            out[key] = item
        elif key not in DROPPED_IN_STRICT:
            out[key] = _strict(item)
    if "properties" in node:
        out["required"] = list(node["properties"])
        out["additionalProperties"] = False
    return out


def complaint(words: str) -> HumanMessage:
    """Ask again with the validator's words."""
    return HumanMessage(
        content=f"Your last answer was rejected: {words}\n"
        "Answer the same task again, the whole answer, with this corrected."
    )


def _vendor(model: BaseChatModel) -> bool:
    client = getattr(model, "root_client", None)
    return client is not None and "api.openai.com" in str(client.base_url)
