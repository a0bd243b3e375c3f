"""What a tensor column holds, and its values as one NumPy array without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct

from paritygate.core.dtypes import HALF_BYTES, limits_of
from paritygate.core.tensors import Array
from paritygate.golden.dtypes import READ, bools_in, dtype_of, elements_in, numbers_in

_VARIABLE = "arrow.variable_shape_tensor"


class Layout(Struct, frozen=True):
    """Dtype and dims of one sample; a dim is None where the type doesn't fix it (lists)."""

    dtype: str
    dims: tuple[int | None, ...]


class UnsupportedTypeError(Exception):
    """A column type that isn't read as a tensor; the text says which part and what is read."""


class ValueFault(Exception):  # noqa: N818 - a finding about data, turned into a GoldenError
    """A row of a column that can't be used.

    Attributes:
        code: code of the error that it becomes.
        row: row within the array looked at.
        found: what is wrong with it.
    """

    def __init__(self, code: str, row: int, found: str) -> None:
        super().__init__(found)
        self.code = code
        self.row = row
        self.found = found


def layout_of(kind: pa.DataType, declared: str | None = None) -> Layout:
    """Layout of a column of this Arrow type.

    Args:
        kind: type of the column.
        declared: `paritygate.dtype` of the field's metadata.

    Raises:
        UnsupportedTypeError: the column isn't a tensor that this version reads.
    """
    dims: tuple[int | None, ...] = ()
    inner: Any = kind
    if isinstance(inner, pa.FixedShapeTensorType):
        dims, inner = tuple(inner.shape), inner.value_type
    if is_variable_tensor(inner):
        inner = storage_type(inner)
        dims, inner = (None,) * inner.field(1).type.list_size, inner.field(0).type.value_type
    while is_list(inner):
        size = inner.list_size if isinstance(inner, pa.FixedSizeListType) else None
        dims, inner = (*dims, size), inner.value_type
    try:
        dtype = dtype_of(inner, declared)
    except ValueError as error:
        raise UnsupportedTypeError(f"{error}; {_read()}") from None
    if dtype is None:
        raise UnsupportedTypeError(f"{_describe(kind, inner)} isn't supported; {_read()}")
    return Layout(dtype, dims)


def fix_dims(layout: Layout, array: pa.Array[Any]) -> tuple[int, ...]:
    """Shape of one sample, with the dims that the type leaves open taken from the first row.

    Raises:
        ValueFault: the first row is null.
    """
    fixed = tuple(dim for dim in layout.dims if dim is not None)
    if len(fixed) == len(layout.dims):
        return fixed
    dims: list[int] = []
    inner: Any = storage_of(array.slice(0, 1))
    if is_variable_tensor(inner.type):
        refuse_nulls(inner, len(inner))
        return tuple(inner[0]["shape"].as_py()) if len(inner) else (0,) * len(layout.dims)
    for dim in layout.dims:
        refuse_nulls(inner, len(inner))
        size = dim if dim is not None else (inner.value_lengths()[0].as_py() if len(inner) else 0)
        dims.append(size)
        inner = elements_of(inner)
    return tuple(dims)


def values_of(array: pa.Array[Any], dtype: str, shape: tuple[int, ...]) -> Array:
    """The column's rows as `(rows, *shape)`, read-only, C-contiguous; bools are unpacked.

    Raises:
        ValueFault: a null, a list whose length isn't that of `shape`, or a byte that is no int4.
        pa.ArrowInvalid: offsets of lists or texts that point outside of the file; no UTF-8.
    """
    rows = len(array)
    inner: Any = storage_of(array)
    depth = 0
    while is_list(inner.type):
        refuse_nulls(inner, rows)
        if not isinstance(inner.type, pa.FixedSizeListType):
            inner.validate(full=True)
            _check_lengths(inner, rows, shape[depth])
        inner = elements_of(inner)
        depth += 1
    refuse_nulls(inner, rows)
    values = elements_in(inner, dtype).reshape(rows, *shape)
    if dtype in HALF_BYTES:
        check_half_bytes(inner, dtype, rows)
    if not values.flags.aligned:
        values = values.copy()
    values.flags.writeable = False
    return values


