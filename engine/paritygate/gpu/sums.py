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
    """Add units of 2^exponent, |units| < 2^63, to a row of `chunks` `(2, CHUNKS)`."""
    sign = 1 if units >= 0 else -1
    size = units * sign
    place, shift = (exponent - _LOWEST) >> 5, (exponent - _LOWEST) & 31
    low, high = (size & 0xFFFFFFFF) << shift, (size >> 32) << shift
    cuda.atomic.add(chunks, (row, place), sign * (low & 0xFFFFFFFF))
    cuda.atomic.add(chunks, (row, place + 1), sign * ((low >> 32) + (high & 0xFFFFFFFF)))
    cuda.atomic.add(chunks, (row, place + 2), sign * (high >> 32))


@device
def add_term(chunks: Any, term: float, is_negated: bool) -> int:
    """Add a term to the sum of |e|, and the same or its opposite to that of e.

    Returns:
        1 if it is infinite, and was not added; else 0.
    """
    bits = bits_of(term)
    field, mantissa = (bits >> 52) & 0x7FF, bits & 0xFFFFFFFFFFFFF
    if field == 0x7FF:
        return 1
    if field > 0:
        mantissa |= 0x10000000000000
        field -= 1
    units = mantissa if bits >= 0 else -mantissa
    add_units(chunks, ABS_E, units, field + _LOWEST)
    add_units(chunks, E, -units if is_negated else units, field + _LOWEST)
    return 0


@kernel
def carry(chunks: Any) -> None:
    """Bring every chunk but the top ones below 2^32: one block, a thread a row."""
    row = cuda.threadIdx.x
    if row < 2:
        for place in range(CHUNKS - 1):
            over = chunks[row, place] >> 32
            chunks[row, place] -= over << 32
            chunks[row, place + 1] += over
