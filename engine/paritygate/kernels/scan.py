"""Whole stretches of samples at once, sample boundaries ignored: what is clean is counted here.

A stretch is clean where every pair is proved finite and within its bounds. It is counted to the
same bits as `elements` and `sums` would; so is one whose pairs are finite but not all within their
bounds, and its failing samples are kept. Any other is left to these, sample by sample.

One pass over a piece finds its largest error, whether any element may fail or be the worst so far,
and its sums on a guessed grid. Only a piece in which that leaves a question is looked at again.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from paritygate.kernels._jit import jit, scalar
from paritygate.kernels.elements import Found, Rule
from paritygate.kernels.failing import Failing, keep_failing
from paritygate.kernels.grids import (
    HIGHEST,
    PIECE,
    add_errors,
    add_units,
    anchor_of,
    exponent_of,
    first_grid,
)
from paritygate.kernels.scalar import allowed, excess

CLEAN, FAILING, LEFT = 0, 1, 2  # states of a stretch
E, ABS_E, EE, RR, RE = 0, 1, 2, 3, 4  # rows of all sums; here the first two
_LARGEST = 1.7976931348623157e308
_LOOK = 256  # elements that are looked at element by element where one of them may matter
# A ratio that rounds to x or more is of an error that is at least the rounded product of the bound
# and this share of x.
_SHRUNK = 1.0 - 2.0**-50
_NORMAL = 1e-290  # ratios below it may be rounded by more than that

Numbers = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


class Sums(NamedTuple):
    """Sums in the making.

    Attributes:
        chunks: `(2, CHUNKS)` sums of e and |e|.
        kept: as `chunks`; written over.
        guess: `(1,)` exponent that the errors to come are expected to lie below.
        errors, room: `(PIECE,)`; written over.
    """

    chunks: Counts
    kept: Counts
    guess: Counts
    errors: Doubles
    room: Doubles


@jit
def scan_floats(
    ref: Numbers,
    cand: Numbers,
    width: int,
    start: int,
    samples: int,
    rule: Rule,
    found: Found,
    sums: Sums,
    states: npt.NDArray[np.uint8],
    failing: Failing,
) -> None:
    """Count the stretches of some samples, whose ordinals ascend, that are finite throughout.

    Args:
        ref: flat values of these samples, of one dtype with those of `cand`.
        cand: the same of the candidate.
        width: elements a sample, at least 1.
        start: number of the first sample.
        samples: samples a stretch.
        rule: what is tolerated; no bound of a finite value of this dtype is infinite.
        found: extremes and classes, added to; extremes so far are of samples before these.
        sums: added to.
        states: `(stretches,)` set to `CLEAN`, `FAILING`: counted too, but elements may fail, or
            `LEFT`: nothing was counted.
        failing: samples of these stretches that have failing elements, added to.
    """
    size = samples * width
    for number in range(states.size):
        base = number * size
        r, c = ref[base : base + size], cand[base : base + size]
        first = start + number * samples
        if r.size > PIECE:
            _copy(sums.chunks, sums.kept)
        state = CLEAN
        for at in range(0, r.size, PIECE):
            part = slice(at, at + PIECE)
            flags = failing.flags[part]
            own = count_piece(r[part], c[part], width, first, at, rule, found, sums, flags)
            state = max(state, own)
            if state == LEFT:
                if at > 0:
                    _copy(sums.kept, sums.chunks)
                break
        states[number] = state
        if state != LEFT:
            found.classes[0, 0] += r.size
        if state == FAILING:
            for k in range(r.size, (r.size + 7) & ~7):
                failing.flags[k] = 0
            keep_failing(r.size, width, first, rule, failing)


@jit
def count_piece(
    ref: Numbers,
    cand: Numbers,
    width: int,
    first: int,
    at: int,
    rule: Rule,
    found: Found,
    sums: Sums,
    flags: npt.NDArray[np.uint8],
) -> int:
    """Count a piece that is finite.

    Args:
        ref: up to `PIECE` values.
        cand: the same of the candidate.
        width: elements a sample.
        first: number of the first sample of the stretch.
        at: place of the piece in the stretch.
        rule: as of `scan_floats`.
        found: the same.
        sums: the same.
        flags: as of `Failing`; set for each element.

    Returns:
        `CLEAN`, `FAILING` where an element may fail, or `LEFT` where nothing was added.
    """
    atol, rtol, share = _least(rule, found, True)
    guess = sums.guess[0]
    grid = first_grid(guess)
    top, flagged, total, magnitude, left = judge(ref, cand, atol, rtol, share, anchor_of(grid))
    error, exponent = np.int64(top).view(np.float64), exponent_of(top)
    if not (error < math.inf and exponent < HIGHEST):
        return LEFT
    may_fail = (flagged > 0 and top > 0) or not error <= rule.cap
    is_near = error > found.best_error[0] or _is_first(found)
    if may_fail:
        atol, rtol, share = _least(rule, found, False)
        is_near |= _flag(ref, cand, rule, atol, rtol, share, flags) > 0
    else:
        for k in range(ref.size):
            flags[k] = 0
    if is_near:
        _look(ref, cand, width, first, at, error, rule, found, sums.room)
    if exponent <= guess and (left << 1) == 0:
        add_units(sums.chunks[E], total, grid)
        add_units(sums.chunks[ABS_E], magnitude, grid)
    else:
        errors = sums.errors[: ref.size]
        for k in range(ref.size):
            errors[k] = np.float64(cand[k]) - np.float64(ref[k])
        add_errors(errors, exponent, sums.chunks[E], sums.chunks[ABS_E], sums.room)
        sums.guess[0] = exponent + 1 if exponent > guess else exponent
    return FAILING if may_fail else CLEAN


@scalar
def _is_first(found: Any) -> bool:
    return bool(found.best_at[0, 0] < 0 or found.best_at[1, 0] < 0)


@scalar
def _least(rule: Any, found: Any, is_good: bool) -> tuple[float, float, float]:
    """Tolerances and a share of the bound: an error that is proved below it isn't the worst so far.

    If `is_good`, it is within its bound too. Where the bound is the same for all elements, only a
    larger error has a larger excess: of equal ones, frequent where values are coarse, the first
    was kept.
    """
    if rule.rtol == 0.0:
        best = min(found.best_error[1], rule.atol) if is_good else found.best_error[1]
        return np.int64(np.float64(best).view(np.int64) + 1).view(np.float64), 0.0, 1.0
    best = min(found.best_excess[0], 1.0 if is_good else _LARGEST)
    return rule.atol, rule.rtol, best * _SHRUNK if best > _NORMAL else 0.0


@jit
def judge(
    ref: Numbers, cand: Numbers, atol: float, rtol: float, share: float, anchor: float
) -> tuple[int, int, int, int, int]:
    """Look at a piece as a whole.

    Returns:
        Bits of the largest |e|, those above inf for a NaN; elements whose error isn't proved below
        that share of its bound; units of e and of |e| on the grid of `anchor`, and the bits that
        are set in what is left of e.
    """
    base = np.float64(anchor).view(np.int64)
    top = flagged = total = magnitude = left = np.int64(0)
    for k in range(ref.size):
        r = np.float64(ref[k])
        e = np.float64(cand[k]) - r
        error = abs(e)
        top = max(top, np.float64(error).view(np.int64))
        flagged += np.int64(not error < share * allowed(r, atol, rtol))
        near = e + anchor
        units = np.float64(near).view(np.int64) - base
        total += units
        magnitude += abs(units)
        left |= np.float64(e - (near - anchor)).view(np.int64)
    return int(top), int(flagged), int(total), int(magnitude), int(left)


@scalar
def _flag(
    ref: Any, cand: Any, rule: Any, atol: float, rtol: float, share: float, flags: Any
) -> int:
    """Say of each element whether it is beyond its bound or beyond the cap.

    Returns:
        Elements whose error isn't proved below a share of a bound of other tolerances.
    """
    near = np.int64(0)
    for k in range(ref.size):
        r = np.float64(ref[k])
        error = abs(np.float64(cand[k]) - r)
        flags[k] = np.uint8(not error <= allowed(r, rule.atol, rule.rtol))
        near += np.int64(not error < share * allowed(r, atol, rtol))
    if rule.cap < math.inf:
        for k in range(ref.size):
            error = abs(np.float64(cand[k]) - np.float64(ref[k]))
            flags[k] |= np.uint8(not error <= rule.cap) << np.uint8(1)
    return int(near)


@jit
def _look(
    ref: Numbers,
    cand: Numbers,
    width: int,
    first: int,
    at: int,
    error: float,
    rule: Rule,
    found: Found,
    room: Doubles,
) -> None:
    """Keep the largest error and the worst excess of a piece, whose largest error is given.

    Extremes of a stretch that is left in the end are kept too: its samples are judged again one by
    one, which finds the same.
    """
    atol, rtol, share = _least(rule, found, False)
    # No bound is below that of zero.
    is_small = error < share * allowed(0.0, atol, rtol) and error <= found.best_error[0]
    if is_small and not _is_first(found):
        return
    wide, errors = room[:_LOOK], room[_LOOK : 2 * _LOOK]
    for base in range(0, ref.size, _LOOK):
        r, c = ref[base : base + _LOOK], cand[base : base + _LOOK]
        atol, rtol, share = _least(rule, found, False)
        top, flagged, _, _, _ = judge(r, c, atol, rtol, share, 1.0)
        is_larger = np.int64(top).view(np.float64) > found.best_error[0]
        if not (is_larger or (flagged > 0 and top > 0) or _is_first(found)):
            continue
        for k in range(r.size):
            wide[k] = np.float64(r[k])
            errors[k] = np.float64(c[k]) - wide[k]
        if _outranks(wide[: r.size], errors[: r.size], rule, found):
            keep_worst(wide[: r.size], errors[: r.size], width, first, at + base, rule, found)


@scalar
def _outranks(ref: Any, errors: Any, rule: Any, found: Any) -> bool:
    """Whether any element does what is kept so far, by its error or by its excess."""
    best_ratio, best_error = found.best_excess[0], found.best_error[1]
    worse = np.int64(0)
    for k in range(errors.size):
        error = abs(errors[k])
        ratio = excess(error, allowed(ref[k], rule.atol, rule.rtol))
        worse += np.int64((ratio > best_ratio) | ((ratio == best_ratio) & (error > best_error)))
        worse += np.int64(error > found.best_error[0])
    return bool(worse > 0 or _is_first(found))


@jit
def keep_worst(
    ref: Doubles, errors: Doubles, width: int, first: int, at: int, rule: Rule, found: Found
) -> None:
    """Keep the largest error and the worst excess, the first one of those that tie.

    Args:
        ref: some elements of a stretch.
        errors: the same, all finite.
        width: elements a sample.
        first: number of the first sample of the stretch.
        at: place of the first element in the stretch.
        rule: what is tolerated.
        found: extremes, of elements before these.
    """
    best_at, best_error, best_excess = found.best_at, found.best_error, found.best_excess
    for k in range(errors.size):
        error = abs(errors[k])
        if error > best_error[0] or best_at[0, 0] < 0:
            best_error[0] = error
            best_at[0, 0], best_at[0, 1] = first + (at + k) // width, (at + k) % width
        ratio = excess(error, allowed(ref[k], rule.atol, rule.rtol))
        is_tie = ratio == best_excess[0]
        if ratio > best_excess[0] or (is_tie and error > best_error[1]) or best_at[1, 0] < 0:
            best_excess[0], best_error[1] = ratio, error
            best_at[1, 0], best_at[1, 1] = first + (at + k) // width, (at + k) % width


@scalar
def _copy(chunks: Any, into: Any) -> None:
    for row in range(chunks.shape[0]):
        for place in range(chunks.shape[1]):
            into[row, place] = chunks[row, place]
