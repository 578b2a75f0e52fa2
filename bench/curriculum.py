"""Recorded curricula: what a run trained on, round by round, as one file that other trainings take.

Run ``python -m coda.bench.curriculum RUN FILE`` on a finished run. The file holds the generation
programs with their compiled potentials, and the settings of the start, which is fine-tuned anew
for every seed: the same seed gives the same start, so no weights need be kept.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from coda.graphs.runfolder import RunFolder
from coda.graphs.settings import Seeding
from coda.policy.config import LearnerConfig, PolicyConfig
from coda.policy.text import TextEncoder
from coda.sim.errors import CodaError
from coda.sim.families import family
from coda.sim.scene import first_problem
from coda.sim.splits import Splits
from coda.tools.targets_file import TargetsFile, read_targets
from coda.tools.training import SeedResult, seed_policy


class CurriculumError(CodaError):
    """A recorded curriculum cannot be made or read."""


class Curriculum(BaseModel):
    """Where trainings start, and what each round of them is about."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    family: str
    tasks: tuple[str, ...]
    seed: int
    """Of the run that it was recorded from."""
    seeding: Seeding
    policy: PolicyConfig
    backbone: str = "flow"
    learner: LearnerConfig
    rounds: Annotated[tuple[TargetsFile, ...], Field(min_length=1)]

    def start(self, text: TextEncoder, seed: int, *, threads: int = 1) -> SeedResult:
        """Demonstrations of the narrow seed range and a policy fine-tuned on them.

        Raises `TrainingError` where the planner solves too few scenes.
        """
        splits = Splits(family=self.family)
        return seed_policy(
            [splits.seed_program(task) for task in self.tasks],
            text,
            demonstrations=self.seeding.demonstrations,
            updates=self.seeding.updates,
            seed=seed,
            threads=threads,
            shape=self.policy,
            backbone=self.backbone,
        )


def record(run: Path) -> Curriculum:
    """Take the curriculum of a run folder. Raises `CurriculumError` where no round was trained."""
    folder = RunFolder(run)
    config = folder.read_config()
    files = sorted(folder.training.glob("r*.json"))
    if not files:
        raise CurriculumError(
            f"{run} has no trained round; give the folder of a run that trained one at least."
        )
    return Curriculum(
        family=config.family,
        tasks=config.family_tasks,
        seed=config.seed,
        seeding=config.seeding,
        policy=config.policy,
        backbone=config.switches.backbone,
        learner=config.learner,
        rounds=tuple(read_targets(file) for file in files),
    )


def load(path: Path) -> Curriculum:
    """Read a recorded curriculum. Raises `CurriculumError`, `UnknownName`."""
    try:
        read = Curriculum.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CurriculumError(
            f"cannot read the curriculum {path}: {error.strerror}; record one with "
            "'python -m coda.bench.curriculum RUN FILE'."
        ) from None
    except ValidationError as error:
        raise CurriculumError(f"{path}: {first_problem('curriculum', error)}") from None
    family(read.family)
    return read


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("run", type=Path, help="run folder")
    parser.add_argument("file", type=Path, help="JSON file to write")
    args = parser.parse_args(arguments)
    try:
        found = record(args.run)
    except CodaError as error:
        parser.exit(2, f"{error}\n")
    args.file.parent.mkdir(parents=True, exist_ok=True)
    args.file.write_text(found.model_dump_json() + "\n", encoding="utf-8")
    print(f"{args.file}: {len(found.rounds)} rounds of {found.family}")


if __name__ == "__main__":
    main()
