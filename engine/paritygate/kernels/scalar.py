"""Rules for one element. Every loop calls these, so that each rule is written once.

Values are widened to float64 before they come here. Every test is written so that a NaN fails it.
"""

from __future__ import annotations

import math
from operator import mul as product  # a name, so that the GPU can have one that isn't fused
from typing import Any

import numpy as np
from numpy import rint  # a name, for the same

from paritygate.kernels._jit import scalar

Integer = int | np.integer[Any]

FINITE, NAN, POSITIVE_INF, NEGATIVE_INF = 0, 1, 2, 3
BINS = 16_378  # exact zero, 8 bins for each of the 2047 binades that are finite, overflow
_TWO_TO_64 = 18446744073709551616.0
_ABOVE_ONE = 1.0 + 2.0**-52


@scalar
def allowed(ref: float, atol: float, rtol: float) -> float:
    """`atol + rtol * |ref|`, product and sum rounded separately."""
    return atol + product(rtol, abs(ref))


@scalar
def is_within(error: float, bound: float) -> bool:
    """Whether the absolute error is proved good; an infinite bound proves only equality."""
    return error <= bound and (bound < math.inf or error == 0.0)


@scalar
def excess(error: float, bound: float) -> float:
    """Error as a multiple of what is allowed; above 1 exactly where `is_within` is false."""
    if error == 0.0:
        return 0.0
    if bound == 0.0 or bound == math.inf:
        return math.inf
    return error / bound


@scalar
def share_below(ratio: float, shrunk: float) -> float:
    """A share of the bound: an error that is proved below it has a smaller excess than `ratio`.

    `shrunk` is a little below 1, for what rounding may hide; a ratio near the denormals may hide
    more, and gives 0: nothing is proved.
    """
    return product(ratio, shrunk) if ratio > 1e-290 else 0.0


@scalar
def class_of(value: float) -> int:
    """0 finite, 1 NaN, 2 +inf, 3 -inf."""
    if abs(value) < math.inf:
        return FINITE
    if value != value:
        return NAN
    return POSITIVE_INF if value > 0.0 else NEGATIVE_INF


@scalar
def integer_error(ref: Integer, cand: Integer) -> np.uint64:
    """`|cand - ref|` without wrap-around, for two int64 or two uint64."""
    if cand >= ref:
        return np.uint64(cand) - np.uint64(ref)
    return np.uint64(ref) - np.uint64(cand)


@scalar
def integer_bound(bound: float) -> np.uint64:
    """Largest integer error that a bound >= 0 allows: its floor, at most 2^64 - 1."""
    if bound < _TWO_TO_64:
        return np.uint64(bound)
    return np.uint64(0xFFFFFFFFFFFFFFFF)


@scalar
def integer_excess(error: np.uint64, bound: float) -> float:
    """`excess` of an exact integer error; above 1 where the error is above `floor(bound)`."""
    ratio = excess(np.float64(error), bound)
    if error > integer_bound(bound) and ratio < _ABOVE_ONE:
        return _ABOVE_ONE  # both were rounded to the same float64
    return ratio


@scalar
def ulp_distance_32(ref: float, cand: float) -> np.uint64:
    """Steps between two finite float32; +0 and -0 are 0 apart."""
    ref_bits = np.int64(np.float32(ref).view(np.int32))
    cand_bits = np.int64(np.float32(cand).view(np.int32))
    sign = np.int64(-2147483648)
    ref_step = ref_bits if ref_bits >= 0 else sign - ref_bits
    cand_step = cand_bits if cand_bits >= 0 else sign - cand_bits
    return integer_error(ref_step, cand_step)


@scalar
def ulp_distance_64(ref: float, cand: float) -> np.uint64:
    """Steps between two finite float64; +0 and -0 are 0 apart."""
    ref_bits = np.float64(ref).view(np.int64)
    cand_bits = np.float64(cand).view(np.int64)
    sign = np.int64(-9223372036854775808)
    ref_step = ref_bits if ref_bits >= 0 else sign - ref_bits
    cand_step = cand_bits if cand_bits >= 0 else sign - cand_bits
    return integer_error(ref_step, cand_step)


@scalar
def place_on_grid(value: float, mantissa: int, min_exponent: int) -> np.int64:
    """Signed place of a finite float64 among the numbers of a narrower format, 0 for both zeros.

    Rounded to the nearest, half to even. The format has `mantissa` bits after the leading one, its
    smallest normal number is 2^min_exponent, and its exponents have no upper end here.
    """
    bits = np.float64(value).view(np.int64)
    exponent = max(np.int64((bits >> 52) & 0x7FF) - 1023, np.int64(min_exponent))
    scale = np.int64((1023 + mantissa - exponent) << 52).view(np.float64)
    steps = np.int64(rint(product(abs(value), scale)))
    place = ((exponent - min_exponent) << mantissa) + steps
    return place if value >= 0.0 else -place


@scalar
def bin_of(error: float) -> Integer:
    """Histogram bin of an absolute error: 0 for zero, else 1 + its top 14 bits below the sign."""
    if error == 0.0:
        return 0
    return 1 + (np.float64(error).view(np.int64) >> 49)


@scalar
def one_minus_cosine(ref_energy: float, error_energy: float, cross: float) -> float:
    """`1 - cos(ref, ref + error)` from the sums of r^2, e^2 and r*e; NaN where undefined.

    With a = e^2/r^2 and b = r*e/r^2, cos = (1 + b)/sqrt(s), s = 1 + 2b + a. Near 1 the difference
    is taken as (a - b^2)/(sqrt(s)(sqrt(s) + 1 + b)), which does not cancel.
    """
    noise = error_energy / ref_energy
    along = cross / ref_energy
    power = 1.0 + product(2.0, along) + noise
    if not 0.0 < power < math.inf:
        return math.nan
    length = math.sqrt(power)
    if 1.0 + along <= 0.0:
        opposed = 1.0 - (1.0 + along) / length
        return opposed if opposed < 2.0 else 2.0
    across = noise - product(along, along)
    if across <= 0.0:
        return 0.0
    return across / product(length, length + 1.0 + along)
