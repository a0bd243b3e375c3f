"""Values of other dtypes as float32, float64 or 64-bit integers, in which all of them are exact."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from paritygate.gpu.device import cuda, device, float_of, kernel, product, widen


class Form(NamedTuple):
    """How the bits of a float of 8 or 16 bits are read.

    Attributes:
        digits: all bits but the sign.
        most: bits of the largest number.
        infinity: bits of infinity; -1: there is none.
        undefined: bits, with the sign, of the one NaN that stands in place of -0; -1: -0 is there.
        shift: how far its exponent lies from that of a float64.
        scale: what its numbers are multiplied with then.
    """

    digits: int
    most: int
    infinity: int
    undefined: int
    shift: int
    scale: float


@device
def number_of(bits: int, form: Any) -> float:
    """The number that has these bits."""
    magnitude = bits & form.digits
    if magnitude > form.most:
        number = math.inf if magnitude == form.infinity else math.nan
    else:
        number = product(float_of(magnitude << form.shift), form.scale)
    if bits == form.undefined:
        number = math.nan
    return -number if bits > form.digits else number


@kernel
def widen_bits(bits: Any, form: Any, into: Any) -> None:
    """Write the numbers that have these bits, uint8 or uint16, into an array as large."""
    for k in range(cuda.grid(1), bits.size, cuda.gridsize(1)):
        into[k] = number_of(int(bits[k]), form)


@kernel
def widen_flags(flags: Any, into: Any) -> None:
    """Write 1 for every byte that isn't 0."""
    for k in range(cuda.grid(1), flags.size, cuda.gridsize(1)):
        into[k] = 1 if flags[k] != 0 else 0


@kernel
def count_ends(values: Any, low: float, high: float, counts: Any, at: int) -> None:
    """Count finite values of at most `low` and of at least `high` in `counts`, from `at` on."""
    thread = cuda.threadIdx.x
    own = cuda.shared.array(2, np.uint32)
    if thread < 2:
        own[thread] = 0
    cuda.syncthreads()
    lows, highs = 0, 0
    for k in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        value = widen(values[k])
        if abs(value) < math.inf:
            lows += 1 if value <= low else 0
            highs += 1 if value >= high else 0
    cuda.atomic.add(own, 0, lows)
    cuda.atomic.add(own, 1, highs)
    cuda.syncthreads()
    if thread < 2 and own[thread] > 0:
        cuda.atomic.add(counts, at + thread, own[thread])
