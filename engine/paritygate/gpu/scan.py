"""The scan: whole tiles of elements, sums and extremes of them, and which ones aren't all good.

It ignores where samples end. A tile that holds an element that isn't good is judged again, sample
by sample, by `failing`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from paritygate.gpu.device import THREADS, TILE, bits_of, cuda, float_of, kernel, product, widen
from paritygate.gpu.extremes import keep_worse, ordinal_of, precedes
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
LOST, FAILING, COUNTS = 16, 17, 18  # infinite errors; failing samples that are kept; all
_LARGEST = 1.7976931348623157e308
# A ratio that rounds to x or more is of an error that is at least the rounded product of the bound
# and this share of x.
_SHRUNK = 1.0 - 2.0**-50


class Batch(NamedTuple):
    """What is the same for all elements of a batch.

    Attributes:
        width: elements a sample.
        first: ordinal of the first sample, if they follow each other; else -1.
        in_order: 1 if ordinals ascend, else 0.
        atol: absolute tolerance.
        rtol: tolerance relative to |ref|.
        cap: largest error of any element.
    """

    width: int
    first: int
    in_order: int
    atol: float
    rtol: float
    cap: float


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
    table = cuda.shared.array(CLASSES, np.int64)
    shared = cuda.shared.array(2, np.int64)  # bits of: an excess that was reached, a large error
    units = cuda.shared.array((4, THREADS), np.int64)
    own = cuda.shared.array((3, THREADS), np.float64)
    own_at = cuda.shared.array((2, THREADS), np.int64)
    for place in range(thread, CLASSES, THREADS):
        table[place] = 0
    if thread == 0:
        shared[0], shared[1] = bits_of(best[1]), 0
    cuda.syncthreads()
    large = 0.0
    start = cuda.blockIdx.x * TILE
    for k in range(start + thread, min(start + TILE, ref.size), THREADS):
        error = abs(widen(cand[k]) - widen(ref[k]))
        if large < error < math.inf:
            large = error
    cuda.atomic.max(shared, 1, bits_of(large))
    cuda.syncthreads()
    exponent = exponent_below(shared[1])
    reach = power_of(exponent)
    grid, finer = grid_of(exponent, COARSE), grid_of(exponent, DEEP)
    anchor, deep = anchor_of(grid), anchor_of(finer)
    base, deep_base = bits_of(anchor), bits_of(deep)

    finite, lost, total, deep_total, magnitude, deep_magnitude = 0, 0, 0, 0, 0, 0
    top_error, top_excess, top_excess_error = -1.0, -1.0, -1.0
    error_at, excess_at = -1, -1
    for tile in range(cuda.blockIdx.x, dirty.size, cuda.gridDim.x):
        near = share_below(min(float_of(shared[0]), _LARGEST), _SHRUNK)
        bad = 0
        for k in range(tile * TILE + thread, min(tile * TILE + TILE, ref.size), THREADS):
            r, c = widen(ref[k]), widen(cand[k])
            if not (abs(r) < math.inf and abs(c) < math.inf):
                cuda.atomic.add(table, 4 * class_of(r) + class_of(c), 1)
                bad = 1
                continue
            finite += 1
            signed = c - r
            error = abs(signed)
            bound = allowed(r, batch.atol, batch.rtol)
            if not (is_within(error, bound) and error <= batch.cap):
                bad = 1
            if error > top_error:
                top_error, error_at = error, k
            elif error == top_error and batch.in_order == 0:
                if precedes(k, error_at, batch.width, batch.first, ordinals):
                    error_at = k
            if not (error < product(near, bound) and bound < math.inf):
                ratio = excess(error, bound)
                if ratio > top_excess or (ratio == top_excess and error > top_excess_error):
                    top_excess, top_excess_error, excess_at = ratio, error, k
                elif ratio == top_excess and error == top_excess_error and batch.in_order == 0:
                    if precedes(k, excess_at, batch.width, batch.first, ordinals):
                        excess_at = k
            if not error < reach:
                lost += add_term(chunks, error, signed < 0.0)
                continue
            close = error + anchor
            part = bits_of(close) - base
            left = error - (close - anchor)
            close = left + deep
            deep_part = bits_of(close) - deep_base
            left = left - (close - deep)
            magnitude += part
            deep_magnitude += deep_part
            total += part if signed >= 0.0 else -part
            deep_total += deep_part if signed >= 0.0 else -deep_part
            if left != 0.0:
                add_term(chunks, left, signed < 0.0)
        if top_excess > float_of(shared[0]):
            cuda.atomic.max(shared, 0, bits_of(top_excess))
        is_dirty = cuda.syncthreads_or(np.int32(bad))
        if thread == 0:
            dirty[tile] = 1 if is_dirty else 0

    cuda.atomic.add(table, FINITE, finite)
    if lost > 0:
        cuda.atomic.add(counts, LOST, lost)
    units[0, thread], units[1, thread] = total, deep_total
    units[2, thread], units[3, thread] = magnitude, deep_magnitude
    own[0, thread], own[1, thread], own[2, thread] = top_error, top_excess, top_excess_error
    own_at[0, thread], own_at[1, thread] = error_at, excess_at
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


@kernel
def fold(
    ref: Any,
    cand: Any,
    ordinals: Any,
    batch: Any,
    tops: Any,
    at: Any,
    blocks: int,
    best: Any,
    places: Any,
    values: Any,
) -> None:
    """Keep the worst of all blocks of a batch, and of all batches: one block of `THREADS` threads.

    Args:
        ref: as of `scan`.
        cand: the same.
        ordinals: the same.
        batch: the same.
        tops: as `scan` set them.
        at: the same.
        blocks: how many there were.
        best: `(3,)` largest error, worst excess and the error there, so far.
        places: `(2, 2)` ordinal and index of both, -1 before there is one.
        values: `(2, 2)` float64 of the reference and the candidate there.
    """
    thread = cuda.threadIdx.x
    width, first = batch.width, batch.first
    for block in range(thread + THREADS, blocks, THREADS):
        keep_worse(tops, at, thread, block, width, first, ordinals)
    cuda.syncthreads()
    span = THREADS // 2
    while span > 0:
        if thread < span and thread + span < blocks:
            keep_worse(tops, at, thread, thread + span, width, first, ordinals)
        cuda.syncthreads()
        span //= 2
    if thread < 2 and at[thread, 0] >= 0:
        place = at[thread, 0]
        ordinal, index = ordinal_of(place // width, first, ordinals), place % width
        value, tie = tops[thread, 0], tops[2, 0] if thread == 1 else 0.0
        old_tie = best[2] if thread == 1 else 0.0
        is_before = ordinal < places[thread, 0]
        is_same = value == best[thread] and tie == old_tie
        is_larger = value > best[thread] or (value == best[thread] and tie > old_tie)
        if places[thread, 0] < 0 or is_larger or (is_same and is_before):
            best[thread] = value
            if thread == 1:
                best[2] = tie
            places[thread, 0], places[thread, 1] = ordinal, index
            values[thread, 0], values[thread, 1] = widen(ref[place]), widen(cand[place])
