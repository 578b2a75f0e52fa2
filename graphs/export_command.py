"""``coda export``: demonstrations and rollouts for other people's tools."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeVar

from coda.graphs.export_sources import (
    BATCH,
    Item,
    PlannerSource,
    RunSource,
    Tally,
)
from coda.sim.errors import UnknownName
from coda.sim.export_common import (
    ExportError,
    NotReproduced,
    Recording,
    record,
    with_images,
)
from coda.sim.export_files import Exporter, claim, write_all
from coda.sim.export_hdf5 import Hdf5Exporter, is_hdf5_export
from coda.sim.export_lerobot import LeRobotExporter, is_lerobot_dataset
from coda.sim.export_video import check_size
from coda.sim.render import Camera, ensure_gl

Format = Literal["lerobot", "hdf5"]
FORMATS: Mapping[str, Format] = MappingProxyType({"lerobot": "lerobot", "hdf5": "hdf5"})
CAMERAS: tuple[Camera, ...] = ("agentview", "wrist")
DEMONSTRATIONS = 50
"""Demonstrations where --episodes is not given."""
TELL_EVERY_S = 5.0
INTERRUPTED = 130
"""Exit status after Ctrl-C."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """Options of ``coda export``."""

    output: Path
    format: str = "lerobot"
    run: str | None = None
    runs_dir: Path = Path("runs")
    planner: str | None = None
    program: str = "seed"
    purpose: str | None = None
    episodes: int | None = None
    failures: bool = False
    images: bool = False
    image_size: int = 256
    privileged: bool = False
    seed: int = 0
    threads: int = 2
    force: bool = False

    @property
    def cameras(self) -> tuple[Camera, ...]:
        """Cameras to film with."""
        return CAMERAS if self.images else ()

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of pictures [pixels]."""
        return self.image_size, self.image_size


def export_command(options: ExportOptions) -> int:
    """Export and say what was exported; return the exit status.

    Raises:
        CodaError: In one line; what was exported before it is kept.
    """
    kind = _format(options.format)
    if options.images:
        ensure_gl()
        check_size(*options.size)
    items, tally, count = _source(options)
    is_ours = is_lerobot_dataset if kind == "lerobot" else is_hdf5_export
    aside = claim(options.output, force=options.force, ours=is_ours)
    if aside is not None:
        print(f"the earlier export was moved to {aside}", file=sys.stderr)
    exporter = _exporter(kind, options)
    progress = _Progress(count, exporter)
    recordings = progress.watch(_recordings(items, tally, options))
    try:
        write_all(exporter, recordings)
        if not exporter.episodes:
            raise ExportError(f"nothing to export; left out: {tally.line() or 'nothing'}.")
    except KeyboardInterrupt:
        print(f"coda: stopped; {_kept(options.output, exporter)}.", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:
        words = error.strerror or " ".join(str(error).split())
        raise ExportError(
            f"cannot write {options.output}: {words}; {_kept(options.output, exporter)}."
        ) from None
    finally:
        if aside is not None and not options.output.exists():
            aside.rename(options.output)  # nothing came in its place
    if tally.left_out:
        print(f"left out: {tally.line()}", file=sys.stderr)
    print(
        f"{options.output}: {exporter.episodes} episodes ({progress.successes} successes), "
        f"{progress.steps:,} steps, {_HOW[kind]}"
    )
    return 0


_HOW = {
    "lerobot": 'LeRobotDataset v3.0; load it with LeRobotDataset("local/name", root=…)',
    "hdf5": "robomimic-style HDF5",
}


def _format(name: str) -> Format:
    try:
        return FORMATS[name]
    except KeyError:
        raise UnknownName("export format", name, FORMATS) from None


def _source(options: ExportOptions) -> tuple[Iterator[Item], Tally, int | None]:
    """Episodes, the tally of those left out, and how many are wanted (None for all)."""
    if options.planner is None:
        run = RunSource(options.runs_dir, options.run, options.purpose, failures=options.failures)
        return run.items(options.episodes), run.tally, options.episodes
    if options.run is not None or options.purpose is not None:
        what = f"RUN ({options.run})" if options.run is not None else "--purpose"
        raise ExportError(f"give {what} or --planner {options.planner}, not both.")
    planner = PlannerSource(
        options.planner,
        options.program,
        options.seed,
        failures=options.failures,
        threads=options.threads,
    )
    count = options.episodes or DEMONSTRATIONS
    return planner.items(count), planner.tally, count


def _exporter(kind: Format, options: ExportOptions) -> Exporter:
    if kind == "hdf5":
        return Hdf5Exporter(
            options.output, cameras=options.cameras, with_privileged=options.privileged
        )
    return LeRobotExporter(
        options.output,
        cameras=options.cameras,
        size=options.size,
        with_privileged=options.privileged,
    )


def _recordings(items: Iterable[Item], tally: Tally, options: ExportOptions) -> Iterator[Recording]:
    """Record episodes batch by batch, and film them on the threads, a few at a time."""
    with ThreadPoolExecutor(options.threads) as pool:
        for batch in _batches(items, BATCH):
            episodes, origins = [item[0] for item in batch], [item[1] for item in batch]
            ready: list[Recording] = []
            for found in record(episodes, origins, threads=options.threads):
                if isinstance(found, NotReproduced):
                    tally.drop("not reproduced", str(found))
                else:
                    ready.append(found)
            if not options.images:
                yield from ready
                continue
            for few in _batches(ready, options.threads):
                jobs = [
                    pool.submit(with_images, one, options.cameras, size=options.size) for one in few
                ]
                yield from (job.result() for job in jobs)


def _batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of `size` items; the last may be shorter."""
    batch: list[T] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _kept(path: Path, exporter: Exporter) -> str:
    return f"{path} holds the first {exporter.episodes} episodes, complete"


class _Progress:
    """A line on stderr now and then, rewritten in a terminal."""

    def __init__(self, count: int | None, exporter: Exporter) -> None:
        self._of = f" of {count}" if count else ""
        self._exporter = exporter
        self._last = time.monotonic()
        self.taken = self.successes = self.steps = 0

    def watch(self, recordings: Iterable[Recording]) -> Iterator[Recording]:
        """Pass recordings on and count them."""
        terminal = sys.stderr.isatty()
        for recording in recordings:
            yield recording
            self.taken += 1
            self.successes += recording.success
            self.steps += recording.steps
            now = time.monotonic()
            if now - self._last > (0.2 if terminal else TELL_EVERY_S):
                self._last = now
                line = (
                    f"exporting: {self.taken}{self._of} episodes, {self._exporter.episodes} on disk"
                )
                print(f"\r{line}" if terminal else line, end="" if terminal else "\n",
                      file=sys.stderr, flush=True)  # fmt: skip
        if terminal:
            print("\r\033[K", end="", file=sys.stderr)
