"""First k classes of whole blocks of rows: what is usual is counted, as in `scan_ranks`."""

from __future__ import annotations

from typing import Any

import numpy as np

from paritygate.kernels._jit import jit, scalar
from paritygate.kernels.scalar import allowed
from paritygate.kernels.scan_ranks import (
    Counts,
    Doubles,
    Ints,
    Scores,
    count_from,
    count_not_below,
    largest,
    largest_below,
    note_margin,
)


@jit
def scan_topk(
    ref: Scores,
    bits: Scores,
    cand: Scores,
    width: int,
    k: int,
    ranked: bool,
    atol: float,
    rtol: float,
    counts: Counts,
    places: Ints,
    scores: Doubles,
    listed: Ints,
) -> int:
    """Count the usual rows, and list the others.

    Args:
        ref: `(n * width,)` float32 or float64, row after row.
        bits: the same memory as signed integers.
        cand: as `ref`.
        width: classes in a row, at least 2.
        k: places that count.
        ranked: whether their order counts.
        atol: absolute tolerance.
        rtol: tolerance relative to |ref|.
        counts: added to; `classes` by every class among the k.
        places: `(k,)` written over.
        scores: `(k + 1,)` written over.
        listed: `(n,)` written: the rows that aren't usual, ascending.

    Returns:
        How many are listed.
    """
    found = 0
    first = 0 if ranked else k - 1
    for i in range(listed.size):
        at = i * width
        r, b, c = ref[at : at + width], bits[at : at + width], cand[at : at + width]
        is_usual = _find_best(r, b, k, places, scores) and _are_best(c, places, k, ranked)
        if not is_usual:
            listed[found] = i
            found += 1
            continue
        margin = np.inf
        is_risk: Any = False
        for j in range(first, min(k, width - 1)):
            high, low = scores[j], scores[j + 1]
            gap = high - low
            bound = allowed(high, atol, rtol) + allowed(low, atol, rtol)
            is_risk |= gap < np.inf and gap <= bound
            margin = gap if gap < margin else margin
        for j in range(k):
            counts.classes[places[j]] += 1
        note_margin(margin, is_risk, i, counts)
    return found


@scalar
def _find_best(r: Any, bits: Any, k: int, places: Ints, scores: Doubles) -> bool:
    """Places of the k largest scores and these with the next; whether each of the k is alone."""
    top = largest(bits)
    before = np.int32(0)
    for j in range(k):
        times, place = count_from(r, r.dtype.type(top))
        if times != j + 1:
            return False
        places[j] = np.int32(place - before)
        scores[j] = top
        before = place
        top = largest_below(r, bits, r.dtype.type(top))
    scores[k] = top
    return True


@scalar
def _are_best(scores: Any, places: Ints, k: int, ranked: bool) -> bool:
    """Whether k scores are proved to be above all others, and in that order if it counts."""
    low = scores[places[0]]
    proved = low == low
    for j in range(1, k):
        score = scores[places[j]]
        proved = proved and score == score and (score < low or not ranked)
        low = score if score < low else low
    return bool(proved and count_not_below(scores, low) == k)
