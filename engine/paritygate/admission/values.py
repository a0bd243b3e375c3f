"""The bytes of a model's tensors, whichever way they are stored, a piece at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx

PIECE = 1 << 20
# Dtypes of which several elements share a byte, with the bits of one.
PACKED_BITS = {"INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "INT2": 2, "UINT2": 2}
_TYPED = {
    "FLOAT": ("float_data", "<f4"),
    "COMPLEX64": ("float_data", "<f4"),
    "DOUBLE": ("double_data", "<f8"),
    "COMPLEX128": ("double_data", "<f8"),
    "INT64": ("int64_data", "<i8"),
    "UINT32": ("uint64_data", "<u4"),
    "UINT64": ("uint64_data", "<u8"),
}


def dtype_of(tensor: onnx.TensorProto) -> str:
    """The name of a tensor's dtype in ONNX, such as `FLOAT`; its number where it is unknown."""
    kinds = onnx.TensorProto.DataType
    known = tensor.data_type in kinds.values()
    return str(kinds.Name(tensor.data_type)) if known else str(tensor.data_type)


def dtype_text(tensor: onnx.TensorProto) -> str:
    """The name of a tensor's dtype as reports have it, such as `float32`."""
    name = dtype_of(tensor)
    return {"FLOAT": "float32", "DOUBLE": "float64"}.get(name, name.lower())


def count_elements(tensor: onnx.TensorProto) -> int:
    """Elements by the dims; of negative dims 0."""
    count = 1
    for dim in tensor.dims:
        count *= max(0, dim)
    return count


def count_bytes(tensor: onnx.TensorProto) -> int:
    """Bytes by dims and dtype; 0 for texts and for dtypes that are unknown here."""
    name, count = dtype_of(tensor), count_elements(tensor)
    if name in PACKED_BITS:
        return (count * PACKED_BITS[name] + 7) // 8
    return count * item_size(tensor)


def item_size(tensor: onnx.TensorProto) -> int:
    """Bytes of an element, 1 where several share one; 0 for texts and unknown dtypes."""
    name = dtype_of(tensor)
    if name in PACKED_BITS:
        return 1
    if name in ("STRING", "UNDEFINED"):
        return 0
    try:
        return int(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)
    except (KeyError, TypeError):
        return 0


def iter_bytes(tensor: onnx.TensorProto, folder: Path) -> Iterator[bytes]:
    """The elements as they lie in memory, low byte first, in pieces of whole elements.

    Args:
        tensor: any tensor of a sound model; of texts each is its length (8 bytes) and its UTF-8.
        folder: where its external data lie.

    Raises:
        OSError: external data can't be read, or end too early.
    """
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        yield from _iter_file(tensor, folder)
    elif tensor.HasField("raw_data"):
        yield tensor.raw_data
    elif dtype_of(tensor) == "STRING":
        for text in tensor.string_data:
            yield len(text).to_bytes(8, "little") + text
    else:
        yield _typed(tensor).tobytes()


def iter_values(tensor: onnx.TensorProto, folder: Path) -> Iterator[np.ndarray[Any, Any]]:
    """The elements of a tensor of floats as float64, in pieces.

    Raises:
        OSError: see `iter_bytes`.
        ValueError: its dtype has no floats.
    """
    if item_size(tensor) == 0 or dtype_of(tensor) in PACKED_BITS:
        raise ValueError(f"{dtype_of(tensor)} has no floats")
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
    if dtype.kind not in "fV":
        raise ValueError(f"{dtype_of(tensor)} has no floats")
    stored = dtype.newbyteorder("<") if dtype.kind == "f" else dtype
    for piece in iter_bytes(tensor, folder):
        whole = len(piece) - len(piece) % dtype.itemsize
        yield np.frombuffer(piece[:whole], stored).astype(np.float64)


def stored_integers(tensor: onnx.TensorProto) -> np.ndarray[Any, Any] | None:
    """The integers of a typed field as they are written, maybe beyond the dtype; else None."""
    if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.HasField("raw_data"):
        return None
    return np.array(tensor.int32_data, np.int64) if tensor.int32_data else None


def _typed(tensor: onnx.TensorProto) -> np.ndarray[Any, Any]:
    """Of the fields for one kind of numbers each; narrow ones lie in that of int32."""
    field, dtype = _TYPED.get(dtype_of(tensor), ("int32_data", ""))
    numbers = getattr(tensor, field)
    found = np.fromiter(numbers, dtype or "<i4", len(numbers))
    return found if dtype else found.astype(f"<u{item_size(tensor) or 4}")


def _iter_file(tensor: onnx.TensorProto, folder: Path) -> Iterator[bytes]:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    left = int(entries.get("length") or 0) or count_bytes(tensor)
    with (folder / entries["location"]).open("rb") as file:
        file.seek(int(entries.get("offset") or 0))
        while left:
            piece = file.read(min(PIECE, left))
            if not piece:
                raise OSError(f"{entries['location']}: ends too early")
            left -= len(piece)
            yield piece
