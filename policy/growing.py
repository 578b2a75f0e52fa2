"""Arrays that grow by doubling and hand out views."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


class Growing:
    """A growing array with a view of its filled part."""

    def __init__(self, shape: tuple[int, ...], dtype: type[np.generic]) -> None:
        self._data: npt.NDArray[Any] = np.zeros((64, *shape), dtype=dtype)
        self._size = 0

    def append(self, rows: npt.NDArray[Any]) -> None:
        """Add rows at the end."""
        need = self._size + len(rows)
        if need > len(self._data):
            room = max(need, 2 * len(self._data))
            grown = np.zeros((room, *self._data.shape[1:]), dtype=self._data.dtype)
            grown[: self._size] = self._data[: self._size]
            self._data = grown
        self._data[self._size : need] = rows
        self._size = need

    @property
    def view(self) -> npt.NDArray[Any]:
        """Filled rows; no copy."""
        return self._data[: self._size]
