"""Integers of 64 bits: the scan by exact differences, which no float holds.

Errors are without a sign and of up to 64 bits. Extremes are kept as integers whose order is theirs:
of an error itself, and the bits of an excess.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from paritygate.gpu.device import (
    THREADS,
    TILE,
    bits_of,
    cuda,
    device,
    distance,
    kernel,
    order_of,
    product,
    unsigned,
    widen,
)
from paritygate.gpu.extremes import keep_worse, precedes
from paritygate.gpu.rules import FINITE, allowed, bin_of, integer_bound, integer_excess
from paritygate.gpu.scan import OVER
from paritygate.gpu.sums import (
    ABS_E,
    COARSE,
    DEEP,
    EE,
    UNITS,
    E,
    add_one,
    add_term,
    add_units,
    exponent_below,
    exponent_of_products,
    grid_of,
    split,
)

_GUESSED = TILE // 4  # elements of a block from which its grids are guessed
_ROWS = 3


@device
def largest_of(ref: Any, cand: Any, start: int, stop: int) -> float:
    """Largest error of a thread's elements."""
    large = 0.0
    for k in range(start, stop, THREADS):
        large = max(large, widen(distance(ref[k], cand[k])))
    return large


@device
def keep(
    error: int,
    ratio: float,
    k: int,
    batch: Any,
    ordinals: Any,
    own: Any,
    own_at: Any,
    thread: int,
) -> None:
    """Keep an element's error and excess where they are worse than those of a thread before."""
    size, share = order_of(error), bits_of(ratio)
    width, first = batch.width, batch.first
    best = own_at[0, thread]
    is_tie = best >= 0 and size == own[0, thread] and batch.in_order == 0
    if best < 0 or size > own[0, thread] or (is_tie and precedes(k, best, width, first, ordinals)):
        own[0, thread], own_at[0, thread] = size, k
    best = own_at[1, thread]
    is_same = best >= 0 and share == own[1, thread]
    is_tie = is_same and size == own[2, thread] and batch.in_order == 0
    if (
        best < 0
        or share > own[1, thread]
        or (is_same and size > own[2, thread])
        or (is_tie and precedes(k, best, width, first, ordinals))
    ):
        own[1, thread], own[2, thread], own_at[1, thread] = share, size, k


@kernel
def scan_whole(
    ref: Any,
    cand: Any,
    ordinals: Any,
    batch: Any,
    counts: Any,
    chunks: Any,
    bins: Any,
    tops: Any,
    at: Any,
    dirty: Any,
) -> None:
    """Count, sum and rank the elements of a batch, in blocks of `THREADS` threads.

    Args:
        ref: flat values, int64 or uint64.
        cand: the same of the candidate.
        ordinals: of the samples, where they don't follow each other.
        batch: a `scan.Batch`.
        counts: as of `scan`.
        chunks: `(2, CHUNKS)` int64 sums of e and |e|, rounded to float64, `(5, CHUNKS)` with that
            of e^2; added to.
        bins: `(BINS,)` int64 counts of |e|, added to; of size 1 where none are counted.
        tops: `(3, blocks)` int64, set to the order of each block's extremes.
        at: as of `scan`.
        dirty: the same.
    """
    thread = cuda.threadIdx.x
    shared = cuda.shared.array(1, np.int64)
    counted = cuda.shared.array(2, np.uint32)  # pairs, and those that are equal
    units = cuda.shared.array((UNITS, THREADS), np.int64)
    own = cuda.shared.array((_ROWS, THREADS), np.int64)
    own_at = cuda.shared.array((2, THREADS), np.int64)
    for row in range(_ROWS):
        own[row, thread] = 0
    own_at[0, thread], own_at[1, thread] = -1, -1
    if thread == 0:
        shared[0], counted[0], counted[1] = 0, 0, 0
    cuda.syncthreads()
    start = cuda.blockIdx.x * TILE
    guess = largest_of(ref, cand, start + thread, min(start + _GUESSED, ref.size))
    cuda.atomic.max(shared, 0, bits_of(guess))
    cuda.syncthreads()
    large = shared[0]
    exponent, of_squares = exponent_below(large), exponent_of_products(large, large, 1)
    cap = integer_bound(batch.cap)
    is_full = bins.size > 1
    finite, zeros, outside = 0, 0, 0
    total, deep_total, magnitude, deep_magnitude, ee, deep_ee = 0, 0, 0, 0, 0, 0
    for tile in range(cuda.blockIdx.x, dirty.size, cuda.gridDim.x):
        start, stop = tile * TILE + thread, min(tile * TILE + TILE, ref.size)
        bad = 0
        for k in range(start, stop, THREADS):
            r, c = ref[unsigned(k)], cand[unsigned(k)]
            finite += 1
            error = distance(r, c)
            bound = allowed(widen(r), batch.atol, batch.rtol)
            if not (error <= integer_bound(bound) and error <= cap):
                bad = 1
                outside += 1
            keep(error, integer_excess(error, bound), k, batch, ordinals, own, own_at, thread)
            if error == 0:
                zeros += 1
                continue
            size = widen(error)
            coarse, deep, left = split(size, exponent)
            magnitude, deep_magnitude = magnitude + coarse, deep_magnitude + deep
            if c < r:
                total, deep_total = total - coarse, deep_total - deep
            else:
                total, deep_total = total + coarse, deep_total + deep
            if left != 0.0:
                add_term(chunks, left, c < r)
            if is_full:
                cuda.atomic.add(bins, bin_of(size), 1)
                coarse, deep, left = split(product(size, size), of_squares)
                ee, deep_ee = ee + coarse, deep_ee + deep
                if left != 0.0:
                    add_one(chunks, EE, left)
        is_dirty = cuda.syncthreads_or(np.int32(bad))
        if thread == 0:
            dirty[tile] = 1 if is_dirty else 0

    cuda.atomic.add(counted, 0, finite)
    cuda.atomic.add(counted, 1, zeros)
    if outside > 0:
        cuda.atomic.add(counts, OVER, outside)
    units[0, thread], units[1, thread] = total, deep_total
    units[2, thread], units[3, thread] = magnitude, deep_magnitude
    units[4, thread], units[5, thread] = ee, deep_ee
    cuda.syncthreads()
    span = THREADS // 2
    while span > 0:
        if thread < span:
            for row in range(UNITS):
                units[row, thread] += units[row, thread + span]
            keep_worse(own, own_at, thread, thread + span, batch.width, batch.first, ordinals)
        cuda.syncthreads()
        span //= 2
    if thread == 0:
        block = cuda.blockIdx.x
        add_units(chunks, E, units[0, 0], grid_of(exponent, COARSE))
        add_units(chunks, E, units[1, 0], grid_of(exponent, DEEP))
        add_units(chunks, ABS_E, units[2, 0], grid_of(exponent, COARSE))
        add_units(chunks, ABS_E, units[3, 0], grid_of(exponent, DEEP))
        cuda.atomic.add(counts, FINITE, counted[0])
        if is_full:
            cuda.atomic.add(bins, 0, counted[1])
            add_units(chunks, EE, units[4, 0], grid_of(of_squares, COARSE))
            add_units(chunks, EE, units[5, 0], grid_of(of_squares, DEEP))
        for row in range(_ROWS):
            tops[row, block] = own[row, 0]
        for row in range(2):
            at[row, block] = own_at[row, 0]