def is_list(kind: pa.DataType) -> bool:
    """Whether a column of this type holds lists, whose lengths are a dim of each sample."""
    return isinstance(kind, (pa.FixedSizeListType, pa.ListType, pa.LargeListType))


def is_variable_tensor(kind: pa.DataType) -> bool:
    """Whether this is `arrow.variable_shape_tensor` or its storage: flat data, and its shape."""
    kind = storage_type(kind)
    if not isinstance(kind, pa.StructType) or kind.num_fields != 2:
        return False
    data, shape = kind.field(0), kind.field(1)
    return (
        (data.name, shape.name) == ("data", "shape")
        and isinstance(data.type, (pa.ListType, pa.LargeListType))
        and isinstance(shape.type, pa.FixedSizeListType)
        and shape.type.value_type == pa.int32()
    )


def storage_type(kind: pa.DataType) -> pa.DataType:
    """The type itself, or what `arrow.variable_shape_tensor` stores."""
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name == _VARIABLE:
        return kind.storage_type
    return kind


def storage_of(array: pa.Array[Any]) -> Any:
    """The array itself, or what an extension array stores."""
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def first_null(array: Any) -> int:
    """Row of the first null of an array that says it has some.

    Raises:
        pa.ArrowInvalid: there is none, so that the file contradicts itself.
    """
    nulls = np.flatnonzero(bools_in(array.is_null()))
    if nulls.size == 0:
        raise pa.ArrowInvalid(f"{array.null_count} nulls are announced, but there are none")
    return int(nulls[0])


def elements_of(lists: Any) -> Any:
    """What the lists hold, end to end, without a copy; there are no null lists."""
    if isinstance(lists.type, pa.FixedSizeListType):
        size = lists.type.list_size
        return lists.values.slice(lists.offset * size, len(lists) * size)
    return lists.flatten()


def refuse_nulls(array: Any, rows: int) -> None:
    """Refuse a null in what belongs to `rows` samples, as many elements each.

    Raises:
        ValueFault: `golden.null_value`.
    """
    if len(array) and array.null_count:
        at = first_null(array)
        inside = "null" if len(array) == rows else f"null at element {at % (len(array) // rows)}"
        raise ValueFault("golden.null_value", at * rows // len(array), inside)


def check_half_bytes(stored: Any, dtype: str, rows: int) -> None:
    """A byte holds more than four bits: what is beyond them would be read as another number."""
    low, high = limits_of(dtype)
    numbers: Any = numbers_in(stored)
    wrong = np.flatnonzero((numbers < low) | (numbers > high))
    if wrong.size:
        at = int(wrong[0])
        found = f"{numbers[at]} at element {at % (numbers.size // rows)}"
        raise ValueFault(
            "golden.value",
            at * rows // numbers.size,
            f"{found}, where {dtype} holds {low} to {high}",
        )


def _check_lengths(array: Any, rows: int, size: int) -> None:
    lengths = numbers_in(array.value_lengths())
    wrong = np.flatnonzero(lengths != size)
    if wrong.size:
        at = int(wrong[0])
        raise ValueFault(
            "golden.shape",
            at * rows // len(array),
            f"a list of {int(lengths[at])} where the first sample has {size}",
        )


def _describe(kind: pa.DataType, inner: pa.DataType) -> str:
    if isinstance(kind, pa.BaseExtensionType) and not isinstance(kind, pa.FixedShapeTensorType):
        return f"the type {kind.extension_name}"
    name = "float16" if pa.types.is_float16(inner) else str(inner)
    return f"the dtype {name}" + ("" if kind == inner else f" (in {kind})")


def _read() -> str:
    return f"this version reads fixed-shape tensors of {', '.join(READ)}"
