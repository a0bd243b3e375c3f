"""The scan: whole tiles of elements, sums and extremes of them, and which ones aren't all good.

It ignores where samples end. A tile that holds an element that isn't good is judged again, sample
by sample, by `failing`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from paritygate.gpu.device import (
    THREADS,
    TILE,
    bits_of,
    cuda,
    device,
    float_of,
    kernel,
    product,
    unsigned,
    widen,
)
from paritygate.gpu.extremes import keep_worse, precedes
from paritygate.gpu.rules import (
    FINITE,
    allowed,
    class_of,
    excess,
    is_within,
    share_below,
)
from paritygate.gpu.sums import (
    ABS_E,
    COARSE,
    DEEP,
    E,
    add_term,
    add_units,
    anchor_of,
    exponent_below,
    grid_of,
    power_of,
)

CLASSES = 16  # counts: pairs by class of the reference and of the candidate, then these
LOST, FAILING = 16, 17  # infinite errors; failing samples that are kept
OVER, COUNTS = 18, 19  # finite pairs that aren't good, as they were scanned; all
_GUESSED = TILE // 4  # elements of a block from which its grids are guessed
_LARGEST = 1.7976931348623157e308
# A ratio that rounds to x or more is of an error that is at least the rounded product of the bound
# and this share of x.
_SHRUNK = 1.0 - 2.0**-50
_MAGNITUDE = 0x7FFFFFFFFFFFFFFF  # all bits of a float64 but the sign


class Batch(NamedTuple):
    """What is the same for all elements of a batch.

    Attributes:
        width: elements a sample.
        first: ordinal of the first sample, if they follow each other; else -1.
        in_order: 1 if ordinals ascend, else 0.
        is_bounded: 1 if no bound of a finite value is infinite, else 0.
        atol: absolute tolerance.
        rtol: tolerance relative to |ref|.
        cap: largest error of any element.
    """

    width: int
    first: int
    in_order: int
    is_bounded: int
    atol: float
    rtol: float
    cap: float


@device
def largest_of(ref: Any, cand: Any, start: int, stop: int) -> float:
    """Largest finite error of a thread's elements, 0 if there is none."""
    large = 0.0
    for k in range(start, stop, THREADS):
        error = abs(widen(cand[k]) - widen(ref[k]))
        if large < error < math.inf:
            large = error
    return large


@device
def measure(
    ref: Any,
    cand: Any,
    start: int,
    stop: int,
    batch: Any,
    near: float,
    anchor: float,
    deep: float,
) -> tuple[int, int, int, int, int, int, int]:
    """Measure a thread's elements of a tile without a branch, so that many are read at once.

    Args:
        ref: as of `scan`.
        cand: the same.
        start: the first one.
        stop: end of the tile.
        batch: as of `scan`.
        near: share of the bound, at most 1, below which no error is the worst.
        anchor: of the grid.
        deep: of the finer one.

    Returns:
        Whether one may not be good or may have the worst excess; bits of the largest |e|, those of
        a NaN being larger than all others; the bits that are set in what is left of the grids;
        then units of e on both grids, and of |e|, which mean something where the largest |e| fits.
    """
    is_near, top, left_bits, minus = 0, 0, 0, 0
    size, deep_size, below, deep_below = 0, 0, 0, 0
    for k in range(start, stop, THREADS):
        r = widen(ref[unsigned(k)])
        difference = widen(cand[unsigned(k)]) - r
        error = abs(difference)
        bits = bits_of(difference)
        share = product(near, allowed(r, batch.atol, batch.rtol))
        is_near |= int(not ((error < share) | (error == 0.0)))
        top = max(top, bits & _MAGNITUDE)
        sign = bits >> 63
        close = error + anchor
        left = error - (close - anchor)
        units = bits_of(close)
        close = left + deep
        deep_units = bits_of(close)
        left_bits |= bits_of(left - (close - deep))
        size += units
        below += units & sign
        deep_size += deep_units
        deep_below += deep_units & sign
        minus -= sign
    # Each sum has the bits of the anchor in it once for each term. Integers wrap around.
    count = max(stop - start + THREADS - 1, 0) // THREADS
    base, deep_base = bits_of(anchor), bits_of(deep)
    size, below = size - count * base, below - minus * base
    deep_size, deep_below = deep_size - count * deep_base, deep_below - minus * deep_base
    left_bits &= _MAGNITUDE
    return is_near, top, left_bits, size - 2 * below, deep_size - 2 * deep_below, size, deep_size


