"""How each dtype lies in Arrow: as a type of its own, or as bits with its name in the field."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paritygate.core.dtypes import (
    HALF_BYTES,
    INTEGERS,
    NARROW_FLOATS,
    STRING,
    dtype_name,
    numpy_dtype,
)
from paritygate.core.tensors import Array

KEY = "paritygate.dtype"

_OWN: dict[pa.DataType, str] = {
    pa.float16(): "float16",
    pa.float32(): "float32",
    pa.float64(): "float64",
    pa.bool_(): "bool",
    **{getattr(pa, name)(): name for name in INTEGERS if name not in HALF_BYTES},
    **dict.fromkeys((pa.string(), pa.large_string(), pa.string_view()), STRING),
}
# The first one is written; bits are bits in the other as well.
_STORED: dict[str, tuple[str, ...]] = {
    "bfloat16": ("uint16", "int16"),
    **{name: ("uint8", "int8") for name in NARROW_FLOATS if name.startswith("float8")},
    "int4": ("int8",),
    "uint4": ("uint8",),
}
READ = (*dict.fromkeys(_OWN.values()), *_STORED)


def dtype_of(kind: pa.DataType, declared: str | None) -> str | None:
    """Our name of what a column of this Arrow type holds; None: nothing that is read.

    Args:
        kind: type of one element.
        declared: the dtype that the field's metadata names.

    Raises:
        ValueError: another dtype is declared than this type can hold; says which one could.
    """
    is_coded = isinstance(kind, pa.DictionaryType) and _OWN.get(kind.value_type) == STRING
    stored = STRING if is_coded else _OWN.get(kind)
    if stored is None or declared is None or declared == stored:
        return stored
    wanted = _STORED.get(declared)
    if wanted is None:
        raise ValueError(f"the dtype {declared!r} (stored as {stored}) isn't supported")
    if stored not in wanted:
        raise ValueError(f"{declared} is stored as {' or '.join(wanted)}, but this is {stored}")
    return declared


def elements_in(array: Any, dtype: str) -> Array:
    """A flat Arrow array without nulls as NumPy's, of a copy only for bools and texts.

    Arrow's own `to_numpy` imports pandas where it is installed, which takes a third of a second.

    Raises:
        pa.ArrowInvalid: texts that aren't UTF-8, or offsets or codes that point nowhere.
    """
    if dtype == STRING:
        array.validate(full=True)
        if isinstance(array, pa.DictionaryArray):
            array = array.dictionary_decode()
            if array.null_count:
                raise pa.ArrowInvalid("a dictionary of texts holds a null")
        return texts_in(array)
    if dtype == "bool":
        return bools_in(array)
    values = numbers_in(array)
    return values.view(numpy_dtype(dtype)) if dtype in _STORED else values


def numbers_in(array: Any) -> Array:
    """A flat Arrow array of numbers without nulls as NumPy's, read-only, without a copy."""
    dtype = np.dtype(array.type.to_pandas_dtype())
    data = array.buffers()[1]
    if data is None or len(array) == 0:
        return np.empty(0, dtype)
    return np.frombuffer(data, dtype, len(array), array.offset * dtype.itemsize)


def texts_in(array: Any) -> npt.NDArray[np.object_]:
    """A flat Arrow array of texts without nulls as NumPy's, of str."""
    texts = np.empty(len(array), np.object_)
    texts[:] = array.to_pylist()
    return texts


