"""Reading what others wrote, JSON, YAML or Python values, as plain data within bounds.

Nothing read here can run code, expand without limit, or take more than a moment: YAML has no
aliases, tags or dates, sizes are bounded before anything is looked at more closely, and a key that
is written twice is refused, because the second would silently win.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Mapping
from typing import Any

import yaml

from coda.sim.errors import SceneError

MAX_TEXT = 100_000
"""Longest text, and most characters in all strings of a value."""
MAX_YAML_TEXT = 20_000
"""Longest YAML text; it is read character by character, JSON is not."""
MAX_VALUES = 20_000
"""Most numbers, strings, lists and mappings in a value."""
MAX_DEPTH = 32
"""Deepest nesting."""
MAX_BITS = 1024
"""Longest whole number."""


class NotPlain(SceneError):
    """A text or a value is not plain data, or is too large."""


_LEFT_OUT = (":timestamp", ":merge", ":value", ":bool")
_TRUTH = re.compile("true|True|TRUE|false|False|FALSE")


def _resolvers() -> dict[str, list[tuple[str, Any]]]:
    """PyYAML's rules for plain words, without dates and the like; `on` and `no` are words."""
    rules = {
        first: [rule for rule in had if not rule[0].endswith(_LEFT_OUT)]
        for first, had in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    for first in "tTfF":
        rules[first] = [("tag:yaml.org,2002:bool", _TRUTH), *rules.get(first, [])]
    return rules


class _PlainLoader(yaml.SafeLoader):
    """YAML's lists, mappings, strings, numbers, true, false and null, and nothing else."""

    yaml_implicit_resolvers = _resolvers()

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            raise NotPlain(f"the alias *{event.anchor:.40} is not allowed; write the value out.")
        if getattr(event, "tag", None) is not None:
            raise NotPlain(f"the tag {event.tag:.40} is not allowed; write a plain value.")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        _refuse_repeats(keys)
        return super().construct_mapping(node, deep=deep)


def _refuse_repeats(keys: list[Any]) -> None:
    """Raise `NotPlain` where a key is written twice."""
    seen: set[str] = set()
    for key in keys:
        if repr(key) in seen:
            raise NotPlain(f"the key {shown(key)} is written twice; write it once.")
        seen.add(repr(key))


def _pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
    _refuse_repeats([key for key, _ in items])
    return dict(items)


def read_json(text: str, name: str | None = None) -> Any:
    """Plain data of a JSON text; see `read_yaml`."""
    try:
        return check_plain(_json(text))
    except ValueError as error:
        raise NotPlain(f"{name or shown(text)} is not valid JSON: {_words(error)}.") from None


def read_yaml(text: str, name: str | None = None) -> Any:
    """Plain data of a YAML or JSON text.

    Raises `NotPlain` with the problem, and what the text is called where it has a `name`, in one
    line.
    """
    if text.lstrip()[:1] in ("{", "["):
        try:
            return check_plain(_json(text))
        except ValueError:
            pass  # YAML has brackets too
    _check_length(text, MAX_YAML_TEXT)
    _check_brackets(text)
    try:
        return check_plain(_yaml(text))
    except RecursionError:
        raise NotPlain("brackets nested too deeply; write a flatter text.") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        what = name or shown(text)
        raise NotPlain(f"{what} is not valid YAML or JSON: {_words(error)}.") from None


def _yaml(text: str) -> Any:
    loader = _PlainLoader(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def _json(text: str) -> Any:
    """Raises `ValueError` where it is not JSON, `NotPlain` where it is too much."""
    _check_length(text, MAX_TEXT)
    try:
        return json.loads(text, object_pairs_hook=_pairs)
    except RecursionError:
        raise NotPlain("brackets nested too deeply; write a flatter text.") from None


def _check_length(text: str, limit: int) -> None:
    if len(text) > limit:
        raise NotPlain(f"a text of {len(text)} characters; allowed: at most {limit}. Shorten it.")


def _check_brackets(text: str) -> None:
    """Refuse what PyYAML would take long to find out; brackets in strings may be unbalanced."""
    depth = 0
    for letter in text:
        depth += (letter in "[{") - (letter in "]}")
        if depth > 2 * MAX_DEPTH:
            raise NotPlain("brackets nested too deeply; write a flatter text.")


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def check_plain(value: Any) -> Any:
    """`value` if it is plain data within the bounds of this module, else raises `NotPlain`.

    Plain are mappings with text keys, lists, tuples, strings, numbers, booleans and None.
    """
    characters = values = 0
    waiting: list[tuple[Any, int]] = [(value, 0)]
    while waiting:
        item, depth = waiting.pop()
        values += 1
        if depth > MAX_DEPTH:
            raise NotPlain(f"values nested more than {MAX_DEPTH} deep; write a flatter value.")
        inside: list[Any] = []
        if isinstance(item, str):
            characters += len(item)
        elif isinstance(item, Mapping):
            _check_count(values + len(waiting) + 2 * len(item))
            for key in item:
                if not isinstance(key, str):
                    raise NotPlain(f"the key {shown(key)} is not a text; write names as text.")
            inside = [*item, *item.values()]
        elif isinstance(item, list | tuple):
            _check_count(values + len(waiting) + len(item))
            inside = list(item)
        elif isinstance(item, int):
            if int(item).bit_length() > MAX_BITS:
                raise NotPlain(f"a whole number of more than {MAX_BITS} bits; write a smaller one.")
        elif not (item is None or isinstance(item, float)):
            kind = type(item).__name__
            raise NotPlain(f"a value of type {kind:.40}; use numbers, text, lists and mappings.")
        if characters > MAX_TEXT:
            raise NotPlain(f"texts of more than {MAX_TEXT} characters in all; shorten them.")
        waiting += [(part, depth + 1) for part in inside]
    return value


def _check_count(count: int) -> None:
    if count > MAX_VALUES:
        raise NotPlain(f"{count} values or more; allowed: at most {MAX_VALUES}. Write fewer.")


def shown(value: Any, width: int = 60) -> str:
    """A value in at most `width` characters, in bounded time."""
    if isinstance(value, str):
        value = value[:width]
    try:
        check_plain(value)
    except NotPlain:
        return f"a {type(value).__name__:.40}"
    return f"{value!r:.{width}}"
