"""What the tier "full" measures of all elements: histogram of |e|, steps, sums of narrow samples.

A block counts the bins around its own errors in shared memory, all others where the total is kept.
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
    distance,
    float_of,
    kernel,
    product,
    unsigned,
    widen,
)
from paritygate.gpu.extremes import keep_further, precedes
from paritygate.gpu.rules import allowed, bin_of, place_on_grid
from paritygate.gpu.sums import (
    COARSE,
    DEEP,
    EE,
    PRODUCTS,
    RR,
    UNITS,
    add_one,
    add_units,
    exponent_of_products,
    grid_of,
    split,
)

# Places of what is counted: pairs without a distance, terms of sums that are not finite, samples
# without a noise over signal, and without a cosine.
ULP_UNDEFINED, LOST, NO_SQNR, NO_COSINE, EXTRA = 0, 1, 4, 5, 6
WINDOW = 1 << (6 if THREADS < 32 else 11)  # bins of a block: 256 powers of two
_ABOVE = WINDOW // 8  # of them, those above the largest error that is known
_GUESSED = TILE // 4  # elements of a block from which its window and grids are guessed
_LOWEST = -9223372036854775808


class Steps(NamedTuple):
    """What distances are counted in, and what else there is to be measured.

    Attributes:
        is_double: 1 for steps of float64, else 0.
        mantissa: bits after the leading one, of any other dtype.
        min_exponent: power of two of its smallest normal number.
        top: place of its largest number.
        is_counted: 1 where there are distances, 0 for integers.
        has_products: 1 where r^2, e^2 and r*e are summed by element, 2 where e^2 alone is, else 0.
    """

    is_double: int
    mantissa: int
    min_exponent: int
    top: int
    is_counted: int
    has_products: int


@device
def largest_of(ref: Any, cand: Any, start: int, stop: int, large: Any) -> None:
    """Raise `large` to the bits of the largest finite |ref| and error of a thread's elements."""
    top_ref = top_error = 0.0
    for k in range(start, stop, THREADS):
        r = widen(ref[k])
        error = abs(widen(cand[k]) - r)
        if top_ref < abs(r) < math.inf:
            top_ref = abs(r)
        if top_error < error < math.inf:
            top_error = error
    cuda.atomic.max(large, 0, bits_of(top_ref))
    cuda.atomic.max(large, 1, bits_of(top_error))


@device
def error_below(large: int, ref: float, batch: Any) -> int:
    """Bits of the largest error that is known, of what is allowed where all are zero."""
    bound = allowed(ref, batch.atol, batch.rtol)
    if large == 0 and bound < math.inf:
        return bits_of(bound)
    return large


@device
def place_64(value: float) -> int:
    """Signed place of a float64 among all of them."""
    bits: int = bits_of(value)
    return bits if bits >= 0 else _LOWEST - bits


@device
def is_on_grid(ref: float, steps: Any) -> bool:
    """Whether a finite reference is rounded to a finite number of the candidate's dtype."""
    if steps.is_double != 0:
        return True
    return bool(abs(place_on_grid(ref, steps.mantissa, steps.min_exponent)) <= steps.top)


@device
def steps_between(ref: float, cand: float, steps: Any) -> Any:
    """Steps of the candidate's dtype between two finite numbers, uint64."""
    if steps.is_double != 0:
        return distance(place_64(ref), place_64(cand))
    mantissa, least = steps.mantissa, steps.min_exponent
    return distance(place_on_grid(ref, mantissa, least), place_on_grid(cand, mantissa, least))


@device
def add_product(term: float, exponent: int, row: int, chunks: Any, extra: Any) -> tuple[int, int]:
    """Units of a term of a sum on both of its grids; what is left of it is added to the sum."""
    units, deep_units, left = split(term, exponent)
    if left != 0.0 and add_one(chunks, EE + row, left) != 0:
        cuda.atomic.add(extra, LOST + row, 1)
    return units, deep_units


@device
def sum_units(units: Any, exponents: Any, thread: int, chunks: Any) -> None:
    """Add the units of all threads of a block to the sums; all of its threads come here."""
    span = THREADS // 2
    while span > 0:
        if thread < span:
            for row in range(UNITS):
                units[row, thread] += units[row, thread + span]
        cuda.syncthreads()
        span //= 2
    if thread == 0:
        for row in range(PRODUCTS):
            add_units(chunks, EE + row, units[2 * row, 0], grid_of(exponents[row], COARSE))
            add_units(chunks, EE + row, units[2 * row + 1, 0], grid_of(exponents[row], DEEP))


