"""Stretches of clean samples, counted without a look at any one of them."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from paritygate.comparison.found import FailingSamples
from paritygate.comparison.tiers import FullTier
from paritygate.core.tensors import Array
from paritygate.kernels import blocks, elements, grids, linked, measures, scan, scan_full, sums
from paritygate.kernels.vectors import LANES
from paritygate.tally.exact import ExactSum
from paritygate.tally.output import MIN_RANKED_WIDTH

Ints = npt.NDArray[np.int64]

_PART = 1 << 15  # elements that are scanned, looked at and measured before the next ones
STRETCH = 4096  # elements that are judged at once, a whole number of samples
WHOLE = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}  # bits of a float, by its size
_LARGEST = {np.dtype(kind): float(np.finfo(kind).max) for kind in (np.float32, np.float64)}


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

    tiles = 1 << 40  # a whole block goes at once

    def __init__(self, work: Work, full: FullTier | None) -> None:
        self.samples = stretch_of(work.width)
        self._size = self.samples * work.width
        self._pieces = -(-self._size // grids.PIECE)
        self._most = max(1, _PART // self._size)
        self._failing = work.failing.make_room(len(work.ordinals), self._size)
        self._chunks = np.zeros((5, sums.CHUNKS), np.int64)
        self._sums = _room.sums(self._chunks, self._pieces, self._most)
        self._tier = full
        self._lost = np.zeros(3, np.int64)
        self._full: tuple[blocks.Measured, blocks.Ranks | None] | None = None
        if full is not None:
            measured = measures.Full(full.histogram, self._chunks[scan.EE :], self._lost)
            ranks = None
            if work.width >= MIN_RANKED_WIDTH:
                ranks = blocks.Ranks(
                    work.ordinals, full.rank_undefined, full.rank_at, full.rank, _room.energies
                )
            self._full = blocks.Measured(measured, _room.measures), ranks
            self._floor = _at_least(work.rule.atol, work.cand.dtype)

    def not_clean(self, work: Work, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Count what is clean of the samples `[start, stop)`; first and last of the others."""
        part = slice(start * work.width, stop * work.width)
        ref, cand = work.ref[part], work.cand[part]
        bits = None
        if self._tier is not None:
            whole = WHOLE[ref.dtype.itemsize]
            bits = ref.view(whole), cand.view(whole)
        yield from runs(self.count(work, ref, cand, bits, start), self.samples, start, stop)

    def count(
        self, work: Work, ref: Array, cand: Array, bits: tuple[Array, Array] | None, start: int
    ) -> npt.NDArray[np.bool_]:
        """Count what is finite of samples from `start` on.

        Args:
            work: added to.
            ref: their values, float32 or float64, flat.
            cand: the same.
            bits: of both in the dtype that steps are counted in; None: none are.
            start: number of the first sample.

        Returns:
            `(stretches,)`, those of which nothing was counted.
        """
        dirty = np.zeros(-(-ref.size // self._size), np.bool_)
        full, ranks = self._full or (None, None)
        apart = None
        if self._tier is not None and bits is not None:
            apart = blocks.Steps(*bits, self._floor, self._tier.ulp_at, self._tier.ulp)
        try:
            _scan_block(
                ref, cand,
                blocks.Layout(work.width, self.samples, self._pieces, self._most, start),
                work.rule, work.found, self._sums, self._failing, dirty, full, ranks, apart,
            )  # fmt: skip
        except BaseException:
            _room.renew()  # what it holds is half done
            raise
        return dirty

    def sum(self, row: int) -> ExactSum:
        """What was summed in a row of `kernels.scan`."""
        lost = int(self._lost[row - scan.EE]) if row >= scan.EE else 0
        return ExactSum.from_chunks(self._chunks[row], lost)

    def at_limits(self) -> list[int]:
        """Floats have no limits that are counted."""
        return [0, 0, 0, 0]


def can_scan(work: Work) -> bool:
    """Whether both sides are float32 or both are float64, and all finite values have bounds."""
    dtype, rule = work.cand.dtype, work.rule
    largest = _LARGEST.get(dtype)
    if work.ref.dtype != dtype or largest is None:
        return False
    return rule.atol + rule.rtol * largest < math.inf


def stretch_of(width: int) -> int:
    """Samples of so many elements that are judged at once."""
    samples = max(1, STRETCH // width)
    is_cut = width < MIN_RANKED_WIDTH and samples > LANES
    return samples - samples % LANES if is_cut else samples


def runs(
    dirty: npt.NDArray[np.bool_], samples: int, start: int, stop: int
) -> Iterator[tuple[int, int]]:
    """First and last of the samples `[start, stop)` in neighbouring dirty stretches."""
    if not dirty.any():
        return
    edges = np.flatnonzero(np.diff(dirty.astype(np.int8), prepend=0, append=0))
    for first, last in edges.reshape(-1, 2).tolist():
        yield start + first * samples, min(start + last * samples, stop)


@lru_cache(64)
def _at_least(floor: float, dtype: np.dtype[Any]) -> int:
    """Bits of the smallest magnitude of this dtype that is at least `floor`."""
    whole = WHOLE[dtype.itemsize]
    with np.errstate(all="ignore"):
        if dtype not in _LARGEST:
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
        self.renew()

    def renew(self) -> None:
        """Make them anew."""
        bins = np.empty(grids.PIECE, np.uint16)
        self._piece = [np.empty(grids.PIECE) for _ in range(5)]
        self._sums: dict[tuple[int, int], tuple[npt.NDArray[Any], ...]] = {}
        self.guess = np.zeros(1, np.int64)  # expected of errors, whatever was before
        self.energies = np.empty((3, _PART // MIN_RANKED_WIDTH))
        self.measures = measures.Room(
            self._piece[2], self._piece[3], self._piece[4], bins, bins.view(np.uint64),
            np.zeros(4 << 14, np.int64), np.empty(3, np.int64), np.empty(24),
            np.full(2, scan_full.LOWEST),
        )  # fmt: skip

    def sums(self, chunks: Ints, pieces: int, most: int) -> blocks.Sums:
        """For stretches of so many pieces, of which so many are a part."""
        if (pieces, most) not in self._sums:
            self._sums = {
                (pieces, most): (
                    np.empty((2, pieces), np.int64),
                    np.empty(pieces * most, np.uint8),
                )
            }
        units, states = self._sums[pieces, most]
        return blocks.Sums(chunks, self.guess, units, states, *self._piece[:2])


_room = _Room()
_scan_block = linked.call(blocks.scan_block)
