"""Both sides of an output as kernels take them: flat, in one dtype, in pieces of bounded memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import numpy as np

from paritygate.gpu import convert, widen
from paritygate.gpu.device import SIMULATED, THREADS, cuda

PIECE = 1 << 24  # elements that are widened at once
_BLOCKS = 2 if SIMULATED else 1024
ENDS = 6  # both ends of the reference and of the candidate, and those of `beyond`


class Side(NamedTuple):
    """How the values of one side are read.

    Attributes:
        stored: dtype that a device has them in; of narrow floats it is of their bits.
        form: how narrow floats are read; None: numbers are what they are.
        is_flag: whether every byte but 0 is 1.
        ends: smallest and largest number that are counted; None: none are.
    """

    stored: np.dtype[Any]
    form: widen.Form | None
    is_flag: bool
    ends: tuple[float, float] | None


class Sides:
    """Widens pieces of batches on the current device, and counts values at their ends.

    Args:
        sides: of the reference and of the candidate.
        wide: the dtype that both are compared in.
        beyond: smallest |ref| that is counted, inf for none.
        counts: `(ENDS,)` int64 of the device, added to.
    """

    def __init__(
        self, sides: tuple[Side, Side], wide: np.dtype[Any], beyond: float, counts: Any
    ) -> None:
        self._sides, self._wide, self._beyond, self._counts = sides, wide, beyond, counts
        self._room: list[Any] = [None, None]

    @property
    def bytes_held(self) -> int:
        """Memory of the device that this takes, beside the batches."""
        return sum(int(room.nbytes) for room in self._room if room is not None)

    @property
    def _is_as_stored(self) -> bool:
        return all(self._is_wide(side) for side in self._sides)

    def _is_wide(self, side: Side) -> bool:
        return side.stored == self._wide and side.form is None

    def pieces(self, ref: Any, cand: Any, width: int) -> Iterator[tuple[Any, Any, int, int]]:
        """Pieces of whole samples, each as both sides and the first and the last of its samples.

        Args:
            ref: flat values as they are stored, of samples of `width` elements.
            cand: the same of the candidate.
            width: elements a sample.
        """
        samples = ref.size // width
        step = samples if self._is_as_stored else max(1, PIECE // width)
        for first in range(0, samples, step):
            last = min(first + step, samples)
            part = slice(first * width, last * width)
            left, right = self._widened(0, ref[part]), self._widened(1, cand[part])
            self._count(left, right)
            yield left, right, first, last

    def _widened(self, number: int, values: Any) -> Any:
        side = self._sides[number]
        if self._is_wide(side):
            return values
        room = self._room[number]
        if room is None or room.size < values.size:
            room = self._room[number] = cuda.device_array(values.size, self._wide)
        into = room[: values.size]
        if side.form is not None:
            cast(Any, widen.widen_bits)[_BLOCKS, THREADS](values, side.form, into)
        elif side.is_flag:
            cast(Any, widen.widen_flags)[_BLOCKS, THREADS](values, into)
        else:
            cast(Any, convert.cast)[_BLOCKS, THREADS](values, into)
        return into

    def _count(self, ref: Any, cand: Any) -> None:
        ends = [side.ends for side in self._sides]
        if self._beyond < math.inf:
            ends.append((-self._beyond, self._beyond))
        for number, (values, pair) in enumerate(zip((ref, cand, ref), ends, strict=False)):
            if pair is not None:
                cast(Any, widen.count_ends)[_BLOCKS, THREADS](
                    values, *pair, self._counts, 2 * number
                )
