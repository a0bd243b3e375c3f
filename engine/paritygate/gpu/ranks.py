"""Energies of wide samples, in eight lanes as of `kernels.lanes`, and the worst samples by them.

Element k of a sample is added to lane k mod 8, each lane from its first element to its last.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from paritygate.gpu.device import THREADS, TILE, cuda, device, kernel, product, unsigned, widen
from paritygate.gpu.extremes import keep_noisier, ordinal_of
from paritygate.gpu.measures import (
    NO_COSINE,
    NO_SQNR,
    add_product,
    error_below,
    largest_of,
    sum_units,
)
from paritygate.gpu.rules import one_minus_cosine
from paritygate.gpu.sums import EE, PRODUCTS, RR, UNITS, exponent_of_products

LANES = 8
_TEAM = min(LANES, THREADS)  # threads of a sample
_TEAMS = THREADS // _TEAM
_ROOM = LANES * _TEAMS
_GUESSED = TILE // 4


@device
def sum_lane(
    ref: Any, cand: Any, start: int, stop: int, step: int, sums: tuple[float, float, float]
) -> tuple[float, float, float]:
    """Add e^2, r^2 and r*e of every `step`-th finite pair to these sums, one after the other."""
    ee, rr, re = sums
    for k in range(start, stop, step):
        r, c = widen(ref[unsigned(k)]), widen(cand[unsigned(k)])
        if abs(r) < math.inf and abs(c) < math.inf:
            error = c - r
            ee, rr, re = ee + product(error, error), rr + product(r, r), re + product(r, error)
    return ee, rr, re


@device
def paired(lanes: Any, row: int, at: int) -> float:
    """Sum of a sample's eight lanes."""
    first = widen(lanes[row, at]) + widen(lanes[row, at + 4])
    second = widen(lanes[row, at + 1]) + widen(lanes[row, at + 5])
    third = widen(lanes[row, at + 2]) + widen(lanes[row, at + 6])
    fourth = widen(lanes[row, at + 3]) + widen(lanes[row, at + 7])
    return (first + third) + (second + fourth)


@device
def keep(
    kind: int,
    figure: float,
    sample: int,
    rr: float,
    ee: float,
    batch: Any,
    ordinals: Any,
    own: Any,
    own_at: Any,
    thread: int,
) -> None:
    """Keep a sample of a thread if it is worse than those before it."""
    best, known = own_at[kind, thread], own[3 * kind, thread]
    if best >= 0 and not figure > known:
        if batch.in_order != 0 or figure != known:
            return
        first = batch.first
        if not ordinal_of(sample, first, ordinals) < ordinal_of(best, first, ordinals):
            return
    own_at[kind, thread] = sample
    own[3 * kind, thread] = figure
    own[3 * kind + 1, thread], own[3 * kind + 2, thread] = rr, ee


@device
def rank_sample(
    sample: int,
    ee: float,
    rr: float,
    re: float,
    batch: Any,
    ordinals: Any,
    own: Any,
    own_at: Any,
    thread: int,
    extra: Any,
) -> None:
    """Rank a sample by its energies; count it where it can't be ranked."""
    if not (0.0 < rr < math.inf and ee < math.inf):
        cuda.atomic.add(extra, NO_SQNR, 1)
        cuda.atomic.add(extra, NO_COSINE, 1)
        return
    keep(0, ee / rr, sample, rr, ee, batch, ordinals, own, own_at, thread)
    figure = one_minus_cosine(rr, ee, re)
    if figure != figure:
        cuda.atomic.add(extra, NO_COSINE, 1)
    else:
        keep(1, figure, sample, rr, ee, batch, ordinals, own, own_at, thread)


@kernel
def rank(
    ref: Any,
    cand: Any,
    ordinals: Any,
    batch: Any,
    samples: int,
    chunks: Any,
    extra: Any,
    tops: Any,
    at: Any,
) -> None:
    """Sum and rank the samples of a batch, in blocks of `THREADS` threads, eight a sample.

    Args:
        ref: flat values, float32 or float64.
        cand: the same of the candidate.
        ordinals: of the samples, where they don't follow each other.
        batch: a `scan.Batch`.
        samples: how many.
        chunks: `(5, CHUNKS)` int64 sums, added to.
        extra: `(measures.EXTRA,)` int64, added to.
        tops: `(6, blocks)` set to the worst samples of each block, as of `extremes.keep_noisier`.
        at: `(2, blocks)` int64, set to which ones these are.
    """
    thread = cuda.threadIdx.x
    large = cuda.shared.array(2, np.int64)
    exponents = cuda.shared.array(PRODUCTS, np.int64)
    units = cuda.shared.array((UNITS, THREADS), np.int64)
    lanes = cuda.shared.array((PRODUCTS, _ROOM), np.float64)
    own = cuda.shared.array((6, THREADS), np.float64)
    own_at = cuda.shared.array((2, THREADS), np.int64)
    for row in range(UNITS):
        units[row, thread], own[row, thread] = 0, 0.0
    own_at[0, thread], own_at[1, thread] = -1, -1
    if thread < 2:
        large[thread] = 0
    cuda.syncthreads()
    width = batch.width
    start = min(cuda.blockIdx.x * _TEAMS, samples - 1) * width
    largest_of(ref, cand, start + thread, min(start + _GUESSED, ref.size), large)
    cuda.syncthreads()
    top_error = error_below(large[1], widen(ref[start]), batch)
    for row in range(PRODUCTS):
        left = large[0] if row == RR - EE else top_error
        right = top_error if row == 0 else large[0]
        exponent = exponent_of_products(left, right, width)
        if thread == row:
            exponents[row] = exponent
    team, whole = thread // _TEAM, width & ~(LANES - 1)
    for group in range(cuda.blockIdx.x * _TEAMS, samples, cuda.gridDim.x * _TEAMS):
        sample = group + team
        base = sample * width
        cuda.syncthreads()
        if sample < samples:
            for lane in range(thread % _TEAM, LANES, _TEAM):
                ee, rr, re = sum_lane(ref, cand, base + lane, base + whole, LANES, (0.0, 0.0, 0.0))
                place = LANES * team + lane
                lanes[0, place], lanes[1, place], lanes[2, place] = ee, rr, re
        cuda.syncthreads()
        if sample < samples and thread % _TEAM == 0:
            place = LANES * team
            sums = (paired(lanes, 0, place), paired(lanes, 1, place), paired(lanes, 2, place))
            ee, rr, re = sum_lane(ref, cand, base + whole, base + width, 1, sums)
            for row in range(PRODUCTS):
                term = ee if row == 0 else rr if row == 1 else re
                coarse, deep = add_product(term, exponents[row], row, chunks, extra)
                units[2 * row, thread] += coarse
                units[2 * row + 1, thread] += deep
            rank_sample(sample, ee, rr, re, batch, ordinals, own, own_at, thread, extra)

    cuda.syncthreads()
    sum_units(units, exponents, thread, chunks)
    span = THREADS // 2
    while span > 0:
        if thread < span:
            keep_noisier(own, own_at, thread, thread + span, batch.first, ordinals)
        cuda.syncthreads()
        span //= 2
    if thread == 0:
        for row in range(6):
            tops[row, cuda.blockIdx.x] = own[row, 0]
        for kind in range(2):
            at[kind, cuda.blockIdx.x] = own_at[kind, 0]
