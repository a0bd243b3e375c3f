"""Arrays as kernels take them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from paritygate.core.dtypes import widened
from paritygate.core.tensors import Array
from paritygate.tally.extremes import Number


def frozen(array: Array) -> npt.NDArray[Any]:
    """A read-only, aligned, C-contiguous 1-D view, copied only where the array isn't like that."""
    if not (array.flags.c_contiguous and array.flags.aligned):
        array = np.require(array, requirements=["C", "A"])
    flat = array.reshape(-1).view()
    flat.setflags(write=False)
    return flat


def widest(values: Array) -> npt.NDArray[Any]:
    """The same numbers as float64, or as integers of 64 bits, so that kernels know only these."""
    wide = widened(values)
    dtype = {"f": np.float64, "i": np.int64}.get(wide.dtype.kind, np.uint64)
    with np.errstate(invalid="ignore"):  # a signalling NaN
        return wide.astype(dtype, copy=False)


def number_at(values: Array, place: int) -> Number:
    """One of flat values, as a number of Python."""
    number: Number
    if values.dtype.kind in "fiu":
        number = values[place].item()
    else:
        number = widened(values[place : place + 1])[0].item()
    return number
