"""Exact sums on the GPU, in the chunks of `kernels.grids`: integers, added in any order.

A block splits its terms on two grids of its own; units of the first are at most 2^40 a term, so
that a block may add 2^22 of them. What fits neither grid is added by itself. The sum is the same
whatever the grids are.
"""

from __future__ import annotations

from typing import Any

from paritygate.gpu.device import bits_of, cuda, device, float_of, kernel
from paritygate.kernels import sums

CHUNKS = sums.CHUNKS
E, ABS_E = 0, 1  # rows of chunks: sums of e and of |e|
EE, RR, RE = 2, 3, 4  # in the tier "full" those of e^2, r^2 and r*e too
PRODUCTS, ROWS = 3, 5
UNITS = 2 * PRODUCTS  # of their grids
COARSE, DEEP = 40, 81  # bits of a term that are split on the first grid, and on both
MOST = 1 << 22  # terms of a block
BETWEEN = 1 << 28  # terms after which carries must be passed on
_LOWEST = -1074
_HIGHEST = 1000


@device
def exponent_below(bits: int) -> int:
    """An x of grids for terms below 2^x, of the bits of the largest |t| that is known."""
    exponent = (bits >> 52) - 1020  # twice and four times as much may come
    return exponent if exponent < _HIGHEST else _HIGHEST


@device
def grid_of(exponent: int, bits: int) -> int:
    """Exponent of a grid for so many bits of terms below 2^exponent."""
    grid = exponent - bits
    return grid if grid > _LOWEST else _LOWEST


@device
def anchor_of(grid: int) -> float:
    """1.5 * 2^52 * 2^grid: what is added to it is rounded to a multiple of 2^grid."""
    return float_of(((grid + 52 + 1023) << 52) | (1 << 51))


@device
def power_of(exponent: int) -> float:
    """2^exponent of an exponent from -1022 to 1023."""
    return float_of((exponent + 1023) << 52)


@device
def add_units(chunks: Any, row: int, units: int, exponent: int) -> None:
    """Add units of 2^exponent, |units| < 2^63, to a row of `chunks` `(rows, CHUNKS)`."""
    sign = 1 if units >= 0 else -1
    size = units * sign
    place, shift = (exponent - _LOWEST) >> 5, (exponent - _LOWEST) & 31
    low, high = (size & 0xFFFFFFFF) << shift, (size >> 32) << shift
    cuda.atomic.add(chunks, (row, place), sign * (low & 0xFFFFFFFF))
    cuda.atomic.add(chunks, (row, place + 1), sign * ((low >> 32) + (high & 0xFFFFFFFF)))
    cuda.atomic.add(chunks, (row, place + 2), sign * (high >> 32))


@device
def add_one(chunks: Any, row: int, term: float) -> int:
    """Add a term to a sum.

    Returns:
        1 if it isn't finite, and was not added; else 0.
    """
    bits = bits_of(term)
    field, mantissa = (bits >> 52) & 0x7FF, bits & 0xFFFFFFFFFFFFF
    if field == 0x7FF:
        return 1
    if field > 0:
        mantissa |= 0x10000000000000
        field -= 1
    add_units(chunks, row, mantissa if bits >= 0 else -mantissa, field + _LOWEST)
    return 0


@device
def add_term(chunks: Any, term: float, is_negated: bool) -> int:
    """Add a term to the sum of |e|, and the same or its opposite to that of e.

    Returns:
        1 if it is infinite, and was not added; else 0.
    """
    add_one(chunks, E, -term if is_negated else term)
    return add_one(chunks, ABS_E, term)


@device
def exponent_of_products(left: int, right: int, count: int) -> int:
    """An x of grids for sums of products, of the bits of the largest factors that are known.

    Args:
        left: bits of a magnitude.
        right: the same of the other factor.
        count: products of a sum, at least 1.
    """
    exponent = exponent_below(left) + exponent_below(right) - 2
    while count > 1:
        count //= 2
        exponent += 1
    return min(max(exponent, -_HIGHEST), _HIGHEST)


@device
def split(term: float, exponent: int) -> tuple[int, int, float]:
    """Units of a term on the grids for 2^exponent, and what of it is none: all where it's larger.

    Returns:
        Units on the first grid and on the finer one, and what is left.
    """
    if not abs(term) < power_of(exponent):
        return 0, 0, term
    anchor, deep = anchor_of(grid_of(exponent, COARSE)), anchor_of(grid_of(exponent, DEEP))
    close = term + anchor
    units = bits_of(close) - bits_of(anchor)
    left = term - (close - anchor)
    close = left + deep
    return units, bits_of(close) - bits_of(deep), left - (close - deep)


@kernel
def carry(chunks: Any) -> None:
    """Bring every chunk but the top ones below 2^32: one block, a thread a row."""
    for row in range(cuda.threadIdx.x, chunks.shape[0], cuda.blockDim.x):
        for place in range(CHUNKS - 1):
            over = chunks[row, place] >> 32
            chunks[row, place] -= over << 32
            chunks[row, place + 1] += over
