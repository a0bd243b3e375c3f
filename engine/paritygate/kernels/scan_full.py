"""Stretches of samples of floats: all that the tier "full" asks, in one pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from paritygate.kernels._jit import jit, scalar
from paritygate.kernels.elements import Found, Rule
from paritygate.kernels.grids import HIGHEST, add_units, anchor_of, exponent_of, first_grid
from paritygate.kernels.lanes import pair_sums
from paritygate.kernels.linked import linked
from paritygate.kernels.measures import Full, Room, add_all_products, add_rows_again
from paritygate.kernels.one_pass import BIN, Bounds, Grids, one_pass
from paritygate.kernels.scan import ABS_E, AGAIN, EE, LEFT, RE, RR, E, beyond_of, state_of
from paritygate.kernels.typed import bits_of, larger, number_of, smaller, whole
from paritygate.kernels.vectors import LANES

STEPS = 16  # bit of the state of a piece: it may hold the largest distance in steps so far
LOWEST = -148  # exponent of the smallest float32
_TERMS = 12  # 2^12 terms are a piece
_DIGITS = 53
# With terms below 2^x on a grid of 2^(x - 49), what is left of 2^12 of them is summed without
# rounding as long as all are multiples of 2^(x - 91).
_DEPTH_OF_ERRORS = 91
_DEPTH = _DEPTH_OF_ERRORS // 2
_WIDE = 8  # bytes of a float64
_NORMAL = -960  # exponent of multiples of which a float64 can be scaled to integers
_LARGEST = 2.0**HIGHEST / 2

Numbers = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
States = npt.NDArray[np.uint8]

_add_all_products = linked(add_all_products)
_add_rows_again = linked(add_rows_again)


@jit
def scan_full(
    ref: Numbers,
    cand: Numbers,
    size: int,
    rule: Rule,
    found: Found,
    floor: int,
    steps_at: Counts,
    steps: npt.NDArray[np.uint64],
    chunks: Counts,
    full: Full,
    room: Room,
    states: States,
    energies: Doubles | None,
    width: int,
) -> int:
    """Count and measure the stretches that are finite throughout.

    Args:
        ref: flat values, float32 or float64.
        cand: the same of the candidate.
        size: elements a stretch, up to `PIECE`; the last one may be shorter.
        rule: what is tolerated; no bound of a finite value is infinite.
        found: extremes of elements before these.
        floor: as of `steps.keep_steps`, of the same dtype.
        steps_at: the same; of elements before these.
        steps: the same.
        chunks: `(5, CHUNKS)` sums, added to.
        full: added to; its sums are the last three rows of `chunks`.
        room: written over; errors are counted in it.
        states: `(stretches,)` set as by `scan.scan_floats`, or with `STEPS`.
        energies: `(3, samples)` set as by `rank.sum_samples`, of clean stretches, instead of sums
            of products; None: samples aren't ranked.
        width: elements a sample.

    Returns:
        Elements of these stretches.
    """
    beyond = beyond_of(rule.atol, rule.rtol, found.best_at, found.best_error, found.best_excess)
    counted, is_wide = 0, ref.itemsize == _WIDE
    for number in range(states.size):
        start = number * size
        stop = smaller(start + size, ref.size)
        r, c = ref[start:stop], cand[start:stop]
        passed = _pass(r, c, beyond, floor, room, energies)
        error = number_of(passed.top)
        if not error < _LARGEST:
            states[number] = LEFT
            continue
        counted += r.size
        state = state_of(error, bool(passed.flagged > 0), beyond, found.best_error[0], rule.cap)
        if energies is None:
            if is_wide:
                _add_all_products(r, c, full, room)
            else:
                _add_products(r, c, passed, chunks, full, room)
        else:
            _sum_samples(r, c, width, energies, number * size // width)
        if not _add_errors(passed, unit_of(passed.low, is_wide), is_wide, room.guess[1], chunks):
            state |= np.uint8(AGAIN)
        is_first = steps_at[0, 0] < 0 or (steps_at[1, 0] < 0 and passed.ref >= floor)
        if is_first or np.uint64(passed.steps) > steps[0] or np.uint64(passed.above) > steps[1]:
            state |= np.uint8(STEPS)
        states[number] = state
    return counted


@scalar
def _pass(r: Any, c: Any, beyond: Any, floor: int, room: Any, energies: Any) -> Any:
    """One pass, on grids that are fine enough where there are such."""
    guess, is_wide = room.guess, r.itemsize == _WIDE
    while True:
        bounds = Bounds(beyond.least, beyond.slope, floor, anchor_of(first_grid(guess[1])))
        zeros = _zeros(room.counts)
        if energies is None:
            grids = Grids(
                _anchor(2 * guess[1]),
                _anchor(2 * guess[0]),
                _anchor(guess[0] + guess[1]),
            )
            passed = one_pass(r, c, bounds, grids, room.counts)
        else:
            passed = one_pass(r, c, bounds, None, room.counts)
        room.counts[0] -= -r.size % LANES
        unit = unit_of(passed.low, is_wide)
        is_finite = number_of(passed.top) < _LARGEST
        of_ref, of_error = guess[0], guess[1]
        exponent = whole(larger(exponent_of(passed.top), LOWEST))
        if is_wide:
            of_error = _better(of_error, exponent, unit, _DEPTH_OF_ERRORS)
        elif energies is None:
            of_ref = _better(of_ref, whole(larger(passed.ref >> 23, 1)) - 126, unit, _DEPTH)
            of_error = _better(of_error, exponent, unit, _DEPTH)
        if is_finite and of_ref == guess[0] and of_error == guess[1]:
            _note_bins(r, c, passed.top, unit, zeros, room)
            return passed
        _take_back(r, c, room.counts)
        if not is_finite:
            return passed
        guess[0], guess[1] = of_ref, of_error


@scalar
def _anchor(exponent: int) -> float:
    """Of a grid for products below 2^exponent; no float32 has any that are larger than these."""
    return anchor_of(first_grid(smaller(exponent, HIGHEST)))


@scalar
def _note_bins(r: Any, c: Any, top: int, unit: int, zeros: Any, room: Any) -> None:
    """Errors that are zero, and the bins of the others."""
    found = _zeros(room.counts) - zeros
    if unit < _NORMAL and found > 0:  # the smallest numbers are in the same bin
        found = np.int64(0)
        for k in range(r.size):
            found += np.int64(r[k] == c[k])
    room.spread[0] += found
    if top > 0:
        room.spread[1] = smaller(room.spread[1], (unit + 1023) << 3)
        room.spread[2] = larger(room.spread[2], top >> BIN)


@scalar
def _sum_samples(r: Any, c: Any, width: int, energies: Any, first: int) -> None:
    """Energies of the samples of a stretch, as of `rank.sum_samples`."""
    beyond = width & (LANES - 1)
    for i in range(r.size // width):
        start, stop = i * width, i * width + width
        ee, rr, re = pair_sums(r, c, start, stop - beyond)
        ref, cand = r[stop - beyond : stop], c[stop - beyond : stop]
        for k in range(ref.size):
            value = np.float64(ref[k])
            e = np.float64(cand[k]) - value
            ee, rr, re = ee + e * e, rr + value * value, re + value * e
        energies[0, first + i], energies[1, first + i], energies[2, first + i] = ee, rr, re


@scalar
def _better(guess: int, exponent: int, unit: int, depth: int) -> int:
    """An exponent to guess instead of one that is too small, or so large that grids are coarse."""
    is_coarse = guess - unit > depth and exponent - unit <= depth
    return exponent if exponent > guess or is_coarse else guess


@scalar
def unit_of(low: int, is_wide: bool) -> int:
    """Exponent of a power of two that all values are multiples of; see `Passed.low`."""
    if is_wide:
        return whole(larger((low + 1) >> 52, 1)) - 1075
    return whole(larger(smaller((low + 1) >> 23, 254), 1)) - 150


@scalar
def _zeros(counts: Any) -> Any:
    return counts[0] + counts[1] + counts[2] + counts[3]


@scalar
def _take_back(r: Any, c: Any, counts: Any) -> None:
    """What a pass counted is counted no more."""
    for k in range(r.size):
        error = abs(np.float64(c[k]) - np.float64(r[k]))
        counts[(bits_of(error) >> BIN << 2) | (k & 3)] -= 1


@scalar
def _add_products(r: Any, c: Any, passed: Any, chunks: Any, full: Any, room: Any) -> None:
    """Add e^2, r^2 and r*e of each element."""
    unit, guess = unit_of(passed.low, False), room.guess
    scale = number_of((1023 - unit) << 52)
    of_ref, of_error = guess[0] - unit <= _DEPTH, guess[1] - unit <= _DEPTH
    if of_error:
        _add_split(chunks[EE], passed.ee, passed.ee_rest, 2 * guess[1], unit, scale)
    if of_ref:
        _add_split(chunks[RR], passed.rr, passed.rr_rest, 2 * guess[0], unit, scale)
    if of_error and of_ref:
        _add_split(chunks[RE], passed.re, passed.re_rest, guess[0] + guess[1], unit, scale)
    else:
        _add_rows_again(r, c, not of_error, not of_ref, full, room)


@scalar
def _add_errors(passed: Any, unit: int, is_wide: bool, guess: int, chunks: Any) -> bool:
    """Add e and |e| of each element, if they were summed without rounding."""
    if passed.top == 0:
        return True
    if unit < _NORMAL:
        return False
    if is_wide:
        if guess - unit > _DEPTH_OF_ERRORS:
            return False
        grid = first_grid(guess)
        add_units(chunks[E], passed.units, grid)
        add_units(chunks[ABS_E], passed.size_units, grid)
    elif exponent_of(passed.top) + _TERMS - unit > _DIGITS:
        return False
    scale = number_of((1023 - unit) << 52)
    add_units(chunks[E], whole(passed.errors * scale), unit)
    add_units(chunks[ABS_E], whole(passed.magnitudes * scale), unit)
    return True


@scalar
def _add_split(
    chunks: Any, units: int, rest: float, exponent: int, unit: int, scale: float
) -> None:
    """Add products below 2^exponent, multiples of 4^unit, that were split on a grid."""
    add_units(chunks, units, first_grid(exponent))
    add_units(chunks, whole(rest * scale * scale), 2 * unit)
