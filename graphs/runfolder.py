"""The run folder: its paths, its lock, its versions and its marks of progress."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coda.graphs.config import PRESETS, ConfigError, RunConfig, from_file
from coda.sim.errors import CodaError

RUN_SCHEMA = 1
"""Version of the run folder; a folder of another version is refused."""

_PACKAGES = (
    "coda-robotics",
    "langgraph",
    "langchain-core",
    "mujoco",
    "robosuite",
    "numpy",
    "torch",
)


class RunError(CodaError):
    """A run cannot be made, found or resumed."""


@dataclass(frozen=True)
class RunFolder:
    """Paths inside ``runs/<name>/``."""

    path: Path

    @property
    def db(self) -> Path:
        """Facts of the run: SQLite."""
        return self.path / "run.db"

    @property
    def checkpoints(self) -> Path:
        """Checkpoints of the graph: SQLite."""
        return self.path / "checkpoints.db"

    @property
    def config(self) -> Path:
        """Resolved configuration."""
        return self.path / "config.yaml"

    @property
    def policies(self) -> Path:
        """Policies by round."""
        return self.path / "policies"

    @property
    def training(self) -> Path:
        """What each round trained on: programs, potentials and weights."""
        return self.path / "training"

    @property
    def replay(self) -> Path:
        """Replay buffers by round."""
        return self.path / "replay"

    @property
    def videos(self) -> Path:
        """Rollout films."""
        return self.path / "videos"

    @property
    def chroma(self) -> Path:
        """Vector store."""
        return self.path / "chroma"

    @property
    def report(self) -> Path:
        """The report."""
        return self.path / "report.html"

    @property
    def result(self) -> Path:
        """Final result; exists only when the run is finished."""
        return self.path / "result.json"

    @property
    def finished(self) -> bool:
        """Whether the run came to its end."""
        return self.result.exists()

    @property
    def reported(self) -> bool:
        """Whether the report is of the finished run."""
        return (
            self.finished
            and self.report.exists()
            and self.report.stat().st_mtime_ns >= self.result.stat().st_mtime_ns
        )

    def read_config(self) -> RunConfig:
        """The resolved configuration, with the folder's present place and name."""
        config = from_file(self.config)
        return config.model_copy(update={"name": self.path.name, "runs_dir": str(self.path.parent)})


def write_atomic(path: Path, text: str) -> None:
    """Write a text file so that a kill leaves the old one or the new one, never half of it."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def create(config: RunConfig) -> tuple[RunFolder, RunConfig]:
    """Make the folder of a new run and write its configuration and versions.

    Raises:
        RunError: The folder exists already or cannot be written.
    """
    root = Path(config.runs_dir)
    try:
        root.mkdir(parents=True, exist_ok=True)
        name = config.name or _free_name(root, config.preset)
        folder = RunFolder(root / name)
        if folder.config.exists():
            raise RunError(
                f"{folder.path} exists already; resume it with "
                f"'coda run --resume --name {name}' or choose another --name."
            )
        for sub in (folder.policies, folder.replay, folder.videos):
            sub.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(
            f"cannot write the run folder in {root}: {error.strerror}; choose another --runs-dir."
        ) from None
    config = config.model_copy(update={"name": name})
    write_atomic(folder.path / "versions.json", json.dumps(versions(), indent=1) + "\n")
    write_atomic(folder.config, config.to_yaml())
    return folder, config


def amend(folder: RunFolder, config: RunConfig) -> None:
    """Replace the configuration of a run that is to be resumed."""
    write_atomic(folder.config, config.to_yaml())


def open_folder(path: Path) -> RunFolder:
    """Open an existing run folder, or say in one line why it is none.

    Raises:
        RunError: Missing, not a run folder, or of another version.
    """
    folder = RunFolder(path)
    if not folder.config.is_file():
        raise RunError(f"{path} is not a run folder (no config.yaml); 'coda run' makes one.")
    try:
        found = json.loads((path / "versions.json").read_text(encoding="utf-8"))["run_schema"]
    except (OSError, ValueError, KeyError, TypeError):
        raise RunError(f"{path}/versions.json is missing or damaged; start a new run.") from None
    if found != RUN_SCHEMA:
        raise RunError(
            f"{path} has run schema {found}; this version reads {RUN_SCHEMA}. Use the version of "
            "Coda that wrote it (see its versions.json), or start a new run."
        )
    return folder


def latest(runs_dir: Path, *, unfinished: bool = False) -> RunFolder:
    """The run folder that was written to last; with `unfinished`, among those not at their end.

    Raises:
        RunError: There is none.
    """
    found = [
        RunFolder(path.parent)
        for path in runs_dir.glob("*/config.yaml")
        if not (unfinished and RunFolder(path.parent).finished)
    ]
    if not found:
        kind = "unfinished run" if unfinished else "run"
        raise RunError(f"no {kind} in {runs_dir}; start one with 'coda run'.")
    return max(found, key=lambda f: (_touched(f), f.path.name))


def find(runs_dir: Path, name: str | None, *, unfinished: bool = False) -> RunFolder:
    """A run by name or path, or the latest one."""
    if name is None:
        return open_folder(latest(runs_dir, unfinished=unfinished).path)
    as_path = Path(name)
    return open_folder(as_path if (as_path / "config.yaml").is_file() else runs_dir / name)


@contextlib.contextmanager
def locked(folder: RunFolder) -> Iterator[None]:
    """Hold the run's lock; the operating system frees it however the process ends.

    Raises:
        RunError: Another process works on this run.
    """
    with (folder.path / "lock").open("a+", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            owner = handle.read().strip() or "another process"
            raise RunError(
                f"{folder.path} is being run by {owner}; wait for it or stop it first."
            ) from None
        handle.seek(0)
        handle.truncate()
        handle.write(f"process {os.getpid()}")
        handle.flush()
        yield


def versions() -> dict[str, Any]:
    """Versions that a result depends on."""
    packages = {}
    for name in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            packages[name] = importlib.metadata.version(name)
    return {
        "run_schema": RUN_SCHEMA,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "git_commit": _git_commit(),
        "packages": packages,
    }


def _git_commit() -> str | None:
    """Commit of the checkout that this module lies in; None outside a checkout."""
    here = Path(__file__).resolve().parents[1]
    if not (here / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=40"],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def _free_name(root: Path, preset: str) -> str:
    if preset not in PRESETS:
        raise ConfigError(f"preset = {preset!r} of the configuration is unknown.")
    taken = {path.parent.name for path in root.glob("*/config.yaml")}
    return next(name for i in range(1, len(taken) + 2) if (name := f"{preset}-{i}") not in taken)


def _touched(folder: RunFolder) -> float:
    """When the run was last written to; only used to guess which run is meant."""
    paths = (folder.db, folder.path / "run.db-wal", folder.config)
    return max(path.stat().st_mtime for path in paths if path.exists())
