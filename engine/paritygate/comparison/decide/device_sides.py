"""Scores of both sides as kernels of a GPU take them, under either `compare_as`."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from paritygate.comparison.decide.base import CompareAs
from paritygate.core.dtypes import (
    element_bytes,
    float_format,
    is_float,
    numpy_dtype,
    rounded,
    widened,
)
from paritygate.gpu import convert
from paritygate.gpu.device import THREADS, cuda
from paritygate.gpu.kinds import Sides
from paritygate.gpu.tally import most_blocks

Room = dict[str, Any]
_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


class SideMaker:
    """Makes the scores of one side; several threads may, each in room of its own.

    Args:
        dtype: of the side.
        ref_dtype: of the reference.
        is_ranked: whether scores are put in order, in which int64 are compared as they are.

    Attributes:
        has_other: whether the two `compare_as` may see other scores.
    """

    def __init__(self, dtype: str, ref_dtype: str, *, is_ranked: bool) -> None:
        self._dtype, self._ref_dtype = dtype, ref_dtype
        self._is_small = element_bytes(dtype) <= 2
        is_narrowed = is_float(dtype) and not float_format(ref_dtype).holds(float_format(dtype))
        self._is_rounded = is_narrowed and not self._is_small
        self._is_long = is_ranked and dtype in ("int64", "uint64")
        self.has_other = is_narrowed or self._is_long
        self._tables: dict[CompareAs, Any] = {}

    def make(self, values: Any, compare_as: CompareAs, room: Room) -> Any:
        """Flat scores of the device as one `compare_as` has them.

        Args:
            values: flat, in the dtype of the side; those of at most two bytes as uint8 or uint16.
            compare_as: which.
            room: where they are converted into; of one thread.
        """
        if self._is_small:
            key: CompareAs = compare_as if self.has_other else "float64"
            out = _out(room, key, values.size, _FLOAT32)
            cast(Any, convert.look_up)[_blocks(values.size), THREADS](values, self._table(key), out)
            return out
        if self._is_rounded and compare_as == "output":
            return self._rounded(values, room)
        if is_float(self._dtype) or (self._is_long and compare_as == "output"):
            return values
        return _cast(values, _FLOAT64, room)

    def _rounded(self, values: Any, room: Room) -> Any:
        """Floats of four or eight bytes, rounded to the dtype of the reference."""
        if self._ref_dtype == "float32":
            return _cast(values, _FLOAT32, room)
        form = float_format(self._ref_dtype)
        past = math.inf if form.has_infinity else math.nan
        given = convert.Format(form.mantissa, form.min_exponent, form.largest, past)
        out = _out(room, "rounded", values.size, _FLOAT32)
        cast(Any, convert.round_off)[_blocks(values.size), THREADS](values, given, out)
        return out

    def _table(self, compare_as: CompareAs) -> Any:
        """The number of each code, as the kernels of decisions see it."""
        if compare_as not in self._tables:
            rounded_to = self._ref_dtype if compare_as == "output" else ""
            self._tables[compare_as] = cuda.to_device(_numbers(self._dtype, rounded_to))
        return self._tables[compare_as]


def _cast(values: Any, dtype: np.dtype[Any], room: Room) -> Any:
    out = _out(room, "cast", values.size, dtype)
    cast(Any, convert.cast)[_blocks(values.size), THREADS](values, out)
    return out


def _out(room: Room, key: str, size: int, dtype: np.dtype[Any]) -> Any:
    if key not in room or room[key].size < size:
        room[key] = cuda.device_array(size, dtype)
    return room[key][:size]


@cache
def _numbers(dtype: str, rounded_to: str) -> npt.NDArray[np.float32]:
    """The number of each code of a dtype, rounded to another one if that is named."""
    size = element_bytes(dtype)
    codes = np.arange(1 << (8 * size), dtype=f"u{size}")
    numbers = widened(codes.view(numpy_dtype(dtype)))
    if rounded_to:
        numbers = rounded(numbers, rounded_to)
    with np.errstate(invalid="ignore"):  # a signalling NaN
        return numbers.astype(np.float32)


def make_sides(
    makers: tuple[SideMaker, SideMaker],
    values: tuple[Any, Any],
    compare_as: CompareAs,
    rooms: tuple[Room, Room],
    *,
    has_other: bool,
) -> Sides:
    """Scores of both sides; the other `compare_as` is made only where it may matter."""
    given = tuple(zip(makers, values, rooms, strict=True))
    main = [maker.make(side, compare_as, room) for maker, side, room in given]
    other: CompareAs = "float64" if compare_as == "output" else "output"
    others = [
        maker.make(side, other, room) if maker.has_other else scores
        for (maker, side, room), scores in zip(given, main, strict=True)
    ]
    return Sides(main[0], main[1], others[0], others[1], has_other)


def bits_of(array: Any, dtype: str) -> Any:
    """An array of at most two bytes an element as uint8 or uint16, all others as they are."""
    size = element_bytes(dtype)
    return array.view(np.dtype(f"u{size}")) if size <= 2 else array


def _blocks(size: int) -> int:
    return min(most_blocks(), -(-size // THREADS))
