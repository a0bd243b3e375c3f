"""How each dtype lies in Arrow: as a type of its own, or as bits with its name in the field."""

from __future__ import annotations

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
