"""Whole stretches of integers at once: what is clean is counted here, as `elements` would.

A stretch is clean where every error is within its bound and small enough that sums are exact in 64
bits. Where no value differs there is nothing to measure.

What depends on the dtype is short, since every dtype is compiled anew; where more is to be done the
errors are put into float64, in which they are exact, for `settle`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba.extending import overload

from paritygate.kernels._jit import INLINED, jit, scalar
from paritygate.kernels.elements import Found, Rule
from paritygate.kernels.grids import PIECE, add_terms, add_units, exponent_of
from paritygate.kernels.scalar import allowed, bin_of, integer_bound, integer_error, share_below
from paritygate.kernels.settle import settle
from paritygate.kernels.typed import add, differing, either, subtract

E, ABS_E, EE = 0, 1, 2  # rows of `chunks`
TABLE = 4096  # errors below it are counted by value
_PART = 1024  # elements whose narrow sums can't overflow
_SMALL = 15
_SUMMABLE = 1 << 62
_EXACT = 1 << 53  # errors below it are exact in float64
# A ratio that rounds to x or more is of an error that is at least the rounded product of the bound
# and this share of x.
_SHRUNK = 1.0 - 2.0**-50
_SHRUNK_SINGLE = 1.0 - 2.0**-20  # the same where bounds are rounded to float32, up or down

Numbers = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


class Tables(NamedTuple):
    """What is counted besides extremes.

    Attributes:
        chunks: `(3, CHUNKS)` sums of e, |e| and e^2.
        limits: `(2, 2)` smallest and largest number of each side's dtype; descending: none.
        at_limits: `(2, 2)` elements at them.
        worst: `(2,)` |ref| and |e| of an element that is no worse than the worst by excess.
        full: whether errors are counted.
        counts: `(4, TABLE)` errors below `TABLE` by value, to be added up.
        histogram: `(BINS,)` of |e|.
    """

    chunks: Counts
    limits: Counts
    at_limits: Counts
    worst: Doubles
    full: bool
    counts: Counts
    histogram: Counts


class Room(NamedTuple):
    """References and errors of a stretch in float64; terms of a piece."""

    ref: Doubles
    errors: Doubles
    terms: Doubles


@jit
def scan_integers(
    ref: Numbers,
    cand: Numbers,
    width: int,
    start: int,
    samples: int,
    rule: Rule,
    found: Found,
    tables: Tables,
    room: Room,
    dirty: npt.NDArray[np.bool_],
) -> None:
    """Count the clean stretches of some samples.

    Args:
        ref: flat values of these samples, of one dtype with those of `cand`.
        cand: the same of the candidate.
        width: elements a sample, at least 1.
        start: number of the first sample; ordinals ascend.
        samples: samples a stretch.
        rule: what is tolerated.
        found: extremes and classes, added to; extremes so far are of samples before these.
        tables: added to.
        room: written over.
        dirty: `(stretches,)` set for those that are not clean, of which nothing was counted.
    """
    size = samples * width
    most = integer_bound(rule.cap)
    if rule.rtol == 0.0:
        most = min(most, integer_bound(rule.atol))
    most = min(most, np.uint64(min(_SUMMABLE // size, _EXACT)))
    ends = tables.limits
    is_limited = ends[0, 0] <= ends[0, 1] or ends[1, 0] <= ends[1, 1]
    is_alike = ends[0, 0] == ends[1, 0] and ends[0, 1] == ends[1, 1]
    for number in range(dirty.size):
        base = number * size
        r, c = ref[base : base + size], cand[base : base + size]
        top, total, magnitude = np.uint64(0), np.int64(0), np.int64(0)
        is_equal = not _differ(r, c)
        if not is_equal:
            top, total, magnitude = measure(r, c)
        if top > most:
            dirty[number] = True
            continue
        is_worse = top > found.best_error[1]
        if top > np.uint64(0) and rule.rtol > 0.0:
            is_worse = flag(r, c, rule, found.best_excess[0], tables.worst)
        if is_worse or top > found.best_error[0] or found.best_at[1, 0] < 0:
            wide, errors = room.ref[: r.size], room.errors[: r.size]
            _widen(r, c, wide, errors)
            first = start + number * samples
            if not settle(wide, errors, width, first, top, rule, found, tables.worst):
                dirty[number] = True
                continue
        if tables.full and top < np.uint64(TABLE):
            _count(r, c, top, tables.counts)
        elif tables.full:
            _widen(r, c, room.ref[: r.size], room.errors[: r.size])
            count_far(room.errors[: r.size], top, tables, room.terms)
        found.classes[0, 0] += r.size
        add_units(tables.chunks[E], total, 0)
        add_units(tables.chunks[ABS_E], magnitude, 0)
        if is_limited:
            low, high = count_limits(r, tables.limits[0])
            tables.at_limits[0, 0] += low
            tables.at_limits[0, 1] += high
            if not (is_equal and is_alike):
                low, high = count_limits(c, tables.limits[1])
            tables.at_limits[1, 0] += low
            tables.at_limits[1, 1] += high
    if tables.full:
        add_up(tables)


@scalar
def _differ(ref: Any, cand: Any) -> bool:
    for base in range(0, ref.size, _PART):
        r, c = ref[base : base + _PART], cand[base : base + _PART]
        bits = differing(r[0], r[0])
        for k in range(r.size):
            bits = either(bits, differing(r[k], c[k]))
        if bits != 0:
            return True
    return False


def measure(ref: Any, cand: Any) -> Any:
    """Largest |e|, sum of e, sum of |e|; the sums are right where the largest is small enough."""
    raise NotImplementedError("it is compiled for each size of integers")


@overload(measure, jit_options=INLINED)
def _measure(ref: Any, cand: Any) -> Any:
    """Choose by size; Numba compiles no other branch."""
    size = ref.dtype.bitwidth // 8
    return _measure_bytes if size == 1 else _measure_shorts if size == 2 else _measure_long


def _measure_bytes(ref: Any, cand: Any) -> Any:
    """In 8 and 16 bits where errors are small, else in 32."""
    top, total, magnitude = np.uint8(0), np.int64(0), np.int64(0)
    for base in range(0, ref.size, _PART):
        r, c = ref[base : base + _PART], cand[base : base + _PART]
        most = np.uint8(0)
        some = sizes = np.int16(0)
        for k in range(r.size):
            error = np.uint8(max(r[k], c[k]) - min(r[k], c[k]))
            most = max(most, error)
            sizes = add(sizes, np.int16(error))
            some = add(some, np.int16(np.int8(subtract(c[k], r[k]))))
        top = max(top, most)
        total += some
        magnitude += sizes
        if most > _SMALL:
            total -= some
            magnitude -= sizes
            signed = unsigned = np.int32(0)
            for k in range(r.size):
                wide = subtract(np.int32(c[k]), np.int32(r[k]))
                signed = add(signed, wide)
                unsigned = add(unsigned, np.int32(abs(wide)))
            total += signed
            magnitude += unsigned
    return np.uint64(top), total, magnitude


def _measure_shorts(ref: Any, cand: Any) -> Any:
    top, total, magnitude = np.int32(0), np.int64(0), np.int64(0)
    for base in range(0, ref.size, _PART):
        r, c = ref[base : base + _PART], cand[base : base + _PART]
        some = sizes = np.int32(0)
        for k in range(r.size):
            signed = subtract(np.int32(c[k]), np.int32(r[k]))
            error = np.int32(abs(signed))
            top = max(top, error)
            some = add(some, signed)
            sizes = add(sizes, error)
        total += some
        magnitude += sizes
    return np.uint64(top), total, magnitude


def _measure_long(ref: Any, cand: Any) -> Any:
    top = np.uint64(0)
    total = magnitude = np.int64(0)
    for k in range(ref.size):
        error = integer_error(ref[k], cand[k])
        top = max(top, error)
        total += np.int64(cand[k]) - np.int64(ref[k])
        magnitude += np.int64(error)
    return top, total, magnitude


def flag(ref: Any, cand: Any, rule: Any, best: float, worst: Any) -> bool:
    """Whether an element may be out of bounds or the worst by excess; errors are below 2^53."""
    raise NotImplementedError("it is compiled for each size of integers")


@overload(flag, jit_options=INLINED)
def _flag(ref: Any, cand: Any, rule: Any, best: Any, worst: Any) -> Any:
    """Choose by size: integers of 16 bits are exact in float32."""
    return _flag_singles if ref.dtype.bitwidth <= 16 else _flag_doubles


def _flag_singles(ref: Any, cand: Any, rule: Any, best: Any, worst: Any) -> Any:
    near = share_below(min(best, 1.0), _SHRUNK_SINGLE)
    atol, rtol = np.float32(near * rule.atol), np.float32(near * rule.rtol)
    worst_ref, worst_error = np.float32(worst[0]), np.float32(worst[1])
    flagged = np.int32(0)
    for k in range(ref.size):
        r = np.float32(ref[k])
        error, size = abs(np.float32(cand[k]) - r), abs(r)
        is_known = (error == worst_error) & (size == worst_ref)
        flagged = add(flagged, np.int32((not error <= atol + rtol * size) & (not is_known)))
    return flagged > 0


def _flag_doubles(ref: Any, cand: Any, rule: Any, best: Any, worst: Any) -> Any:
    near = share_below(min(best, 1.0), _SHRUNK)
    worst_ref, worst_error = worst[0], worst[1]
    flagged = np.int64(0)
    for k in range(ref.size):
        r = np.float64(ref[k])
        error = np.float64(abs(np.int64(cand[k]) - np.int64(ref[k])))
        is_near = (not error < near * allowed(r, rule.atol, rule.rtol)) & (error > 0.0)
        is_known = (error == worst_error) & (abs(r) == worst_ref)
        flagged += np.int64(is_near & (not is_known))
    return flagged > 0


@scalar
def _widen(ref: Any, cand: Any, into: Any, errors: Any) -> None:
    for k in range(ref.size):
        into[k] = np.float64(ref[k])
        errors[k] = np.float64(np.int64(cand[k]) - np.int64(ref[k]))


@scalar
def _count(ref: Any, cand: Any, top: Any, counts: Any) -> None:
    if top == np.uint64(0):
        counts[0, 0] += ref.size
        return
    for k in range(ref.size):
        counts[np.uint64(k) & np.uint64(3), np.uint64(integer_error(ref[k], cand[k]))] += 1


@jit
def count_limits(values: Numbers, limits: Counts) -> tuple[np.int64, np.int64]:
    """How many are the smallest, and how many the largest number of their dtype.

    Args:
        values: of a stretch.
        limits: `(2,)`; descending: none are counted.
    """
    lows, highs = np.int64(0), np.int64(0)
    if limits[0] > limits[1]:
        return lows, highs
    lowest = highest = values[0]
    for k in range(values.size):
        lowest = min(lowest, values[k])
        highest = max(highest, values[k])
    is_low, is_high = np.int64(lowest) == limits[0], np.int64(highest) == limits[1]
    if not (is_low or is_high):
        return lows, highs
    for base in range(0, values.size, _PART):
        part = values[base : base + _PART]
        low = high = np.int16(0)
        for k in range(part.size):
            low = add(low, np.int16(part[k] == lowest))
            high = add(high, np.int16(part[k] == highest))
        lows += np.int64(low)
        highs += np.int64(high)
    return lows if is_low else np.int64(0), highs if is_high else np.int64(0)


@jit
def count_far(errors: Doubles, top: Any, tables: Tables, terms: Doubles) -> None:
    """Count |e| and sum e^2 where errors are too large to be counted by value.

    Args:
        errors: of a clean stretch.
        top: largest |e|.
        tables: added to.
        terms: `(PIECE,)`, written over.
    """
    exponent = 2 * exponent_of(int(np.float64(top).view(np.int64)))
    for at in range(0, errors.size, PIECE):
        e = errors[at : at + PIECE]
        for k in range(e.size):
            tables.histogram[bin_of(abs(e[k]))] += 1
            terms[k] = e[k] * e[k]
        add_terms(terms[: e.size], exponent, tables.chunks[EE])


@jit
def add_up(tables: Tables) -> None:
    """Move what was counted by value to the histogram and the sum of e^2.

    Args:
        tables: `counts` are emptied.
    """
    counts = tables.counts
    for error in range(TABLE):
        number = counts[0, error] + counts[1, error] + counts[2, error] + counts[3, error]
        if number > 0:
            counts[:, error] = 0
            tables.histogram[bin_of(np.float64(error))] += number
            add_units(tables.chunks[EE], number * error * error, 0)
