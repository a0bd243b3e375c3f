"""Largest distances in steps of the dtype, of clean stretches, found on bit patterns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from paritygate.kernels._jit import jit, scalar

Bits = npt.NDArray[Any]
Counts = npt.NDArray[np.int64]


@jit
def keep_steps(
    ref: Bits,
    cand: Bits,
    width: int,
    start: int,
    samples: int,
    dirty: npt.NDArray[np.bool_],
    floor: int,
    best_at: Counts,
    best: npt.NDArray[np.uint64],
) -> None:
    """Keep the largest distances of clean stretches, the first one of those that tie.

    Args:
        ref: bits of these samples, uint32 of float32 or uint64 of float64.
        cand: the same of the candidate.
        width: elements a sample.
        start: number of the first sample; ordinals ascend.
        samples: samples a stretch.
        dirty: `(stretches,)` those that are left out.
        floor: bits of the smallest |ref| of the second kind.
        best_at: `(2, 2)` as `elements.measure_ulp` has it, of samples before these.
        best: `(2,)` the same.
    """
    size = samples * width
    whole = ref.dtype.type
    at_least = whole(floor)
    for number in range(dirty.size):
        if dirty[number]:
            continue
        base = number * size
        r, c = ref[base : base + size], cand[base : base + size]
        top, top_above, largest = _largest(r, c, floor)
        for row in range(2):
            steps = top if row == 0 else top_above
            is_new = np.uint64(steps) > best[row] or best_at[row, 0] < 0
            if not is_new or (row == 1 and largest < at_least):
                continue
            lowest = whole(0) if row == 0 else at_least
            for k in range(r.size):
                is_in = _magnitude(r[k], whole, ref.itemsize) >= lowest
                if is_in and _distance(r[k], c[k], whole, ref.itemsize) == steps:
                    best[row] = np.uint64(steps)
                    best_at[row, 0] = start + number * samples + k // width
                    best_at[row, 1] = k % width
                    break


@scalar
def _largest(ref: Any, cand: Any, floor: int) -> Any:
    """Largest distance, the largest where |ref| reaches the floor, and the largest |ref|.

    In numbers as wide as the bits, so that as many go at once as can.
    """
    whole = ref.dtype.type
    at_least = whole(floor)
    top = top_above = largest = whole(0)
    for k in range(ref.size):
        magnitude = _magnitude(ref[k], whole, ref.itemsize)
        steps = _distance(ref[k], cand[k], whole, ref.itemsize)
        largest = max(largest, magnitude)
        top = max(top, steps)
        top_above = max(top_above, steps if magnitude >= at_least else whole(0))
    return top, top_above, largest


@scalar
def _magnitude(bits: Any, whole: Any, size: int) -> Any:
    return whole(bits & whole((1 << (8 * size - 1)) - 1))


@scalar
def _place(bits: Any, whole: Any, size: int) -> Any:
    """Place among the finite numbers of a dtype, the lowest first and both zeros at one."""
    digits = 8 * size - 1
    negative = whole(whole(0) - whole(bits >> whole(digits)))
    signed = whole(whole(_magnitude(bits, whole, size) ^ negative) - negative)
    return whole(whole(1 << digits) + signed)


@scalar
def _distance(ref: Any, cand: Any, whole: Any, size: int) -> Any:
    place, cand_place = _place(ref, whole, size), _place(cand, whole, size)
    return whole(max(place, cand_place) - min(place, cand_place))
