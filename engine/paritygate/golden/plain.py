"""Columns in the form that the rest reads: lists for list views, row-major tensors, strings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from paritygate.golden.spread import check_spread

_ARRAYS_OF_DATASETS = "datasets.features.features.Array"


def plain_type(kind: pa.DataType) -> Any:
    """Type of a column once `plain` has read it."""
    if isinstance(kind, pa.FixedShapeTensorType):
        order = _order(kind)
        return kind if order is None else _row_major_type(kind, order)
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type) if _is_of_datasets(kind) else kind
    if isinstance(kind, pa.ListType | pa.ListViewType):
        return pa.list_(plain_type(kind.value_type))
    if isinstance(kind, pa.LargeListType | pa.LargeListViewType):
        return pa.large_list(plain_type(kind.value_type))
    if isinstance(kind, pa.FixedSizeListType):
        return pa.list_(plain_type(kind.value_type), kind.list_size)
    return pa.string() if kind == pa.string_view() else kind


def plain(array: pa.Array[Any]) -> Any:
    """The same rows in that form; without a copy where nothing has to be done.

    Raises:
        pa.ArrowInvalid: views that point out of their buffers, or invalid UTF-8.
        SpreadError: views that show the same bytes again and again.
    """
    kind: Any = array.type
    if isinstance(kind, pa.FixedShapeTensorType):
        order = _order(kind)
        return array if order is None else _row_major(array, kind, order)
    if isinstance(kind, pa.BaseExtensionType) and _is_of_datasets(kind):
        array = array.storage  # type: ignore[attr-defined]
        kind = array.type
    if isinstance(array, pa.DictionaryArray) or kind == pa.binary_view():
        check_spread(array)
    if isinstance(array, pa.DictionaryArray) and kind.value_type == pa.string_view():
        array.validate(full=True)
        return pa.DictionaryArray.from_arrays(array.indices, plain(array.dictionary), safe=False)
    if not _has_views(kind):
        return array
    check_spread(array)
    array.validate(full=True)
    return array.cast(pa.string()) if kind == pa.string_view() else _lists(array)


def _lists(array: Any) -> Any:
    """The same lists, end to end; Arrow's own cast loses rows of list views (in version 26)."""
    kind = array.type
    mask = array.is_null()
    if isinstance(kind, pa.FixedSizeListType):
        size = kind.list_size
        inner = plain(array.values.slice(array.offset * size, len(array) * size))
        return pa.FixedSizeListArray.from_arrays(inner, size, mask=mask)
    lengths = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    inner = plain(array.flatten())
    if isinstance(kind, pa.LargeListType | pa.LargeListViewType):
        return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), inner, mask=mask)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), inner, mask=mask)


def _has_views(kind: Any) -> bool:
    if isinstance(kind, pa.ListViewType | pa.LargeListViewType) or kind == pa.string_view():
        return True
    is_list = isinstance(kind, pa.ListType | pa.LargeListType | pa.FixedSizeListType)
    return is_list and _has_views(kind.value_type)


def _is_of_datasets(kind: pa.BaseExtensionType) -> bool:
    """Whether it is one of Hugging Face's Array2D to Array5D: nested lists, known by that name."""
    return str(kind.extension_name).startswith(_ARRAYS_OF_DATASETS)


def _order(kind: Any) -> list[int] | None:
    """The permutation of a tensor type, or None where its dims stand in order."""
    order = kind.permutation
    if order is None or list(order) == list(range(len(kind.shape))):
        return None
    return list(order)


def _row_major_type(kind: Any, order: list[int]) -> Any:
    return pa.fixed_shape_tensor(kind.value_type, [kind.shape[axis] for axis in order])


def _row_major(array: Any, kind: Any, order: list[int]) -> Any:
    """The tensors with their dims in logical order.

    As Arrow's specification of the type says: dim i is dim `permutation[i]` of the stored one.
    """
    storage = array.storage
    size = kind.storage_type.list_size
    flat = storage.values.slice(storage.offset * size, len(storage) * size)
    if not storage.null_count and not flat.null_count:
        values = flat.to_numpy(zero_copy_only=False).reshape(len(storage), *kind.shape)
        moved = values.transpose(0, *(axis + 1 for axis in order))
        flat = pa.array(np.ascontiguousarray(moved).reshape(-1), kind.value_type)
        storage = pa.Array.from_buffers(kind.storage_type, len(storage), [None], children=[flat])
    return pa.ExtensionArray.from_storage(_row_major_type(kind, order), storage)
