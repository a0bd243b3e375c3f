"""Histogram of non-negative values: 8 linear bins for each power of two, from exact zero to inf."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

BINS = 16_378  # exact zero, 8 bins for each of the 2047 binades that are finite, overflow
_NONE: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
_NONE.setflags(write=False)


class Histogram(Struct, frozen=True, eq=False):
    """Counts per bin.

    Bin 0 is exact zero and the last one infinity; bin k between them holds the values whose top 14
    bits below the sign are k - 1, so that it is at most 12.5 % wide for normal numbers. Only bins
    from the first to the last that hold something are kept, zero apart.

    Attributes:
        zeros: values that are exactly zero.
        first: bin of `counts[0]`, at least 1.
        counts: `(n,)` int64, read-only, with neither end 0.
    """

    zeros: int = 0
    first: int = 1
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: _NONE)

    def __post_init__(self) -> None:
        self.counts.setflags(write=False)

    @classmethod
    def from_counts(cls, counts: npt.NDArray[np.int64]) -> Histogram:
        """Histogram of counts of all bins, `(BINS,)`, which are copied.

        Raises:
            ValueError: another shape or dtype.
        """
        if counts.shape != (BINS,) or counts.dtype != np.int64:
            raise ValueError(
                f"counts: found {counts.dtype}{list(counts.shape)}, needs int64[{BINS}]"
            )
        filled = (counts[1:] != 0).tobytes()
        low, high = filled.find(1) + 1, filled.rfind(1) + 2
        if low == 0:
            return cls(int(counts[0]))
        return cls(int(counts[0]), low, counts[low:high].copy())

    @classmethod
    def of(cls, values: npt.ArrayLike) -> Histogram:
        """Histogram of non-negative float64 values, inf included.

        Raises:
            ValueError: a value is negative or NaN.
        """
        flat = np.asarray(values, dtype=np.float64).reshape(-1)
        counts = np.bincount(bin_index(flat), minlength=BINS)
        return cls.from_counts(counts.astype(np.int64, copy=False))

    def merge(self, other: Histogram) -> Histogram:
        """Counts of both."""
        zeros = self.zeros + other.zeros
        if not other.counts.size or not self.counts.size:
            filled = self if self.counts.size else other
            return Histogram(zeros, filled.first, filled.counts)
        first = min(self.first, other.first)
        last = max(self.first + self.counts.size, other.first + other.counts.size)
        counts = np.zeros(last - first, np.int64)
        for part in (self, other):
            at = part.first - first
            counts[at : at + part.counts.size] += part.counts
        return Histogram(zeros, first, counts)

    def all_counts(self) -> npt.NDArray[np.int64]:
        """Counts of all bins, `(BINS,)`."""
        counts = np.zeros(BINS, np.int64)
        counts[0] = self.zeros
        counts[self.first : self.first + self.counts.size] = self.counts
        return counts

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Histogram)
            and (self.zeros, self.first) == (other.zeros, other.first)
            and np.array_equal(self.counts, other.counts)
        )

    @property
    def total(self) -> int:
        """Values counted."""
        return self.zeros + int(self.counts.sum())

    def quantile(self, fraction: float, maximum: float) -> float | None:
        """Upper bound of the value that this fraction of all values doesn't exceed.

        It is the upper edge of that value's bin, capped by `maximum`, the largest value counted: at
        most 12.5 % high for normal numbers. None if nothing was counted. `fraction` is taken as it
        is written, so that 0.29 of 100 values are 29.
        """
        total = self.total
        if total == 0:
            return None
        rank = max(1, math.ceil(Fraction(repr(fraction)) * total))
        bin_ = int(np.searchsorted(np.cumsum(self.all_counts()), rank))
        return min(upper_edge(bin_), maximum)

    def count_up_to(self, value: float) -> int:
        """Values in the bins up to and with the one of `value`: at least those <= value."""
        return int(self.all_counts()[: int(bin_index(np.array([value]))[0]) + 1].sum())

    def to_json(self) -> dict[str, int]:
        """Bin -> count, of bins that aren't empty."""
        counts = self.all_counts()
        return {str(k): int(counts[k]) for k in np.flatnonzero(counts)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Histogram:
        """The histogram that `to_json` wrote."""
        counts = np.zeros(BINS, dtype=np.int64)
        for bin_, count in data.items():
            counts[int(bin_)] = count
        return cls.from_counts(counts)


def bin_index(values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Bin of each non-negative float64 value.

    Raises:
        ValueError: a value is negative or NaN.
    """
    if not np.all(values >= 0):
        raise ValueError("a histogram counts values >= 0; found a negative one or a NaN")
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.int64)
    return np.where(values == 0, 0, 1 + (bits >> 49))


def upper_edge(bin_: int) -> float:
    """Smallest float64 above the bin; 0 for the bin of zero, inf for the last two."""
    if bin_ == 0:
        return 0.0
    return float(np.int64(min(bin_, BINS - 2) << 49).view(np.float64))
