"""Exact sums of float64 terms: no order, split or merge can change a bit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

_UNITS_PER_ONE = 1 << 1074
_SIGN = np.uint32(1 << 31)


class ExactSum(Struct, frozen=True):
    """The exact sum of float64 terms.

    Attributes:
        units: sum of the finite terms in units of 2^-1074, the smallest float64.
        overflowed: terms that were not finite; with any, the sum has no value.
    """

    units: int = 0
    overflowed: int = 0

    def __add__(self, other: ExactSum) -> ExactSum:
        return ExactSum(self.units + other.units, self.overflowed + other.overflowed)

    def __neg__(self) -> ExactSum:
        return ExactSum(-self.units, self.overflowed)

    @classmethod
    def from_chunks(cls, chunks: npt.NDArray[np.int64], overflowed: int = 0) -> ExactSum:
        """Sum of one row of a kernel's chunks, `(CHUNKS,)`: chunk k counts 2^(32k - 1074)."""
        low, high = chunks.astype("<u4"), (chunks >> 32).astype("<u4")
        high ^= _SIGN  # now it is 2^31 more, so that none is negative
        units = int.from_bytes(low.tobytes(), "little")
        units += (int.from_bytes(high.tobytes(), "little") - _signs(len(chunks))) << 32
        return cls(units, overflowed)

    @classmethod
    def from_floats(cls, terms: npt.ArrayLike) -> ExactSum:
        """Sum of the terms of an array, in plain Python: for a few values."""
        units = overflowed = 0
        for term in np.asarray(terms, dtype=np.float64).reshape(-1).tolist():
            if math.isfinite(term):
                numerator, denominator = term.as_integer_ratio()
                units += numerator * (_UNITS_PER_ONE // denominator)
            else:
                overflowed += 1
        return cls(units, overflowed)

    def value(self) -> float | None:
        """The sum rounded once, to the nearest float64; None if a term overflowed."""
        return self.mean(1)

    def mean(self, count: int) -> float | None:
        """The sum over `count`, rounded once; None if a term overflowed or `count` is 0."""
        if self.overflowed or count == 0:
            return None
        try:
            return float(Fraction(self.units, count * _UNITS_PER_ONE))
        except OverflowError:
            return math.inf if self.units > 0 else -math.inf

    def to_json(self) -> dict[str, Any]:
        """JSON types; `from_json` gives the same sum back."""
        return {"units": hex(self.units), "overflowed": self.overflowed}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ExactSum:
        """The sum that `to_json` wrote."""
        return cls(int(data["units"], 16), data["overflowed"])


@lru_cache(4)
def _signs(chunks: int) -> int:
    """2^31 in each of so many chunks of 32 bits."""
    return sum(1 << (32 * k + 31) for k in range(chunks))