@kernel
def measure(
    ref: Any,
    cand: Any,
    ordinals: Any,
    batch: Any,
    steps: Any,
    bins: Any,
    chunks: Any,
    extra: Any,
    tops: Any,
    at: Any,
) -> None:
    """Measure the elements of a batch, in blocks of `THREADS` threads.

    Args:
        ref: flat values, float32 or float64.
        cand: the same of the candidate.
        ordinals: of the samples, where they don't follow each other.
        batch: a `scan.Batch`; `atol` is the |ref| from which distances are kept apart, too.
        steps: a `Steps`.
        bins: `(BINS,)` int64 counts of |e|, added to.
        chunks: `(5, CHUNKS)` int64 sums, added to.
        extra: `(EXTRA,)` int64, added to.
        tops: `(2, blocks)` uint64, set to the largest distances of each block.
        at: `(2, blocks)` int64, set to their places.
    """
    thread = cuda.threadIdx.x
    window = cuda.shared.array(WINDOW, np.uint32)
    large = cuda.shared.array(2, np.int64)
    counted = cuda.shared.array(2, np.uint32)  # errors that are zero, pairs without a distance
    exponents = cuda.shared.array(PRODUCTS, np.int64)
    units = cuda.shared.array((UNITS, THREADS), np.int64)
    own = cuda.shared.array((2, THREADS), np.uint64)
    own_at = cuda.shared.array((2, THREADS), np.int64)
    for place in range(thread, WINDOW, THREADS):
        window[place] = 0
    for kind in range(2):
        own[kind, thread], own_at[kind, thread] = 0, -1
    if thread < 2:
        large[thread], counted[thread] = 0, 0
    cuda.syncthreads()
    start = cuda.blockIdx.x * TILE
    largest_of(ref, cand, start + thread, min(start + _GUESSED, ref.size), large)
    cuda.syncthreads()
    top_error = error_below(large[1], widen(ref[start]), batch)
    for row in range(PRODUCTS):
        left = large[0] if row == RR - EE else top_error
        right = top_error if row == 0 else large[0]
        exponent = exponent_of_products(left, right, 1)
        if thread == row:
            exponents[row] = exponent
    cuda.syncthreads()
    low = max(bin_of(float_of(top_error)) + _ABOVE - WINDOW, 1)
    of_ee, of_rr, of_re = exponents[0], exponents[1], exponents[2]
    ee, rr, re, deep_ee, deep_rr, deep_re = 0, 0, 0, 0, 0, 0
    zeros, undefined = 0, 0
    tiles = (ref.size + TILE - 1) // TILE
    for tile in range(cuda.blockIdx.x, tiles, cuda.gridDim.x):
        start, stop = tile * TILE + thread, min(tile * TILE + TILE, ref.size)
        for k in range(start, stop, THREADS):
            r, c = widen(ref[unsigned(k)]), widen(cand[unsigned(k)])
            if not (abs(r) < math.inf and abs(c) < math.inf):
                undefined += 1
                continue
            error = c - r
            top = bin_of(abs(error))
            if top == 0:
                zeros += 1
            elif low <= top < low + WINDOW:
                cuda.atomic.add(window, top - low, 1)
            else:
                cuda.atomic.add(bins, top, 1)
            if steps.has_products != 0:
                coarse, deep = add_product(product(error, error), of_ee, 0, chunks, extra)
                ee, deep_ee = ee + coarse, deep_ee + deep
            if steps.has_products == 1:
                coarse, deep = add_product(product(r, r), of_rr, 1, chunks, extra)
                rr, deep_rr = rr + coarse, deep_rr + deep
                coarse, deep = add_product(product(r, error), of_re, 2, chunks, extra)
                re, deep_re = re + coarse, deep_re + deep
            if steps.is_counted == 0:
                continue
            if not is_on_grid(r, steps):
                undefined += 1
                continue
            apart = steps_between(r, c, steps)
            for kind in range(2):
                if kind == 1 and not abs(r) >= batch.atol:
                    continue
                best = own_at[kind, thread]
                is_earlier = batch.in_order == 0 and apart == own[kind, thread]
                if (
                    best < 0
                    or apart > own[kind, thread]
                    or (is_earlier and precedes(k, best, batch.width, batch.first, ordinals))
                ):
                    own[kind, thread], own_at[kind, thread] = apart, k

    cuda.atomic.add(counted, 0, zeros)
    cuda.atomic.add(counted, 1, undefined)
    cuda.syncthreads()
    for place in range(thread, WINDOW, THREADS):
        if window[place] > 0:
            cuda.atomic.add(bins, low + place, window[place])
    units[0, thread], units[1, thread] = ee, deep_ee
    units[2, thread], units[3, thread] = rr, deep_rr
    units[4, thread], units[5, thread] = re, deep_re
    cuda.syncthreads()
    sum_units(units, exponents, thread, chunks)
    span = THREADS // 2
    while span > 0:
        if thread < span:
            keep_further(own, own_at, thread, thread + span, batch.width, batch.first, ordinals)
        cuda.syncthreads()
        span //= 2
    if thread == 0:
        cuda.atomic.add(bins, 0, counted[0])
        cuda.atomic.add(extra, ULP_UNDEFINED, counted[1])
    if thread < 2:
        tops[thread, cuda.blockIdx.x] = own[thread, 0]
        at[thread, cuda.blockIdx.x] = own_at[thread, 0]
