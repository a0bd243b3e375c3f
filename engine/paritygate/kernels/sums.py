"""Exact sums of float64 terms, so that no order, split or thread count can change a bit.

A sum is an array of 64-bit chunks, chunk k counting units of 2^(32k - 1074). A term adds its
53-bit mantissa to two neighbouring chunks; carries are passed on before 2^11 additions could
overflow one (R. M. Neal, "Fast exact summation using small and large superaccumulators",
arXiv:1505.05571, 2015, section 3). Row 0 holds positive terms, row 1 magnitudes of negative ones.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from paritygate.kernels._jit import jit, scalar
from paritygate.kernels.typed import bits_of

CHUNKS = 67
_PIECE = 1024  # additions between two carries; 2^11 at most

Chunks = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]


@scalar
def add_exact(chunks: Any, term: float) -> None:
    """Add a finite term to `chunks`, `(2, CHUNKS)`."""
    bits = bits_of(term)
    sign = 1 if bits < 0 else 0
    exponent = (bits >> 52) & 0x7FF
    mantissa = bits & 0xFFFFFFFFFFFFF
    if exponent > 0:
        mantissa |= 0x10000000000000
        exponent -= 1
    place = exponent >> 5
    shift = exponent & 31
    chunks[sign, place] += (mantissa << shift) & 0xFFFFFFFF
    chunks[sign, place + 1] += mantissa >> (32 - shift)


@scalar
def carry(chunks: Any) -> None:
    """Bring every chunk but the top one below 2^32."""
    for sign in range(2):
        for place in range(CHUNKS - 1):
            over = chunks[sign, place] >> 32
            chunks[sign, place] -= over << 32
            chunks[sign, place + 1] += over


@jit
def sum_errors(errors: Doubles, chunks: Chunks) -> int:
    """Add the signed errors to `chunks`; a NaN is no finite pair and is left out.

    Returns:
        Infinite errors, which are not added.
    """
    lost = 0
    for start in range(0, errors.size, _PIECE):
        for k in range(start, min(start + _PIECE, errors.size)):
            term = errors[k]
            if abs(term) < math.inf:
                add_exact(chunks, term)
            elif term == term:
                lost += 1
        carry(chunks)
    return lost


@jit
def sum_products(left: Doubles, right: Doubles, errors: Doubles, chunks: Chunks) -> int:
    """Add `left * right`, each product rounded to float64, where `errors` is not NaN.

    Returns:
        Products that are not finite, which are not added.
    """
    lost = 0
    for start in range(0, errors.size, _PIECE):
        for k in range(start, min(start + _PIECE, errors.size)):
            if errors[k] != errors[k]:
                continue
            term = left[k] * right[k]
            if abs(term) < math.inf:
                add_exact(chunks, term)
            else:
                lost += 1
        carry(chunks)
    return lost
