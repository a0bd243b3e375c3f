"""Where tensors lie in the mapped files of a pack: noted once, then read without Arrow."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from paritygate.core.dtypes import HALF_BYTES, STRING, numpy_dtype
from paritygate.core.ragged import Ragged, Tensor
from paritygate.core.tensors import Array, ColumnSpec

Bytes = npt.NDArray[np.uint8]
Room = Callable[[int, Array], Array]

_UNKNOWN = -1


class Places:
    """Places of the values of columns whose samples have one shape, a number each record batch.

    Args:
        files: all bytes of each file; None where it isn't mapped.
        file_of: number of the file of each record batch.
        starts: first sample of each record batch, and the end of the last.
    """

    def __init__(
        self, files: Sequence[Bytes | None], file_of: Sequence[int], starts: Sequence[int]
    ) -> None:
        self._files = files
        self._file_of = file_of
        self._starts = starts
        self._places: dict[str, npt.NDArray[np.int64]] = {}

    def note(self, column: str, spec: ColumnSpec, start: int, values: Tensor) -> None:
        """Note where the record batch lies of which these are values, from sample `start` on.

        What isn't as it is in the file is passed over, and what has to be looked at to be read.
        """
        number = bisect_right(self._starts, start) - 1
        whole = self._files[self._file_of[number]]
        if whole is None or isinstance(values, Ragged) or spec.dtype in (*HALF_BYTES, STRING):
            return
        if values.dtype != numpy_dtype(spec.dtype) or not values.nbytes:
            return
        first, end = self._starts[number : number + 2]
        row_bytes = spec.sample_bytes
        place = _address(values) - _address(whole) - (start - first) * row_bytes
        if place < 0 or place + (end - first) * row_bytes > len(whole):
            return
        known = self._places.get(column)
        if known is None:
            known = np.full(len(self._file_of), _UNKNOWN, np.int64)
            known = self._places.setdefault(column, known)
        known[number] = place

    def read(
        self, column: str, spec: ColumnSpec, start: int, stop: int, room: Room | None
    ) -> Array | None:
        """Values of the samples `[start, stop)`, read-only; None where their places aren't known.

        Args:
            column: whose.
            spec: of the column.
            start: the first sample.
            stop: the end of them.
            room: as of `GoldenPack.output`; where the samples lie in several record batches.
        """
        places = self._places.get(column)
        if places is None or start >= stop:
            return None
        first, last = bisect_right(self._starts, start) - 1, bisect_left(self._starts, stop)
        whole = self._files[self._file_of[first]]
        is_one = self._file_of[first] == self._file_of[last - 1]
        if whole is None or not is_one or int(places[first:last].min()) < 0:
            return None
        row_bytes, dtype = spec.sample_bytes, numpy_dtype(spec.dtype)
        begin = int(places[first]) + (start - self._starts[first]) * row_bytes
        if last - first == 1:
            part = whole[begin : begin + (stop - start) * row_bytes]
            return part.view(dtype).reshape(stop - start, *spec.fixed_shape)
        bounds = [start, *self._starts[first + 1 : last], stop]
        sizes = [(high - low) * row_bytes for low, high in pairwise(bounds)]
        begins = [begin, *places[first + 1 : last].tolist()]
        like = np.empty((0, *spec.fixed_shape), dtype)
        values = (room or _new)(stop - start, like)[: stop - start]
        _copy(whole, begins, sizes, values.reshape(-1).view(np.uint8))
        values.flags.writeable = False
        return values


def _copy(whole: Bytes, begins: Sequence[int], sizes: Sequence[int], into: Bytes) -> None:
    """Copy pieces end to end; those of one size that lie evenly spaced at once."""
    at = to = 0
    while at < len(begins):
        begin, size, step, stop = begins[at], sizes[at], sizes[at], at + 1
        if stop < len(begins) and begins[stop] > begin:
            step = begins[stop] - begin
        while stop < len(begins) and begins[stop] - begins[stop - 1] == step:
            if sizes[stop] != size:
                break
            stop += 1
        count = stop - at
        pieces: Bytes = np.ndarray((count, size), np.uint8, whole, begin, (step, 1))
        into[to : to + count * size].reshape(count, size)[...] = pieces
        at, to = stop, to + count * size


def _new(rows: int, like: Array) -> Array:
    return np.empty((rows, *like.shape[1:]), like.dtype)


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])
