"""Whole stretches of samples at once, sample boundaries ignored: what is finite is counted here.

A stretch whose pairs are all finite is counted to the same bits as `elements` and `sums` would; its
failing samples are found by flags. Any other is left to these, sample by sample.

One pass over a piece of a stretch finds its largest error, whether any element may fail or be the
worst so far, and its sums on a guessed grid. Only pieces in which that leaves a question are looked
at again, by a kernel for each question, so that what is rarely asked is rarely compiled.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from paritygate.kernels._jit import jit, scalar
from paritygate.kernels.grids import HIGHEST, PIECE, add_errors, add_units, anchor_of, first_grid
from paritygate.kernels.scalar import allowed, excess, share_below
from paritygate.kernels.typed import bits_of, larger, number_of, smaller, whole

E, ABS_E, EE, RR, RE = 0, 1, 2, 3, 4  # rows of all sums; here the first two
# Bits of the state of a piece, 0 where all is said: it may hold an extreme, its errors must be
# summed again, elements of it may fail, or one of its stretch is not finite: nothing is counted.
LOOK, AGAIN, SUSPECT, LEFT = 1, 2, 4, 8
LARGEST = 1.7976931348623157e308
_AT_ONCE = 256  # elements that are looked at one by one where one of them may matter
# A ratio that rounds to x or more is of an error that is at least the rounded product of the bound
# and this share of x.
_SHRUNK = 1.0 - 2.0**-49
_TINY = 2.0**-900

Numbers = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
States = npt.NDArray[np.uint8]


class Beyond(NamedTuple):
    """What an error is held against, so that it needs no closer look.

    Attributes:
        least, slope: it is flagged if it is not below `least + slope * |ref|`.
        nearest: below this no error is the worst so far; no bound is below that of zero.
        is_first: there is no worst so far.
    """

    least: float
    slope: float
    nearest: float
    is_first: bool


@jit
def scan_floats(
    ref: Numbers,
    cand: Numbers,
    size: int,
    atol: float,
    rtol: float,
    cap: float,
    best_at: Counts,
    best_error: Doubles,
    best_excess: Doubles,
    guess: int,
    chunks: Counts,
    units: Counts,
    states: States,
) -> int:
    """Count the stretches that are finite throughout.

    Args:
        ref: flat values, of one dtype with those of `cand`.
        cand: the same of the candidate.
        size: elements a stretch; the last one may be shorter.
        atol: absolute tolerance; no bound of a finite value of this dtype is infinite.
        rtol: relative tolerance.
        cap: largest error of any element, inf for none.
        best_at: as of `elements.Found`, of elements before these.
        best_error: the same.
        best_excess: the same.
        guess: exponent that errors are expected to lie below, less than `HIGHEST`.
        chunks: `(5, CHUNKS)` sums of e and |e| in the first rows, added to.
        units: `(2, PIECES)`, as many as there are pieces in a stretch; written over.
        states: `(stretches * pieces,)` set; pieces are of `PIECE` elements.

    Returns:
        Elements of these stretches.
    """
    beyond = beyond_of(atol, rtol, best_at, best_error, best_excess)
    least, slope = beyond.least, beyond.slope
    grid = first_grid(guess)
    anchor = anchor_of(grid)
    base = bits_of(anchor)
    highest = np.int64(smaller(guess, HIGHEST - 1) + 1022)
    pieces = units.shape[1]
    counted = 0
    for number in range(states.size // pieces):
        start = number * size
        stop = smaller(start + size, ref.size)
        all_states = np.uint8(0)
        for piece in range(pieces):
            at = start + piece * PIECE
            r, c = ref[at : smaller(at + PIECE, stop)], cand[at : smaller(at + PIECE, stop)]
            top = total = magnitude = left = np.int64(0)
            within = np.int64(-1)
            for k in range(r.size):
                value = np.float64(r[k])
                e = np.float64(c[k]) - value
                bits = bits_of(abs(e))
                top = larger(top, bits)
                within &= bits - bits_of(allowed(value, least, slope))  # ordered like numbers
                near = abs(e) + anchor
                total += bits_of(e + anchor)
                magnitude += bits_of(near)
                left |= bits_of(near - anchor) ^ bits
            total -= r.size * base
            magnitude -= r.size * base
            error = number_of(top)
            state = state_of(error, bool(within >= 0), beyond, best_error[0], cap)
            if (top >> 52) > highest or left != 0:
                state |= np.uint8(AGAIN)
            if not (error < math.inf and (top >> 52) < HIGHEST + 1022):
                state = np.uint8(LEFT)
            states[number * pieces + piece] = state
            units[0, piece], units[1, piece] = total, magnitude
            all_states |= state
        if all_states & np.uint8(LEFT):
            for piece in range(pieces):
                states[number * pieces + piece] = LEFT
            continue
        counted += stop - start
        for piece in range(pieces):
            if not states[number * pieces + piece] & np.uint8(AGAIN):
                add_units(chunks[E], units[0, piece], grid)
                add_units(chunks[ABS_E], units[1, piece], grid)
    return counted


@scalar
def beyond_of(atol: float, rtol: float, best_at: Any, best_error: Any, best_excess: Any) -> Beyond:
    """What is neither the worst so far nor fails."""
    is_first = bool(best_at[0, 0] < 0 or best_at[1, 0] < 0)
    worst_error, worst = atol, 1.0
    if not is_first:
        worst_error, worst = smaller(best_error[1], atol), smaller(best_excess[0], 1.0)
    least, slope = _shrunk(*near_worst(atol, rtol, worst_error, worst))
    lowest, _, of_lowest = near_worst(atol, rtol, best_error[1], smaller(best_excess[0], LARGEST))
    return Beyond(least, slope, of_lowest * lowest, is_first)


@scalar
def state_of(error: float, is_flagged: bool, beyond: Any, largest: float, cap: float) -> Any:
    """State of a piece of finite pairs by its largest error, and by whether any error is flagged.

    `largest` is the largest error so far.
    """
    state = np.uint8(0)
    is_flagged = is_flagged and error > 0.0
    if beyond.is_first or error > largest or (is_flagged and not error < beyond.nearest):
        state |= np.uint8(LOOK)
    if is_flagged or not error <= cap:
        state |= np.uint8(SUSPECT)
    return state


@scalar
def near_worst(atol: float, rtol: float, error: float, ratio: float) -> tuple[float, float, float]:
    """Tolerances and a share of the bound: an error that is proved below it isn't the worst so far.

    The worst so far is given. Where the bound is the same for all elements, only a larger error has
    a larger excess: of equal ones, frequent where values are coarse, the first was kept.
    """
    if rtol == 0.0:
        return number_of(bits_of(error) + 1), 0.0, 1.0
    return atol, rtol, share_below(ratio, _SHRUNK)


@scalar
def _shrunk(least: float, slope: float, share: float) -> tuple[float, float]:
    """Tolerances whose bound is no larger than that share, at most 1, of the bound by those given.

    Rounding adds 2^-51 of it at most; `share` has room for that. Only where the bound is denormal
    may it add more, half a step: an error below it is below by a whole step, which is more.
    """
    own, steep = share * least, share * slope
    return own if own > _TINY else 0.0, steep if steep > _TINY else 0.0


@jit
def look(
    ref: Numbers,
    cand: Numbers,
    size: int,
    width: int,
    first: int,
    atol: float,
    rtol: float,
    cap: float,
    best_at: Counts,
    best_error: Doubles,
    best_excess: Doubles,
    pieces: int,
    states: States,
) -> None:
    """Keep the largest error and the worst excess of pieces that are to be looked at.

    Where all elements are good, the piece is no longer suspect.

    Args:
        ref: as of `scan_floats`.
        cand: the same.
        size: the same.
        width: elements a sample.
        first: number of the first sample.
        atol: as of `scan_floats`.
        rtol: the same.
        cap: the same.
        best_at: as of `elements.Found`; the first one of those that tie is kept.
        best_error: the same.
        best_excess: the same.
        pieces: pieces a stretch.
        states: as `scan_floats` set them.
    """
    for number in range(states.size):
        if not states[number] & np.uint8(LOOK):
            continue
        wrong = np.int64(0)
        start = number // pieces * size
        stop = smaller(smaller(start + size, ref.size), start + (number % pieces + 1) * PIECE)
        for at in range(start + number % pieces * PIECE, stop, _AT_ONCE):
            r, c = ref[at : smaller(at + _AT_ONCE, stop)], cand[at : smaller(at + _AT_ONCE, stop)]
            is_first = best_at[0, 0] < 0 or best_at[1, 0] < 0
            worst = smaller(best_excess[0], LARGEST)
            least, slope, share = near_worst(atol, rtol, best_error[1], worst)
            top = flagged = np.int64(0)
            for k in range(r.size):
                value = np.float64(r[k])
                error = abs(np.float64(c[k]) - value)
                top = larger(top, bits_of(error))
                flagged += np.int64(not error < share * allowed(value, least, slope))
                wrong += np.int64(not error <= allowed(value, atol, rtol))
            largest = number_of(top)
            wrong += np.int64(not largest <= cap)
            if not (largest > best_error[0] or (flagged > 0 and top > 0) or is_first):
                continue
            beyond = np.int64(0)
            for k in range(r.size):
                value = np.float64(r[k])
                error = abs(np.float64(c[k]) - value)
                ratio = excess(error, allowed(value, atol, rtol))
                is_tie = (ratio == best_excess[0]) & (error > best_error[1])
                beyond += np.int64((ratio > best_excess[0]) | is_tie | (error > best_error[0]))
            if beyond == 0 and not is_first:
                continue
            for k in range(r.size):
                value = np.float64(r[k])
                error = abs(np.float64(c[k]) - value)
                sample = first + (at + k) // width
                if error > best_error[0] or best_at[0, 0] < 0:
                    best_error[0] = error
                    best_at[0, 0], best_at[0, 1] = sample, (at + k) % width
                ratio = excess(error, allowed(value, atol, rtol))
                is_worse = ratio > best_excess[0] or best_at[1, 0] < 0
                if is_worse or (ratio == best_excess[0] and error > best_error[1]):
                    best_excess[0], best_error[1] = ratio, error
                    best_at[1, 0], best_at[1, 1] = sample, (at + k) % width
        if wrong == 0:
            states[number] &= np.uint8(AGAIN)


@jit
def sum_again(
    ref: Numbers,
    cand: Numbers,
    size: int,
    chunks: Counts,
    pieces: int,
    states: States,
    errors: Doubles,
    rest: Doubles,
) -> int:
    """Sum the errors of pieces whose guessed grid was too small or too coarse.

    Args:
        ref: as of `scan_floats`.
        cand: the same.
        size: the same.
        chunks: the same.
        pieces: pieces a stretch.
        states: as `scan_floats` set them.
        errors: `(PIECE,)`; written over.
        rest: the same.

    Returns:
        An exponent that all of these errors lie below.
    """
    highest = np.int64(0)
    for number in range(states.size):
        if not states[number] & np.uint8(AGAIN):
            continue
        start = number // pieces * size + number % pieces * PIECE
        stop = smaller(smaller(number // pieces * size + size, ref.size), start + PIECE)
        r, c = ref[start:stop], cand[start:stop]
        top = np.int64(0)
        for k in range(r.size):
            error = np.float64(c[k]) - np.float64(r[k])
            errors[k] = error
            rest[k] = abs(error)
            top = larger(top, bits_of(abs(error)))
        exponent = whole((top >> 52) - 1022)
        add_errors(errors[: r.size], rest[: r.size], exponent, chunks[E], chunks[ABS_E])
        highest = larger(highest, top >> 52)
    return whole(highest - 1022)
