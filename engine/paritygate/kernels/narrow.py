"""Distances in steps of a float dtype narrower than float32, whose numbers are widened here."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from paritygate.kernels._jit import jit
from paritygate.kernels.scalar import integer_error, place_on_grid

Numbers = npt.NDArray[Any]
Counts = npt.NDArray[np.int64]


@jit
def measure_narrow_ulp(
    ref: Numbers,
    cand: Numbers,
    width: int,
    start: int,
    stop: int,
    ordinals: Counts,
    mantissa: int,
    min_exponent: int,
    largest: float,
    floor: float,
    best_at: Counts,
    best_steps: npt.NDArray[np.uint64],
) -> int:
    """Largest distance in steps of the candidate's dtype, of samples `[start, stop)`.

    As `measure_ulp`, for a dtype of `mantissa` bits, smallest normal number 2^min_exponent and
    largest number `largest`.

    Returns:
        Pairs without a distance: one is not finite, or the reference rounds past the largest.
    """
    undefined = 0
    top = place_on_grid(largest, mantissa, min_exponent)
    for i in range(start, stop):
        for j in range(width):
            r = np.float64(ref[(i - start) * width + j])
            c = np.float64(cand[(i - start) * width + j])
            if not (abs(r) < math.inf and abs(c) < math.inf):
                undefined += 1
                continue
            place = place_on_grid(r, mantissa, min_exponent)
            if not abs(place) <= top:
                undefined += 1
                continue
            steps = integer_error(place, place_on_grid(c, mantissa, min_exponent))
            for row in range(2):
                if row == 1 and not abs(r) >= floor:
                    continue
                best = best_at[row, 0]
                if steps > best_steps[row] or (
                    steps == best_steps[row] and (best < 0 or ordinals[i] < ordinals[best])
                ):
                    best_steps[row] = steps
                    best_at[row, 0], best_at[row, 1] = i, j
    return undefined
