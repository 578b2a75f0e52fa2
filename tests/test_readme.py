"""The README: its commands exist with these options, its code runs, its drawing is the graph."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from coda.graphs.cli import app
from coda.graphs.coevolution import mermaid

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def _between(name: str) -> str:
    match = re.search(rf"<!-- {name}:begin -->\n(.*?)<!-- {name}:end -->", README, re.DOTALL)
    assert match is not None, f"README.md has no {name} markers"
    return match[1]


def _commands() -> list[str]:
    blocks = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    return [line.removeprefix("$ ") for line in lines]


def _coda_commands() -> dict[str, Any]:
    group: Any = typer.main.get_command(app)
    found: dict[str, Any] = group.commands
    return found


CODA = [line for line in _commands() if line.startswith("coda ")]
MENTIONED = sorted(set(re.findall(r"`coda ([a-z]+)", README)))


@pytest.mark.parametrize("line", CODA)
def test_a_command_is_understood(line: str) -> None:
    """Parse it as the command line would, without running it."""
    _, name, *arguments = shlex.split(line)
    commands = _coda_commands()
    assert name in commands, f"coda has no command {name!r}"
    context = commands[name].make_context(name, list(arguments))
    if isinstance(commands[name], typer.core.TyperGroup):
        name, command, arguments = commands[name].resolve_command(context, arguments)
        command.make_context(name, list(arguments))


@pytest.mark.parametrize("name", MENTIONED)
def test_a_mentioned_command_exists(name: str) -> None:
    assert name in _coda_commands()


def test_make_targets_exist_and_ci_uses_them() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    used = [line.split()[1] for line in _commands() if line.startswith("make ")]
    assert used == ["run", "test"]
    for target in used:
        assert re.search(rf"^{target}: setup$", makefile, re.MULTILINE)
        assert f"make --no-print-directory {target}" in ci


def test_the_drawing_is_the_graph() -> None:
    assert _between("graph") == f"```mermaid\n{mermaid().strip()}\n```\n"


def test_links_and_paths_exist() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    assert targets
    assert all((ROOT / target).exists() for target in targets if "://" not in target)


def test_the_gymnasium_example_runs(tmp_path: Path) -> None:
    code = re.search(r"```python\n(.*?)```", _between("gymnasium"), re.DOTALL)
    assert code is not None
    done = subprocess.run(
        [sys.executable, "-c", code[1]], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].startswith("False ")
    assert "AutoresetMode" in done.stdout


@pytest.mark.slow
def test_the_library_example_runs(tmp_path: Path) -> None:
    """As printed, but for the preset and the number of rounds."""
    code = re.sub(r"```(python)?\n?", "", _between("library"))
    assert '"laptop", seed=0, rounds=3' in code
    code = code.replace('"laptop", seed=0, rounds=3', '"debug", seed=0, rounds=1')
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "round 0: OOD success" in done.stdout
    assert (tmp_path / "runs" / "debug-1" / "report.html").stat().st_size > 20_000
