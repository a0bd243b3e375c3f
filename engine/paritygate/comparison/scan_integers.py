"""Stretches of clean samples of integers and bool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from paritygate.comparison import scan
from paritygate.comparison.tiers import FullTier
from paritygate.core.dtypes import widened
from paritygate.core.tensors import Array
from paritygate.kernels import grids, scan_integers, sums
from paritygate.tally.exact import ExactSum

if TYPE_CHECKING:
    from paritygate.comparison.scans import Work

_NO_LIMITS = (1, 0)
_TILES = 32  # for one byte a value; a call costs as much as many values


class IntegerScan:
    """Scans the integers of one comparison, until so much isn't clean that it doesn't pay."""

    def __init__(self, work: Work, full: FullTier | None) -> None:
        self._samples = max(1, scan.STRETCH // work.width)
        self._is_worth_it = True
        self._dtype = _common(work.ref.dtype, work.cand.dtype)
        self.tiles = max(_TILES // self._dtype.itemsize, _TILES // 4)
        limits = [sides or _NO_LIMITS for sides in work.limits]
        self._tables = scan_integers.Tables(
            chunks=np.zeros((3, sums.CHUNKS), np.int64),
            limits=np.array(limits, np.int64),
            at_limits=np.zeros((2, 2), np.int64),
            worst=np.full(2, -1.0),
            full=full is not None,
            counts=np.zeros((4, scan_integers.TABLE if full else 0), np.int64),
            histogram=full.histogram if full else np.empty(0, np.int64),
        )
        size = self._samples * work.width
        self._room = scan_integers.Room(np.empty(size), np.empty(size), np.empty(grids.PIECE))

    def not_clean(self, work: Work, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Count what is clean of the samples `[start, stop)`; first and last of the others."""
        if not self._is_worth_it:
            yield start, stop
            return
        part = slice(start * work.width, stop * work.width)
        dirty = np.zeros(-(-(stop - start) // self._samples), np.bool_)
        scan_integers.scan_integers(
            self._wide(work.ref[part]), self._wide(work.cand[part]), work.width, start,
            self._samples, work.rule, work.found, self._tables, self._room, dirty,
        )  # fmt: skip
        self._is_worth_it = 2 * int(np.count_nonzero(dirty)) <= dirty.size
        yield from scan.runs(dirty, self._samples, start, stop)

    def sum(self, row: int) -> ExactSum:
        """What was summed in a row of `kernels.scan_integers`."""
        return ExactSum.from_chunks(self._tables.chunks[row])

    def at_limits(self) -> list[int]:
        """Elements at the smallest and largest number of the reference's dtype, and candidate's."""
        found: list[int] = self._tables.at_limits.reshape(-1).tolist()
        return found

    def _wide(self, values: Array) -> npt.NDArray[Any]:
        if values.dtype == self._dtype:
            return values
        wide = widened(values).astype(self._dtype)
        wide.setflags(write=False)
        return wide


def _common(ref: np.dtype[Any], cand: np.dtype[Any]) -> np.dtype[Any]:
    """What both sides are scanned in: their own dtype, or 64 bits where they differ."""
    ref, cand = (widened(np.empty(0, dtype)).dtype for dtype in (ref, cand))
    return ref if ref == cand else np.dtype(np.int64 if ref.kind == "i" else np.uint64)
