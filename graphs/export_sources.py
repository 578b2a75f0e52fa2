"""Episodes to export: those that a run stored, or new demonstrations of the scripted planner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from coda.graphs.runfolder import RunFolder, find
from coda.memory.rows import EpisodeRow
from coda.memory.rundb import RunDb
from coda.sim.engine import BatchSim
from coda.sim.errors import UnknownName
from coda.sim.export_common import ExportError, Origin
from coda.sim.gate import Gate
from coda.sim.planner import ScriptedPlanner
from coda.sim.rollout import EpisodeData, Outcome, run_episodes
from coda.sim.sampling import Rejected, sample_scene
from coda.sim.scene import Scene
from coda.sim.sources import tasks_named
from coda.sim.splits import Splits
from coda.tools.episode_store import load_trials
from coda.tools.evaluation import Trial

PROGRAMS = ("seed", "wide")
"""Reference programs: the narrow range of demonstrations, and every axis wide."""
BATCH = 16
"""Episodes simulated at once."""
DRAWS = 10
"""Scenes drawn for each demonstration that is wanted, at most."""


@dataclass
class Tally:
    """What was left out, and why."""

    left_out: Counter[str] = field(default_factory=Counter)
    """Episodes by reason."""
    example: dict[str, str] = field(default_factory=dict)
    """One case of a reason, in words."""

    def drop(self, reason: str, example: str = "") -> None:
        """Count one that is left out."""
        self.left_out[reason] += 1
        self.example.setdefault(reason, example)

    def line(self) -> str:
        """All reasons in one line; empty if there are none."""
        parts = [
            f"{count} {reason}"
            + (f" (e.g. {self.example[reason]})" if self.example[reason] else "")
            for reason, count in self.left_out.items()
        ]
        return "; ".join(parts)


Item = tuple[EpisodeData, Origin]


def _wanted(episode: EpisodeData, failures: bool, tally: Tally) -> bool:
    """Whether an episode is to be exported; a crash says nothing about whoever acted."""
    if episode.outcome is Outcome.CRASHED:
        tally.drop("crashed")
    elif not episode.success and not failures:
        tally.drop("failed (--failures takes them too)")
    else:
        return True
    return False


class PlannerSource:
    """Demonstrations of the scripted planner on scenes drawn from a reference program.

    Scene k is drawn with ``default_rng([seed, k])``, never in a held-out cell, and passes the
    validity gate.

    Args:
        name: ``family``, each of its tasks with equal chance, or ``family/task``.
        program: ``seed`` or ``wide``.
        seed: Of the scenes.
        failures: Also demonstrations that fail.
        threads: Worker threads for physics.

    Raises:
        UnknownName: There is no such family, task or program.
    """

    def __init__(self, name: str, program: str, seed: int, *, failures: bool, threads: int) -> None:
        named = tasks_named(name)
        self._name, self._family = name, named[0][0]
        self._task = named[0][1] if len(named) == 1 else None
        if program not in PROGRAMS:
            raise UnknownName("reference program", program, PROGRAMS)
        self._which, self._seed = program, seed
        self._failures, self._threads = failures, threads
        self.tally = Tally()

    def items(self, count: int) -> Iterator[Item]:
        """`count` episodes, or fewer where not enough draws give one."""
        kept, index, last = 0, 0, DRAWS * count
        while kept < count and index < last:
            some = range(index, min(index + min(BATCH, count - kept), last))
            index = some.stop
            for item in self._batch(some):
                if kept < count and _wanted(item[0], self._failures, self.tally):
                    kept += 1
                    yield item

    def _batch(self, indices: range) -> list[Item]:
        scenes = self._scenes(indices)
        if not scenes:
            return []
        sim = BatchSim(list(scenes.values()), threads=self._threads)
        episodes = run_episodes(sim, ScriptedPlanner())
        sim.close()
        return [
            (
                episode,
                Origin(
                    kind="planner",
                    name=f"{self._name}:{self._which}:{self._seed}:{index}",
                    seed=self._seed,
                ),
            )
            for index, episode in zip(scenes, episodes, strict=True)
        ]

    def _scenes(self, indices: range) -> dict[int, Scene]:
        """Sound scenes by the number of their draw."""
        splits = Splits(family=self._family)
        draw = splits.seed_program if self._which == "seed" else splits.wide_program
        program = draw(self._task)
        drawn: dict[int, Scene] = {}
        for index in indices:
            try:
                rng = np.random.default_rng([self._seed, index])
                drawn[index] = sample_scene(program, rng, guard=splits)
            except Rejected as error:
                self.tally.drop("draws without a scene", str(error))
        reports = Gate(splits, threads=self._threads).check(list(drawn.values()))
        sound: dict[int, Scene] = {}
        for (index, scene), report in zip(drawn.items(), reports, strict=True):
            if report.accepted:
                sound[index] = scene
            else:
                self.tally.drop("scenes refused by the gate", report.issues[0].line())
        return sound


class RunSource:
    """Rollouts that a run stored, those of a purpose if one is given.

    Raises:
        RunError: No such run.
        UnknownName: The run stored nothing for that purpose.
        ExportError: The run stored no rollouts.
    """

    def __init__(self, runs_dir: Path, name: str | None, purpose: str | None, *, failures: bool):
        self._folder: RunFolder = find(runs_dir, name)
        self._failures = failures
        self._seed = self._folder.read_config().seed
        with RunDb(self._folder.db, read_only=True) as db:
            self._purposes = {row.episode_id: row.purpose for row in db.rows(EpisodeRow)}
        path = self._folder.path
        self._files = [*sorted(path.glob("episodes/*.npz")), *sorted(path.glob("rollouts/*.npz"))]
        if not self._files:
            raise ExportError(
                f"{path} stores no rollouts yet; let the run measure once, or export "
                "demonstrations with --planner."
            )
        self._purpose = purpose
        self.tally = Tally()
        if purpose is not None:
            known = {self._purpose_of(i) for f in self._files for i in self._ids(f)}
            if purpose not in known:
                raise UnknownName(f"purpose of stored rollouts in {path}", purpose, known)

    def _purpose_of(self, episode_id: str) -> str:
        return self._purposes.get(episode_id, "unknown")

    def _ids(self, path: Path) -> list[str]:
        return [trial.episode_id for trial in self._load(path)]

    def _load(self, path: Path) -> list[Trial]:
        try:
            return load_trials(path)
        except ValidationError as error:
            problem = error.errors()[0]["msg"]
            raise ExportError(
                f"{path} holds scenes of another version ({problem}); export it with the version "
                "of Coda that recorded it (see the run's versions.json)."
            ) from None

    def items(self, count: int | None) -> Iterator[Item]:
        """The first `count` episodes, or all."""
        kept = 0
        for path in self._files:
            for trial in self._load(path):
                purpose = self._purpose_of(trial.episode_id)
                if count is not None and kept == count:
                    return
                if self._purpose is not None and purpose != self._purpose:
                    continue
                if not _wanted(trial.episode, self._failures, self.tally):
                    continue
                kept += 1
                yield (
                    trial.episode,
                    Origin(kind="rollout", name=trial.episode_id, seed=self._seed, purpose=purpose),
                )
