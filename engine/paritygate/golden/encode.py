"""Rows of columns as bytes that don't depend on how a file stores them.

A row is 0 for null, else 1 and its value: numbers as they lie in memory, low byte first; bools and
int4 one a byte; texts, binary and lists with their length before them, lists as rows of their
elements; structs as rows of their fields. A tensor is 1, its dims, its elements in row-major order.
Lengths and dims are 8 bytes.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from paritygate.core.dtypes import STRING
from paritygate.golden.columns import (
    elements_of,
    is_list,
    is_variable_tensor,
    layout_of,
    storage_of,
    values_of,
)
from paritygate.golden.dtypes import bools_in, dtype_of, elements_in, numbers_in, stored_elements
from paritygate.golden.varying import Shapes, flat_values, shapes_of

Bytes = npt.NDArray[np.uint8]
_BIG_ROW = 1_024
_TEXTS = (pa.string(), pa.large_string(), pa.string_view())
_BINARY = (pa.binary(), pa.large_binary(), pa.binary_view())


class UndigestedTypeError(Exception):
    """A column of a type that has no such bytes."""


class Part(Struct, frozen=True):
    """Bytes of consecutive rows, end to end.

    Attributes:
        flat: all bytes.
        lengths: of each row, or the one length of all of them.
        rows: how many.
    """

    flat: Bytes
    lengths: Shapes | int
    rows: int

    def each(self) -> Shapes:
        """The length of each row."""
        if isinstance(self.lengths, int):
            return np.full(self.rows, self.lengths, np.int64)
        return self.lengths


def name_type(kind: Any, declared: str | None = None) -> str:
    """Name of what a column holds, the same for all types that hold the same.

    Raises:
        UndigestedTypeError: unions, for one.
    """
    if isinstance(kind, pa.DictionaryType):
        return name_type(kind.value_type, declared)
    if isinstance(kind, pa.FixedShapeTensorType):
        return (
            "list<" * len(kind.shape) + name_type(kind.value_type, declared) + ">" * len(kind.shape)
        )
    if isinstance(kind, pa.BaseExtensionType):
        return name_type(kind.storage_type, declared)
    if is_list(kind):
        return f"list<{name_type(kind.value_type, declared)}>"
    if isinstance(kind, pa.StructType):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return f"struct<{', '.join(f'{f.name!r}: {name_type(f.type)}' for f in fields)}>"
    if kind in _BINARY or pa.types.is_fixed_size_binary(kind):
        return "binary"
    if pa.types.is_temporal(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        return str(kind)
    try:
        dtype = dtype_of(kind, declared)
    except ValueError as error:
        raise UndigestedTypeError(str(error)) from None
    if dtype is None:
        raise UndigestedTypeError(f"the type {kind} isn't read")
    return dtype


def tensor_parts(array: pa.Array[Any], declared: str | None) -> list[Part]:
    """Rows of a tensor column.

    Dims behind a dim of 0 count as 0: nested lists can't say more.

    Raises:
        UnsupportedTypeError, ValueFault, pa.ArrowInvalid: as reading it raises.
    """
    layout = layout_of(array.type, declared)
    rows = len(array)
    fixed = tuple(dim for dim in layout.dims if dim is not None)
    if len(fixed) == len(layout.dims) and not is_variable_tensor(storage_of(array).type):
        shapes = np.broadcast_to(np.array(fixed, np.int64), (rows, len(fixed)))
        flat = values_of(array, layout.dtype, fixed).reshape(-1)
    else:
        shapes = shapes_of(array)
        shapes = np.where(np.cumsum(shapes == 0, axis=1) > 0, 0, shapes)
        flat = flat_values(array, layout.dtype, shapes)
    dims = np.where(np.cumsum(shapes == 0, axis=1) > 0, 0, shapes)
    head = np.empty((rows, 1 + 8 * len(layout.dims)), np.uint8)
    head[:, 0] = 1
    head[:, 1:] = np.ascontiguousarray(dims, "<i8").view(np.uint8).reshape(rows, head.shape[1] - 1)
    heads = Part(head.reshape(-1), head.shape[1], rows)
    counts: Shapes = shapes.prod(axis=1)
    return [heads, _regrouped(_elements(flat, layout.dtype), counts)]


def plain_part(array: pa.Array[Any]) -> Part:
    """Rows of any other column.

    Raises:
        pa.ArrowInvalid: damaged offsets, texts or dictionary codes.
        UndigestedTypeError: as `name_type`.
    """
    array.validate(full=True)
    return _part(array)


def hash_rows(prefix: bytes, parts: Sequence[Part], rows: int) -> list[bytes]:
    """SHA-256 of each row: the prefix, then what each part has of it."""
    first = np.tile(np.frombuffer(prefix, np.uint8), rows)
    merged = _merged([Part(first, len(prefix), rows), *parts], rows)
    if len(merged) == 1 and isinstance(merged[0].lengths, int):
        data, size = merged[0].flat.data, merged[0].lengths
        sha256 = hashlib.sha256
        return [sha256(data[at : at + size]).digest() for at in range(0, rows * size, size)]
    flats = [part.flat.data for part in merged]
    stops = [np.concatenate([[0], np.cumsum(part.each())]).tolist() for part in merged]
    found = []
    for row in range(rows):
        digest = hashlib.sha256()
        for flat, at in zip(flats, stops, strict=True):
            digest.update(flat[at[row] : at[row + 1]])
        found.append(digest.digest())
    return found


def weave(parts: Sequence[Part], rows: int) -> Part:
    """The parts of each row one behind the other."""
    widths = [part.lengths for part in parts if isinstance(part.lengths, int)]
    if len(widths) == len(parts):
        tables = [p.flat.reshape(rows, w) for p, w in zip(parts, widths, strict=True)]
        table = np.ascontiguousarray(np.concatenate(tables, axis=1))
        return Part(table.reshape(-1), sum(widths), rows)
    lengths = np.stack([part.each() for part in parts], axis=1)
    owners = np.repeat(np.tile(np.arange(len(parts)), rows), lengths.reshape(-1))
    flat = np.empty(len(owners), np.uint8)
    for at, part in enumerate(parts):
        flat[owners == at] = part.flat
    return Part(flat, lengths.sum(axis=1), rows)


def _merged(parts: Sequence[Part], rows: int) -> list[Part]:
    """Neighbours of fixed length in one, unless that would copy large rows."""
    merged: list[Part] = []
    for part in parts:
        last = merged[-1] if merged else None
        if last is not None and _is_small(last) and _is_small(part):
            merged[-1] = weave([last, part], rows)
        else:
            merged.append(part)
    return merged


def _is_small(part: Part) -> bool:
    return isinstance(part.lengths, int) and part.lengths < _BIG_ROW


def _part(array: Any) -> Part:
    array = _bare(array)
    rows = len(array)
    if pa.types.is_null(array.type):
        return Part(np.zeros(rows, np.uint8), 1, rows)
    if not array.null_count:
        return weave([Part(np.ones(rows, np.uint8), 1, rows), _values(array)], rows)
    there = bools_in(array.is_valid())
    values = _values(array.drop_null())
    lengths = np.zeros(rows, np.int64)
    lengths[there] = values.each()
    return weave([Part(there.astype(np.uint8), 1, rows), Part(values.flat, lengths, rows)], rows)


def _bare(array: Any) -> Any:
    """Without dictionary and extension; tensors as lists of lists."""
    if isinstance(array, pa.DictionaryArray):
        return _bare(array.dictionary_decode())
    if isinstance(array.type, pa.FixedShapeTensorType):
        return _as_lists(array.storage, tuple(array.type.shape))
    return _bare(array.storage) if isinstance(array, pa.ExtensionArray) else array


def _as_lists(stored: Any, shape: tuple[int, ...]) -> Any:
    """Flat lists of fixed size as lists of lists; null rows stay null."""
    size = math.prod(shape)
    inner = stored.values.slice(stored.offset * size, len(stored) * size)
    for axis in range(len(shape) - 1, -1, -1):
        length = len(stored) * math.prod(shape[:axis])
        kind = pa.list_(inner.type, shape[axis])
        inner = pa.Array.from_buffers(kind, length, [None], children=[inner])
    if not stored.null_count:
        return inner
    mask = stored.is_null()
    kind = inner.type
    return pa.FixedSizeListArray.from_arrays(inner.values, kind.list_size, mask=mask)


def _values(array: Any) -> Part:
    """Rows of an array without nulls, but for those inside of lists and structs."""
    kind, rows = array.type, len(array)
    if is_list(kind):
        return _lists(array, rows)
    if isinstance(kind, pa.StructType):
        return weave([_part(field) for field in array.flatten()], rows)
    if pa.types.is_decimal(kind):
        return _values(array.cast(pa.string()))
    if kind in _TEXTS or kind in _BINARY or pa.types.is_fixed_size_binary(kind):
        return _binary(array)
    if pa.types.is_temporal(kind):
        array = array.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    dtype = dtype_of(array.type, None) or ""
    return _elements(elements_in(array, dtype), dtype)


def _lists(array: Any, rows: int) -> Part:
    counts = (
        np.full(rows, array.type.list_size, np.int64)
        if isinstance(array.type, pa.FixedSizeListType)
        else numbers_in(array.value_lengths()).astype(np.int64)
    )
    return weave([_sizes(counts), _regrouped(_part(elements_of(array)), counts)], rows)


def _binary(array: Any) -> Part:
    """Texts and bytes, each with its length before it."""
    if pa.types.is_fixed_size_binary(array.type) or array.type == pa.string_view():
        array = array.cast(pa.string() if array.type == pa.string_view() else pa.binary())
    large = array.cast(pa.large_binary())
    _, offsets, data = large.buffers()
    places = np.frombuffer(offsets, np.int64)[large.offset : large.offset + len(large) + 1]
    if len(places) == 0 or data is None:
        return _sizes(np.zeros(len(large), np.int64))
    flat = np.frombuffer(data, np.uint8)[places[0] : places[-1]]
    lengths: Shapes = np.diff(places)
    return weave([_sizes(lengths), Part(flat, lengths, len(large))], len(large))


def _sizes(counts: Shapes) -> Part:
    sizes = np.ascontiguousarray(counts, "<i8").view(np.uint8)
    return Part(sizes.reshape(-1), 8, len(counts))


def _elements(flat: Any, dtype: str) -> Part:
    """One row an element."""
    if dtype == STRING:
        return _binary(pa.array(flat, pa.large_string()))
    stored = np.ascontiguousarray(stored_elements(flat))
    if stored.dtype.kind == "b":
        stored = stored.view(np.uint8)
    size = stored.dtype.itemsize
    little = stored.astype(stored.dtype.newbyteorder("<"), copy=False)
    return Part(little.view(np.uint8).reshape(-1), size, len(stored))


def _regrouped(elements: Part, counts: Shapes) -> Part:
    """Rows of so many elements each."""
    rows = len(counts)
    if isinstance(elements.lengths, int):
        if rows and bool((counts == counts[0]).all()):
            return Part(elements.flat, int(counts[0]) * elements.lengths, rows)
        return Part(elements.flat, counts * elements.lengths, rows)
    stops = np.concatenate([[0], np.cumsum(elements.lengths)])
    ends = np.concatenate([[0], np.cumsum(counts)])
    return Part(elements.flat, np.diff(stops[ends]), rows)
