"""Results on screen and in files: consoles for tables, files that are never half written."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from coda.sim.errors import CodaError

PIPE_WIDTH = 180
"""Columns of a table that is not printed in a terminal."""


class OutputError(CodaError):
    """A result cannot be written where it was asked for."""


def table_console() -> Console:
    """A console for tables: as wide as the terminal, or wide where there is none."""
    console = Console(emoji=False, highlight=False, markup=False)
    return (
        console
        if console.is_terminal
        else Console(emoji=False, highlight=False, markup=False, width=PIPE_WIDTH)
    )


def may_write(path: Path, suffixes: Sequence[str], *, force: bool) -> None:
    """Refuse an output that cannot be written, before anything is computed."""
    if path.suffix.lower() not in suffixes:
        raise OutputError(f"cannot write {str(path)!r}; allowed endings: {', '.join(suffixes)}.")
    if path.is_dir():
        raise OutputError(f"{path} is a folder; name a file in it.")
    if path.exists() and not force:
        raise OutputError(
            f"{path} exists; choose another name with -o, or replace it with --force."
        )
    if not path.absolute().parent.is_dir():
        raise OutputError(f"there is no folder {path.absolute().parent}; make it first.")


def save_output(path: Path, write: Callable[[Path], object]) -> None:
    """Write through a hidden neighbour, so that a half-written file never has the name."""
    part = path.with_name(f".{path.stem}.part{path.suffix}")
    try:
        write(part)
        os.replace(part, path)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise OutputError(f"cannot write {path}: {error.strerror}; choose another -o.") from None
    finally:
        part.unlink(missing_ok=True)
