"""Which potential and which scenes ``coda potential`` is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from coda.graphs.runfolder import find
from coda.memory.rows import ModeVersionRow
from coda.memory.rundb import RunDb
from coda.policy.potential_base import base_program
from coda.policy.potential_read import parse_training_program
from coda.policy.program import TrainingProgram
from coda.sim.errors import CodaError, UnknownName
from coda.sim.plain_data import read_json, read_yaml
from coda.sim.program import GenerationProgram, Issue
from coda.sim.sampling import sample_scene
from coda.sim.scene import Scene
from coda.sim.sources import read_source
from coda.sim.splits import Splits

MAX_SCENES = 8
"""Scenes along which a potential is checked, at most."""
DRAWN = 4
"""Scenes that are drawn of a mode's generation program."""
MAX_BYTES = 200_000
"""Longest file of a training program."""


class PotentialError(CodaError):
    """A potential cannot be shown."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A potential, and the scenes to show and check it in."""

    title: str
    program: TrainingProgram | Sequence[Issue]
    """The potential, or what is wrong with its form."""
    names: tuple[str, ...] = ()
    scenes: tuple[Scene, ...] = ()


class Wanted(Protocol):
    """What `find_subject` reads of the command's options."""

    @property
    def source(self) -> str | None: ...
    @property
    def program(self) -> Path | None: ...
    @property
    def runs_dir(self) -> Path: ...
    @property
    def run(self) -> str | None: ...
    @property
    def mode(self) -> str | None: ...
    @property
    def version(self) -> int | None: ...
    @property
    def seed(self) -> int: ...


def find_subject(wanted: Wanted) -> Subject:
    """What the options name.

    Raises:
        CodaError: They contradict each other, or what they name does not exist.
    """
    if wanted.mode is not None:
        if wanted.source is not None or wanted.program is not None:
            raise PotentialError("--mode takes scenes and potential of a run; leave out SOURCE and "
                                 "--program.")  # fmt: skip
        return _of_mode(wanted)
    if wanted.run is not None or wanted.version is not None:
        raise PotentialError("--run and --version need --mode, e.g. --mode m001.")
    given = None if wanted.program is None else _read(wanted.program)
    title = "base potential" if wanted.program is None else str(wanted.program)
    if isinstance(given, tuple):
        return Subject(title=title, program=given)
    source = wanted.source or (given.family if given else None)
    if source is None:
        raise PotentialError(
            "nothing to show; name a SOURCE such as pick-place or ood:3, a --program, or a --mode."
        )
    scenes = _scenes(source, wanted.seed)
    family = scenes[0][1].tau.family
    program = base_program(family) if given is None else given
    if program.family != family:
        raise PotentialError(
            f"{title} is a potential of family {program.family!r} and {source} is of {family!r}; "
            "name a SOURCE of its family."
        )
    return Subject(
        title=title,
        program=program,
        names=tuple(name for name, _ in scenes),
        scenes=tuple(scene for _, scene in scenes),
    )


def _scenes(text: str, seed: int) -> tuple[tuple[str, Scene], ...]:
    """Scenes of a source with their names; to a task's seed scene, draws of its seed range."""
    source = read_source(text)
    scenes = source.valid_scenes(seed=seed, count=DRAWN)[:MAX_SCENES]
    if source.kind != "family":
        return scenes
    tau = scenes[0][1].tau
    near = Splits(tau.family).seed_program(tau.task)
    return (*scenes, *_drawn(near, DRAWN - 1, seed))


def _drawn(program: GenerationProgram, count: int, seed: int) -> tuple[tuple[str, Scene], ...]:
    return tuple(
        (f"{program.name} #{k}", sample_scene(program, np.random.default_rng([seed, k])))
        for k in range(count)
    )


def _read(path: Path) -> TrainingProgram | tuple[Issue, ...]:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise PotentialError(f"{path} is longer than {MAX_BYTES} bytes; name a program file.")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PotentialError(f"no file {str(path)!r}; check the path of --program.") from None
    except UnicodeDecodeError:
        raise PotentialError(f"{path} is not text; expected a JSON or YAML file.") from None
    except OSError as error:
        raise PotentialError(f"cannot read {path}: {error.strerror}.") from None
    data: Any = (
        read_json(text, str(path)) if path.suffix.lower() == ".json" else read_yaml(text, str(path))
    )
    if not isinstance(data, dict):
        raise PotentialError(f"{path} holds {data!r:.40}; expected a training program.")
    program = parse_training_program(data)
    if isinstance(program, TrainingProgram):
        base_program(program.family)  # a family that does not exist is one line
    return program


def _of_mode(wanted: Wanted) -> Subject:
    """A version of a mode's potential, on scenes of its generation program."""
    folder = find(wanted.runs_dir, wanted.run)
    with RunDb(folder.db, read_only=True) as db:
        rows = db.rows(ModeVersionRow)
    modes = [row.mode for row in rows if row.mode_id == wanted.mode]
    if not modes:
        known = sorted({row.mode_id for row in rows})
        if not known:
            raise PotentialError(f"{folder.path} has no modes yet; name a SOURCE instead.")
        raise UnknownName(f"mode in {folder.path}", str(wanted.mode), known)
    mode = modes[-1]
    versions = {m.phi_version: m.phi for m in modes if m.phi is not None}
    if wanted.version is not None and wanted.version not in versions:
        known_versions = ", ".join(f"{v}" for v in sorted(versions)) or "none"
        raise PotentialError(
            f"{mode.mode_id} has no potential of version {wanted.version}; versions: "
            f"{known_versions}."
        )
    version = max(versions, default=0) if wanted.version is None else wanted.version
    phi = versions.get(version)
    program = base_program(mode.family) if phi is None else phi
    title = f"{mode.mode_id} {mode.title}, " + (
        "no potential of its own: the family's" if phi is None else f"potential v{version}"
    )
    drawn = _drawn(mode.omega, DRAWN, wanted.seed)
    return Subject(
        title=title,
        program=program,
        names=tuple(name for name, _ in drawn),
        scenes=tuple(scene for _, scene in drawn),
    )
