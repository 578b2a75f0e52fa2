"""What a round's nodes hand on through the run folder: programs with their scenes, and rollouts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from coda.graphs.runfolder import RunError, write_atomic
from coda.graphs.state import Slot
from coda.sim.program import GenerationProgram
from coda.sim.scene import Scene


@dataclass(frozen=True, kw_only=True)
class BuiltProgram:
    """One accepted generation program of a round and its accepted scenes."""

    program_id: str
    """``r01:p02``."""
    slot: Slot
    program: GenerationProgram
    scenes: tuple[Scene, ...]
    fallback: bool = False
    """Whether a rule wrote it because the agent gave no acceptable answer."""


def built_path(run_dir: Path, round_: int) -> Path:
    """File of a round's programs and scenes."""
    return run_dir / "programs" / f"r{round_:02d}.json"


def rollouts_path(run_dir: Path, round_: int) -> Path:
    """File of a round's rollouts."""
    return run_dir / "rollouts" / f"r{round_:02d}.npz"


def save_built(path: Path, built: Sequence[BuiltProgram]) -> None:
    """Write a round's programs and scenes."""
    path.parent.mkdir(exist_ok=True)
    data = [
        {
            "program_id": item.program_id,
            "slot": item.slot,
            "program": item.program.model_dump(mode="json"),
            "scenes": [scene.model_dump(mode="json") for scene in item.scenes],
            "fallback": item.fallback,
        }
        for item in built
    ]
    write_atomic(path, json.dumps(data, sort_keys=True))


def load_built(path: Path) -> list[BuiltProgram]:
    """Read what `save_built` wrote. Raises `RunError` in one line."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"cannot read the round's programs in {path} ({error}).") from None
    return [
        BuiltProgram(
            program_id=item["program_id"],
            slot=item["slot"],
            program=GenerationProgram.model_validate(item["program"]),
            scenes=tuple(Scene.model_validate(scene) for scene in item["scenes"]),
            fallback=item["fallback"],
        )
        for item in data
    ]


def save_scenes(path: Path, scenes: Sequence[Scene]) -> None:
    """Write a list of scenes, e.g. the probe scenes of a mode."""
    path.parent.mkdir(exist_ok=True)
    write_atomic(
        path, json.dumps([scene.model_dump(mode="json") for scene in scenes], sort_keys=True)
    )


def load_scenes(path: Path) -> list[Scene]:
    """Read what `save_scenes` wrote."""
    return [Scene.model_validate(item) for item in json.loads(path.read_text(encoding="utf-8"))]
