"""Element types of ONNX Runtime, and the bridge over those that it can't give to NumPy.

bfloat16 and float8 go in and out as bits in buffers that are declared to be of the ONNX type. int4
lies two in a byte there, the first one in the low half; here it is one in a byte.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from paritygate.core.dtypes import DTYPES, HALF_BYTES, NARROW_FLOATS, numpy_dtype
from paritygate.core.tensors import Array

BRIDGED = (*(name for name in NARROW_FLOATS if name != "float16"), *HALF_BYTES)
ONNX_NAMES = {name: name.replace("float8_", "float8") for name in DTYPES} | {
    "float32": "float",
    "float64": "double",
}
DTYPE_OF = {onnx: ours for ours, onnx in ONNX_NAMES.items()}
ALIGNMENT = 64  # bytes, as of what ONNX Runtime allocates itself
READ_ALIGNMENT = 16  # of what it reads; more changes no answer


def to_value(array: Array, dtype: str) -> Any:
    """An OrtValue over an array's own memory, or of int4 over a packed copy.

    Args:
        array: C-contiguous; not of strings, which can't be bound.
        dtype: its dtype name.
    """
    from onnxruntime import OrtValue

    if dtype not in BRIDGED:
        return OrtValue.ortvalue_from_numpy(array)
    buffer = packed(array) if dtype in HALF_BYTES else array.view(f"u{array.itemsize}")
    return OrtValue.ortvalue_from_numpy_with_onnx_type(buffer, element_type(dtype))


def aligned(shape: Sequence[int], dtype: npt.DTypeLike) -> Array:
    """An array of this shape, in memory that is aligned as ONNX Runtime's own; not filled."""
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    raw = np.empty(size + ALIGNMENT, np.uint8)
    begin = -address_of(raw) % ALIGNMENT
    made: Array = raw[begin : begin + size].view(kind).reshape(tuple(shape))
    return made


def aligned_copy(array: Array) -> Array:
    """The same values in aligned memory."""
    copy = aligned(array.shape, array.dtype)
    copy[...] = array
    return copy


def at_rest(array: Array) -> Array:
    """An array, or a copy of it, which is C-contiguous and aligned for ONNX Runtime.

    Some of its operators add up in another order where what they read isn't aligned, so that the
    answer to a sample would depend on where its file has it.
    """
    if array.dtype.hasobject:
        return np.ascontiguousarray(array)
    if array.flags.c_contiguous and address_of(array) % READ_ALIGNMENT == 0:
        return array
    return aligned_copy(array)


def address_of(array: Array) -> int:
    """Where its first element is."""
    return int(array.__array_interface__["data"][0])


def to_array(value: Any, dtype: str) -> Array:
    """A copy of what an OrtValue holds, a tensor on the CPU of the declared dtype."""
    if dtype not in BRIDGED:
        return np.array(value.numpy(), order="C", copy=True)
    shape = tuple(value.shape())
    size = math.prod(shape)
    count = (size + 1) // 2 if dtype in HALF_BYTES else size * numpy_dtype(dtype).itemsize
    if value.tensor_size_in_bytes() != count:
        raise ValueError(f"{dtype}{list(shape)} in {value.tensor_size_in_bytes()} bytes")
    raw = ctypes.string_at(value.data_ptr(), count) if count else b""
    if dtype in HALF_BYTES:
        return unpacked(np.frombuffer(raw, np.uint8), shape, dtype)
    return np.frombuffer(raw, numpy_dtype(dtype)).reshape(shape).copy()


def packed(array: Array) -> Array:
    """A byte buffer of the array's shape, in whose first half its half bytes lie two in a byte."""
    nibbles = array.reshape(-1).view(np.uint8) & 0x0F
    if nibbles.size % 2:
        nibbles = np.append(nibbles, np.uint8(0))
    buffer = np.zeros(array.size, np.uint8)
    buffer[: nibbles.size // 2] = nibbles[::2] | (nibbles[1::2] << 4)
    return buffer.reshape(array.shape)


def unpacked(buffer: Array, shape: tuple[int, ...], dtype: str) -> Array:
    """Half bytes, one in a byte, of a buffer that holds them two in a byte."""
    size = math.prod(shape)
    pairs = buffer.reshape(-1)[: (size + 1) // 2].view(np.uint8)
    nibbles = np.empty(2 * pairs.size, np.uint8)
    nibbles[::2], nibbles[1::2] = pairs & 0x0F, pairs >> 4
    numbers = nibbles[:size].astype(np.int8)
    if dtype == "int4":
        numbers[numbers > 7] -= 16
    return numbers.astype(numpy_dtype(dtype)).reshape(shape)


def element_type(dtype: str) -> int:
    """ONNX's number of a dtype."""
    from onnx import TensorProto

    return int(TensorProto.DataType.Value(ONNX_NAMES[dtype].upper()))
