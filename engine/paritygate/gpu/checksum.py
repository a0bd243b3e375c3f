"""What lies on a device, as the sum that the host made of what it sent."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from paritygate.gpu.device import SIMULATED, THREADS, cuda, kernel, unsigned

MODULUS = 1 << 64
_ALL = MODULUS - 1
_LOW, _HALF = (1 << 32) - 1, 32
_BLOCKS = 2 if SIMULATED else 64
_ODD = 0x9E3779B97F4A7C15


@kernel
def add_words(words: Any, stamp: int, sums: Any, row: int) -> None:
    """Add to `sums[row]` the stamp, times 1 and the sum of `kernels.checksum` of the words.

    Both halves of what each thread adds are added by themselves, which no sum overflows.
    """
    total = unsigned(0)
    if cuda.grid(1) == 0:
        total = unsigned(1)
    for k in range(cuda.grid(1), words.size, cuda.gridsize(1)):
        total = (total + unsigned(words[unsigned(k)]) * unsigned(2 * k + 1)) & unsigned(_ALL)
    total = (total * unsigned(stamp)) & unsigned(_ALL)
    cuda.atomic.add(sums, (row, 0), np.int64(total & unsigned(_LOW)))
    cuda.atomic.add(sums, (row, 1), np.int64(total >> unsigned(_HALF)))


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
        cast(Any, add_words)[_BLOCKS, THREADS](words, stamp, self._sums, row)
        self._expected[row] = (self._expected[row] + stamp * (1 + expected)) % MODULUS

    @property
    def bytes_held(self) -> int:
        """Memory of the device that this takes."""
        return int(self._sums.nbytes)

    def agree(self) -> bool:
        """Whether the device came to the same sums, once it is done."""
        return _joined(self._sums.copy_to_host()) == self._expected


def _joined(halves: npt.NDArray[np.int64]) -> list[int]:
    return [(low + (high << _HALF)) % MODULUS for low, high in halves.tolist()]
