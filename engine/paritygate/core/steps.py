"""Neighbours among the numbers that a dtype holds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from paritygate.core.dtypes import (
    dtype_name,
    float_format,
    is_float,
    limits_of,
    numpy_dtype,
    rounded,
    worked_in,
)


def step(values: npt.NDArray[Any], *, up: bool) -> npt.NDArray[Any]:
    """The next larger or smaller finite number of a float dtype; the last one stays as it is."""
    limit = float_format(dtype_name(values.dtype)).largest
    toward = limit if up else -limit
    moved: npt.NDArray[Any] = np.nextafter(values, np.asarray(toward, values.dtype))
    return moved


def least_at(bound: float, dtype: str, *, up: bool) -> float | int:
    """The number of a dtype that is nearest to a bound, on it or above it (below, if not `up`).

    Args:
        bound: finite.
        dtype: a float or integer dtype, or bool.
        up: on which side.
    """
    if dtype == "bool":
        return min(max(_whole(bound, up=up), 0), 1)
    if not is_float(dtype):
        low, high = limits_of(dtype)
        return min(max(_whole(bound, up=up), low), high)
    limit = float_format(dtype).largest
    if abs(bound) >= limit:
        return math.copysign(limit, bound)
    near = rounded(np.array([bound], np.float64), dtype)
    if near[0] == bound or (near[0] > bound) == up:
        return float(near[0])
    held = near.astype(worked_in(dtype)).astype(numpy_dtype(dtype))
    return float(step(held, up=up).astype(np.float64)[0])


def _whole(bound: float, *, up: bool) -> int:
    return math.ceil(bound) if up else math.floor(bound)
