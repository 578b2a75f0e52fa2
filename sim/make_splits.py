"""Make the frozen evaluation files, or check that they are what their rule gives.

python -m coda.sim.make_splits                    write sim/data/<family>.{in,ood}.json
python -m coda.sim.make_splits --check            derive them again and compare
python -m coda.sim.make_splits --family NAME      one family only, may be repeated
python -m coda.sim.make_splits --salt             print the first salt that fits each family
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np

from coda.sim.errors import CodaError, SceneError
from coda.sim.families import FAMILIES, Family, family
from coda.sim.gate import Gate
from coda.sim.roles import AXES, Axis
from coda.sim.salts import first_salt
from coda.sim.sampling import Rejected, sample_where
from coda.sim.scene import Scene
from coda.sim.splits import (
    COMBINED,
    FILE_VERSION,
    EvaluationName,
    Splits,
    content_digest,
    file_name,
    rule,
)

GENERATOR_VERSION = 3
SEED = 20_240_607
SCENES_PER_AXIS = 20
COMBINED_SCENES = 64
COMBINED_AXES = 3
"""Axes held out together in a combined scene."""
TRIPLE_STRIDE = 11
"""Step through the 35 triples of axes; coprime to 35, so that every triple has its turn."""
IN_SCENES = 64
MAX_ATTEMPTS = 40
"""Draws of one slot that the gate may reject before the maker gives up."""

Draw = Callable[[np.random.Generator], Scene]


def tasks_with(item: Family, axes: Sequence[Axis]) -> tuple[str, ...]:
    """Tasks that scenes with these axes held out can have: their target has a held-out asset."""
    if "asset" not in axes:
        return tuple(item.tasks)
    held = set(item.held_out_assets)
    return tuple(name for name, task in item.tasks.items() if held & set(task.assets["target"]))


def in_slots(splits: Splits) -> list[tuple[str, Draw]]:
    """Label and drawing rule of every scene of the *in* file."""
    guard = {axis: False for axis in AXES}
    tasks = tuple(family(splits.family).tasks)

    def draw(slot: int) -> Draw:
        task = tasks[slot // 4 % len(tasks)]

        def one(rng: np.random.Generator) -> Scene:
            if slot % 4 == 0:
                wide: tuple[Axis, ...] = ()
            elif slot % 4 == 3:
                wide = AXES
            else:
                wide = tuple(axis for axis in AXES if rng.random() < 0.5)
            return sample_where(splits.program(wide, task=task), rng, splits=splits, want=guard)

        return one

    return [("in", draw(slot)) for slot in range(IN_SCENES)]


def ood_slots(splits: Splits) -> list[tuple[str, Draw]]:
    """Label and drawing rule of every scene of the *ood* file."""
    item = family(splits.family)

    def draw(wide: Sequence[Axis], slot: int) -> Draw:
        tasks = tasks_with(item, wide)
        program = splits.program(wide, task=tasks[slot % len(tasks)])
        want = {axis: axis in wide for axis in AXES}
        return lambda rng: sample_where(program, rng, splits=splits, want=want)

    slots: list[tuple[str, Draw]] = []
    for axis in AXES:
        slots += [(axis, draw((axis,), len(slots) + i)) for i in range(SCENES_PER_AXIS)]
    triples = list(itertools.combinations(AXES, COMBINED_AXES))
    for slot in range(COMBINED_SCENES):
        slots.append((COMBINED, draw(triples[slot * TRIPLE_STRIDE % len(triples)], slot)))
    return slots


def _fill(slots: Sequence[tuple[str, Draw]], stream: Sequence[int], gate: Gate) -> list[Scene]:
    """Draw every slot until the gate accepts a scene; slot and attempt fix the random stream."""
    done: dict[int, Scene] = {}
    refused: dict[int, str] = {}
    for attempt in range(MAX_ATTEMPTS):
        todo = [slot for slot in range(len(slots)) if slot not in done]
        if not todo:
            return [done[slot] for slot in range(len(slots))]
        drawn: dict[int, Scene] = {}
        for slot in todo:
            rng = np.random.default_rng([SEED, *stream, slot, attempt])
            try:
                drawn[slot] = slots[slot][1](rng)
            except Rejected as error:
                refused[slot] = error.issues[0].line()
        reports = gate.check(list(drawn.values()))
        for slot, report in zip(drawn, reports, strict=True):
            if report.accepted and report.scene is not None:
                done[slot] = report.scene
            elif report.issues:
                refused[slot] = report.issues[0].line()
    missing = {slots[slot][0]: why for slot, why in refused.items() if slot not in done}
    shown = "; ".join(f"{label} ({why})" for label, why in sorted(missing.items()))
    raise SceneError(
        f"the gate rejected every one of {MAX_ATTEMPTS} draws for {shown}; "
        "widen the cells or the reference program."
    )


def _stream(family_name: str, name: EvaluationName) -> tuple[int, int]:
    """Random stream of a file: of its family's name and its own number."""
    number = int.from_bytes(hashlib.sha256(family_name.encode()).digest()[:4], "big")
    return number, get_args(EvaluationName).index(name)


