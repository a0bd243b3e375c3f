"""How large views become once they are laid out end to end: many may show the same bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paritygate.golden.bounds import SpreadError

_UNPACKED = 1 << 28
_RATIO = 16
_VIEW = np.dtype([("length", "<i4"), ("rest", "V12")])
_TEXTS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
_Costs = npt.NDArray[np.float64] | float


def check_spread(array: Any) -> None:
    """Refuse views and dictionaries that take far more room end to end, before they take it.

    Args:
        array: of any type; its views need not be valid.

    Raises:
        SpreadError: saying how much.
    """
    costs = _costs(array)
    needs = float(np.sum(costs)) if isinstance(costs, np.ndarray) else costs * len(array)
    has = array.get_total_buffer_size()
    if needs > max(_UNPACKED, _RATIO * has):
        raise SpreadError(
            f"a column of {array.type} has {has:,} bytes, but its rows show the same ones again "
            f"and again: {needs / (1 << 20):,.0f} MiB end to end; write it as plain lists or texts"
        )


def _costs(array: Any) -> _Costs:
    """Bytes of each row end to end; one number where all rows have as many."""
    kind = array.type
    if not len(array):
        return 0.0
    if isinstance(kind, pa.BaseExtensionType):
        return _costs(array.storage)
    if kind == pa.string_view() or kind == pa.binary_view():
        return _masked(array, _of_views(array))
    if isinstance(array, pa.DictionaryArray):
        return _of_indices(array)
    if kind in _TEXTS:
        import pyarrow.compute as pc

        return _masked(
            array, pc.binary_length(array).fill_null(0).to_numpy().astype(np.float64) + 4
        )
    if isinstance(kind, pa.FixedSizeListType):
        size = kind.list_size
        return _masked(array, _between(array.values, array.offset * size, len(array), size))
    if isinstance(kind, pa.ListType | pa.LargeListType):
        offsets = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
        return _masked(array, _sums(array.values, offsets[:-1], np.diff(offsets)) + 8)
    if isinstance(kind, pa.ListViewType | pa.LargeListViewType):
        starts, sizes = (
            part.to_numpy(zero_copy_only=False).astype(np.int64)
            for part in (array.offsets, array.sizes)
        )
        return _masked(array, _sums(array.values, starts, sizes) + 8)
    return float(array.nbytes / len(array))


def _of_views(array: Any) -> npt.NDArray[np.float64]:
    views = np.frombuffer(array.buffers()[1], _VIEW, len(array) + array.offset)
    lengths: npt.NDArray[np.float64] = views["length"][array.offset :].astype(np.float64)
    return np.maximum(lengths, 0.0) + 4


def _of_indices(array: Any) -> npt.NDArray[np.float64]:
    indices = array.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    values = array.dictionary
    at = np.clip(indices, 0, max(0, len(values) - 1))
    if values.type in _TEXTS and len(values):  # a large dictionary isn't gone through for few rows
        width = "<i8" if values.type in (pa.large_string(), pa.large_binary()) else "<i4"
        offsets = np.frombuffer(values.buffers()[1], width, values.offset + len(values) + 1)
        found = np.diff(offsets[values.offset + at + np.array([[0], [1]])], axis=0)[0]
        return _masked(array, np.maximum(found.astype(np.float64), 0.0) + 4)
    costs = _costs(values)
    if not isinstance(costs, np.ndarray):
        return np.full(len(array), costs)
    return _masked(array, costs[at])


def _between(values: Any, first: int, rows: int, size: int) -> npt.NDArray[np.float64]:
    starts = first + size * np.arange(rows, dtype=np.int64)
    return _sums(values, starts, np.full(rows, size, np.int64))


def _sums(
    values: Any, starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Bytes of `values[start : start + size]`, of each row; what lies beyond costs nothing."""
    low = np.clip(starts, 0, len(values))
    high = np.clip(starts + np.maximum(sizes, 0), low, len(values))
    costs = _costs(values)
    if not isinstance(costs, np.ndarray):
        return (high - low).astype(np.float64) * costs
    before = np.concatenate([[0.0], np.cumsum(costs)])
    found: npt.NDArray[np.float64] = before[high] - before[low]
    return found


def _masked(array: Any, costs: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    if not array.null_count:
        return costs
    return np.where(array.is_null().to_numpy(zero_copy_only=False), 0.0, costs)
