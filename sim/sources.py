"""What a person may call a scene: a file, a family's name, a number in an evaluation file."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np

from coda.sim.errors import SceneError, UnknownName
from coda.sim.families import FAMILIES, family
from coda.sim.gate_program import parse_program
from coda.sim.plain_data import NotPlain, read_yaml
from coda.sim.program import GenerationProgram
from coda.sim.sampling import sample_scene
from coda.sim.scene import Scene
from coda.sim.splits import EvaluationName, EvaluationSet, Splits, evaluation_set

FILE_SUFFIXES = (".json", ".yaml", ".yml")
SOURCES = "a scene or program file (.json, .yaml), FAMILY, FAMILY/TASK, [FAMILY:]in:N or ood:N"
"""What a source may be, in words."""
MAX_FILE_BYTES = 20_000_000
MAX_SPAN = 500
"""Most scenes that one span of an evaluation file names."""

_EVALUATION = re.compile(r"(?:(?P<family>[a-z-]+):)?(?P<set>in|ood):(?P<rest>.+)")
_SPAN = re.compile(r"(\d+)(?:-(\d+))?")

Raw = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Source:
    """What was named: scenes, perhaps not valid ones, or a program that makes scenes."""

    text: str
    kind: Literal["scene", "program", "family", "evaluation"]
    scenes: tuple[tuple[str, Scene | Raw], ...] = ()
    """Names and scenes, as they were read."""
    program: Raw | None = None
    """A generation program as it was read."""

    def valid_scenes(self, *, count: int = 1, seed: int = 0) -> tuple[tuple[str, Scene], ...]:
        """Names and scenes; a program draws `count` of them from `seed`.

        Raises `SceneError` in one line where a scene or the program is not valid.
        """
        if self.program is None:
            return tuple((name, _scene(name, item)) for name, item in self.scenes)
        program = self.valid_program()
        return tuple(
            (f"{program.name} #{k}", sample_scene(program, np.random.default_rng([seed, k])))
            for k in range(count)
        )

    def counted(self) -> Source:
        """A family becomes the program of its whole range, from which scenes are drawn.

        Raises `SceneError` for scenes, of which there are as many as there are.
        """
        if self.kind == "program":
            return self
        if self.kind != "family":
            raise SceneError(f"--count is for programs and families; {self.text} is what it is.")
        name, _, task = self.text.partition("/")
        program = Splits(name).wide_program(task or None)
        return Source(text=self.text, kind="program", program=program.model_dump(mode="json"))

    def valid_program(self) -> GenerationProgram:
        """The program. Raises `SceneError` with its first problem."""
        parsed = parse_program(self.program or {})
        if isinstance(parsed, GenerationProgram):
            return parsed
        more = f" ({len(parsed) - 1} more; list them with 'coda scene check')" if parsed[1:] else ""
        raise SceneError(f"{self.text}: {parsed[0].line()}{more}.")


def _scene(name: str, item: Scene | Raw) -> Scene:
    if isinstance(item, Scene):
        return item
    try:
        return Scene.from_text(json.dumps(item))
    except SceneError as error:
        raise SceneError(f"{name}: {error}") from None


def read_source(text: str) -> Source:
    """Find out what `text` names and read it.

    Raises:
        SceneError: The file is missing or not a scene or a program; the number does not exist.
        UnknownName: No family, task or evaluation set has that name.
    """
    path = Path(text)
    if path.is_file() or path.suffix.lower() in FILE_SUFFIXES:
        return _read_file(path)
    if path.is_dir():
        raise SceneError(f"{text!r} is a folder; give one of its scene or program files.")
    match = _EVALUATION.fullmatch(text)
    if match:
        return _read_evaluation(text, match["family"], match["set"], match["rest"])
    return _read_family(text)


def tasks_named(name: str) -> tuple[tuple[str, str], ...]:
    """(family, task) of ``family`` (all its tasks) or ``family/task``. Raises `UnknownName`."""
    first, _, second = name.partition("/")
    item = family(first)
    if not second:
        return tuple((first, task) for task in item.tasks)
    if second not in item.tasks:
        raise UnknownName(f"{first} task", second, item.tasks)
    return ((first, second),)


def _read_family(text: str) -> Source:
    first = text.partition("/")[0]
    if first not in FAMILIES:
        known = [*FAMILIES, *(f"{n}/{t}" for n, f in FAMILIES.items() for t in f.tasks)]
        close = difflib.get_close_matches(text, [*known, "in:0", "ood:0"], n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        families = ", ".join(FAMILIES)
        raise SceneError(
            f"no scene source {text!r}; {hint}allowed: {SOURCES}; families: {families}."
        )
    names = tasks_named(text)
    if "/" not in text:
        names = names[:1]
    scenes = tuple((f"{f}/{t}", FAMILIES[f].tasks[t].seed) for f, t in names)
    return Source(text=text, kind="family", scenes=scenes)


def _read_evaluation(text: str, family_name: str | None, name: str, rest: str) -> Source:
    family_name = family_name or next(iter(FAMILIES))
    family(family_name)
    assert name in get_args(EvaluationName)
    chosen = evaluation_set(cast(EvaluationName, name), family_name)
    size = len(chosen.scenes)
    span = _SPAN.fullmatch(rest)
    if span is None:
        raise SceneError(
            f"{text!r} names no scene; write a number from 0 to {size - 1} after {name}:, "
            f"or a span such as {name}:0-7."
        )
    first, last = int(span[1]), int(span[2] or span[1])
    if first > last or last >= size or last - first >= MAX_SPAN:
        raise SceneError(
            f"{text!r} is out of range; {family_name}'s {name} file holds scenes 0 to {size - 1}."
        )
    return Source(
        text=text, kind="evaluation", scenes=_numbered(chosen, name, range(first, last + 1))
    )


def _numbered(
    chosen: EvaluationSet, name: str, numbers: Sequence[int]
) -> tuple[tuple[str, Scene], ...]:
    return tuple(
        (
            f"{name}:{i}" if chosen.axis[i] == name else f"{name}:{i} ({chosen.axis[i]})",
            chosen.scenes[i],
        )
        for i in numbers
    )


def _read_file(path: Path) -> Source:
    data = _load(path)
    if isinstance(data, list) and data and all(isinstance(item, dict) for item in data):
        scenes = tuple((f"{path.name}[{i}]", item) for i, item in enumerate(data))
        return Source(text=str(path), kind="scene", scenes=scenes)
    if not isinstance(data, dict):
        raise SceneError(f"{path} holds {data!r:.40}; expected a scene or a generation program.")
    if "tau" in data or "sigma" in data:
        return Source(text=str(path), kind="scene", scenes=((path.name, data),))
    if "edits" in data or "family" in data:
        return Source(text=str(path), kind="program", program=data)
    if isinstance(data.get("scenes"), list):
        scenes = tuple((f"{path.name}[{i}]", item) for i, item in enumerate(data["scenes"]))
        return Source(text=str(path), kind="scene", scenes=scenes)
    raise SceneError(
        f"{path} is neither a scene (tau, sigma, alpha, nu) nor a generation program "
        f"(family, edits); its fields: {', '.join(map(str, data))[:80] or 'none'}."
    )


def _load(path: Path) -> Any:
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise SceneError(f"{path} has {size} bytes; a scene file has at most {MAX_FILE_BYTES}.")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SceneError(f"no file {str(path)!r}; check the path. Allowed: {SOURCES}.") from None
    except UnicodeDecodeError:
        raise SceneError(f"{path} is not text; expected a JSON or YAML file.") from None
    except OSError as error:
        raise SceneError(f"cannot read {path}: {error.strerror}.") from None
    try:
        return json.loads(text) if path.suffix.lower() == ".json" else read_yaml(text, str(path))
    except NotPlain as error:
        words = str(error)
        raise SceneError(words if words.startswith(str(path)) else f"{path}: {words}") from None
    except ValueError as error:
        raise SceneError(f"{path} is not valid JSON: {' '.join(str(error).split())}.") from None
    except RecursionError:
        raise SceneError(f"{path} has brackets nested too deeply.") from None