def bools_in(array: Any) -> npt.NDArray[np.bool_]:
    """A flat Arrow array of bools without nulls as NumPy's, one a byte."""
    data = array.buffers()[1]
    if data is None or len(array) == 0:
        return np.empty(0, np.bool_)
    byte, bit = divmod(array.offset, 8)
    packed = np.frombuffer(data, np.uint8, -(-(bit + len(array)) // 8), byte)
    bits = np.unpackbits(packed, count=bit + len(array), bitorder="little")
    return bits[bit:].view(np.bool_)


def array_of(values: Array) -> pa.Array[Any]:
    """`(n,)` values as an Arrow array, as they are written; only bools and texts are copied.

    Arrow's own `array` imports pandas where it is installed, as its `to_numpy` does.
    """
    kind = stored_type(values.dtype)
    stored: Any = np.ascontiguousarray(stored_elements(values), kind.to_pandas_dtype())
    if kind == pa.string():
        return pa.array(stored, kind)
    data: Any = np.packbits(stored, bitorder="little") if kind == pa.bool_() else stored
    return pa.Array.from_buffers(kind, len(stored), [None, pa.py_buffer(data)])


_PYTHON: dict[pa.DataType, tuple[type, np.dtype[Any]]] = {
    pa.int64(): (int, np.dtype(np.int64)),
    pa.float64(): (float, np.dtype(np.float64)),
}


def column_of(values: Sequence[object], kind: pa.DataType) -> pa.Array[Any]:
    """Python's values as an Arrow array; None is null.

    Arrow's own `array` imports pandas where it is installed: it makes what isn't just whole
    numbers, floats, texts or lists of texts.
    """
    if kind == pa.list_(pa.string()) and all(type(v) in (list, tuple) for v in values):
        lists: Any = values
        texts = column_of([text for value in lists for text in value], pa.string())
        make: Any = pa.ListArray.from_arrays
        made: pa.Array[Any] = make(array_of(_ends(lists)), texts)
        return made
    there = [value for value in values if value is not None]
    content: list[Any] | None = None
    if kind == pa.string() and all(type(value) is str for value in there):
        content = _texts(values)
    elif kind in _PYTHON and all(type(value) is _PYTHON[kind][0] for value in there):
        content = _numbers(values, *_PYTHON[kind])
    if content is None:
        return pa.array(values, kind)
    buffers: Any = [_validity(values), *map(pa.py_buffer, content)]
    return pa.Array.from_buffers(kind, len(values), buffers)


def _texts(values: Sequence[Any]) -> list[Any] | None:
    """Offsets and bytes of texts; None: they are too long for one array."""
    encoded = [b"" if value is None else value.encode() for value in values]
    is_short = sum(map(len, encoded)) <= np.iinfo(np.int32).max
    return [_ends(encoded), b"".join(encoded)] if is_short else None


def _numbers(values: Sequence[Any], own: type, dtype: np.dtype[Any]) -> list[Any] | None:
    """Values of numbers; None: one doesn't fit."""
    with suppress(OverflowError):
        return [np.array([own() if value is None else value for value in values], dtype)]
    return None


def _ends(values: Sequence[Any]) -> npt.NDArray[np.int32]:
    return np.cumsum([0, *map(len, values)]).astype(np.int32)


def _validity(values: Sequence[object]) -> pa.Buffer | None:
    """Which values there are; None: all."""
    is_there = [value is not None for value in values]
    packed: Any = np.packbits(np.array(is_there, np.bool_), bitorder="little")
    return None if all(is_there) else pa.py_buffer(packed)


def stored_elements(values: Array) -> Array:
    """Values as they are written: bits of what Arrow has no type for, int4 one a byte."""
    name = dtype_name(values.dtype)
    if name in HALF_BYTES:
        return values.astype(_STORED[name][0])
    return values.view(_STORED[name][0]) if name in _STORED else values


def stored_type(dtype: np.dtype[Any]) -> pa.DataType:
    """Arrow type of one element as it is written."""
    name = dtype_name(dtype)
    if name == STRING:
        return pa.string()
    return pa.from_numpy_dtype(np.dtype(_STORED[name][0]) if name in _STORED else dtype)


def tensor_field(name: str, kind: pa.DataType, dtype: np.dtype[Any]) -> pa.Field[Any]:
    """The field of a tensor column; it names a dtype that the Arrow type doesn't."""
    ours = dtype_name(dtype)
    return pa.field(name, kind, metadata={KEY: ours} if ours in _STORED else None)
