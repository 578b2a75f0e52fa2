"""Configurations: presets, files, overrides, and one clear line for every mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from coda.graphs.config import (
    IMPLEMENTED,
    PRESETS,
    ConfigError,
    RunConfig,
    from_file,
    make_config,
)
from coda.graphs.settings import Switches
from coda.sim.errors import CodaError, UnknownName


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_valid_and_reads_back_from_its_file(preset: str, tmp_path: Path) -> None:
    config = make_config(preset, name="a")
    path = tmp_path / "config.yaml"
    path.write_text(config.to_yaml(), encoding="utf-8")
    assert from_file(path) == config


def test_overrides_win_over_the_file_and_the_file_over_the_preset(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("preset: debug\nrounds: 5\nbuild: {scenes: 9}\n", encoding="utf-8")
    config = make_config(file=path, overrides=["build.programs=7", "rounds=6"], seed=3)
    assert (config.preset, config.rounds, config.seed) == ("debug", 6, 3)
    assert (config.build.programs, config.build.scenes) == (7, 9)
    assert config.training == make_config("debug").training


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["rounds"], "write key=value"),
        (["round=3"], "Did you mean 'rounds'?"),
        (["training.update=3"], "Did you mean 'training.updates'?"),
        (["rounds=-1"], "rounds"),
        (["rounds=many"], "rounds"),
        (["build=3"], "build"),
        (["measuring.band=[0.9, 0.1]"], "the first must be the smaller"),
        (["max_steps=100"], "multiple of the chunk"),
        (["name=../elsewhere"], "letters, digits"),
        (["rounds={"], "not valid YAML"),
        (["learner.signal=sparse"], "set switches.signal"),
        (["switches.signal=frozen-actor"], "trains no actor that a lookahead could teach"),
        (["policy.widht=3"], "Did you mean 'policy.width'?"),
        (["switches.memory=none"], "switches.memory = 'none' is not implemented"),
        (["switches.memory=nothing"], "'full'"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_setting(overrides: list[str], words: str) -> None:
    with pytest.raises(CodaError) as caught:
        make_config("debug", overrides=overrides)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("signal", IMPLEMENTED["signal"])
def test_every_signal_runs_without_lookahead_and_all_but_the_frozen_actors_with_it(
    signal: str,
) -> None:
    chosen = f"switches.signal={signal}"
    assert make_config("debug", overrides=[chosen, "training.episodes=0"]).training.episodes == 0
    if signal != "frozen-actor":
        assert make_config("debug", overrides=[chosen]).training.episodes > 0


def test_an_unknown_preset_offers_the_nearest() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'laptop'"):
        make_config("labtop")


@pytest.mark.parametrize(
    ("text", "words"), [("- 1", "must hold a mapping"), ("a: [", "not valid YAML"), ("", "mapping")]
)
def test_a_bad_file_is_one_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=words):
        make_config(file=path)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the configuration"):
        make_config(file=tmp_path / "none.yaml")


def test_every_switch_says_what_is_implemented_and_its_default_is() -> None:
    fields = Switches.model_fields
    assert set(IMPLEMENTED) == set(fields)
    for name, done in IMPLEMENTED.items():
        allowed: Any = get_args(fields[name].annotation)
        assert set(done) <= set(allowed)
        assert fields[name].default in done


def test_each_role_may_have_its_own_model() -> None:
    models = make_config("debug", overrides=["models.critic=openai:x"]).models
    assert models.for_role("critic") == "openai:x"
    assert models.for_role("scene-builder") == "offline"


def test_a_configuration_is_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        RunConfig().rounds = 4
