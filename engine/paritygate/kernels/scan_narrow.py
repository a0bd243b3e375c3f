"""Stretches of floats of 8 and 16 bits, where errors are few units of a common quantum.

Differences are then exact in float32 and sums of them in 32 bits, so that sixteen go at once. What
isn't proved clean here is left to `scan`. The type of an array says what its bits are: uint16
float16, int16 bfloat16, uint8 one of float8.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba.core import types
from numba.extending import overload

from paritygate.kernels._jit import INLINED, jit, scalar
from paritygate.kernels.elements import Found, Rule
from paritygate.kernels.grids import add_units
from paritygate.kernels.linked import linked
from paritygate.kernels.narrow_terms import (
    add_term,
    anchor_of,
    but_for_known,
    lower_of,
    number_of,
    pair_at,
    power,
    units_of,
    upper_of,
)
from paritygate.kernels.scalar import share_below
from paritygate.kernels.settle import settle
from paritygate.kernels.typed import add, either, subtract

E, ABS_E = 0, 1  # rows of `chunks`
PIECE = 1024  # elements whose errors add up to less than 2^31 units
# Bounds are rounded to float32, up or down, and this share of them is below the exact ones, as long
# as neither they nor their terms are denormal.
_SHRUNK = 1.0 - 2.0**-20
_SHORT = 2.0**21  # units of which 1024 add up to less than 2^31
_OFTEN = 16
_LEAST_ATOL, _LEAST_RTOL, _LEAST_QUANTUM = 2.0**-100, 2.0**-40, -92
_HIGHEST_SHORT = 100  # exponent of a unit whose anchor is a float32

Numbers = npt.NDArray[Any]
Counts = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]


class Form(NamedTuple):
    """How bits are read.

    Attributes:
        size: mask of exponent and mantissa.
        most: largest `size` that is read here.
        undefined: bits that are NaN below that, -1 for none.
        shift: of float8, bits to the left that make it a float16,
        scale: and the factor that it lacks then.
        mantissa: bits after the leading one.
        quantum: exponent of the smallest number above zero, of which all others are multiples.
        units: errors of so many units and more aren't measured.
    """

    size: int
    most: int
    undefined: int
    shift: int
    scale: np.float32
    mantissa: int
    quantum: int
    units: float


class State(NamedTuple):
    """What is kept from stretch to stretch.

    Attributes:
        worst: `(2,)` |ref| and |e| of an element no worse than the worst by excess, or -1.
        is_fine: `(1,)` whether errors are too many units of the form's own quantum.
        wide: `(1,)` how often, of late, they were too many units for sums in 32 bits.
    """

    worst: Doubles
    is_fine: npt.NDArray[np.bool_]
    wide: Counts


class Room(NamedTuple):
    """References and errors of a stretch."""

    ref: Doubles
    errors: Doubles


@jit
def judge(
    ref: Numbers,
    cand: Numbers,
    form: Form,
    atol: float,
    rtol: float,
    quantum: int,
    worst: Doubles,
    none: Any,
) -> tuple[float, int, int, int]:
    """Measure a stretch; nothing else is right where the largest error is too many units.

    Args:
        ref: bits.
        cand: bits.
        form: how they are read.
        atol: tolerances, so small that whatever is within them is good and no extreme.
        rtol: the same.
        quantum: exponent of the unit, of which all numbers are multiples.
        worst: as in `State`.
        none: no units, in the type that they are added up in: int32, or float64 for more of them.

    Returns:
        Largest |e|, sums of e and of |e| in units, 1 if an element isn't within the tolerances
        (of 8 bits, other than the worst one) or else 0.
    """
    a, b = np.float32(atol), np.float32(rtol)
    anchor = anchor_of(quantum, none)
    known = np.float32(worst[0]), np.float32(worst[1])
    top, total, magnitude, flagged = np.int32(0), np.int64(0), np.int64(0), np.int64(0)
    for base in range(0, ref.size, PIECE):
        rs, cs = ref[base : base + PIECE], cand[base : base + PIECE]
        found = top, np.int32(0), none, none
        top, beyond, some, sizes = measure_piece(rs, cs, form, (a, b), anchor, known, found)
        total += units_of(some, rs.size, anchor, quantum)
        magnitude += units_of(sizes, rs.size, anchor, quantum)
        flagged |= np.int64(beyond)
    return np.float64(np.int32(top).view(np.float32)), total, magnitude, np.int64(flagged < 0)  # type: ignore[return-value]


_judge = linked(judge)


def measure_piece(
    ref: Any, cand: Any, form: Any, bound: Any, anchor: Any, known: Any, found: Any
) -> Any:
    """What was found and what these elements add to it: see `_measure`."""
    raise NotImplementedError("it is compiled for each dtype")


@overload(measure_piece, jit_options=INLINED)
def _measure_piece(
    ref: Any, cand: Any, form: Any, bound: Any, anchor: Any, known: Any, found: Any
) -> Any:
    """Those of bfloat16 go two by two, which spares what takes their bits apart."""
    return _measure_pairs if ref.dtype == types.int16 else _measure_all


def _measure_all(
    ref: Any, cand: Any, form: Any, bound: Any, anchor: Any, known: Any, found: Any
) -> Any:
    for k in range(ref.size):
        r, c = number_of(ref[k], form), number_of(cand[k], form)
        found = _measure(r, c, bound, anchor, known, found, ref[k])
    return found


def _measure_pairs(
    ref: Any, cand: Any, form: Any, bound: Any, anchor: Any, known: Any, found: Any
) -> Any:
    for k in range(ref.size >> 1):
        r, c = pair_at(ref, k), pair_at(cand, k)
        found = _measure(lower_of(r), lower_of(c), bound, anchor, known, found, ref[0])
        found = _measure(upper_of(r), upper_of(c), bound, anchor, known, found, ref[0])
    if ref.size & 1:
        r, c = number_of(ref[ref.size - 1], form), number_of(cand[ref.size - 1], form)
        found = _measure(r, c, bound, anchor, known, found, ref[0])
    return found


@scalar
def _measure(r: Any, c: Any, bound: Any, anchor: Any, known: Any, found: Any, bits: Any) -> Any:
    """Bits of the largest |e|, a sign if one is beyond its bound, sums of e and of |e|."""
    top, beyond, some, sizes = found
    e = c - r
    error, size = abs(e), abs(r)
    own = np.float32(error).view(np.int32)
    room = subtract(np.float32(bound[0] + bound[1] * size).view(np.int32), own)
    return (
        max(top, own),
        either(beyond, but_for_known(room, error, size, known, bits)),
        add_term(some, e, anchor),
        add_term(sizes, error, anchor),
    )


@jit
def scan_narrow(
    ref: Numbers,
    cand: Numbers,
    form: Form,
    width: int,
    start: int,
    samples: int,
    at: int,
    rule: Rule,
    found: Found,
    chunks: Counts,
    state: State,
    room: Room,
) -> int:
    """Count stretches until one isn't proved clean.

    Args:
        ref: bits of some samples.
        cand: the same of the candidate.
        form: how they are read.
        width: elements a sample, at least 1.
        start: number of the first sample; ordinals ascend.
        samples: samples a stretch.
        at: first stretch.
        rule: what is tolerated; every finite reference has a finite bound.
        found: extremes and classes, added to; extremes so far are of samples before these.
        chunks: `(2, CHUNKS)` sums of e and |e|, added to.
        state: written over.
        room: written over.

    Returns:
        The stretch that was not counted; the number of stretches if there is none.
    """
    size = samples * width
    stretches = (ref.size + size - 1) // size
    for number in range(at, stretches):
        r, c = ref[number * size : (number + 1) * size], cand[number * size : (number + 1) * size]
        if is_strange(r, form) or is_strange(c, form):
            return number
        near = share_below(min(found.best_excess[0], 1.0), _SHRUNK)
        atol = near * rule.atol if near * rule.atol >= _LEAST_ATOL else 0.0
        rtol = near * rule.rtol if near * rule.rtol >= _LEAST_RTOL else 0.0
        fine = _quantum(r, c, form) if state.is_fine[0] else form.quantum
        quantum = min(fine, _HIGHEST_SHORT)
        most = min(form.units, _SHORT)
        top = most * power(quantum)
        if state.wide[0] < _OFTEN:
            top, total, magnitude, flagged = _judge(
                r, c, form, atol, rtol, quantum, state.worst, np.int32(0)
            )
            if not (state.is_fine[0] or top < most * power(quantum)):
                state.is_fine[0] = True
                fine = _quantum(r, c, form)
                quantum = min(fine, _HIGHEST_SHORT)
                top, total, magnitude, flagged = _judge(
                    r, c, form, atol, rtol, quantum, state.worst, np.int32(0)
                )
        if form.units > _SHORT and not top < most * power(quantum):
            quantum = fine
            top, total, magnitude, flagged = _judge(
                r, c, form, atol, rtol, quantum, state.worst, 0.0
            )
            is_wide = not top < most * power(quantum)
            state.wide[0] = min(state.wide[0] + 2 * is_wide, 2 * _OFTEN)
        state.wide[0] = max(state.wide[0] - 1, 0)
        if not (top < form.units * power(quantum) and top <= rule.cap):
            return number
        if quantum < _LEAST_QUANTUM:
            return number
        if flagged > 0:
            flagged = _unknown(r, c, form, atol, rtol, state.worst)
        if flagged > 0 or top > found.best_error[0] or found.best_at[1, 0] < 0:
            wide, errors = room.ref[: r.size], room.errors[: r.size]
            for k in range(r.size):
                wide[k] = np.float64(number_of(r[k], form))
                errors[k] = np.float64(number_of(c[k], form)) - wide[k]
            first = start + number * samples
            if not settle(wide, errors, width, first, top, rule, found, state.worst):
                return number
        found.classes[0, 0] += r.size
        add_units(chunks[E], total, quantum)
        add_units(chunks[ABS_E], magnitude, quantum)
    return stretches


@jit
def widen(bits: Numbers, form: Form, into: npt.NDArray[np.float32]) -> None:
    """Write the numbers that 16 bits stand for, NaN and infinities too.

    Args:
        bits: as `scan_narrow` has them.
        form: how they are read.
        into: as many; written over.
    """
    for k in range(bits.size):
        into[k] = number_of(bits[k], form)


def is_strange(bits: Any, form: Any) -> bool:
    """Whether some bits can't be read here."""
    raise NotImplementedError("it is compiled for each size of floats")


