"""Samples that a scan left uncounted: those that only stood beside others can still be scanned."""

from __future__ import annotations

import numpy as np

from paritygate.comparison.arrays import frozen, widest
from paritygate.comparison.rows import Ints
from paritygate.core.tensors import Array
from paritygate.kernels.countable import find_failing, find_uncountable
from paritygate.kernels.elements import Rule


class Left:
    """Which samples were left.

    Attributes:
        samples: how many.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._ranges: list[tuple[int, int]] = []
        self.samples = 0

    def add(self, first: int, last: int) -> None:
        """Leave the samples `[first, last)`."""
        self.samples += last - first
        self._ranges.append((first, last))

    def whole(self) -> list[tuple[Ints, bool]]:
        """All of them, ascending, and that they may not be scanned."""
        return [(self._rows(), False)]

    def _rows(self) -> Ints:
        ends = np.array(self._ranges, np.int64)
        if bool(np.all(ends[1:, 0] == ends[:-1, 1])):
            return np.arange(ends[0, 0], ends[-1, 1])
        return np.concatenate([np.arange(*pair) for pair in self._ranges])

    def split(self, ref: Array, cand: Array, rule: Rule) -> list[tuple[Ints, bool]]:
        """Those that may be scanned without the others, and the others.

        Args:
            ref: flat values of all samples.
            cand: the same of the candidate.
            rule: what is tolerated.
        """
        rows = self._rows()
        bad = np.empty(len(rows), np.bool_)
        left, right = (frozen(widest(picked(side, rows, self._width))) for side in (ref, cand))
        find = find_uncountable if left.dtype == np.float64 else find_failing
        find(left, right, self._width, rule, bad)
        if bad.all():
            return [(rows, False)]
        parts = ((rows[~bad], True), (rows[bad], False))
        return [part for part in parts if part[0].size]


def picked(values: Array, rows: Ints, width: int) -> Array:
    """Flat values of some samples, ascending, of the flat values of all."""
    if len(rows) * width == values.size:
        return values
    return frozen(values.reshape(-1, width)[rows])
