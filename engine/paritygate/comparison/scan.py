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
from paritygate.kernels import elements, grids, measures, rank, scan, steps, sums
from paritygate.tally.exact import ExactSum
from paritygate.tally.output import MIN_RANKED_WIDTH

Ints = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]
States = npt.NDArray[np.uint8]

_GROWTH = 8  # of stretches that are scanned at once, until something is known of the worst
_TILES = {"gate": 8, "full": 2}  # the latter measures what was just scanned, while caches hold it
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

    def __init__(self, work: Work, full: FullTier | None) -> None:
        self._samples = max(1, STRETCH // work.width)
        self._size = self._samples * work.width
        self._pieces = -(-self._size // grids.PIECE)
        self._is_worth_it = True
        self.tiles = _TILES["gate" if full is None else "full"]
        self._failing = work.failing.make_room(len(work.ordinals), self._size)
        self._chunks = np.zeros((5, sums.CHUNKS), np.int64)
        self._units = np.empty((2, self._pieces), np.int64)
        products = self._chunks[scan.EE :]
        self._full = None if full is None else _Measures(work, full, self._samples, products)

    def not_clean(self, work: Work, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Count what is clean of the samples `[start, stop)`; first and last of the others."""
        if not self._is_worth_it:
            yield start, stop
            return
        at, step = work.found.best_at, self._samples
        # The first stretches say what is worth a look in those after them.
        while start + step < stop and (step > self._samples or at[0, 0] < 0 or at[1, 0] < 0):
            yield from self._scan(work, start, start + step)
            start, step = start + step, step * _GROWTH
        yield from self._scan(work, start, stop)

    def _scan(self, work: Work, start: int, stop: int) -> Iterator[tuple[int, int]]:
        part = slice(start * work.width, stop * work.width)
        ref, cand = work.ref[part], work.cand[part]
        whole = WHOLE[ref.dtype.itemsize]
        dirty = self.count(work, ref, cand, (ref.view(whole), cand.view(whole)), start)
        if dirty.any():
            self._is_worth_it = dirty.size == 1 or 2 * int(np.count_nonzero(dirty)) <= dirty.size
            yield from runs(dirty, self._samples, start, stop)

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
        rule, found = work.rule, work.found
        states = np.empty(-(-ref.size // self._size) * self._pieces, np.uint8)
        found.classes[0, 0] += scan.scan_floats(
            ref, cand, self._size, rule.atol, rule.rtol, rule.cap,
            found.best_at, found.best_error, found.best_excess, _room.guess,
            self._chunks, self._units, states,
        )  # fmt: skip
        asked = int(np.bitwise_or.reduce(states))
        if asked & (scan.LOOK | scan.SUSPECT):
            # What is asked first answers most of the other: before anything failed, whether it may.
            if found.best_excess[0] > 1.0:
                self._keep_suspects(work, ref, cand, start, states)
                self._look(work, ref, cand, start, states)
            else:
                self._look(work, ref, cand, start, states)
                self._keep_suspects(work, ref, cand, start, states)
            asked = int(np.bitwise_or.reduce(states))
        if asked & scan.AGAIN:
            exponent = scan.sum_again(
                ref, cand, self._size, self._chunks, self._pieces, states,
                _room.errors, _room.rest,
            )  # fmt: skip
            # Room for a little growth where they grew, as fine as can be where that was too coarse.
            _room.guess = min(exponent + (exponent > _room.guess), grids.HIGHEST - 1)
        dirty: npt.NDArray[np.bool_] = np.zeros(-(-ref.size // self._size), np.bool_)
        if asked & scan.LEFT:
            dirty = (states[:: self._pieces] & scan.LEFT) != 0
        if self._full is not None:
            self._full.measure(work, ref, cand, bits, start, dirty)
        return dirty

    def _look(self, work: Work, ref: Array, cand: Array, start: int, states: States) -> None:
        rule, found = work.rule, work.found
        if np.bitwise_or.reduce(states) & scan.LOOK:
            scan.look(
                ref, cand, self._size, work.width, start, rule.atol, rule.rtol, rule.cap,
                found.best_at, found.best_error, found.best_excess, self._pieces, states,
            )  # fmt: skip

    def _keep_suspects(
        self, work: Work, ref: Array, cand: Array, start: int, states: States
    ) -> None:
        found = work.found
        if np.bitwise_or.reduce(states) & scan.SUSPECT:
            scan.keep_suspects(
                ref, cand, self._size, work.width, start, found.best_error, found.best_excess,
                self._pieces, states, work.rule, self._failing,
            )  # fmt: skip

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
        self._is_ranked = work.width >= MIN_RANKED_WIDTH
        self._full = measures.Full(full.histogram, chunks, self._lost)
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
        size = self._samples * work.width
        if self._is_ranked:
            energies = np.empty((3, ref.size // work.width))
            measures.measure_wide(
                ref, cand, size, work.width, dirty, energies, self._full, _room.measures
            )
            for first, last in runs(~dirty, self._samples, 0, energies.shape[1]):
                self._rank(work, energies, first, last, start)
        else:
            measures.measure_narrow(ref, cand, size, dirty, self._full, _room.measures)
        if bits is not None:
            steps.keep_steps(
                *bits, work.width, start, self._samples,
                dirty, self._floor, self._tier.ulp_at, self._tier.ulp,
            )  # fmt: skip

    def _rank(self, work: Work, energies: Doubles, first: int, last: int, start: int) -> None:
        tier, full = self._tier, self._full
        rank.rank_samples(
            energies, first, last - first, start, work.ordinals,
            tier.rank_undefined, tier.rank_at, tier.rank,
        )  # fmt: skip
        for row in range(3):
            measures.add_samples(energies[row, first:last], full.sums[row], full.lost, row)

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
        self.errors, self.rest = piece[:2]
        self.guess = 0  # an exponent that errors are expected to lie below, whatever was before
        self.measures = measures.Room(
            piece[2], piece[3], piece[4], bins, bins.view(np.uint64),
            np.zeros(4 << 14, np.int64), np.empty(3, np.int64), np.empty(24),
        )  # fmt: skip


_room = _Room()
