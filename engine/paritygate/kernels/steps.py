"""Largest distances in steps of the dtype, of clean stretches, found on bit patterns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from paritygate.kernels._jit import jit, scalar
from paritygate.kernels.typed import differing, larger, sign_bit, smaller, subtract, unsigned

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
        ref: bits of these samples, int32 of float32 or int64 of float64; narrower floats alike.
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
    mask = (1 << (8 * ref.itemsize - 1)) - 1
    for number in range(dirty.size):
        if dirty[number]:
            continue
        base = number * size
        r, c = ref[base : base + size], cand[base : base + size]
        top, top_above, largest = _largest(r, c, floor)
        for row in range(2):
            steps = top if row == 0 else top_above
            is_new = steps > best[row] or best_at[row, 0] < 0
            if not is_new or (row == 1 and largest < floor):
                continue
            lowest = 0 if row == 0 else floor
            for k in range(r.size):
                if _magnitude(r[k], mask) >= lowest and _distance(r[k], c[k], mask) == steps:
                    best[row] = steps
                    best_at[row, 0] = start + number * samples + k // width
                    best_at[row, 1] = k % width
                    break


@scalar
def _largest(ref: Any, cand: Any, floor: int) -> tuple[np.uint64, np.uint64, int]:
    """Largest distance, the largest where |ref| reaches the floor, and the largest |ref|.

    In numbers as wide as the bits, so that as many go at once as can.
    """
    whole = ref.dtype.type
    digits = sign_bit(ref[0])
    mask, at_least, largest = whole(~(whole(-1) << digits)), whole(floor), whole(0)
    none, every = unsigned(largest), unsigned(whole(-1))
    top = top_above = none
    for k in range(ref.size):
        magnitude = whole(ref[k] & mask)
        sign, cand_sign = whole(ref[k] >> digits), whole(cand[k] >> digits)
        place = subtract(whole(ref[k] ^ whole(sign & mask)), sign)
        cand_place = subtract(whole(cand[k] ^ whole(cand_sign & mask)), cand_sign)
        steps = unsigned(subtract(larger(place, cand_place), smaller(place, cand_place)))
        largest = larger(largest, magnitude)
        top = larger(top, steps)
        below = unsigned(whole(subtract(magnitude, at_least) >> digits))  # all bits or none
        top_above = larger(top_above, smaller(steps, differing(below, every)))
    return np.uint64(top), np.uint64(top_above), whole(largest)


@scalar
def _magnitude(bits: Any, mask: int) -> np.int64:
    return np.int64(np.int64(bits) & mask)


@scalar
def _distance(ref: Any, cand: Any, mask: int) -> np.uint64:
    place, cand_place = _magnitude(ref, mask), _magnitude(cand, mask)
    place, cand_place = (place if ref >= 0 else -place), (cand_place if cand >= 0 else -cand_place)
    return np.uint64(larger(place, cand_place)) - np.uint64(smaller(place, cand_place))
