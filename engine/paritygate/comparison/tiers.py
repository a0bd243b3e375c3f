"""What a comparison collects in each tier of statistics, until its tally is made."""

from __future__ import annotations

import threading

import numpy as np
import numpy.typing as npt

from paritygate.kernels import sums
from paritygate.tally.exact import ExactSum
from paritygate.tally.histogram import BINS, Histogram

Ints = npt.NDArray[np.int64]


class Chunks:
    """An exact sum in the making, of samples that are judged one by one."""

    def __init__(self) -> None:
        self._chunks: Ints | None = None
        self.overflowed = 0

    @property
    def chunks(self) -> Ints:
        """`(2, CHUNKS)` to add to: positive terms, and the magnitudes of the others."""
        if self._chunks is None:
            self._chunks = np.zeros((2, sums.CHUNKS), np.int64)
        return self._chunks

    def split(self) -> tuple[ExactSum, ExactSum]:
        """Sum of the positive terms and of the magnitudes of the others."""
        if self._chunks is None:
            return ExactSum(0, self.overflowed), ExactSum()
        above, below = self._chunks
        return ExactSum.from_chunks(above, self.overflowed), ExactSum.from_chunks(below)

    def total(self) -> ExactSum:
        """Sum of all terms."""
        if self._chunks is None:
            return ExactSum(0, self.overflowed)
        above, below = self.split()
        return above + -below


class FullTier:
    """What only the tier "full" collects."""

    def __init__(self) -> None:
        self.histogram = _spare.take()
        self.ulp_at = np.full((2, 2), -1, np.int64)
        self.ulp = np.zeros(2, np.uint64)
        self.ulp_undefined = 0
        self.rank_undefined = np.zeros(2, np.int64)
        self.rank_at = np.full(2, -1, np.int64)
        self.rank = np.zeros((2, 3))

    def take_histogram(self) -> Histogram:
        """What was counted; the array goes back, emptied, for this thread's next call."""
        made = Histogram.from_counts(self.histogram)
        self.histogram[0] = 0
        self.histogram[made.first : made.first + made.counts.size] = 0
        _spare.array = self.histogram
        return made


class _Spare(threading.local):
    """This thread's empty array of bins: 128 KiB that are not made anew for every block."""

    array: Ints | None = None

    def take(self) -> Ints:
        array, self.array = self.array, None
        return np.zeros(BINS, np.int64) if array is None else array


_spare = _Spare()
