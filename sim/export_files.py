"""Files of an export: nothing is overwritten, and what is on disk is complete at any moment."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from coda.sim.export_common import ExportError, Recording

FLUSH_EVERY_S = 5.0
"""Least time between two flushes [s]."""
FLUSH_SHARE = 20.0
"""A flush rewrites files, so the next one comes after this many times what it took, at least."""


class Exporter(Protocol):
    """Writes episodes. What was flushed stays readable whatever happens afterwards."""

    @property
    def episodes(self) -> int:
        """Episodes that are safely on disk."""
        ...

    def add(self, recording: Recording) -> None:
        """Take one more episode."""
        ...

    def flush(self) -> None:
        """Put every episode taken so far on disk."""
        ...

    def close(self) -> None:
        """Remove temporary files; what was not flushed is gone."""
        ...


def write_all(
    exporter: Exporter,
    recordings: Iterable[Recording],
    *,
    flush_every_s: float = FLUSH_EVERY_S,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Write recordings as they come and return their number.

    The first episode is flushed at once and the others as time goes by; an error or an interrupt
    in the middle flushes those that are complete before it goes on up.
    """
    due, count = 0.0, 0
    try:
        try:
            for recording in recordings:
                exporter.add(recording)
                count += 1
                start = clock()
                if start >= due or count == 1:
                    exporter.flush()
                    end = clock()
                    due = end + max(flush_every_s, FLUSH_SHARE * (end - start))
        finally:
            exporter.flush()
    finally:
        exporter.close()
    return count


def publish(part: Path, final: Path) -> None:
    """Give a complete temporary file its name; a kill leaves the old file or the new one."""
    with part.open("rb") as handle:
        os.fsync(handle.fileno())
    final.parent.mkdir(parents=True, exist_ok=True)
    os.replace(part, final)


def claim(path: Path, *, force: bool, ours: Callable[[Path], bool]) -> Path | None:
    """Make sure that nothing stands at `path`, and return where an earlier export was put.

    An empty folder is nothing.

    Args:
        path: Where the export is to be.
        force: Move an earlier export aside instead of refusing; it is kept.
        ours: Whether what stands there is an export of this kind.

    Raises:
        ExportError: Something stands there, or it cannot be written.
    """
    aside: Path | None = None
    if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
        path.rmdir()
    elif path.exists() or path.is_symlink():
        if not force:
            raise ExportError(
                f"{path} exists already; choose another -o, or --force to move it aside."
            )
        if not ours(path):
            raise ExportError(
                f"{path} is not an earlier export of this format, so --force does not move it; "
                "choose another -o."
            )
        aside = next(
            p for i in range(1, 10**6) if not (p := path.with_name(f"{path.name}.old-{i}")).exists()
        )
        os.rename(path, aside)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        probe = path.with_name(f".{path.name}.part")
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ExportError(f"cannot write {path}: {error.strerror}; choose another -o.") from None
    return aside
