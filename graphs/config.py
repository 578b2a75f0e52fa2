"""`RunConfig`: everything that decides a run. A preset, a YAML file and ``key=value`` overrides."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Self

import yaml
from pydantic import Field, ValidationError, model_validator

from coda.graphs.settings import (
    Build,
    Diagnosing,
    Measuring,
    Models,
    Section,
    Seeding,
    Switches,
    Training,
)
from coda.policy.backbones import BACKBONES
from coda.policy.config import CriticConfig, LearnerConfig, PolicyConfig
from coda.policy.device import DeviceName
from coda.sim.errors import CodaError, UnknownName
from coda.sim.families import family
from coda.sim.scene import first_problem

IMPLEMENTED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "data": ("coda",),
        "memory": ("full",),
        "signal": (
            "text2potential",
            "description",
            "no-refinement",
            "dense",
            "sparse",
            "frozen-actor",
        ),
        "controls": ("on", "off"),
        "schedule": ("adaptive", "fixed"),
        "backbone": tuple(BACKBONES),
    }
)
"""Values of each switch that this version carries out; others are refused, never ignored."""


class ConfigError(CodaError):
    """Settings contradict each other, or ask for what this version does not do."""


class RunConfig(Section):
    """One run, resolved."""

    name: str = ""
    """Folder of the run inside `runs_dir`; empty picks ``<preset>-<number>``."""
    runs_dir: str = "runs"
    preset: str = "laptop"
    """The preset that this started from; for the record."""
    family: str = "pick-place"
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    rounds: Annotated[int, Field(ge=0, le=1000)] = 3
    device: DeviceName = "cpu"
    """Where policy and critic live and learn: ``auto`` takes a CUDA device where torch sees one."""
    threads: Annotated[int, Field(ge=1, le=256)] = 2
    """Threads of the simulator; the result does not depend on it."""
    tasks: tuple[str, ...] = ()
    """Tasks of the family that the run is about; all of them where empty."""
    max_steps: Annotated[int, Field(ge=8, le=2000)] = 400
    """Most control steps of an episode, whole chunks; a task's own limit may be less."""
    import_memory: str | None = None
    """Run folder whose modes this run starts with."""
    pictures: bool = True
    """Whether the report at the end shows rendered scenes and films; `coda report` always does."""
    switches: Switches = Switches()
    models: Models = Models()
    seeding: Seeding = Seeding()
    build: Build = Build()
    diagnosing: Diagnosing = Diagnosing()
    training: Training = Training()
    policy: PolicyConfig = PolicyConfig()
    critic: CriticConfig = CriticConfig()
    learner: LearnerConfig = LearnerConfig()
    """Of the updates; its signal and its actor updates come from `switches` and `training`."""
    measuring: Measuring = Measuring()

    @property
    def family_tasks(self) -> tuple[str, ...]:
        """Names of the tasks that the run is about."""
        return self.tasks or tuple(family(self.family).tasks)

    @model_validator(mode="after")
    def _sound(self) -> Self:
        known = family(self.family).tasks
        for task in self.tasks:
            if task not in known:
                raise UnknownName(f"{self.family} task", task, known)
        if self.diagnosing.max_pairs < self.diagnosing.pair_batch:
            raise ValueError("diagnosing.max_pairs must be at least diagnosing.pair_batch")
        low, high = self.measuring.band
        if not low < high:
            raise ValueError(f"measuring.band = [{low}, {high}]: the first must be the smaller")
        if "signal" in self.learner.model_fields_set or (
            "actor_updates" in self.learner.model_fields_set
        ):
            raise ValueError("set switches.signal and training.updates, not the learner's own")
        if self.switches.signal == "frozen-actor" and self.training.episodes:
            raise ValueError(
                "switches.signal = 'frozen-actor' trains no actor that a lookahead could teach; "
                "set training.episodes=0 and training.rollouts to a count"
            )
        if self.max_steps % 8:
            raise ValueError(f"max_steps = {self.max_steps}: must be a multiple of the chunk, 8")
        if self.name and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", self.name):
            raise ValueError(f"name = {self.name!r}: use letters, digits, '.', '_' and '-'")
        return self

    @property
    def run_dir(self) -> Path:
        """Folder of the run."""
        return Path(self.runs_dir) / self.name

    def to_yaml(self) -> str:
        """The file that `from_file` reads back to an equal configuration."""
        return yaml.safe_dump(self.tree(), sort_keys=False, allow_unicode=True)

    def tree(self) -> dict[str, Any]:
        """Plain data, without what other settings decide."""
        return self.model_dump(mode="json", exclude={"learner": {"signal", "actor_updates"}})


