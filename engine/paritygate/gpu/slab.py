"""Arrays of a device that lie side by side: one copy clears all of them, and one brings them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from paritygate.core.errors import DeviceError
from paritygate.gpu.device import cuda, kernel

Arrays = Mapping[str, npt.NDArray[Any]]

_WORD = 8  # bytes
_numbers = itertools.count(1)


@kernel
def write_number(words: Any, number: int) -> None:
    """Set the first word: one block of one thread."""
    words[0] = number


class Slab:
    """Arrays on the current device, which is told each time that they begin anew.

    Args:
        begin: name -> what an array begins with, which has an element.
    """

    def __init__(self, begin: Arrays) -> None:
        self._begin = {"number": np.zeros(1, np.int64), **begin}
        self._places: dict[str, slice] = {}
        at = 0
        for name, array in self._begin.items():
            size = -(-array.nbytes // _WORD)
            self._places[name], at = slice(at, at + size), at + size
        words = np.zeros(at, np.int64)
        for name, array in self._begin.items():
            flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            words[self._places[name]].view(np.uint8)[: flat.size] = flat
        self._fresh, self._words = cuda.to_device(words), cuda.device_array(at, np.int64)
        self._number = 0
        self.clear()

    @property
    def nbytes(self) -> int:
        """Memory of the device that this takes."""
        return 2 * int(self._words.nbytes)

    def __getitem__(self, name: str) -> Any:
        return self._view(self._words, name)

    def clear(self) -> None:
        """Let all arrays begin anew; nothing is waited for."""
        self._number = next(_numbers)
        cast(Any, write_number)[1, 1](self._fresh, self._number)
        self._words.copy_to_device(self._fresh)

    def read(self) -> dict[str, npt.NDArray[Any]]:
        """Copies of all arrays on the host, once the device is done.

        Raises:
            DeviceError: they hold what was written before they began anew.
        """
        words = self._words.copy_to_host()
        if int(words[0]) != self._number:
            raise DeviceError("it gave back what it had counted before")
        return {name: self._view(words, name) for name in self._begin}

    def _view(self, words: Any, name: str) -> Any:
        array = self._begin[name]
        own = words[self._places[name]].view(array.dtype)
        return own[: array.size].reshape(array.shape)
