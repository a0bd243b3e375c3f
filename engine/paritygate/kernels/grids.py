"""Exact sums of many terms at once, on grids whose integers are added in any order.

A term t is split on a grid: rint(t/q), q a power of two, half to even, and what is left, which is
split on a finer grid, and so on. `(t + 1.5 * 2^52 * q)` seen as int64, minus the bits of the
constant, is that integer. Where something is left of the last grid it is added term by term, so
that no grid changes a bit of a sum.

Sums are in the chunks of `sums`, here with a sign: additions of less than 2^32 each, of which 2^31
may follow each other until carries must be passed on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from paritygate.kernels._jit import jit, scalar
from paritygate.kernels.linked import linked
from paritygate.kernels.typed import bits_of, larger, number_of, whole

PIECE = 4096  # terms that are summed on one grid, below 2^13
HIGHEST = 1000  # exponent of the largest term
_BITS = 49  # |t|/q < 2^49, so that 2^13 terms stay below 2^63
_LOWEST = -1074
_GRIDS = 4

Doubles = npt.NDArray[np.float64]
Chunks = npt.NDArray[np.int64]


@scalar
def exponent_of(bits: int) -> int:
    """An x with |t| < 2^x, of the bits of a finite |t|."""
    return (bits >> 52) - 1022


@scalar
def _grid(exponent: int, level: int) -> int:
    """Exponent of q: |t|/q < 2^49 on the first grid, and for what is left of it on the next."""
    return whole(larger(exponent - _BITS - level * (_BITS + 1), _LOWEST))


@scalar
def first_grid(exponent: int) -> int:
    """Exponent of q of the grid that up to `PIECE` terms below 2^exponent are first split on."""
    return _grid(exponent, 0)


@scalar
def anchor_of(grid: int) -> float:
    """1.5 * 2^52 * q: what is added to it is rounded to a multiple of q."""
    return 1.5 * number_of((grid + 52 + 1023) << 52)


@scalar
def add_units(chunks: Chunks, units: Any, exponent: Any) -> None:
    """Add units of 2^exponent, |units| < 2^63, to the chunks `(CHUNKS,)` of an exact sum."""
    size, sign = abs(units), np.int64(1) if units >= 0 else np.int64(-1)
    place, shift = (exponent - _LOWEST) >> 5, (exponent - _LOWEST) & 31
    low, high = (size & 0xFFFFFFFF) << shift, (size >> 32) << shift
    chunks[place] += sign * (low & 0xFFFFFFFF)
    chunks[place + 1] += sign * ((low >> 32) + (high & 0xFFFFFFFF))
    chunks[place + 2] += sign * (high >> 32)


@jit
def add_each(terms: Doubles, chunks: Chunks) -> int:
    """Add terms of any size to `chunks` `(CHUNKS,)`, one by one.

    Returns:
        Terms that are not finite, which are not added.
    """
    lost = 0
    for k in range(terms.size):
        bits = bits_of(terms[k])
        field, mantissa = (bits >> 52) & 0x7FF, bits & 0xFFFFFFFFFFFFF
        if field == 0x7FF:
            lost += 1
            continue
        if field > 0:
            mantissa |= 0x10000000000000
            field -= 1
        add_units(chunks, mantissa if bits >= 0 else -mantissa, field + _LOWEST)
    return lost


_add_each = linked(add_each)  # rarely needed


@scalar
def add_errors(
    errors: Doubles, rest: Doubles, exponent: int, chunks: Chunks, of_magnitudes: Chunks
) -> None:
    """Add errors to `chunks` `(CHUNKS,)`, and their magnitudes to `of_magnitudes`.

    Args:
        errors: up to `PIECE`, below 2^exponent each.
        rest: their magnitudes; written over.
        exponent: less than `HIGHEST`.
        chunks: added to.
        of_magnitudes: added to.
    """
    for level in range(0, _GRIDS, 2):
        grid, finer = _grid(exponent, level), _grid(exponent, level + 1)
        total, deep_total, magnitude, deep_magnitude, left = split_errors(
            errors, rest, anchor_of(grid), anchor_of(finer)
        )
        add_units(chunks, total, grid)
        add_units(chunks, deep_total, finer)
        add_units(of_magnitudes, magnitude, grid)
        add_units(of_magnitudes, deep_magnitude, finer)
        if (left << 1) == 0:
            return
    _add_each(rest, of_magnitudes)
    for k in range(errors.size):
        rest[k] = -rest[k] if errors[k] < 0.0 else rest[k]
    _add_each(rest, chunks)


@scalar
def split_errors(
    errors: Doubles, rest: Doubles, anchor: float, deep: float
) -> tuple[int, int, int, int, int]:
    """Units of errors on two grids, whose anchors are given.

    `rest` is what of their magnitudes is to be split; what is left is written over it.

    Returns:
        Units on the first grid and on the second, those of magnitudes on both, and the bits that
        are set in what is left.
    """
    base, deep_base = bits_of(anchor), bits_of(deep)
    total = deep_total = magnitude = deep_magnitude = left = np.int64(0)
    for k in range(errors.size):
        sign = bits_of(errors[k]) >> 63
        t = rest[k]
        near = t + anchor
        units = bits_of(near) - base
        t = t - (near - anchor)
        magnitude += units
        total += (units ^ sign) - sign
        near = t + deep
        units = bits_of(near) - deep_base
        t = t - (near - deep)
        deep_magnitude += units
        deep_total += (units ^ sign) - sign
        left |= bits_of(t)
        rest[k] = t
    return whole(total), whole(deep_total), whole(magnitude), whole(deep_magnitude), whole(left)


@scalar
def add_coarse_products(
    left: Doubles, right: Doubles, exponent: int, lowest: int, chunks: Chunks
) -> bool:
    """As `add_products`, where nothing can be left of two grids.

    A product that isn't zero is at least the smallest of the factors multiplied, and a float64 has
    52 bits after its first one: so far below are all products multiples of one power of two.

    Args:
        left: up to `PIECE` values.
        right: as many.
        exponent: as of `add_products`.
        lowest: an x with 2^x <= |product| of all that aren't zero.
        chunks: added to.

    Returns:
        Whether that is so; otherwise nothing was added.
    """
    grid, finer = _grid(exponent, 0), _grid(exponent, 1)
    if exponent >= HIGHEST or max(lowest - 52, _LOWEST) < finer:
        return False
    total, deep_total = _split_coarse(left, right, anchor_of(grid), anchor_of(finer))
    add_units(chunks, total, grid)
    add_units(chunks, deep_total, finer)
    return True


@scalar
def _split_coarse(left: Doubles, right: Doubles, anchor: float, deep: float) -> tuple[int, int]:
    """As `split_products`, where nothing is left."""
    base, deep_base = bits_of(anchor), bits_of(deep)
    total = deep_total = np.int64(0)
    for k in range(left.size):
        t = left[k] * right[k]
        near = t + anchor
        total += bits_of(near) - base
        near = (t - (near - anchor)) + deep
        deep_total += bits_of(near) - deep_base
    return whole(total), whole(deep_total)


@scalar
def add_products(left: Doubles, right: Doubles, exponent: int, chunks: Chunks) -> bool:
    """Add `left * right`, each product rounded to float64, to `chunks` `(CHUNKS,)`.

    Args:
        left: up to `PIECE` values.
        right: as many; the products are at most 2^exponent each.
        exponent: of the largest product.
        chunks: added to.

    Returns:
        Whether two grids were enough; otherwise nothing was added.
    """
    if exponent >= HIGHEST:
        return False
    grid, finer = _grid(exponent, 0), _grid(exponent, 1)
    total, deep_total, rest = split_products(left, right, anchor_of(grid), anchor_of(finer))
    if (rest << 1) != 0:
        return False
    add_units(chunks, total, grid)
    add_units(chunks, deep_total, finer)
    return True


@scalar
def split_products(
    left: Doubles, right: Doubles, anchor: float, deep: float
) -> tuple[int, int, int]:
    """As `split_terms`, of products; what is left is not kept."""
    base, deep_base = bits_of(anchor), bits_of(deep)
    total = deep_total = rest = np.int64(0)
    for k in range(left.size):
        t = left[k] * right[k]
        near = t + anchor
        total += bits_of(near) - base
        t = t - (near - anchor)
        near = t + deep
        deep_total += bits_of(near) - deep_base
        rest |= bits_of(t - (near - deep))
    return whole(total), whole(deep_total), whole(rest)


@scalar
def split_terms(terms: Doubles, anchor: float, deep: float) -> tuple[int, int, int]:
    """Units of terms on two grids, whose anchors are given; what is left is written over them.

    Returns:
        Units on the first grid, units on the second, and the bits that are set in what is left.
    """
    base, deep_base = bits_of(anchor), bits_of(deep)
    total = deep_total = left = np.int64(0)
    for k in range(terms.size):
        t = terms[k]
        near = t + anchor
        total += bits_of(near) - base
        t = t - (near - anchor)
        near = t + deep
        deep_total += bits_of(near) - deep_base
        t = t - (near - deep)
        left |= bits_of(t)
        terms[k] = t
    return whole(total), whole(deep_total), whole(left)


@scalar
def add_terms(terms: Doubles, exponent: int, chunks: Chunks) -> None:
    """Add terms to `chunks` `(CHUNKS,)`; they are written over.

    Args:
        terms: up to `PIECE`, at most 2^exponent each.
        exponent: less than `HIGHEST`.
        chunks: added to.
    """
    for level in range(0, _GRIDS, 2):
        grid, finer = _grid(exponent, level), _grid(exponent, level + 1)
        total, deep_total, left = split_terms(terms, anchor_of(grid), anchor_of(finer))
        add_units(chunks, total, grid)
        add_units(chunks, deep_total, finer)
        if (left << 1) == 0:
            return
    _add_each(terms, chunks)
