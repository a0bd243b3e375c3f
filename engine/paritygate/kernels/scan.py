"""Whole stretches of samples at once, sample boundaries ignored: what is clean is counted here.

A stretch is clean where every pair is proved finite and within its bounds. It is counted to the
same bits as `elements` and `sums` would; so is one whose pairs are finite but not all within their
bounds, and its failing samples are kept. Any other is left to these, sample by sample.

What depends on the dtype is short, since every dtype is compiled anew: values are judged, and those
of clean stretches are widened into float64 for all that follows.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from paritygate.kernels._jit import jit, scalar
from paritygate.kernels.elements import Found, Rule
from paritygate.kernels.failing import Failing, keep_failing
from paritygate.kernels.grids import HIGHEST, PIECE, add_errors, add_terms, exponent_of
from paritygate.kernels.rank import rank_samples
from paritygate.kernels.scalar import (
    allowed,
    bin_of,
    excess,
    ulp_distance_32,
    ulp_distance_64,
)

CLEAN, FAILING, LEFT = 0, 1, 2  # states of a stretch
E, ABS_E, EE, RR, RE = 0, 1, 2, 3, 4  # rows of `chunks`
_LARGEST = 1.7976931348623157e308
_INFINITE = 0x7FF0000000000000
# A ratio that rounds to x or more is of an error that is at least the rounded product of the bound
# and this share of x.
_SHRUNK = 1.0 - 2.0**-50

Numbers = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


class Full(NamedTuple):
    """What only the tier "full" collects.

    Attributes:
        wanted: whether it is collected at all.
        ranked: whether samples are wide enough to be ranked.
        single: whether values are float32, else float64.
        histogram: `(BINS,)` of |e|.
        steps_at, steps: as `elements.measure_ulp` has them.
        rank_undefined, rank_at, rank: as `rank.rank_samples` has them.
    """

    wanted: bool
    ranked: bool
    single: bool
    histogram: Counts
    steps_at: Counts
    steps: npt.NDArray[np.uint64]
    rank_undefined: Counts
    rank_at: Counts
    rank: Doubles


class Room(NamedTuple):
    """A stretch in float64: reference, candidate and errors; and terms of a piece."""

    ref: Doubles
    cand: Doubles
    errors: Doubles
    terms: Doubles


@jit
def scan_floats(
    ref: Numbers,
    cand: Numbers,
    width: int,
    start: int,
    samples: int,
    ordinals: Counts,
    rule: Rule,
    found: Found,
    chunks: Counts,
    full: Full,
    room: Room,
    states: npt.NDArray[np.uint8],
    failing: Failing,
) -> None:
    """Count the clean stretches of some samples.

    Args:
        ref: flat values of these samples, of one dtype with those of `cand`.
        cand: the same of the candidate.
        width: elements a sample, at least 1.
        start: number of the first sample.
        samples: samples a stretch.
        ordinals: of all samples; ascending.
        rule: what is tolerated.
        found: extremes and classes, added to; extremes so far are of samples before these.
        chunks: `(5, CHUNKS)` sums of e, |e|, e^2, r^2 and r*e, added to; the last three if full.
        full: added to.
        room: written over.
        states: `(stretches,)` set to `CLEAN`, `FAILING`: counted too, but some elements fail, or
            `LEFT`: nothing was counted.
        failing: samples of these stretches that have failing elements, added to.
    """
    size = samples * width
    for number in range(states.size):
        base = number * size
        r, c = ref[base : base + size], cand[base : base + size]
        near = min(found.best_excess[0], _LARGEST) * _SHRUNK
        top_error, top_ref, beyond, flagged = _judge(r, c, rule.atol, rule.rtol, near)
        error, largest = np.int64(top_error).view(np.float64), np.int64(top_ref).view(np.float64)
        is_counted = (
            error < math.inf
            and largest < rule.beyond
            and allowed(largest, rule.atol, rule.rtol) < math.inf
            and _is_summable(top_error, top_ref, full.wanted)
        )
        if not is_counted:
            states[number] = LEFT
            continue
        first = start + number * samples
        states[number] = CLEAN
        if not (beyond == 0 and error <= rule.cap):
            states[number] = FAILING
            _flag(r, c, rule, failing.flags)
            keep_failing(r.size, width, first, rule, failing)
        wide_ref, wide_cand = room.ref[: r.size], room.cand[: r.size]
        errors = room.errors[: r.size]
        _widen(r, wide_ref)
        _widen(c, wide_cand)
        _subtract(wide_cand, wide_ref, errors)
        found.classes[0, 0] += r.size
        is_near = bool(flagged > 0 and error > 0.0)
        keep_worst(wide_ref, errors, width, first, error, is_near, rule, found)
        add_sums(wide_ref, errors, top_error, top_ref, chunks, full.wanted, room.terms)
        if full.wanted:
            count_all(errors, full.histogram)
            keep_steps(wide_ref, wide_cand, width, first, rule.atol, full)
            if full.ranked:
                rank_samples(
                    wide_ref, errors, width, first, ordinals,
                    full.rank_undefined, full.rank_at, full.rank,
                )  # fmt: skip


@scalar
def _judge(ref: Any, cand: Any, atol: float, rtol: float, near: float) -> Any:
    """Bits of the largest |e| and |r|; elements out of bounds; those that may be the worst."""
    top_error = top_ref = failing = flagged = np.int64(0)
    for k in range(ref.size):
        r = np.float64(ref[k])
        error = abs(np.float64(cand[k]) - r)
        top_error = max(top_error, np.float64(error).view(np.int64))
        top_ref = max(top_ref, np.float64(abs(r)).view(np.int64))
        bound = allowed(r, atol, rtol)
        failing += np.int64(not error <= bound)
        flagged += np.int64(error >= near * bound)
    return top_error, top_ref, failing, flagged


@scalar
def _flag(ref: Any, cand: Any, rule: Any, flags: Any) -> None:
    """Say of each element whether it is beyond its bound or beyond the cap."""
    for k in range(ref.size):
        r = np.float64(ref[k])
        error = abs(np.float64(cand[k]) - r)
        flags[k] = np.uint8(not error <= allowed(r, rule.atol, rule.rtol))
    if rule.cap < math.inf:
        for k in range(ref.size):
            error = abs(np.float64(cand[k]) - np.float64(ref[k]))
            flags[k] |= np.uint8(not error <= rule.cap) << np.uint8(1)
    for k in range(ref.size, (ref.size + 7) & ~7):
        flags[k] = 0


@scalar
def _widen(values: Any, into: Any) -> None:
    for k in range(values.size):
        into[k] = np.float64(values[k])


@scalar
def _subtract(cand: Any, ref: Any, into: Any) -> None:
    for k in range(ref.size):
        into[k] = cand[k] - ref[k]


@scalar
def _is_summable(top_error: int, top_ref: int, full: bool) -> bool:
    """Whether every term is finite and every grid lies within float64."""
    if top_error >= _INFINITE or top_ref >= _INFINITE:
        return False
    most = exponent_of(top_error)
    if full:
        most = 2 * max(most, exponent_of(top_ref))
    return bool(most < HIGHEST)


@jit
def keep_worst(
    ref: Doubles,
    errors: Doubles,
    width: int,
    first: int,
    top: float,
    is_near: bool,
    rule: Rule,
    found: Found,
) -> None:
    """Keep the largest error and the worst excess of a clean stretch, if they outrank the best.

    Args:
        ref: of the stretch.
        errors: the same.
        width: elements a sample.
        first: number of its first sample.
        top: largest |e|.
        is_near: whether an excess may be as bad as the worst so far.
        rule: what is tolerated.
        found: extremes, of samples before these.
    """
    if top > found.best_error[0] or found.best_at[0, 0] < 0:
        for k in range(errors.size):
            if abs(errors[k]) == top:
                found.best_error[0] = top
                found.best_at[0, 0], found.best_at[0, 1] = first + k // width, k % width
                break
    if not (is_near or found.best_at[1, 0] < 0):
        return
    ratio, error, at = found.best_excess[0], found.best_error[1], -1
    if found.best_at[1, 0] < 0:
        ratio = error = -1.0
    for k in range(errors.size):
        own = abs(errors[k])
        x = excess(own, allowed(ref[k], rule.atol, rule.rtol))
        if x > ratio or (x == ratio and own > error):
            ratio, error, at = x, own, k
    if at >= 0:
        found.best_excess[0], found.best_error[1] = ratio, error
        found.best_at[1, 0], found.best_at[1, 1] = first + at // width, at % width


@jit
def count_all(errors: Doubles, histogram: Counts) -> None:
    """Count |error| in `histogram`, `(BINS,)`; none is NaN."""
    for k in range(errors.size):
        histogram[bin_of(abs(errors[k]))] += 1


@scalar
def _steps(ref: float, cand: float, single: bool) -> np.uint64:
    return ulp_distance_32(ref, cand) if single else ulp_distance_64(ref, cand)


@jit
def keep_steps(
    ref: Doubles, cand: Doubles, width: int, first: int, floor: float, full: Full
) -> None:
    """Keep the largest distances in steps of a stretch, the first one of those that tie.

    Args:
        ref: of the stretch.
        cand: the same.
        width: elements a sample.
        first: number of its first sample.
        floor: smallest |ref| of the second kind.
        full: `steps` and `steps_at`, of samples before these.
    """
    single = full.single
    top = top_above = np.uint64(0)
    above = np.int64(0)
    for k in range(ref.size):
        steps = _steps(ref[k], cand[k], single)
        is_above = abs(ref[k]) >= floor
        top = max(top, steps)
        top_above = max(top_above, steps if is_above else np.uint64(0))
        above += np.int64(is_above)
    for row in range(2):
        lowest = -1.0 if row == 0 else floor
        best = top if row == 0 else top_above
        is_new = best > full.steps[row] or full.steps_at[row, 0] < 0
        if not is_new or (row == 1 and above == 0):
            continue
        for k in range(ref.size):
            if abs(ref[k]) >= lowest and _steps(ref[k], cand[k], single) == best:
                full.steps[row] = best
                full.steps_at[row, 0], full.steps_at[row, 1] = first + k // width, k % width
                break


@jit
def add_sums(
    ref: Doubles,
    errors: Doubles,
    top_error: int,
    top_ref: int,
    chunks: Counts,
    full: bool,
    room: Doubles,
) -> None:
    """Add a clean stretch to its exact sums.

    Args:
        ref: of the stretch.
        errors: the same.
        top_error: bits of the largest |e|.
        top_ref: bits of the largest |r|.
        chunks: `(5, CHUNKS)` as of `scan_floats`.
        full: whether sums of products are wanted.
        room: written over, `(PIECE,)`.
    """
    of_error, of_ref = exponent_of(top_error), exponent_of(top_ref)
    for at in range(0, ref.size, PIECE):
        r, e = ref[at : at + PIECE], errors[at : at + PIECE]
        terms = room[: r.size]
        if top_error > 0:
            add_errors(e, of_error, chunks[E], chunks[ABS_E], terms)
        if full and top_ref > 0:
            for k in range(r.size):
                terms[k] = r[k] * r[k]
            add_terms(terms, 2 * of_ref, chunks[RR])
        if full and top_error > 0:
            for k in range(r.size):
                terms[k] = e[k] * e[k]
            add_terms(terms, 2 * of_error, chunks[EE])
            for k in range(r.size):
                terms[k] = r[k] * e[k]
            add_terms(terms, of_ref + of_error, chunks[RE])
