"""The command line: help, versions, the drawing, and one line for every mistake."""

from __future__ import annotations

import errno
import importlib.metadata
import sqlite3
from pathlib import Path

import pytest
import typer

from coda.graphs.cli import app, main
from coda.graphs.config import make_config
from coda.graphs.runfolder import create

COMMANDS = ("run", "chat", "trace", "report", "potential", "doctor", "graph", "version")


def coda(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """Call the entry point; returns the exit status."""
    monkeypatch.setattr("sys.argv", ["coda", *words])
    with pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


def test_help_names_every_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert coda(monkeypatch, "--help") == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help_with_a_text_for_every_option(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    group = typer.main.get_command(app)
    command = group.get_command(None, name)  # type: ignore[attr-defined]
    assert command.help
    assert all(getattr(option, "help", "") for option in command.params)
    assert coda(monkeypatch, name, "--help") == 0
    assert "".join(command.help.split()) in "".join(capsys.readouterr().out.split())


def test_no_command_shows_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    coda(monkeypatch)
    assert "Commands" in "".join(capsys.readouterr())


def test_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert coda(monkeypatch, "version") == 0
    assert capsys.readouterr().out.strip() == importlib.metadata.version("coda-robotics")


def test_the_drawing_is_mermaid(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert coda(monkeypatch, "graph") == 0
    assert "graph TD" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "--preset", "labtop"], "Did you mean 'laptop'"),
        (["run", "--set", "training.update=3"], "Did you mean 'training.updates'"),
        (["run", "--set", "family=stack"], "no task family named 'stack'"),
        (["run", "--set", "switches.data=uniform"], "not implemented in this version"),
        (["run", "--config", "none.yaml"], "cannot read the configuration none.yaml"),
        (["run", "--model", "openai:gpt-5.5"], "OPENAI_API_KEY"),
        (["run", "--model", "opnai:x"], "no model named 'opnai:x'"),
        (["run", "--memory", "nowhere"], "is not a run folder"),
        (["run", "--runs-dir", "/proc/none"], "choose another --runs-dir"),
        (["run", "--resume"], "no unfinished run in runs"),
        (["run", "--resume", "--name", "x"], "is not a run folder"),
        (["run", "--resume", "--rounds", "3"], "leave out --rounds"),
        (["chat"], "no run in runs; start one with 'coda run'"),
        (["trace", "x"], "is not a run folder"),
        (["report", "x"], "is not a run folder"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_line_and_leaves_nothing_behind(
    words: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert coda(monkeypatch, *words) == 2
    shown = capsys.readouterr()
    assert not shown.out
    assert shown.err.startswith("coda: ")
    assert says in shown.err
    assert shown.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_resumed_run_keeps_its_settings_but_may_get_a_larger_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from coda.graphs.commands import with_allowances

    _, config = create(make_config("debug", runs_dir=str(tmp_path), name="a"))
    words = ("run", "--resume", "--runs-dir", str(tmp_path), "--set", "seed=3")
    assert coda(monkeypatch, *words) == 2
    assert "keeps its settings" in capsys.readouterr().err
    raised = with_allowances(config, ["models.max_tokens=5"])
    assert raised.models.max_tokens == 5
    assert raised.model_copy(update={"models": config.models}) == config


def test_a_bad_gl_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MUJOCO_GL", "foo")
    assert coda(monkeypatch, "version") == 2
    assert "MUJOCO_GL = 'foo'; allowed: egl" in capsys.readouterr().err


@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, "No space left"), sqlite3.OperationalError("database or disk is full")],
    ids=["file", "database"],
)
def test_a_full_disk_is_one_line(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full() -> None:
        raise error

    monkeypatch.setattr("coda.graphs.cli.app", full)
    assert coda(monkeypatch) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("coda: the disk is full; free some space and go on with")
    assert shown.count("\n") == 1
