"""What is found out about decisions stays on the device, batch after batch, until it is read."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from paritygate.core.errors import DeviceError
from paritygate.gpu import decide
from paritygate.gpu.device import THREADS, cuda
from paritygate.gpu.kinds import AnyKind, Launch, Sides
from paritygate.gpu.slab import Slab
from paritygate.gpu.tally import most_blocks
from paritygate.kernels.scalar import BINS

Ints = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]

_LEAST = 1 << 12  # rows that flipped, for which there is room
_ROOM = 1 << 26  # bytes for rows that flipped, before they are read


class Counted(NamedTuple):
    """What was found, as arrays of the host.

    Attributes:
        samples: how many.
        counts: `(decide.COUNTS,)`.
        codes: `(codes + 1,)` rows that didn't flip by their decision, undefined first.
        bins: `(BINS,)` their margins by size; nothing in tier "gate".
        least: the smallest of these margins.
        place: ordinal and decision of its sample; -1 where there is none.
        rows: `(n,)` rows that flipped, ascending.
        margins: `(n,)` theirs.
        pairs: `(n, 2, places)` codes of both sides.
        of_kind: what the kind has found by itself.
    """

    samples: int
    counts: Ints
    codes: Ints
    bins: Ints
    least: float
    place: tuple[int, int]
    rows: Ints
    margins: Doubles
    pairs: Ints
    of_kind: tuple[Ints, Doubles] | None


class DecisionsTally:
    """Counts batches of one decision on the current device; one thread at a time.

    Nothing is read between batches, but for rows that flipped where they may come to be too many.

    Args:
        kind: what is decided.
        each: decisions of a sample.
        match: whether undefined on both sides agrees.
        atol: absolute tolerance.
        rtol: tolerance relative to |ref|.
        is_full: whether margins are counted by size.
    """

    def __init__(
        self, kind: AnyKind, each: int, *, match: bool, atol: float, rtol: float, is_full: bool
    ) -> None:
        self._kind, self._each = kind, each
        self._same = decide.Batch(0, each, -1, 0, int(match), int(is_full), 0, atol, rtol)
        self._most_blocks = most_blocks()
        self._slab = Slab(
            {
                "counts": np.zeros(decide.COUNTS, np.int64),
                "codes": np.zeros(kind.codes + 1, np.int64),
                "bins": np.zeros(BINS if is_full else 1, np.int64),
                "least": np.full(1, math.inf),
                "place": np.full(2, -1, np.int64),
                "none": np.zeros(1, np.int64),
                **kind.begin(),
            }
        )
        slab = self._slab
        self._counts, self._codes, self._bins = slab["counts"], slab["codes"], slab["bins"]
        self._least, self._place, self._nothing = slab["least"], slab["place"], slab["none"]
        kind.bind(slab)
        self._samples = self._listed = self._room = 0
        self._parts: list[tuple[npt.NDArray[Any], ...]] = []
        self._tops: Any = None
        self._at: Any = None
        self._flips: tuple[Any, ...] = ()

    def clear(self) -> None:
        """Count anew, in the same memory; nothing is waited for."""
        self._samples = self._listed = 0
        self._parts = []
        self._slab.clear()

    def add(self, sides: Sides, ordinals: Ints | range, truth: Any) -> None:
        """Decide a batch; it is done when the device comes to it.

        Args:
            sides: of `len(ordinals) * each` rows, at least one.
            ordinals: of the samples; a range of step 1 takes no copy to the device.
            truth: `(samples,)` int64 codes of labels, on the host or on the device; None without.
        """
        samples = len(ordinals)
        rows = samples * self._each
        teams = THREADS // self._kind.team
        blocks = min(self._most_blocks, -(-rows // teams))
        self._make_room(rows, blocks)
        first, numbers = self._numbers(ordinals)
        batch = self._same._replace(
            rows=rows,
            first=first,
            before=self._samples * self._each,
            has_truth=int(truth is not None),
        )
        found = decide.Found(
            self._counts, self._codes, self._bins, self._tops, self._at, *self._flips
        )
        labels = self._nothing if truth is None else truth
        if isinstance(labels, np.ndarray):
            labels = cuda.to_device(labels)
        blocks = self._kind.launch(blocks, sides, Launch(numbers, labels, batch, found))
        cast(Any, decide.fold_least)[1, THREADS](
            found, blocks, batch, numbers, self._least, self._place
        )
        self._samples += samples
        self._listed += rows

    @property
    def bytes_held(self) -> int:
        """Memory of the device that this takes, beside the batches."""
        own = (self._tops, self._at, *self._flips)
        return self._slab.nbytes + sum(int(array.nbytes) for array in own if array is not None)

    def read(self) -> Counted:
        """What was found so far, once the device is done; copied at once, but what flipped.

        Raises:
            DeviceError: what came back wasn't found here, or can't have been.
        """
        found = self._slab.read()
        self._take_flips(int(found["counts"][decide.FLIPS]))
        rows, margins, pairs = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        order = np.argsort(rows)
        ordinal, position = found["place"].tolist()
        return Counted(
            self._samples, found["counts"], found["codes"], found["bins"],
            float(found["least"][0]), (ordinal, position), rows[order], margins[order],
            pairs[order].reshape(-1, 2, self._kind.places).astype(np.int64),
            self._kind.read(found),
        )  # fmt: skip

    def _numbers(self, ordinals: Ints | range) -> tuple[int, Any]:
        """Ordinal of the first sample, -1 where they don't follow each other; and then all."""
        if isinstance(ordinals, range):
            return ordinals.start, self._nothing
        if bool(np.all(np.diff(ordinals) == 1)):
            return int(ordinals[0]), self._nothing
        return -1, cuda.to_device(ordinals)

    def _make_room(self, rows: int, blocks: int) -> None:
        if self._tops is None or self._tops.size < blocks:
            self._tops = cuda.device_array(blocks, np.float64)
            self._at = cuda.device_array(blocks, np.int64)
        width = 2 * self._kind.places
        most = max(rows, _ROOM // (16 + 4 * width))
        if self._listed + rows > self._room == most:
            self._listed = self._flipped()
        if self._listed + rows <= self._room:
            return
        self._take_flips(self._flipped())
        if self._room < most:
            self._room = min(max(rows, 4 * self._room, _LEAST), most)
            self._flips = (
                cuda.device_array(self._room, np.int64),
                cuda.device_array(self._room, np.float64),
                cuda.device_array((self._room, width), np.int32),
            )

    def _flipped(self) -> int:
        """Rows that are listed on the device, once it is done."""
        return int(self._counts[decide.FLIPS :].copy_to_host()[0]) if self._listed else 0

    def _take_flips(self, found: int) -> None:
        """Read so many rows that flipped, for which the device then has room again."""
        if not 0 <= found <= self._listed:
            raise DeviceError(f"it counted {found:,} flips of {self._listed:,} decisions")
        if found:
            self._parts.append(tuple(array[:found].copy_to_host() for array in self._flips))
            self._counts[decide.FLIPS :].copy_to_device(np.zeros(1, np.int64))
        if not self._parts:
            none = np.empty((0, 2 * self._kind.places), np.int32)
            self._parts.append((np.empty(0, np.int64), np.empty(0), none))
        self._listed = 0
