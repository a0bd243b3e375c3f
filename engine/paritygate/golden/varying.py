"""Columns whose samples differ in shape: nested lists and `arrow.variable_shape_tensor`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec.structs import replace

from paritygate.core.dtypes import HALF_BYTES
from paritygate.core.ragged import Ragged, Tensor
from paritygate.core.tensors import Array, ColumnSpec
from paritygate.golden.columns import (
    ValueFault,
    check_half_bytes,
    elements_of,
    first_null,
    is_list,
    is_variable_tensor,
    storage_of,
    values_of,
)
from paritygate.golden.dtypes import elements_in, numbers_in

Shapes = npt.NDArray[np.int64]
_UNKNOWN = -1


def shapes_of(array: pa.Array[Any]) -> Shapes:
    """`(rows, dims)` shape of every row; -1 for what lists inside of an empty one don't say.

    Raises:
        ValueFault: a null, lists of several lengths within one sample, or a shape that isn't that
            of the data.
        pa.ArrowInvalid: offsets that point outside of the file.
    """
    stored: Any = storage_of(array)
    rows = len(stored)
    owners: Shapes = np.arange(rows, dtype=np.int64)
    if is_variable_tensor(stored.type):
        _refuse_nulls(stored, owners)
        return _stored_shapes(stored, owners)
    columns = []
    while is_list(stored.type):
        _refuse_nulls(stored, owners)
        lengths = _lengths(stored)
        sizes = np.full(rows, -1, np.int64)
        sizes[owners] = lengths
        if isinstance(stored.type, pa.FixedSizeListType):
            sizes[:] = stored.type.list_size
        _refuse_uneven(owners, lengths, sizes)
        columns.append(sizes)
        owners = np.repeat(owners, lengths)
        stored = elements_of(stored)
    return np.stack(columns, axis=1) if columns else np.zeros((rows, 0), np.int64)


def complete(shapes: Shapes, dims: Sequence[int | None]) -> Shapes:
    """Shapes with the column's own dims, or 0, for what rows don't say."""
    if not (shapes < 0).any():
        return shapes
    return np.where(shapes < 0, [dim or 0 for dim in dims], shapes)


def varying_values(array: pa.Array[Any], dtype: str, dims: Sequence[int | None]) -> Tensor:
    """The column's rows: `(rows, *shape)` where all have one shape, else one array a row.

    Read-only; without a copy where the rows lie end to end, but for bools, which are unpacked.

    Args:
        array: the rows.
        dtype: of their elements.
        dims: of the column, None where they vary.

    Raises:
        ValueFault, pa.ArrowInvalid: as `shapes_of`; a null inside a row too.
    """
    shapes = complete(shapes_of(array), dims)
    flat = flat_values(array, dtype, shapes)
    flat.flags.writeable = False
    if not len(shapes) or bool((shapes == shapes[0]).all()):
        one = shapes[0].tolist() if len(shapes) else [0] * shapes.shape[1]
        return flat.reshape(len(shapes), *one)
    stops = np.cumsum(shapes.prod(axis=1))
    pieces = np.split(flat, stops[:-1])
    arrays = [p.reshape(s) for p, s in zip(pieces, shapes.tolist(), strict=True)]
    return Ragged(arrays, flat.dtype, shapes.shape[1])


def taken_values(
    array: pa.Array[Any], rows: Shapes, dtype: str, dims: Sequence[int | None]
) -> Tensor:
    """The rows of these numbers; see `varying_values`."""
    return varying_values(storage_of(array).take(pa.array(rows)), dtype, dims)


def fixed_values(array: pa.Array[Any], dtype: str, shape: tuple[int, ...]) -> Array:
    """The column's rows as `(rows, *shape)`; see `columns.values_of`.

    Raises:
        ValueFault: a row of another shape too.
    """
    if not is_variable_tensor(storage_of(array).type):
        return values_of(array, dtype, shape)
    shapes = shapes_of(array)
    wrong = np.flatnonzero((shapes != np.array(shape, np.int64)).any(axis=1))
    if wrong.size:
        row = int(wrong[0])
        told = f"the shape {shapes[row].tolist()} where the first sample has {list(shape)}"
        raise ValueFault("golden.shape", row, told)
    flat = flat_values(array, dtype, shapes)
    flat.flags.writeable = False
    return flat.reshape(len(shapes), *shape)


class LooseDims:
    """Which dims vary of the columns that may, as found when they are read for the first time."""

    def __init__(self, specs: dict[str, ColumnSpec], columns: frozenset[str]) -> None:
        self.columns = columns
        self._specs = specs
        self._found: dict[str, list[int | None]] = {}
        self._counts: dict[str, tuple[int, int]] = {}

    def note(self, column: str, shapes: Shapes) -> None:
        """Take the shapes of further samples into account; -1 says nothing."""
        spec = self._specs[column]
        found = self._found.setdefault(column, [_UNKNOWN] * len(spec.shape))
        for axis, sizes in enumerate(shapes.T):
            told = sizes[sizes >= 0]
            if len(told) and found[axis] == _UNKNOWN:
                found[axis] = int(told[0])
            if len(told) and found[axis] is not None and bool((told != found[axis]).any()):
                found[axis] = None
        samples, elements = self._counts.get(column, (0, 0))
        samples += len(shapes)
        elements += int(complete(shapes, spec.shape).prod(axis=1).sum())
        self._counts[column] = samples, elements
        dims = tuple(0 if dim == _UNKNOWN else dim for dim in found)
        typical = 0 if None not in dims else -(-elements // max(1, samples))
        self._specs[column] = replace(spec, shape=dims, typical_elements=typical)


def flat_values(array: pa.Array[Any], dtype: str, shapes: Shapes) -> Array:
    """The elements of all rows end to end, where the rows have these shapes.

    Raises:
        ValueFault: a null, or a byte that is no int4.
    """
    stored: Any = storage_of(array)
    if is_variable_tensor(stored.type):
        stored = stored.flatten()[0]
    while is_list(stored.type):
        stored = elements_of(stored)
    if stored.null_count:
        _refuse_nulls(stored, np.repeat(np.arange(len(shapes)), shapes.prod(axis=1)))
    values = elements_in(stored, dtype)
    if dtype in HALF_BYTES:
        _check_half_bytes(stored, dtype, shapes)
    return values if values.flags.aligned else values.copy()


def _check_half_bytes(stored: Any, dtype: str, shapes: Shapes) -> None:
    try:
        check_half_bytes(stored, dtype, len(stored))
    except ValueFault as fault:
        owners = np.repeat(np.arange(len(shapes)), shapes.prod(axis=1))
        raise ValueFault(fault.code, int(owners[fault.row]), fault.found) from None


def _lengths(lists: Any) -> Shapes:
    if isinstance(lists.type, pa.FixedSizeListType):
        return np.full(len(lists), lists.type.list_size, np.int64)
    lists.validate(full=True)
    lengths: Shapes = numbers_in(lists.value_lengths()).astype(np.int64)
    return lengths


def _refuse_uneven(owners: Shapes, lengths: Shapes, sizes: Shapes) -> None:
    wrong = np.flatnonzero(lengths != sizes[owners])
    if wrong.size:
        at = int(wrong[0])
        row = int(owners[at])
        told = f"lists of {int(lengths[at])} and {int(sizes[row])} side by side, which is no tensor"
        raise ValueFault("golden.shape", row, told)


def _refuse_nulls(array: Any, owners: Shapes) -> None:
    if len(array) and array.null_count:
        at = first_null(array)
        row = int(owners[at])
        inside = int(at - np.searchsorted(owners, row))
        is_whole = bool((owners == np.arange(len(owners))).all())
        told = "null" if is_whole else f"null at element {inside}"
        raise ValueFault("golden.null_value", row, told)


def _stored_shapes(stored: Any, owners: Shapes) -> Shapes:
    stored.validate(full=True)
    data, shape = stored.flatten()
    _refuse_nulls(data, owners)
    _refuse_nulls(shape, owners)
    dims = shape.type.list_size
    sizes = elements_of(shape)
    _refuse_nulls(sizes, np.repeat(owners, dims))
    shapes: Shapes = numbers_in(sizes).astype(np.int64).reshape(len(stored), dims)
    lengths = _lengths(data)
    is_wrong = (shapes < 0).any(axis=1) | (shapes.astype(np.float64).prod(axis=1) != lengths)
    wrong = np.flatnonzero(is_wrong)
    if wrong.size:
        row = int(wrong[0])
        told = f"{int(lengths[row])} elements for the shape {shapes[row].tolist()}"
        raise ValueFault("golden.shape", row, told)
    return shapes
