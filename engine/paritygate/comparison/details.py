"""What is known of each sample of an output: only those with failing elements take space."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

Ints = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.uint32]
Doubles = npt.NDArray[np.float64]

NOT_LOOKED = -2


class Worst(Struct, frozen=True):
    """Worst elements of some samples, `(n,)` each.

    Attributes:
        rows: the samples, ascending.
        index: int64, flat index of the worst element: non-finite failures before all others, then
            by excess, by error, by index; -1 where no element could be compared, `NOT_LOOKED` where
            it was not looked for.
        excess: float64, its error as a multiple of what is allowed; inf for a non-finite one.
        error: float64, its absolute error; inf for a non-finite one.
    """

    rows: Ints
    index: Ints
    excess: Doubles
    error: Doubles

    @staticmethod
    def nothing(rows: Ints) -> Worst:
        """Of samples that nobody looked at."""
        n = len(rows)
        return Worst(rows, np.full(n, NOT_LOOKED), np.zeros(n), np.zeros(n))

    def of(self, rows: Ints) -> Worst:
        """The same of other samples, ascending."""
        if rows is self.rows:
            return self
        found = Worst.nothing(rows)
        found.put(self)
        return found

    def put(self, other: Worst) -> None:
        """Set what is known of the samples that are here and there."""
        if not len(self.rows) or not len(other.rows):
            return
        at = np.minimum(np.searchsorted(other.rows, self.rows), len(other.rows) - 1)
        has = other.rows[at] == self.rows
        for name in ("index", "excess", "error"):
            getattr(self, name)[has] = getattr(other, name)[at[has]]


class SampleDetail(Struct):
    """The result of each sample.

    Attributes:
        samples: how many there are.
        rows: `(n,)` int64, samples with failing elements, ascending.
        bits: `(n,)` uint8, their rules, bits of `core.verdict.SAMPLE_RULES`; 0: the sample is good.
        counts: `(n,)` uint32, elements that broke a rule, tolerated outliers included.
        worst: worst elements of the samples that were looked at.
    """

    samples: int
    rows: Ints
    bits: Bits
    counts: Numbers
    worst: Worst = field(default_factory=lambda: Worst.nothing(np.empty(0, np.int64)))

    @staticmethod
    def of_all(
        rules: Ints, failing: Ints, index: Ints, excess: Doubles, error: Doubles
    ) -> SampleDetail:
        """Of arrays over all samples, with their worst elements."""
        samples = len(rules)
        rows = np.flatnonzero(failing)
        worst = Worst(np.arange(samples), index, excess, error)
        return SampleDetail(
            samples, rows, rules[rows].astype(np.uint8), failing[rows].astype(np.uint32), worst
        )

    def failed(self) -> tuple[Ints, Bits]:
        """Samples that aren't good, ascending, and their rules."""
        if np.count_nonzero(self.bits) == len(self.bits):
            return self.rows, self.bits
        bad = self.bits != 0
        return self.rows[bad], self.bits[bad]

    def failing_of(self, row: int) -> int:
        """Failing elements of one sample."""
        at = int(self.rows.searchsorted(row))
        return int(self.counts[at]) if at < len(self.rows) and self.rows[at] == row else 0

    def looked_at(self, worst: Worst) -> None:
        """Take note of worst elements, beside those that are known."""
        if not len(self.worst.rows):
            self.worst = worst
            return
        whole = Worst.nothing(np.union1d(self.worst.rows, worst.rows))
        whole.put(self.worst)
        whole.put(worst)
        self.worst = whole

    def beside(self, rows: Ints, part: SampleDetail) -> SampleDetail:
        """This and what was found out about the samples `rows`, but for their worst elements."""
        if not len(part.rows):
            return self
        own = part.rows if len(rows) == self.samples else rows[part.rows]
        if not len(self.rows):
            return SampleDetail(self.samples, own, part.bits, part.counts)
        merged = np.concatenate([self.rows, own])
        order = np.argsort(merged, kind="stable")
        bits = np.concatenate([self.bits, part.bits])[order]
        counts = np.concatenate([self.counts, part.counts])[order]
        return SampleDetail(self.samples, merged[order], bits, counts)

    @staticmethod
    def joined(parts: Sequence[tuple[Ints, SampleDetail]], samples: int) -> SampleDetail:
        """Of a block of `samples`, of which each part has some: their numbers and their results."""
        order = np.argsort(rows := _joined([rows[own.rows] for rows, own in parts]))
        looked = np.argsort(seen := _joined([rows[own.worst.rows] for rows, own in parts]))
        worst = Worst(
            seen[looked],
            _joined([own.worst.index for _, own in parts])[looked],
            np.concatenate([own.worst.excess for _, own in parts])[looked],
            np.concatenate([own.worst.error for _, own in parts])[looked],
        )
        bits = np.concatenate([own.bits for _, own in parts])[order]
        counts = np.concatenate([own.counts for _, own in parts])[order]
        return SampleDetail(samples, rows[order], bits, counts, worst)

    @property
    def rules(self) -> Ints:
        """`(samples,)` rules of each."""
        return self._over_all(self.bits)

    @property
    def failing_elements(self) -> Ints:
        """`(samples,)` failing elements of each."""
        return self._over_all(self.counts)

    @property
    def worst_index(self) -> Ints:
        """`(samples,)` worst element of each."""
        return self.worst.of(np.arange(self.samples)).index

    @property
    def worst_excess(self) -> Doubles:
        """`(samples,)` its error as a multiple of what is allowed."""
        return self.worst.of(np.arange(self.samples)).excess

    @property
    def worst_error(self) -> Doubles:
        """`(samples,)` its absolute error."""
        return self.worst.of(np.arange(self.samples)).error

    def _over_all(self, values: Numbers | Bits) -> Ints:
        whole: Ints = np.zeros(self.samples, np.int64)
        whole[self.rows] = values
        return whole


def _joined(arrays: Sequence[Ints]) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *arrays])
