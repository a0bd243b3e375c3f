"""Stretches of clean samples, counted without a look at any one of them."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from paritygate.comparison.found import FailingSamples
from paritygate.comparison.tiers import FullTier
from paritygate.core.dtypes import float_format
from paritygate.core.tensors import Array
from paritygate.kernels import elements, grids, measures, scan, steps, sums
from paritygate.tally.exact import ExactSum
from paritygate.tally.output import MIN_RANKED_WIDTH

Ints = npt.NDArray[np.int64]

STRETCH = 4096  # elements that are judged at once, a whole number of samples
WHOLE = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}  # bits of a float, by its size
_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))


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
        self._samples = max(1, STRETCH // work.width)
        self._is_worth_it = True
        self._failing = work.failing.make_room(len(work.ordinals), self._samples * work.width)
        self._chunks = np.zeros((5, sums.CHUNKS), np.int64)
        self._sums = scan.Sums(
            self._chunks[: scan.EE], _room.kept, np.zeros(1, np.int64), _room.errors, _room.terms
        )
        products = self._chunks[scan.EE :]
        self._full = None if full is None else _Measures(work, full, self._samples, products)

    def not_clean(self, work: Work, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Count what is clean of the samples `[start, stop)`; first and last of the others."""
        if not self._is_worth_it:
            yield start, stop
            return
        part = slice(start * work.width, stop * work.width)
        ref, cand = work.ref[part], work.cand[part]
        whole = WHOLE[ref.dtype.itemsize]
        dirty = self.count(work, ref, cand, (ref.view(whole), cand.view(whole)), start)
        if not dirty.any():
            return
        self._is_worth_it = 2 * int(np.count_nonzero(dirty)) <= dirty.size
        yield from runs(dirty, self._samples, start, stop)

    def count(
        self, work: Work, ref: Array, cand: Array, bits: tuple[Array, Array] | None, start: int
    ) -> npt.NDArray[np.bool_]:
        """Count what is clean of samples from `start` on.

        Args:
            work: added to.
            ref: their values, float32 or float64, flat.
            cand: the same.
            bits: of both in the dtype that steps are counted in; None: none are.
            start: number of the first sample.

        Returns:
            `(stretches,)`, those of which nothing was counted.
        """
        states = np.empty(-(-ref.size // (self._samples * work.width)), np.uint8)
        scan.scan_floats(
            ref, cand, work.width, start, self._samples,
            work.rule, work.found, self._sums, states, self._failing,
        )  # fmt: skip
        dirty: npt.NDArray[np.bool_] = states == scan.LEFT
        if self._full is not None:
            self._full.measure(work, ref, cand, bits, start, dirty)
        return dirty

    def sum(self, row: int) -> ExactSum:
        """What was summed in a row of `kernels.scan`."""
        lost = 0 if self._full is None else self._full.lost(row)
        return ExactSum.from_chunks(self._chunks[row], lost)

    def at_limits(self) -> list[int]:
        """Floats have no limits that are counted."""
        return [0, 0, 0, 0]


def can_scan(work: Work) -> bool:
    """Whether both sides are float32 or both are float64, and all finite values have bounds."""
    dtype, rule = work.cand.dtype, work.rule
    if work.ref.dtype != dtype or dtype not in _DTYPES:
        return False
    return rule.atol + rule.rtol * float_format(dtype.name).largest < math.inf


def runs(
    dirty: npt.NDArray[np.bool_], samples: int, start: int, stop: int
) -> Iterator[tuple[int, int]]:
    """First and last of the samples `[start, stop)` in neighbouring dirty stretches."""
    edges = np.flatnonzero(np.diff(dirty.astype(np.int8), prepend=0, append=0))
    for first, last in edges.reshape(-1, 2).tolist():
        yield start + first * samples, min(start + last * samples, stop)


class _Measures:
    """What a scan of the tier "full" measures besides."""

    def __init__(self, work: Work, full: FullTier, samples: int, chunks: Ints) -> None:
        self._samples, self._tier = samples, full
        self._lost = np.zeros(3, np.int64)
        self._full = measures.Full(
            work.width >= MIN_RANKED_WIDTH, full.histogram, chunks, self._lost,
            full.rank_undefined, full.rank_at, full.rank,
        )  # fmt: skip
        self._floor = _at_least(work.rule.atol, work.cand.dtype)

    def measure(
        self,
        work: Work,
        ref: Array,
        cand: Array,
        bits: tuple[Array, Array] | None,
        start: int,
        dirty: npt.NDArray[np.bool_],
    ) -> None:
        """Measure the clean stretches of some samples; arguments as of `Scan.count`."""
        measures.measure_floats(
            ref, cand, work.width, start, self._samples, work.ordinals,
            dirty, self._full, _room.measures,
        )  # fmt: skip
        if bits is not None:
            steps.keep_steps(
                *bits, work.width, start, self._samples,
                dirty, self._floor, self._tier.ulp_at, self._tier.ulp,
            )  # fmt: skip

    def lost(self, row: int) -> int:
        """Terms of a sum that are not finite."""
        return int(self._lost[row - scan.EE]) if row >= scan.EE else 0


def _at_least(floor: float, dtype: np.dtype[Any]) -> int:
    """Bits of the smallest magnitude of this dtype that is at least `floor`."""
    whole = WHOLE[dtype.itemsize]
    with np.errstate(all="ignore"):
        if dtype not in _DTYPES:
            magnitudes = np.arange(1 << (8 * dtype.itemsize - 1), dtype=whole).view(dtype)
            reach = np.flatnonzero(magnitudes.astype(np.float64) >= floor)
            return int(reach[0]) if reach.size else len(magnitudes)
        value = np.asarray(floor, dtype)
        if float(value) < floor:
            value = np.nextafter(value, np.asarray(math.inf, dtype))
    return int(value.view(whole))


class _Room(threading.local):
    """This thread's arrays that kernels write over, made once."""

    def __init__(self) -> None:
        bins = np.empty(grids.PIECE, np.uint16)
        piece = [np.empty(grids.PIECE) for _ in range(5)]
        self.kept = np.empty((2, sums.CHUNKS), np.int64)
        self.errors, self.terms = piece[:2]
        self.measures = measures.Room(
            piece[2], piece[3], piece[4], bins, bins.view(np.uint64),
            np.zeros(4 << 14, np.int64), np.empty((3, grids.PIECE)), np.empty(24),
        )  # fmt: skip


_room = _Room()
