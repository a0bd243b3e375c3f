"""Histogram of non-negative values: 8 linear bins for each power of two, from exact zero to inf."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

BINS = 16_378  # exact zero, 8 bins for each of the 2047 binades that are finite, overflow
_ZEROS: npt.NDArray[np.int64] = np.zeros(BINS, dtype=np.int64)
_ZEROS.setflags(write=False)


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Counts per bin.

    Bin 0 is exact zero and the last one infinity; bin k between them holds the values whose top 14
    bits below the sign are k - 1, so that it is at most 12.5 % wide for normal numbers.

    Attributes:
        counts: `(BINS,)` int64, read-only.
    """

    counts: npt.NDArray[np.int64] = field(default_factory=lambda: _ZEROS)

    def __post_init__(self) -> None:
        if self.counts.shape != (BINS,) or self.counts.dtype != np.int64:
            raise ValueError(
                f"counts: found {self.counts.dtype}{list(self.counts.shape)}, needs int64[{BINS}]"
            )
        self.counts.setflags(write=False)

    @classmethod
    def of(cls, values: npt.ArrayLike) -> Histogram:
        """Histogram of non-negative float64 values, inf included.

        Raises:
            ValueError: a value is negative or NaN.
        """
        flat = np.asarray(values, dtype=np.float64).reshape(-1)
        if flat.size == 0:
            return cls()
        return cls(np.bincount(bin_index(flat), minlength=BINS).astype(np.int64, copy=False))

    def merge(self, other: Histogram) -> Histogram:
        """Counts of both."""
        if other.counts is _ZEROS:
            return self
        return other if self.counts is _ZEROS else Histogram(self.counts + other.counts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Histogram) and np.array_equal(self.counts, other.counts)

    @property
    def total(self) -> int:
        """Values counted."""
        return int(self.counts.sum())

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
        bin_ = int(np.searchsorted(np.cumsum(self.counts), rank))
        return min(upper_edge(bin_), maximum)

    def count_up_to(self, value: float) -> int:
        """Values in the bins up to and with the one of `value`: at least those <= value."""
        return int(self.counts[: int(bin_index(np.array([value]))[0]) + 1].sum())

    def to_json(self) -> dict[str, int]:
        """Bin -> count, of bins that aren't empty."""
        return {str(k): int(self.counts[k]) for k in np.flatnonzero(self.counts)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Histogram:
        """The histogram that `to_json` wrote."""
        if not data:
            return cls()
        counts = np.zeros(BINS, dtype=np.int64)
        for bin_, count in data.items():
            counts[int(bin_)] = count
        return cls(counts)


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