def derive(name: EvaluationName, family_name: str, *, threads: int = 1) -> dict[str, Any]:
    """The content of an evaluation file, from its rule."""
    splits = Splits(family=family_name)
    slots = in_slots(splits) if name == "in" else ood_slots(splits)
    scenes = _fill(slots, _stream(family_name, name), Gate(threads=threads))
    content: dict[str, Any] = {
        "file_version": FILE_VERSION,
        "generator_version": GENERATOR_VERSION,
        "family": family_name,
        "name": name,
        "seed": SEED,
        "rule": rule(family_name),
        "axis": [label for label, _ in slots],
        "scenes": [scene.model_dump(mode="json") for scene in scenes],
    }
    return {**content, "digest": content_digest(content)}


def to_text(content: dict[str, Any]) -> str:
    """JSON with one line a field and one line a scene."""
    lines = []
    for key, value in content.items():
        if key == "scenes":
            rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in value)
            lines.append(f'"scenes": [\n{rows}\n]')
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def check(name: EvaluationName, family_name: str, folder: Path, *, threads: int = 1) -> str | None:
    """None if the file on disk is what its rule gives, else what differs."""
    path = folder / file_name(name, family_name)
    if not path.is_file():
        return f"{path} does not exist"
    have = json.loads(path.read_text(encoding="utf-8"))
    want = derive(name, family_name, threads=threads)
    if have == want:
        return None
    keys = [key for key in want if have.get(key) != want[key]]
    return f"{path} differs from its rule in: {', '.join(keys)}"


def _make(name: EvaluationName, family_name: str, folder: Path, threads: int) -> str:
    """Write one file; what was written in words."""
    content = derive(name, family_name, threads=threads)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file_name(name, family_name)
    path.write_text(to_text(content), encoding="utf-8")
    return f"{path}: {len(content['scenes'])} scenes, digest {content['digest'][:16]}"


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; 0 if all is well, 1 if a file differs, 2 for an error of the user."""
    parser = argparse.ArgumentParser(
        prog="python -m coda.sim.make_splits",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--check", action="store_true", help="derive again and compare")
    parser.add_argument("--salt", action="store_true", help="print the first salt that fits")
    parser.add_argument("--family", action="append", help="one family only; may be repeated")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / "data")
    parser.add_argument("--threads", type=int, default=1, help="worker threads for physics")
    options = parser.parse_args(argv)
    status = 0
    try:
        for family_name in options.family or FAMILIES:
            family(family_name)
            if options.salt:
                print(first_salt(family_name))
                continue
            for name in get_args(EvaluationName):
                if options.check:
                    problem = check(name, family_name, options.folder, threads=options.threads)
                    print(problem or f"{file_name(name, family_name)}: as its rule gives it")
                    status = max(status, int(problem is not None))
                else:
                    print(_make(name, family_name, options.folder, options.threads), flush=True)
    except CodaError as error:
        print(f"coda: {error}", file=sys.stderr)
        return 2
    return status


if __name__ == "__main__":
    sys.exit(main())
