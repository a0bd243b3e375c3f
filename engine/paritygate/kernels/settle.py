"""Stretches that may hold an extreme: judged exactly, in float64 that holds their errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from paritygate.kernels._jit import jit, scalar
from paritygate.kernels.elements import Found, Rule
from paritygate.kernels.scalar import allowed, excess, share_below

_LOOK = 256  # elements that are looked at one by one where one of them may be the worst
# A ratio that rounds to x or more is of an error that is at least the rounded product of the bound
# and this share of x.
_SHRUNK = 1.0 - 2.0**-50

Doubles = npt.NDArray[np.float64]


@jit
def settle(
    ref: Doubles,
    errors: Doubles,
    width: int,
    first: int,
    top: Any,
    rule: Rule,
    found: Found,
    worst: Doubles,
) -> bool:
    """Judge a stretch, and keep its extremes if it is clean and they outrank the best.

    Args:
        ref: of the stretch.
        errors: signed, exact; of integers or floats.
        width: elements a sample.
        first: number of its first sample.
        top: largest |e|.
        rule: what is tolerated.
        found: extremes, of samples before these.
        worst: |ref| and |e| of the last element that had the worst excess; written over.

    Returns:
        Whether the stretch is clean.
    """
    highest = np.float64(top)
    failing = np.int64(0)
    for k in range(ref.size):
        failing += np.int64(not abs(errors[k]) <= allowed(ref[k], rule.atol, rule.rtol))
    if failing > 0:
        return False
    if top > found.best_error[0] or found.best_at[0, 0] < 0:
        for k in range(errors.size):
            if abs(errors[k]) == highest:
                found.best_error[0] = top
                found.best_at[0, 0], found.best_at[0, 1] = first + k // width, k % width
                break
    _keep_excess(ref, errors, width, first, rule, found, worst)
    return True


@scalar
def _keep_excess(
    ref: Any, errors: Any, width: int, first: int, rule: Any, found: Any, worst: Any
) -> None:
    """Keep the worst excess of a clean stretch, the first of those that tie."""
    ratio, best, at = found.best_excess[0], np.float64(found.best_error[1]), -1
    if found.best_at[1, 0] < 0:
        ratio, best = -1.0, np.float64(-1.0)
    for base in range(0, ref.size, _LOOK):
        r, e = ref[base : base + _LOOK], errors[base : base + _LOOK]
        near, flagged = share_below(ratio, _SHRUNK), np.int64(0)
        for k in range(r.size):
            flagged += np.int64(not abs(e[k]) < near * allowed(r[k], rule.atol, rule.rtol))
        if flagged == 0:
            continue
        for k in range(r.size):
            error = abs(e[k])
            x = excess(error, allowed(r[k], rule.atol, rule.rtol))
            if x > ratio or (x == ratio and error > best):
                ratio, best, at = x, np.float64(error), base + k
    if at >= 0:
        found.best_excess[0], found.best_error[1] = ratio, found.best_error.dtype.type(best)
        found.best_at[1, 0], found.best_at[1, 1] = first + at // width, at % width
        worst[0], worst[1] = abs(ref[at]), best
