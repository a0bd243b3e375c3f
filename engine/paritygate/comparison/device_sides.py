"""How a device is given the values of each dtype, and what they are compared in there."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from paritygate.core.dtypes import (
    HALF_BYTES,
    NARROW_FLOATS,
    float_format,
    is_float,
    limits_of,
    numpy_dtype,
    widened,
)
from paritygate.gpu.sides import Side
from paritygate.gpu.widen import Form

_BITS: dict[int, np.dtype[Any]] = {1: np.dtype(np.uint8), 2: np.dtype(np.uint16)}
_EXACT_IN_SINGLE = 2  # bytes of integers that float32 holds
_EXACT_IN_DOUBLE = 4


def side_of(name: str) -> Side:
    """How values of a dtype are read on a device."""
    dtype = numpy_dtype(name)
    if name in NARROW_FLOATS:
        return Side(_BITS[dtype.itemsize], form_of(name), is_flag=False, ends=None)
    if name == "bool":
        return Side(_BITS[1], None, is_flag=True, ends=None)
    stored = widened(np.empty(0, dtype)).dtype
    is_limited = not is_float(name) and dtype.itemsize <= _EXACT_IN_SINGLE
    return Side(stored, None, is_flag=False, ends=limits_of(name) if is_limited else None)


def wide_of(ref: str, cand: str) -> np.dtype[Any]:
    """The dtype that holds all numbers of both."""
    if is_float(ref):
        is_double = "float64" in (ref, cand)
        return np.dtype(np.float64 if is_double else np.float32)
    size = max(numpy_dtype(name).itemsize for name in (ref, cand))
    if size <= _EXACT_IN_SINGLE:
        return np.dtype(np.float32)
    if size <= _EXACT_IN_DOUBLE:
        return np.dtype(np.float64)
    return np.dtype(np.uint64 if ref.startswith("u") else np.int64)


def form_of(name: str) -> Form:
    """How the bits of a float dtype of 8 or 16 bits are read."""
    form, dtype = float_format(name), numpy_dtype(name)
    digits = (1 << (8 * dtype.itemsize - 1)) - 1
    most = int(np.array(form.largest, dtype).view(_BITS[dtype.itemsize]))
    is_unsigned_zero = name.endswith("uz")
    return Form(
        digits=digits,
        most=most,
        infinity=most + 1 if form.has_infinity else -1,
        undefined=digits + 1 if is_unsigned_zero else -1,
        shift=52 - form.mantissa,
        scale=2.0 ** (1022 + form.min_exponent),
    )


def stored(array: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    """An array of the host as a device takes it."""
    if name in HALF_BYTES:
        array = widened(array)
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    return np.ascontiguousarray(native).view(side_of(name).stored)


def taken(array: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    """What `stored` was given."""
    if name in HALF_BYTES:
        return array.astype(numpy_dtype(name))
    return array.view(numpy_dtype(name))