@overload(is_strange, jit_options=INLINED)
def _is_strange(bits: Any, form: Any) -> Any:
    """Those of 16 bits show by their differences that they aren't finite."""
    return _never if bits.dtype.bitwidth == 16 else _is_strange_byte


def _never(bits: Any, form: Any) -> bool:
    return False


def _is_strange_byte(bits: Any, form: Any) -> bool:
    size, most, undefined = np.uint8(form.size), np.uint8(0), np.uint8(0)
    for k in range(bits.size):
        most = max(most, np.uint8(bits[k] & size))
        undefined = max(undefined, np.uint8(bits[k] == form.undefined))
    return bool(most > form.most or undefined > 0)


@scalar
def _quantum(ref: Any, cand: Any, form: Any) -> int:
    """Exponent of a power of two of which all these numbers are multiples."""
    least, size, one = np.uint16(0xFFFF), np.uint16(form.size), np.uint16(1)
    for k in range(ref.size):  # less one, so that zero is the largest
        own = subtract(np.uint16(np.uint16(ref[k]) & size), one)
        other = subtract(np.uint16(np.uint16(cand[k]) & size), one)
        least = min(least, min(own, other))
    field = min(np.int64(least) + 1, form.size) >> form.mantissa
    return form.quantum + max(field, 1) - 1


@scalar
def _unknown(ref: Any, cand: Any, form: Any, atol: float, rtol: float, worst: Any) -> int:
    """How many elements aren't within the tolerances, other than the worst one."""
    a, b = np.float32(atol), np.float32(rtol)
    worst_ref, worst_error = np.float32(worst[0]), np.float32(worst[1])
    flagged = np.int32(0)
    for k in range(ref.size):
        r = number_of(ref[k], form)
        error, size = abs(number_of(cand[k], form) - r), abs(r)
        is_known = (error == worst_error) & (size == worst_ref)
        flagged = add(flagged, np.int32((not error <= a + b * size) & (not is_known)))
    return np.int64(flagged)  # type: ignore[return-value]
