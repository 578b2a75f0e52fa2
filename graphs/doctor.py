"""`coda doctor`: is this machine ready, and if not, what is the next step?"""

from __future__ import annotations

import math
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from rich.console import Console
from rich.text import Text

from coda.sim.errors import CodaError

Status = Literal["ok", "warn", "fail"]
STYLES: Mapping[Status, str] = {"ok": "green", "warn": "yellow", "fail": "bold red"}

DISTRIBUTION = "coda-robotics"
PAIR = {"robosuite": "1.4.0", "mujoco": "3.3.7"}
"""The two packages that only work in these versions together."""
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")
MIN_FREE_GB = 2.0
"""Room for a few runs; below a tenth of it nothing can be written safely."""
INSTALL = 'pip install -c constraints.txt -e ".[dev]"'
GL_HINT = "for pictures install one: apt-get install libegl1 libosmesa6"

GL_PROBE = """
import mujoco
model = mujoco.MjModel.from_xml_string("<mujoco><worldbody><geom size='1'/></worldbody></mujoco>")
with mujoco.Renderer(model, 16, 16) as renderer:
    renderer.update_scene(mujoco.MjData(model))
    print(renderer.render().shape)
"""


@dataclass(frozen=True)
class Check:
    """One line of the report."""

    name: str
    status: Status
    detail: str
    remedy: str = ""
    """The next step; empty when nothing is to be done."""


def check(runs: Path = Path("runs")) -> list[Check]:
    """Check versions, simulator, OpenGL, keys, memory, disk, `runs` folder and cores."""
    return [
        check_python(sys.version_info[:3]),
        check_packages(),
        check_pair(),
        check_gl(),
        check_keys(os.environ),
        check_embedding(),
        check_store(),
        check_disk(shutil.disk_usage(_existing(runs)).free / 1e9),
        check_runs(runs),
        check_cores(),
    ]


def print_checks(checks: Sequence[Check], console: Console | None = None) -> int:
    """Print one line a check; exit status 1 if any failed, else 0."""
    out = console or Console(highlight=False, emoji=False, markup=False)
    width = max(len(item.name) for item in checks)
    for item in checks:
        line = Text.assemble(
            (f"{item.status:<5}", STYLES[item.status]), f"{item.name:<{width}}  {item.detail}"
        )
        if item.remedy:
            line.append(f" → {item.remedy}", style="bold")
        out.print(line, soft_wrap=True)
    failed = sum(item.status == "fail" for item in checks)
    warned = sum(item.status == "warn" for item in checks)
    if failed:
        out.print(f"{failed} of {len(checks)} checks failed.", style="bold red")
    else:
        out.print(f"Ready{f', {warned} to look at' if warned else ''}.", style="bold green")
    return 1 if failed else 0


def check_python(version: tuple[int, ...]) -> Check:
    """Python 3.11 or newer."""
    text = ".".join(map(str, version))
    if version < (3, 11):
        return Check("python", "fail", f"{text}; needs 3.11 or newer", "install a newer Python")
    return Check("python", "ok", f"{text} at {sys.executable}")


def tried_versions() -> dict[str, str]:
    """Pinned versions of the checkout's `constraints.txt`; empty in an installed wheel."""
    path = Path(__file__).resolve().parents[1] / "constraints.txt"
    if not path.is_file():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pairs}


def check_packages() -> Check:
    """Every direct dependency is there, in an allowed version, preferably the tried one."""
    try:
        declared = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return Check("packages", "fail", f"{DISTRIBUTION} is not installed", INSTALL)
    tried = tried_versions()
    bad: list[str] = []
    untried: list[str] = []
    wanted = [Requirement(text) for text in declared]
    wanted = [item for item in wanted if item.marker is None or item.marker.evaluate({"extra": ""})]
    for item in wanted:
        try:
            have = metadata.version(item.name)
        except metadata.PackageNotFoundError:
            bad.append(f"{item.name} is missing")
            continue
        pinned = tried.get(canonicalize_name(item.name))
        if not item.specifier.contains(have, prereleases=True):
            bad.append(f"{item.name} {have} (needs {item.specifier})")
        elif pinned is not None and have.split("+")[0] != pinned:
            untried.append(f"{item.name} {have} (tried: {pinned})")
    if bad:
        return Check("packages", "fail", "; ".join(bad), INSTALL)
    if untried:
        return Check("packages", "warn", "; ".join(untried), f"if it misbehaves: {INSTALL}")
    which = "at the tried versions" if tried else "in allowed versions"
    return Check("packages", "ok", f"{len(wanted)} {which}")


