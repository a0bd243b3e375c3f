"""What is counted of an output stays on the device, batch after batch, until it is read."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from paritygate.gpu import failing, fold, scan, sums
from paritygate.gpu.device import SIMULATED, THREADS, TILE, cuda
from paritygate.gpu.full import FullTally, Measured
from paritygate.kernels.elements import Rule

Number = int | float
Ints = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]

MOST = 1 << 29  # elements of a batch, for which no chunk of a sum overflows
_ROOM = 1 << 20  # failing samples that are kept on the device before they are read
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
    rows: Ints
    rules: npt.NDArray[np.uint8]
    elements: npt.NDArray[np.uint32]
    worst_at: Ints
    worst_excess: Doubles
    worst_error: Doubles
    measured: Measured | None


class DeviceTally:
    """Counts batches of one output on the current device; one thread at a time.

    Nothing is read between batches, but for failing samples where they may come to be too many.

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
        self._samples = self._summed = self._kept = self._room = 0
        self._parts: list[tuple[npt.NDArray[Any], ...]] = []
        self._counts = _filled(0, scan.COUNTS, np.int64)
        self._full = full
        rows = sums.ROWS if full else sums.ROWS - sums.PRODUCTS
        self._chunks = _filled(0, (rows, sums.CHUNKS), np.int64)
        self._best = _filled(0, 3, self._kept_as)
        self._places = _filled(-1, (2, 2), np.int64)
        self._values = _filled(0, (2, 2), np.float64)
        self._in_order = _filled(0, 1, np.int64)
        self._dirty: Any = None
        self._tops: Any = None
        self._at: Any = None
        self._failing: tuple[Any, ...] = ()

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
            self._counts, *self._failing,
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
        held = [*vars(self).values(), *(vars(self._full).values() if self._full else ())]
        arrays = [
            one for value in held for one in (value if isinstance(value, tuple) else (value,))
        ]
        return sum(int(one.nbytes) for one in arrays if hasattr(one, "copy_to_host"))

    def read(self) -> Counted:
        """What was counted so far, once the device is done."""
        self._take_failing()
        counts = self._counts.copy_to_host()
        parts = [np.concatenate(of, axis=-1) for of in zip(*self._parts, strict=True)]
        rows, rules, elements, worst_at, worst = parts
        order = np.argsort(rows)
        return Counted(
            self._samples, counts[: scan.CLASSES], int(counts[scan.LOST]),
            int(counts[scan.OVER]), self._chunks.copy_to_host(), self._found_best(),
            self._places.copy_to_host(),
            self._values.copy_to_host(), rows[order], rules[order], elements[order],
            worst_at[order], worst[0, order], worst[1, order],
            self._measured(),
        )  # fmt: skip

    def _found_best(self) -> tuple[Number, Number, Number]:
        error, excess, excess_error = self._best.copy_to_host().tolist()
        return error, excess, excess_error

    def _measured(self) -> Measured | None:
        return None if self._full is None else self._full.read()

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
            self._at = cuda.device_array((2, blocks), np.int64)
        if self._kept + samples > self._room:
            self._take_failing()
        if samples > self._room:
            self._room = max(samples, _ROOM)
            self._failing = (
                cuda.device_array(self._room, np.int64),
                cuda.device_array(self._room, np.uint8),
                cuda.device_array(self._room, np.uint32),
                cuda.device_array(self._room, np.int64),
                cuda.device_array((2, self._room), np.float64),
            )

    def _take_failing(self) -> None:
        """Read the failing samples that are kept on the device, which then has room again."""
        counts = self._counts.copy_to_host() if self._kept else np.zeros(scan.COUNTS, np.int64)
        found = int(counts[scan.FAILING])
        if found:
            *flat, worst = self._failing
            part = [array[:found].copy_to_host() for array in flat]
            both = [worst[row, :found].copy_to_host() for row in range(2)]
            self._parts.append((*part, np.stack(both)))
            counts[scan.FAILING] = 0
            self._counts.copy_to_device(counts)
        if not self._parts:
            none = np.empty(0, np.int64)
            self._parts.append(
                (none, none.astype(np.uint8), none.astype(np.uint32), none, np.empty((2, 0)))
            )
        self._kept = 0


def most_blocks() -> int:
    """Blocks that a device is given at once."""
    if SIMULATED:
        return _SIMULATED_BLOCKS
    return _BLOCKS_EACH * int(cuda.get_current_device().MULTIPROCESSOR_COUNT)


def _filled(value: int, shape: Any, dtype: Any) -> Any:
    return cuda.to_device(np.full(shape, value, dtype))
