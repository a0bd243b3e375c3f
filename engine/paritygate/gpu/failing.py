"""Samples with elements that aren't good: which rules they break, how often, and where most."""

from __future__ import annotations

import math
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
    widen,
)
from paritygate.gpu.rules import (
    FINITE,
    allowed,
    class_of,
    excess,
    integer_bound,
    integer_excess,
    is_within,
    nonfinite_bit,
)
from paritygate.gpu.scan import FAILING

# Of a failing sample: its number, rules, failing elements, worst element, bits of excess and error.
ROW, RULES, ELEMENTS, WORST, EXCESS_BITS, ERROR_BITS, WORDS = 0, 1, 2, 3, 4, 5, 6

# Rows of what the threads of a team have found of their elements.
_OUTLYING, _FAILING, _BITS, _BROKEN, _AT, _TIE, _FOUND = 0, 1, 2, 3, 4, 5, 6
_EXCESS, _ERROR, _RANKED = 0, 1, 2


@device
def judge(
    ref: Any,
    cand: Any,
    base: int,
    width: int,
    rule: Any,
    lane: int,
    team: int,
    found: Any,
    ranked: Any,
    thread: int,
) -> None:
    """Judge the elements of a sample that are a thread's: every one of `team`."""
    outlying, failing, bits, broken, at = 0, 0, 0, width, -1
    top, top_error = -1.0, -1.0
    for j in range(lane, width, team):
        r, c = widen(ref[base + j]), widen(cand[base + j])
        ref_class, cand_class = class_of(r), class_of(c)
        if ref_class != FINITE or cand_class != FINITE:
            bit = nonfinite_bit(ref_class, cand_class, rule)
            bits |= bit
            if bit != 0:
                failing += 1
                broken = min(broken, j)
            continue
        error = abs(c - r)
        bound = allowed(r, rule.atol, rule.rtol)
        is_good = is_within(error, bound)
        if not is_good:
            outlying += 1
        if not error <= rule.cap:
            bits |= rule.bits[1]
            is_good = False
        if not is_good:
            failing += 1
        ratio = excess(error, bound)
        if ratio > top or (ratio == top and error > top_error):
            top, top_error, at = ratio, error, j
    found[_OUTLYING, thread], found[_FAILING, thread] = outlying, failing
    found[_BITS, thread], found[_BROKEN, thread], found[_AT, thread] = bits, broken, at
    found[_TIE, thread] = bits_of(max(top_error, 0.0))
    ranked[_EXCESS, thread], ranked[_ERROR, thread] = top, top_error


@device
def judge_whole(
    ref: Any,
    cand: Any,
    base: int,
    width: int,
    rule: Any,
    lane: int,
    team: int,
    found: Any,
    ranked: Any,
    thread: int,
) -> None:
    """The same of integers of 64 bits, by their exact differences."""
    outlying, failing, bits, at = 0, 0, 0, -1
    top, top_error, tie = -1.0, -1.0, 0
    cap = integer_bound(rule.cap)
    for j in range(lane, width, team):
        r, c = ref[base + j], cand[base + j]
        error = distance(r, c)
        bound = allowed(widen(r), rule.atol, rule.rtol)
        is_good = error <= integer_bound(bound)
        if not is_good:
            outlying += 1
        if not error <= cap:
            bits |= rule.bits[1]
            is_good = False
        if not is_good:
            failing += 1
        ratio, size = integer_excess(error, bound), order_of(error)
        if ratio > top or (ratio == top and size > tie):
            top, top_error, tie, at = ratio, widen(error), size, j
    found[_OUTLYING, thread], found[_FAILING, thread] = outlying, failing
    found[_BITS, thread], found[_BROKEN, thread], found[_AT, thread] = bits, width, at
    found[_TIE, thread] = tie
    ranked[_EXCESS, thread], ranked[_ERROR, thread] = top, top_error


