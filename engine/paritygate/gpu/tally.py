"""What is counted of an output stays on the device, batch after batch, until it is read."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from paritygate.core.errors import DeviceError
from paritygate.gpu import failing, fold, scan, sums
from paritygate.gpu.device import SIMULATED, THREADS, TILE, cuda
from paritygate.gpu.full import FullTally, Measured
from paritygate.gpu.sides import ENDS
from paritygate.gpu.slab import Arrays, Slab
from paritygate.kernels.elements import Rule

Number = int | float
Ints = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]

MOST = 1 << 29  # elements of a batch, for which no chunk of a sum overflows
_ROOM = 1 << 16  # failing samples that are kept on the device at least before they are read
_BATCHES, _MOST_BYTES = 4, 1 << 26  # as large as the largest, in so much memory: kept at most
_RULES = 1 << 8  # all that bits of a byte can say
_BLOCKS_EACH = 4  # blocks a multiprocessor
_SIMULATED_BLOCKS = 2


class Counted(NamedTuple):
    """What was counted, as arrays of the host.

    Attributes:
        samples: how many.
        classes: `(16,)` elements by class of the reference and of the candidate.
        lost: infinite errors, which no sum has.
        over: finite pairs that aren't good, as they were scanned.
        chunks: `(2, CHUNKS)` sums of e and |e|; `(5, CHUNKS)` with those of e^2, r^2 and r*e.
        best: largest error, worst excess and the error there.
        places: `(2, 2)` ordinal and index of both, -1 where there is none.
        values: `(2, 2)` of the reference and the candidate there.
        ends: `(ENDS,)` values at the ends of dtypes, as of `sides`.
        rows: `(n,)` samples with failing elements, ascending.
        rules: `(n,)` uint8 bits of the rules that each breaks.
        elements: `(n,)` uint32 failing elements of each.
        worst_at: `(n,)` worst element of each.
        worst_excess: `(n,)` its excess.
        worst_error: `(n,)` its error.
        measured: what else there is in the tier "full".
    """

    samples: int
    classes: Ints
    lost: int
    over: int
    chunks: Ints
    best: tuple[Number, Number, Number]
    places: Ints
    values: npt.NDArray[Any]
    ends: Ints
    rows: Ints
    rules: npt.NDArray[np.uint8]
    elements: npt.NDArray[np.uint32]
    worst_at: Ints
    worst_excess: Doubles
    worst_error: Doubles
    measured: Measured | None


class DeviceTally:
    """Counts batches of one output on the current device; one thread at a time.

    Nothing is read between batches, but for failing samples where they may come to be too many:
    where more batches follow than there is room for, it grows to that of some batches.

    Args:
        width: elements a sample, at least 1.
        rule: what is tolerated; both sides are of one float dtype.
        largest: the largest number of that dtype.
        full: what measures the rest in the tier "full".
    """

    _kept_as: Any = np.float64  # extremes, and what breaks ties of them

    def __init__(
        self, width: int, rule: Rule, largest: float, full: FullTally | None = None
    ) -> None:
        self._width, self._rule = width, rule._replace(match=cast(Any, int(rule.match)))
        self._is_bounded = int(rule.atol + rule.rtol * largest < math.inf)
        self._team = 1
        while self._team < min(THREADS, width):
            self._team *= 2
        self._most_blocks = most_blocks()
        self._full = full
        self._slab = Slab(self._begin())
        self._bind(self._slab)
        self._samples = self._summed = self._kept = self._room = 0
        self._parts: list[Ints] = []
        self._dirty: Any = None
        self._tops: Any = None
        self._at: Any = None
        self._failing: Any = None

    def _begin(self) -> dict[str, npt.NDArray[Any]]:
        """What the arrays begin with in which is counted."""
        full = {} if self._full is None else self._full.begin()
        return self._counting(np.dtype(np.float64), is_full=self._full is not None) | full

    def _counting(self, dtype: np.dtype[Any], *, is_full: bool) -> dict[str, npt.NDArray[Any]]:
        return {
            "counts": np.zeros(scan.COUNTS, np.int64),
            "chunks": np.zeros(
                (sums.ROWS - (0 if is_full else sums.PRODUCTS), sums.CHUNKS), np.int64
            ),
            "best": np.zeros(3, self._kept_as),
            "places": np.full((2, 2), -1, np.int64),
            "values": np.zeros((2, 2), dtype),
            "ends": np.zeros(ENDS, np.int64),
            "none": np.zeros(1, np.int64),
        }

    def _bind(self, slab: Slab) -> None:
        self._counts, self._chunks, self._best = slab["counts"], slab["chunks"], slab["best"]
        self._places, self._values, self._in_order = slab["places"], slab["values"], slab["none"]
        self.ends = slab["ends"]
        if self._full is not None:
            self._full.bind(slab)

    def clear(self) -> None:
        """Count anew, in the same memory; nothing is waited for."""
        self._samples = self._summed = self._kept = 0
        self._parts = []
        self._slab.clear()

    def add(self, ref: Any, cand: Any, ordinals: Ints | range) -> None:
        """Count a batch; it is done when the device comes to it.

        Args:
            ref: flat values on the device, float32 or float64, of at most `MOST` elements.
            cand: the same of the candidate.
            ordinals: of the samples; a range of step 1 takes no copy to the device.
        """
        samples, size = len(ordinals), int(ref.size)
        tiles = -(-size // TILE)
        blocks = max(min(self._most_blocks, tiles), -(-size // sums.MOST))
        self._make_room(samples, tiles, blocks)
        batch, numbers = self._numbers(ordinals)
        rule, dirty = self._rule, self._dirty[:tiles]
        self._scan(ref, cand, numbers, batch, blocks, dirty)
        cast(Any, fold.fold)[1, THREADS](
            ref, cand, numbers, batch, self._tops, self._at, blocks,
            self._best, self._places, self._values,
        )  # fmt: skip
        cast(Any, self._keeper())[blocks, THREADS](
            ref, cand, self._width, rule, self._team, dirty, self._samples,
            self._counts, self._failing,
        )  # fmt: skip
        self._samples += samples
        self._kept += samples
        self._summed += size
        if self._summed > sums.BETWEEN:
            cast(Any, sums.carry)[1, THREADS](self._chunks)
            self._summed = 0

    def _scan(
        self, ref: Any, cand: Any, numbers: Any, batch: scan.Batch, blocks: int, dirty: Any
    ) -> None:
        cast(Any, scan.scan)[blocks, THREADS](
            ref, cand, numbers, batch, self._counts, self._chunks, self._best,
            self._tops, self._at, dirty,
        )  # fmt: skip
        if self._full is not None:
            self._full.add(ref, cand, numbers, batch, blocks, self._chunks)

    def _keeper(self) -> Any:
        return failing.keep_failing

    @property
    def bytes_held(self) -> int:
        """Memory of the device that this takes, beside the batches."""
        own = (self._dirty, self._tops, self._at, self._failing)
        held = self._slab.nbytes + (0 if self._full is None else self._full.bytes_held)
        return held + sum(int(array.nbytes) for array in own if array is not None)

    def read(self) -> Counted:
        """What was counted so far, once the device is done; copied at once, but what fails.

        Raises:
            DeviceError: what came back wasn't counted here, or can't have been.
        """
        found = self._slab.read()
        counts = found["counts"]
        self._take_failing(int(counts[scan.FAILING]))
        listed = np.ascontiguousarray(np.concatenate(self._parts).T)
        rules, elements = listed[failing.RULES], listed[failing.ELEMENTS]
        if np.any((rules < 0) | (rules >= _RULES) | (elements < 0) | (elements > MOST)):
            raise DeviceError("it lists rules or numbers of failing elements that there aren't")
        order = np.argsort(listed[failing.ROW])
        ratios, errors = (
            listed[row].view(np.float64) for row in (failing.EXCESS_BITS, failing.ERROR_BITS)
        )
        return Counted(
            self._samples, counts[: scan.CLASSES], int(counts[scan.LOST]),
            int(counts[scan.OVER]), found["chunks"], self._best_of(found["best"]), found["places"],
            found["values"], found["ends"], listed[failing.ROW][order],
            rules[order].astype(np.uint8), elements[order].astype(np.uint32),
            listed[failing.WORST][order], ratios[order], errors[order], self._measured(found),
        )  # fmt: skip

    def _best_of(self, best: npt.NDArray[Any]) -> tuple[Number, Number, Number]:
        error, excess, excess_error = best.tolist()
        return error, excess, excess_error

    def _measured(self, found: Arrays) -> Measured | None:
        return None if self._full is None else self._full.measured(found)

    def _numbers(self, ordinals: Ints | range) -> tuple[scan.Batch, Any]:
        """What kernels are told of a batch, and its ordinals where they are read."""
        rule = self._rule
        own = (self._is_bounded, rule.atol, rule.rtol, rule.cap)
        if isinstance(ordinals, range):
            return scan.Batch(self._width, ordinals.start, 1, *own), self._in_order
        steps = np.diff(ordinals)
        if len(ordinals) and bool(np.all(steps == 1)):
            return scan.Batch(self._width, int(ordinals[0]), 1, *own), self._in_order
        is_sorted = int(np.all(steps > 0))
        return scan.Batch(self._width, -1, is_sorted, *own), cuda.to_device(ordinals)

    def _make_room(self, samples: int, tiles: int, blocks: int) -> None:
        if self._dirty is None or self._dirty.size < tiles:
            self._dirty = cuda.device_array(tiles, np.uint8)
        if self._tops is None or self._tops.shape[1] < blocks:
            self._tops = cuda.device_array((3, blocks), self._kept_as)
            self._at = cuda.to_device(np.full((2, blocks), -1, np.int64))
        if self._kept + samples <= self._room:
            return
        most = max(samples, _ROOM)
        if self._kept:
            counted = self._counts[scan.FAILING : scan.FAILING + 1].copy_to_host()
            self._take_failing(int(counted[0]))
            most = max(most, min(_BATCHES * samples, _MOST_BYTES // (8 * failing.WORDS)))
        if most > self._room:
            self._failing, self._room = None, 0  # given back first
            self._failing = cuda.device_array((most, failing.WORDS), np.int64)
            self._room = most

    def _take_failing(self, found: int) -> None:
        """Read so many failing samples from the device, which then has room again."""
        if not 0 <= found <= self._kept:
            raise DeviceError(f"it counted {found:,} failing samples of {self._kept:,}")
        if found:
            self._parts.append(self._failing[:found].copy_to_host())
            self._counts[scan.FAILING : scan.FAILING + 1].copy_to_device(np.zeros(1, np.int64))
        if not self._parts:
            self._parts.append(np.empty((0, failing.WORDS), np.int64))
        self._kept = 0


def most_blocks() -> int:
    """Blocks that a device is given at once."""
    if SIMULATED:
        return _SIMULATED_BLOCKS
    return _BLOCKS_EACH * int(cuda.get_current_device().MULTIPROCESSOR_COUNT)