@device
def add_each(
    ref: Any, cand: Any, start: int, stop: int, table: Any, counts: Any, chunks: Any
) -> int:
    """Classify and sum a thread's elements of a tile one by one; how many pairs are finite."""
    finite = 0
    for k in range(start, stop, THREADS):
        r, c = widen(ref[k]), widen(cand[k])
        if not (abs(r) < math.inf and abs(c) < math.inf):
            cuda.atomic.add(table, 4 * class_of(r) + class_of(c), 1)
            continue
        finite += 1
        if add_term(chunks, abs(c - r), c < r) != 0:
            cuda.atomic.add(counts, LOST, 1)
    return finite


@device
def look(
    ref: Any,
    cand: Any,
    start: int,
    stop: int,
    batch: Any,
    ordinals: Any,
    own: Any,
    own_at: Any,
    thread: int,
) -> tuple[int, int]:
    """Keep the largest error and the worst excess of a thread's elements of a tile.

    Returns:
        Whether one isn't good, and how many of these are finite pairs.
    """
    bad, over = 0, 0
    for k in range(start, stop, THREADS):
        r, c = widen(ref[k]), widen(cand[k])
        if not (abs(r) < math.inf and abs(c) < math.inf):
            bad = 1
            continue
        error = abs(c - r)
        bound = allowed(r, batch.atol, batch.rtol)
        if not (is_within(error, bound) and error <= batch.cap):
            bad = 1
            over += 1
        if error > own[0, thread] or (
            error == own[0, thread]
            and batch.in_order == 0
            and precedes(k, own_at[0, thread], batch.width, batch.first, ordinals)
        ):
            own[0, thread], own_at[0, thread] = error, k
        ratio = excess(error, bound)
        is_tie = ratio == own[1, thread]
        if (
            ratio > own[1, thread]
            or (is_tie and error > own[2, thread])
            or (
                is_tie
                and error == own[2, thread]
                and batch.in_order == 0
                and precedes(k, own_at[1, thread], batch.width, batch.first, ordinals)
            )
        ):
            own[1, thread], own[2, thread], own_at[1, thread] = ratio, error, k
    return bad, over