@device
def join(found: Any, ranked: Any, thread: int, other: int) -> None:
    """Add what another thread of the team has found."""
    found[_OUTLYING, thread] += found[_OUTLYING, other]
    found[_FAILING, thread] += found[_FAILING, other]
    found[_BITS, thread] |= found[_BITS, other]
    found[_BROKEN, thread] = min(found[_BROKEN, thread], found[_BROKEN, other])
    top, other_top = ranked[_EXCESS, thread], ranked[_EXCESS, other]
    size, other_size = found[_TIE, thread], found[_TIE, other]
    is_tie = other_top == top and other_size == size
    is_worse = other_top > top or (other_top == top and other_size > size)
    if found[_AT, other] >= 0 and (
        found[_AT, thread] < 0 or is_worse or (is_tie and found[_AT, other] < found[_AT, thread])
    ):
        ranked[_EXCESS, thread], ranked[_ERROR, thread] = other_top, ranked[_ERROR, other]
        found[_TIE, thread], found[_AT, thread] = other_size, found[_AT, other]


def _keeper(judge: Any) -> Any:
    """The kernel that keeps the samples which fail by a rule for a thread's elements."""

    @kernel
    def keep_failing(
        ref: Any,
        cand: Any,
        width: int,
        rule: Any,
        team: int,
        dirty: Any,
        before: int,
        counts: Any,
        kept: Any,
    ) -> None:
        """Keep the samples of dirty tiles that have failing elements, in any order.

        Args:
            ref: flat values.
            cand: the same of the candidate.
            width: elements a sample.
            rule: a `kernels.elements.Rule`.
            team: threads that judge a sample, a power of two, at most `THREADS`.
            dirty: `(tiles,)` as `scan` set it.
            before: number of the first sample.
            counts: as of `scan`; how many are kept so far, added to.
            kept: `(n, WORDS)` int64, set to what is told of them; the worst element as of
                `kernels.elements`.
        """
        thread = cuda.threadIdx.x
        found = cuda.shared.array((_FOUND, THREADS), np.int64)
        ranked = cuda.shared.array((_RANKED, THREADS), np.float64)
        taken = cuda.shared.array(1, np.uint32)  # samples of a group that are kept
        place = cuda.shared.array(1, np.int64)  # of the first of them
        lane, teams = thread % team, THREADS // team
        for tile in range(cuda.blockIdx.x, dirty.size, cuda.gridDim.x):
            if dirty[tile] == 0:
                continue
            start = tile * TILE
            low, last = start // width, (min(start + TILE, ref.size) - 1) // width
            for other in range(low * width // TILE, tile):
                if dirty[other] != 0:  # there it was judged
                    low = start // width + 1
            for group in range(low, last + 1, teams):
                sample = group + thread // team
                if thread == 0:
                    taken[0] = 0
                if sample <= last:
                    judge(ref, cand, sample * width, width, rule, lane, team, found, ranked, thread)
                cuda.syncthreads()
                span = team // 2
                while span > 0:
                    if lane < span and sample <= last:
                        join(found, ranked, thread, thread + span)
                    cuda.syncthreads()
                    span //= 2
                own = -1
                if lane == 0 and sample <= last and found[_FAILING, thread] > 0:
                    own = int(cuda.atomic.add(taken, 0, 1))
                cuda.syncthreads()
                if thread == 0 and taken[0] > 0:
                    place[0] = cuda.atomic.add(counts, FAILING, taken[0])
                cuda.syncthreads()
                if own < 0:
                    continue
                slot = place[0] + own
                bits = found[_BITS, thread]
                if found[_OUTLYING, thread] > rule.outliers:
                    bits |= rule.bits[0]
                at, ratio, error = (
                    found[_AT, thread],
                    ranked[_EXCESS, thread],
                    ranked[_ERROR, thread],
                )
                if found[_BROKEN, thread] < width:
                    at, ratio, error = found[_BROKEN, thread], math.inf, math.inf
                kept[slot, ROW], kept[slot, RULES] = before + sample, bits
                kept[slot, ELEMENTS], kept[slot, WORST] = found[_FAILING, thread], at
                kept[slot, EXCESS_BITS], kept[slot, ERROR_BITS] = bits_of(ratio), bits_of(error)

    return keep_failing


keep_failing = _keeper(judge)
keep_failing_whole = _keeper(judge_whole)