def check_pair() -> Check:
    """robosuite and MuJoCo are the pair that works together."""
    have: dict[str, str] = {}
    for name in PAIR:
        try:
            have[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            have[name] = "missing"
    text = " + ".join(f"{name} {version}" for name, version in have.items())
    if have != PAIR:
        want = " ".join(f"{name}=={version}" for name, version in PAIR.items())
        return Check("simulator", "fail", text, f"pip install {want}")
    return Check("simulator", "ok", text)


def check_gl() -> Check:
    """Off-screen OpenGL: a tiny scene is drawn with each backend, in its own process."""
    working = [name for name in ("egl", "osmesa") if _draws(name)]
    chosen = os.environ.get("MUJOCO_GL")
    if not working:
        return Check("opengl", "warn", "neither egl nor osmesa draws: no pictures", GL_HINT)
    if chosen and chosen not in working:
        remedy = f"unset it or set MUJOCO_GL={working[0]}"
        return Check("opengl", "warn", f"MUJOCO_GL={chosen} does not draw here", remedy)
    return Check("opengl", "ok", f"{' and '.join(working)} draw")


def _draws(backend: str) -> bool:
    environment = {**os.environ, "MUJOCO_GL": backend, "PYOPENGL_PLATFORM": backend}
    try:
        run = subprocess.run(
            [sys.executable, "-c", GL_PROBE],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return run.returncode == 0 and "(16, 16, 3)" in run.stdout


def check_keys(environment: Mapping[str, str]) -> Check:
    """Which model keys are set; never their values."""
    present = [name for name in KEYS if environment.get(name)]
    base = " · OPENAI_BASE_URL is set" if environment.get("OPENAI_BASE_URL") else ""
    if not present:
        detail = "none set: `--model offline` (rules) needs none; openai: and anthropic: do"
        return Check("keys", "ok", detail + base)
    return Check("keys", "ok", f"{' and '.join(present)} set{base}")


def check_embedding() -> Check:
    """The packaged sentence-embedding model and its vocabulary load and embed."""

    def embed() -> str:
        from coda.policy.text import TextEncoder

        rows = TextEncoder().encode(["the gripper is turned the wrong way", "a red cube"])
        if rows.shape != (2, 384) or not math.isfinite(float(rows.sum())):
            raise CodaError(f"the embedding has shape {rows.shape}, expected (2, 384)")
        return f"all-MiniLM-L6-v2 (int8) embeds, {rows.shape[1]} dimensions"

    return _attempt("embedding", embed, INSTALL)


def check_store() -> Check:
    """SQLite is new enough for the run's facts, and Chroma for the memory's vectors."""

    def load() -> str:
        import chromadb

        if sqlite3.sqlite_version_info < (3, 35):
            raise CodaError(f"SQLite {sqlite3.sqlite_version} is older than 3.35")
        return f"SQLite {sqlite3.sqlite_version}, Chroma {chromadb.__version__}"

    return _attempt("memory", load, INSTALL)


def _attempt(name: str, action: Callable[[], str], remedy: str) -> Check:
    try:
        return Check(name, "ok", action())
    except (CodaError, ImportError, OSError, RuntimeError, ValueError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        return Check(name, "fail", first[:200], remedy)


def check_disk(free_gb: float) -> Check:
    """Free space where runs are written [GB]."""
    text = f"{free_gb:.1f} GB free"
    if free_gb < MIN_FREE_GB / 10:
        return Check("disk", "fail", text, "make room: a run writes about 0.1 GB")
    if free_gb < MIN_FREE_GB:
        return Check("disk", "warn", text, f"keep {MIN_FREE_GB:g} GB free for a few runs")
    return Check("disk", "ok", text)


def _existing(path: Path) -> Path:
    """`path`, or its nearest parent that exists."""
    full = path.absolute()
    return next(parent for parent in (full, *full.parents) if parent.exists())


def check_runs(runs: Path) -> Check:
    """A file can be written where run folders go; leaves nothing behind."""
    place = _existing(runs)
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        remedy = "choose another folder or mend its rights"
        return Check("runs folder", "fail", f"{place}: {error.strerror}", remedy)
    return Check("runs folder", "ok", f"{runs.absolute()} can be written")


def check_cores() -> Check:
    """Cores that this process may use, and torch's threads."""

    def count() -> str:
        import psutil
        import torch

        from coda.policy.device import resolve_device

        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        memory_gb = psutil.virtual_memory().available / 1e9
        device = f"device=auto is {resolve_device('auto').said}"
        threads = torch.get_num_threads()
        return f"{cores} cores, torch threads {threads}, {memory_gb:.1f} GB memory free, {device}"

    return _attempt("cores", count, INSTALL)
