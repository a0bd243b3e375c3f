"""Dtypes by name: which can be judged, what they are in NumPy, and which numbers they hold."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Literal, cast

import ml_dtypes
import numpy as np
import numpy.typing as npt
from msgspec import Struct

NARROW_FLOATS = (
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
)
FLOATS = (*NARROW_FLOATS, "float32", "float64")
HALF_BYTES = ("int4", "uint4")
INTEGERS = (
    *HALF_BYTES,
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)
STRING = "string"
DTYPES = (*FLOATS, *INTEGERS, "bool", STRING)

Kind = Literal["float", "signed", "unsigned", "bool", "string"]

_NAMELESS = {STRING: np.dtype(object)}
_NUMPY: dict[str, np.dtype[Any]] = {
    name: _NAMELESS.get(name) or np.dtype(getattr(ml_dtypes, name, None) or name) for name in DTYPES
}
_NAMES = {dtype: name for name, dtype in _NUMPY.items()}
_WORKED_IN: dict[str, np.dtype[Any]] = {
    **dict.fromkeys(NARROW_FLOATS, np.dtype(np.float32)),
    "int4": np.dtype(np.int8),
    "uint4": np.dtype(np.uint8),
}


def is_float(dtype: str) -> bool:
    """Whether a tolerance, a non-finite rule and ULP mean something for this dtype name."""
    return dtype in FLOATS


def is_integer(dtype: str) -> bool:
    """Whether this dtype name is of integers, half a byte wide ones too; bool isn't."""
    return dtype in INTEGERS


def is_string(dtype: str) -> bool:
    """Whether values are texts, which can be equal and nothing else."""
    return dtype == STRING


def kind_of(dtype: str) -> Kind:
    """What may be compared with one another: two dtypes of the same kind."""
    if dtype in FLOATS:
        return "float"
    if dtype in INTEGERS:
        return "unsigned" if dtype.startswith("u") else "signed"
    return "string" if dtype == STRING else "bool"


def numpy_dtype(name: str) -> np.dtype[Any]:
    """NumPy's dtype of a name of `DTYPES`: an object array holds texts, a byte one int4.

    Raises:
        KeyError: no such name.
    """
    return _NUMPY[name]


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Our name of a dtype; NumPy's own where it can't be judged."""
    return _NAMES.get(dtype) or dtype.name


def element_bytes(name: str) -> int:
    """Bytes of one element in memory; of a text its reference alone."""
    return _NUMPY[name].itemsize


def zeros(shape: tuple[int, ...], name: str) -> npt.NDArray[Any]:
    """Zeros of a dtype; empty texts of strings."""
    if name == STRING:
        return np.full(shape, "", object)
    return np.zeros(shape, _NUMPY[name])


def limits_of(name: str) -> tuple[int, int]:
    """Smallest and largest number of an integer dtype."""
    limits: Any = cast(Any, ml_dtypes.iinfo)(_NUMPY[name])
    return int(limits.min), int(limits.max)


def worked_in(name: str) -> np.dtype[Any]:
    """What values are widened to, exactly, before they are compared."""
    return _WORKED_IN.get(name, _NUMPY[name])


def widened(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same numbers in a dtype that kernels know: float32 for narrower floats, int8 for int4.

    Every other array is returned as it is.
    """
    wide = _WORKED_IN.get(_NAMES.get(values.dtype.newbyteorder("="), ""))
    if wide is None:
        return values
    with np.errstate(invalid="ignore"):  # a signalling NaN
        return values.astype(wide)


class FloatFormat(Struct, frozen=True):
    """Which numbers a float dtype holds.

    Attributes:
        mantissa: bits after the leading one.
        min_exponent: power of two of the smallest normal number.
        largest: largest finite number.
        has_infinity: whether it has infinities; what is too large is NaN without them.
    """

    mantissa: int
    min_exponent: int
    largest: float
    has_infinity: bool

    @property
    def overflow(self) -> float:
        """Smallest float64 that is rounded past the largest finite number; inf for float64."""
        step = math.ldexp(1.0, math.frexp(self.largest)[1] - 1 - self.mantissa)
        tie = self.largest + step / 2
        is_even = (self.largest / step) % 2 == 0  # a tie then goes to the largest number
        return math.nextafter(tie, math.inf) if is_even else tie

    def holds(self, other: FloatFormat) -> bool:
        """Whether every value of the other format is one of this."""
        return (
            self.mantissa >= other.mantissa
            and self.min_exponent - self.mantissa <= other.min_exponent - other.mantissa
            and self.largest >= other.largest
            and self.has_infinity >= other.has_infinity
        )


@cache
def float_format(name: str) -> FloatFormat:
    """The format of a float dtype."""
    info: Any = cast(Any, ml_dtypes.finfo)(_NUMPY[name])
    return FloatFormat(
        mantissa=int(info.nmant),
        min_exponent=math.frexp(float(info.smallest_normal))[1] - 1,
        largest=float(info.max),
        has_infinity=name not in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2fnuz"),
    )


def rounded(values: npt.NDArray[Any], name: str) -> npt.NDArray[np.float64]:
    """Floats rounded to a dtype once, half to even, as float64.

    What is too large becomes infinite, or NaN in a dtype without infinities.

    Args:
        values: float32 or float64, any shape.
        name: a float dtype.
    """
    form = float_format(name)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        if name in ("float32", "float64") or values.dtype == np.float32:
            return values.astype(_NUMPY[name]).astype(np.float64)
        wide = values.astype(np.float64)  # ml_dtypes would go by way of float32, rounding twice
        _, exponent = np.frexp(wide)
        step = np.maximum(exponent - 1, form.min_exponent) - form.mantissa
        found = np.ldexp(np.rint(np.ldexp(wide, -step)), step)
        past = np.copysign(np.inf, wide) if form.has_infinity else np.nan
        narrow: npt.NDArray[np.float64] = np.where(np.abs(found) > form.largest, past, found)
        return narrow
