"""What the tensors of a pack are like: their shapes, and the numbers that occur in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from paritygate.core.dtypes import INTEGERS, is_float, widened
from paritygate.core.ragged import Ragged, shape_of, take_rows
from paritygate.core.tensors import ColumnSpec
from paritygate.golden.pack import GoldenPack

_STEP = 4_096
_MOST_CHANNELS = 64

Number = int | float
LeaveOut = Callable[[int, int], npt.NDArray[np.bool_]]


class Observed(Struct, frozen=True):
    """One tensor over all samples.

    Attributes:
        dtype: of its elements.
        dims: smallest and largest size of each dim of a sample.
        ranges: smallest and largest finite number: of each channel where samples have few, else of
            all elements; empty where there are none, or no numbers.
        nonfinite: samples with a NaN or an infinity.
        without: channels without a finite number, where others have some.
    """

    dtype: str
    dims: tuple[tuple[int, int], ...]
    ranges: tuple[tuple[Number, Number], ...]
    nonfinite: int
    without: tuple[int, ...] = ()


def observe(
    pack: GoldenPack,
    column: str,
    spec: ColumnSpec,
    channel_axis: int | None = None,
    leave_out: LeaveOut | None = None,
) -> Observed:
    """Read one tensor of all samples.

    Args:
        pack: scanned.
        column: `in.NAME` or `out.NAME`.
        spec: of that column.
        channel_axis: of one sample; None: a short vector's own, else none.
        leave_out: first sample and the one after the last -> `(n,)` which don't count.

    Raises:
        GoldenError: a value that can't be read.
    """
    dims = [(dim, dim) if dim is not None else (-1, -1) for dim in spec.shape]
    if channel_axis is None and len(spec.shape) == 1:
        channel_axis = 0
    channels = (spec.shape[channel_axis] or 0) if channel_axis is not None else 0
    if not 0 < channels <= _MOST_CHANNELS:
        channel_axis, channels = None, 1
    has_range = is_float(spec.dtype) or spec.dtype in INTEGERS
    found: list[tuple[Number, Number] | None] = [None] * channels
    nonfinite = 0
    for start, stop in pack.batch_spans(_STEP):
        tensor = pack.tensor(column, start, stop)
        if leave_out is not None:
            tensor = take_rows(tensor, np.flatnonzero(~leave_out(start, stop)))
        if not len(tensor):
            pack.done_until(stop)
            continue
        if not spec.is_fixed:
            dims = _wider(dims, [shape_of(tensor, row) for row in range(len(tensor))])
        if has_range:
            arrays = tensor.arrays if isinstance(tensor, Ragged) else [tensor]
            for array in arrays:
                values = widened(array)
                good = np.isfinite(values) if is_float(spec.dtype) else np.ones(values.shape, bool)
                bad = ~good.reshape(len(values), -1).all(axis=1) if array is tensor else ~good.all()
                nonfinite += int(np.sum(bad))
                if channel_axis is not None:
                    at = channel_axis - len(spec.shape)
                    values, good = (np.moveaxis(some, at, -1) for some in (values, good))
                found = _extended(found, values, good)
        pack.done_until(stop)
    ranges = tuple(pair for pair in found if pair is not None)
    is_whole = len(ranges) == len(found)
    without = tuple(at for at, pair in enumerate(found) if pair is None) if ranges else ()
    return Observed(spec.dtype, tuple(dims), ranges if is_whole else (), nonfinite, without)


def _wider(
    dims: Sequence[tuple[int, int]], shapes: Sequence[tuple[int, ...]]
) -> list[tuple[int, int]]:
    sizes = np.array(shapes, np.int64).reshape(len(shapes), -1)
    lows, highs = sizes.min(axis=0).tolist(), sizes.max(axis=0).tolist()
    return [
        (low if known[0] < 0 else min(known[0], low), max(known[1], high))
        for known, low, high in zip(dims, lows, highs, strict=True)
    ]


def _extended(
    found: Sequence[tuple[Number, Number] | None], values: Any, good: Any
) -> list[tuple[Number, Number] | None]:
    """Ranges with further values; each column is one channel where there are several."""
    channels = len(found)
    columns = values.reshape(-1, channels) if channels > 1 else values.reshape(-1, 1)
    usable = good.reshape(columns.shape)
    extended: list[tuple[Number, Number] | None] = []
    for at, known in enumerate(found):
        some = columns[:, at][usable[:, at]]
        if some.size:
            low, high = some.min().item(), some.max().item()
            known = (low, high) if known is None else (min(known[0], low), max(known[1], high))
        extended.append(known)
    return extended