_DEBUG: Mapping[str, Any] = {
    "rounds": 2,
    "max_steps": 96,
    "pictures": False,
    "seeding": {"demonstrations": 6, "updates": 60},
    "build": {"programs": 2, "scenes": 4},
    "diagnosing": {"max_diagnoses": 2, "pair_batch": 4, "max_pairs": 8},
    "training": {"episodes": 4, "candidates": 4, "updates": 40, "modes": 2},
    "policy": {"width": 32, "encoder_blocks": 0, "blocks": 1},
    "critic": {"width": 32, "blocks": 1},
    "learner": {"cycles": 1, "critic_warmup": 10, "critic_updates": 20, "batch_size": 32},
    "measuring": {"in_scenes": 4, "ood_scenes": 8, "probe_scenes": 2},
}
_PAPER: Mapping[str, Any] = {
    "rounds": 15,
    "threads": 16,
    "seeding": {"demonstrations": 50, "updates": 20_000},
    "build": {"programs": 24, "scenes": 32},
    "diagnosing": {"max_diagnoses": 12, "max_pairs": 74},
    "training": {"episodes": 1000, "candidates": 24, "updates": 10_000, "modes": 8},
    "measuring": {"in_scenes": 100, "ood_scenes": 500, "probe_scenes": 16},
    "models": {"default": "openai:gpt-5.5", "max_tokens": 20_000_000, "max_usd": 500.0},
}
_FAMILIES: Mapping[str, Any] = {
    "rounds": 4,
    "seeding": {"demonstrations": 1, "updates": 150},
    "build": {"programs": 24, "scenes": 3},
    "training": {"episodes": 320, "candidates": 8, "updates": 5000},
    "learner": {"anchor_share": 0.02, "failure_weight": 0.0},
    # scenes that the policy never solves teach as well, as the search solves them
    "measuring": {"band": [0.0, 0.9]},
}
PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "laptop": MappingProxyType({}),
        "families": _FAMILIES,
        "debug": _DEBUG,
        "paper": _PAPER,
    }
)
"""Differences of each preset from the defaults. Laptop: minutes on 2 cores. Families: from a weak
start, one demonstration of each task and few updates, and with more programs and searches, so that
every task meets every axis. Debug: seconds."""


def make_config(
    preset: str = "laptop",
    *,
    file: Path | None = None,
    overrides: Sequence[str] = (),
    **fields: Any,
) -> RunConfig:
    """Resolve a configuration: defaults < preset < `file` < `overrides` < `fields`.

    Args:
        preset: A key of `PRESETS`.
        file: YAML with the same tree as `RunConfig`; may name another preset.
        overrides: ``dotted.key=value``, the value read as YAML.
        fields: Top-level fields; None leaves a field alone.

    Raises:
        ConfigError: Unreadable file, unknown key, value out of range, switch not implemented.
        UnknownName: No such preset.
    """
    from_file = _read(file) if file else {}
    preset = str(from_file.get("preset", preset))
    if preset not in PRESETS:
        raise UnknownName("preset", preset, PRESETS)
    tree: dict[str, Any] = {"preset": preset}
    _merge(tree, PRESETS[preset])
    _merge(tree, from_file)
    for text in overrides:
        _merge(tree, _override(text))
    _merge(tree, {key: value for key, value in fields.items() if value is not None})
    return check_config(validated(tree))


def override(config: RunConfig, overrides: Sequence[str]) -> RunConfig:
    """A resolved configuration with some settings replaced; errors as `make_config`."""
    tree = config.tree()
    for text in overrides:
        _merge(tree, _override(text))
    return check_config(validated(tree))


def validated(tree: Mapping[str, Any]) -> RunConfig:
    """Validate a tree, with the first problem as a one-line `ConfigError`."""
    try:
        return RunConfig.model_validate(tree)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if first["type"] == "extra_forbidden":
            *parents, key = (str(part) for part in first["loc"])
            raise UnknownName("setting", ".".join([*parents, key]), _keys(parents)) from None
        raise ConfigError(first_problem("setting", error)) from None


def check_config(config: RunConfig) -> RunConfig:
    """Refuse what this version does not carry out; return the configuration unchanged."""
    for switch, done in IMPLEMENTED.items():
        value = getattr(config.switches, switch)
        if value not in done:
            raise ConfigError(
                f"switches.{switch} = {value!r} is not implemented in this version; "
                f"use {' or '.join(repr(name) for name in done)}."
            )
    return config


def from_file(path: Path) -> RunConfig:
    """Read a resolved ``config.yaml`` of a run folder."""
    return check_config(validated(_read(path)))


def _read(path: Path) -> dict[str, Any]:
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error.strerror}.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{path} must hold a mapping such as 'rounds: 3'; got {data!r:.60}.")
    return data


def _override(text: str) -> dict[str, Any]:
    key, found, value = text.partition("=")
    if not found or not key.strip():
        raise ConfigError(f"--set {text!r}: write key=value, for example rounds=2.")
    try:
        tree: Any = yaml.safe_load(value)
    except yaml.YAMLError:
        raise ConfigError(f"--set {text!r}: the value is not valid YAML.") from None
    for part in reversed(key.strip().split(".")):
        tree = {part: tree}
    result: dict[str, Any] = tree
    return result


def _merge(tree: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, Mapping) and isinstance(tree.get(key, {}), dict):
            inner = dict(tree.get(key, {}))
            _merge(inner, value)
            tree[key] = inner
        else:
            tree[key] = value


def _keys(parents: Sequence[str]) -> list[str]:
    model: Any = RunConfig
    for part in parents:
        model = model.model_fields[part].annotation
    prefix = ".".join([*parents, ""]) if parents else ""
    return [prefix + key for key in model.model_fields]
