"""Chroma's index files hold no bytes of this process beyond the index.

The index (hnswlib) writes whole arrays, of which only the first elements are ever filled in; the
rest is memory as `malloc` gave it. An HTTP header with an API key was found there once. What no
element uses is overwritten with zeros after each write; the index reads none of it.
"""

from __future__ import annotations

import struct
import warnings
from pathlib import Path

_HEADER = struct.Struct("<i6QiI3QdQ")
"""hnswlib's ``persist`` format, version 1: version, offset of level 0, capacity, elements, bytes an
element, offset of the label, offset of the data, then what the search needs."""
_VERSION = 1
_LENGTH_BYTES = 4
"""One float32 an element in ``length.bin``."""


class IndexWiper:
    """Wipes a memory folder's index files again whenever they were written."""

    def __init__(self, folder: Path) -> None:
        """Remember the folder; nothing is touched yet."""
        self._folder = folder
        self._seen: dict[Path, tuple[int, int]] = {}

    def wipe(self) -> int:
        """Zero what no element uses in files written since the last call; returns the bytes zeroed.

        Warns (`RuntimeWarning`) where the files have a format that is not known here, since they
        may then hold anything this process had in memory.
        """
        wiped = 0
        for header in sorted(self._folder.glob("*/header.bin")):
            about = header.stat()
            stamp = (about.st_mtime_ns, about.st_size)
            if self._seen.get(header) != stamp:
                wiped += _wipe_index(header)
                self._seen[header] = stamp
        return wiped


def _wipe_index(header: Path) -> int:
    content = header.read_bytes()
    if len(content) != _HEADER.size or _HEADER.unpack(content)[0] != _VERSION:
        warnings.warn(
            f"{header} has a format that this version of CoDA does not know: bytes of this "
            "process's memory, keys among them, may be in the files beside it; delete "
            f"{header.parent.parent} before you share the run.",
            RuntimeWarning,
            stacklevel=2,
        )
        return 0
    _, _, _, elements, element_bytes, *_ = _HEADER.unpack(content)
    return sum(
        _zero_from(header.parent / name, elements * size)
        for name, size in (("data_level0.bin", element_bytes), ("length.bin", _LENGTH_BYTES))
    )


def _zero_from(path: Path, start: int) -> int:
    rest = max(path.stat().st_size - start, 0)
    if rest:
        with path.open("r+b") as file:
            file.seek(start)
            file.write(bytes(rest))
    return rest