@kernel
def scan(
    ref: Any,
    cand: Any,
    ordinals: Any,
    batch: Any,
    counts: Any,
    chunks: Any,
    best: Any,
    tops: Any,
    at: Any,
    dirty: Any,
) -> None:
    """Count, sum and rank the elements of a batch, in blocks of `THREADS` threads.

    Args:
        ref: flat values, float32 or float64.
        cand: the same of the candidate.
        ordinals: of the samples, where they don't follow each other.
        batch: a `Batch`.
        counts: `(COUNTS,)` int64, added to.
        chunks: `(2, CHUNKS)` int64 sums of e and |e|, added to.
        best: `(3,)` the extremes so far.
        tops: `(3, blocks)` set to the extremes of each block.
        at: `(2, blocks)` set to their places.
        dirty: `(tiles,)` uint8 set to whether a tile has an element that isn't good.
    """
    thread = cuda.threadIdx.x
    table = cuda.shared.array(CLASSES, np.uint32)  # a block has at most `sums.MOST` elements
    shared = cuda.shared.array(2, np.int64)  # bits of: an excess that was reached, a large error
    units = cuda.shared.array((4, THREADS), np.int64)
    own = cuda.shared.array((3, THREADS), np.float64)
    own_at = cuda.shared.array((2, THREADS), np.int64)
    for place in range(thread, CLASSES, THREADS):
        table[place] = 0
    if thread == 0:
        shared[0], shared[1] = bits_of(best[1]), 0
    cuda.syncthreads()
    start = cuda.blockIdx.x * TILE
    guess = largest_of(ref, cand, start + thread, min(start + _GUESSED, ref.size))
    cuda.atomic.max(shared, 1, bits_of(guess))
    own[0, thread], own[1, thread], own[2, thread] = -1.0, -1.0, -1.0
    own_at[0, thread], own_at[1, thread] = -1, -1
    cuda.syncthreads()
    large = shared[1]
    bound = allowed(widen(ref[start]), batch.atol, batch.rtol)
    if large == 0 and bound < math.inf:
        large = bits_of(bound)
    exponent = exponent_below(large)
    grid, finer = grid_of(exponent, COARSE), grid_of(exponent, DEEP)
    reach = bits_of(power_of(exponent))
    anchor, deep = anchor_of(grid), anchor_of(finer)

    finite, total, deep_total, magnitude, deep_magnitude, outside = 0, 0, 0, 0, 0, 0
    for tile in range(cuda.blockIdx.x, dirty.size, cuda.gridDim.x):
        near = 0.0  # where a bound may be infinite, every error is looked at
        if batch.is_bounded != 0:
            near = min(share_below(min(float_of(shared[0]), _LARGEST), _SHRUNK), 1.0)
        start, stop = tile * TILE + thread, min(tile * TILE + TILE, ref.size)
        is_near, top, left, signed, deep_signed, size, deep_size = measure(
            ref, cand, start, stop, batch, near, anchor, deep
        )
        fits = top < reach and left == 0
        if fits:
            finite += max(stop - start + THREADS - 1, 0) // THREADS
            total += signed
            deep_total += deep_signed
            magnitude += size
            deep_magnitude += deep_size
        else:
            finite += add_each(ref, cand, start, stop, table, counts, chunks)
        bad, known = 0, own[0, thread]
        largest = float_of(top)
        is_new = largest > known or (batch.in_order == 0 and largest == known)
        if is_near != 0 or is_new or not fits or not largest <= batch.cap:
            bad, over = look(ref, cand, start, stop, batch, ordinals, own, own_at, thread)
            outside += over
            if own[1, thread] > float_of(shared[0]):
                cuda.atomic.max(shared, 0, bits_of(own[1, thread]))
        is_dirty = cuda.syncthreads_or(np.int32(bad))
        if thread == 0:
            dirty[tile] = 1 if is_dirty else 0

    cuda.atomic.add(table, FINITE, finite)
    if outside > 0:
        cuda.atomic.add(counts, OVER, outside)
    units[0, thread], units[1, thread] = total, deep_total
    units[2, thread], units[3, thread] = magnitude, deep_magnitude
    cuda.syncthreads()
    span = THREADS // 2
    while span > 0:
        if thread < span:
            for row in range(4):
                units[row, thread] += units[row, thread + span]
            keep_worse(own, own_at, thread, thread + span, batch.width, batch.first, ordinals)
        cuda.syncthreads()
        span //= 2
    for place in range(thread, CLASSES, THREADS):
        if table[place] > 0:
            cuda.atomic.add(counts, place, table[place])
    if thread == 0:
        block = cuda.blockIdx.x
        add_units(chunks, E, units[0, 0], grid)
        add_units(chunks, E, units[1, 0], finer)
        add_units(chunks, ABS_E, units[2, 0], grid)
        add_units(chunks, ABS_E, units[3, 0], finer)
        for row in range(3):
            tops[row, block] = own[row, 0]
        for row in range(2):
            at[row, block] = own_at[row, 0]
