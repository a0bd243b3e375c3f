"""What lies on a device is what the host sent: both came to the same sums."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from paritygate.gpu import checksum
from paritygate.gpu.device import SIMULATED, THREADS, cuda

_HALF = 32
_BLOCKS = 2 if SIMULATED else 64
_ODD = 0x9E3779B97F4A7C15


def stamp_of(serial: int) -> int:
    """An odd number of its own for every number from 0 to 2^61; it fits an int64."""
    return ((2 * serial + 1) * _ODD) % (1 << 62)


class Checksums:
    """Sums of words on the current device, each with a stamp that no other has.

    They are never set back, so that none that was read before can be taken for today's.

    Args:
        rows: how many there are.
    """

    def __init__(self, rows: int) -> None:
        self._sums = cuda.to_device(np.zeros((rows, 2), np.int64))
        self._expected = [0] * rows

    def add(self, row: int, words: Any, stamp: int, expected: int) -> None:
        """Add words on the device, of which the host came to a sum; nothing is waited for."""
        cast(Any, checksum.add_words)[_BLOCKS, THREADS](words, stamp, self._sums, row)
        self._expected[row] = (self._expected[row] + stamp * (1 + expected)) % checksum.MODULUS

    @property
    def bytes_held(self) -> int:
        """Memory of the device that this takes."""
        return int(self._sums.nbytes)

    def agree(self) -> bool:
        """Whether the device came to the same sums, once it is done."""
        halves = self._sums.copy_to_host().tolist()
        return [
            (low + (high << _HALF)) % checksum.MODULUS for low, high in halves
        ] == self._expected
