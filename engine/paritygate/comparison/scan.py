"""Stretches of clean samples, counted without a look at any one of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt

from paritygate.comparison.found import FailingSamples
from paritygate.comparison.tiers import FullTier
from paritygate.core.tensors import Array
from paritygate.kernels import elements, grids, scan, sums
from paritygate.tally.exact import ExactSum
from paritygate.tally.output import MIN_RANKED_WIDTH

Ints = npt.NDArray[np.int64]

STRETCH = 4096  # elements that are judged at once, a whole number of samples
DTYPES = (np.dtype(np.float32), np.dtype(np.float64))


class Work(Protocol):
    """What a scan adds to: the state of a comparison."""

    width: int
    ref: Array
    cand: Array
    ordinals: Ints
    rule: elements.Rule
    found: elements.Found
    failing: FailingSamples


class Scan:
    """Scans the float values of one comparison, until so much isn't clean that it doesn't pay."""

    tiles = 1

    def __init__(self, work: Work, full: FullTier | None) -> None:
        self._chunks = np.zeros((5, sums.CHUNKS), np.int64)
        self._samples = max(1, STRETCH // work.width)
        self._is_worth_it = True
        self._full = _full(work, full)
        size = self._samples * work.width
        self._failing = work.failing.make_room(len(work.ordinals), size)
        self._room = scan.Room(
            np.empty(size), np.empty(size), np.empty(size), np.empty(grids.PIECE)
        )

    def not_clean(self, work: Work, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Count what is clean of the samples `[start, stop)`; first and last of the others."""
        if not self._is_worth_it:
            yield start, stop
            return
        part = slice(start * work.width, stop * work.width)
        states = np.empty(-(-(stop - start) // self._samples), np.uint8)
        scan.scan_floats(
            work.ref[part], work.cand[part], work.width, start, self._samples, work.ordinals,
            work.rule, work.found, self._chunks, self._full, self._room, states,
            self._failing,
        )  # fmt: skip
        dirty = states == scan.LEFT
        if not dirty.any():
            return
        self._is_worth_it = 2 * int(np.count_nonzero(dirty)) <= dirty.size
        yield from runs(dirty, self._samples, start, stop)

    def sum(self, row: int) -> ExactSum:
        """What was summed in a row of `kernels.scan`."""
        return ExactSum.from_chunks(self._chunks[row])

    def at_limits(self) -> list[int]:
        """Floats have no limits that are counted."""
        return [0, 0, 0, 0]


def runs(
    dirty: npt.NDArray[np.bool_], samples: int, start: int, stop: int
) -> Iterator[tuple[int, int]]:
    """First and last of the samples `[start, stop)` in neighbouring dirty stretches."""
    edges = np.flatnonzero(np.diff(dirty.astype(np.int8), prepend=0, append=0))
    for first, last in edges.reshape(-1, 2).tolist():
        yield start + first * samples, min(start + last * samples, stop)


def _full(work: Work, full: FullTier | None) -> scan.Full:
    is_single = work.cand.dtype == np.float32
    if full is None:
        none, steps = np.empty(0, np.int64), np.empty(0, np.uint64)
        at, rank = np.empty((0, 2), np.int64), np.empty((0, 3))
        return scan.Full(False, False, is_single, none, at, steps, none, none, rank)
    is_ranked = work.width >= MIN_RANKED_WIDTH
    return scan.Full(
        True, is_ranked, is_single, full.histogram, full.ulp_at, full.ulp,
        full.rank_undefined, full.rank_at, full.rank,
    )  # fmt: skip
