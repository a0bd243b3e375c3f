"""What the tier "full" measures of clean stretches, beyond what the scan counts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from paritygate.kernels._jit import jit, scalar
from paritygate.kernels.grids import (
    HIGHEST,
    PIECE,
    add_coarse_products,
    add_each,
    add_products,
    add_terms,
    exponent_of,
)
from paritygate.kernels.linked import linked
from paritygate.kernels.rank import sum_finite
from paritygate.kernels.typed import bits_of, larger, smaller, whole

EE, RR, RE = 0, 1, 2  # rows of `sums`

Numbers = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


class Full(NamedTuple):
    """What is added to.

    Attributes:
        histogram: `(BINS,)` of |e|.
        sums: `(3, CHUNKS)` sums of e^2, r^2 and r*e.
        lost: `(3,)` terms of these that are not finite.
    """

    histogram: Counts
    sums: Counts
    lost: Counts


class Room(NamedTuple):
    """What is written over.

    Attributes:
        ref, errors, terms: `(PIECE,)`.
        bins: `(PIECE,)` of a piece's errors; `words` is the same memory, four a word.
        counts: `(4 * 2^14,)`, all zero between two calls.
        spread: `(3,)` errors that are zero, lowest and highest bin of the others.
        lanes: `(24,)`.
        guess: `(2,)` exponents that |ref| and |error| are expected to lie below.
    """

    ref: Doubles
    errors: Doubles
    terms: Doubles
    bins: npt.NDArray[np.uint16]
    words: npt.NDArray[np.uint64]
    counts: Counts
    spread: Counts
    lanes: Doubles
    guess: Counts


_add_each = linked(add_each)


@jit
def add_samples(terms: Doubles, sums: Counts, lost: Counts, row: int) -> None:
    """Add terms to a sum, exactly; they are written over."""
    for at in range(0, terms.size, PIECE):
        part = terms[at : at + PIECE]
        top = np.int64(0)
        for k in range(part.size):
            top = larger(top, bits_of(abs(part[k])))
        exponent = exponent_of(whole(top))
        if exponent < HIGHEST:
            add_terms(part, exponent, sums)
        else:
            lost[row] += _add_each(part, sums)


_add_samples = linked(add_samples)


@jit
def add_any_products(
    left: Doubles, right: Doubles, exponent: int, terms: Doubles, full: Full, row: int
) -> None:
    """Add products of up to `PIECE` pairs to a sum, exactly.

    Args:
        left: finite values.
        right: as many.
        exponent: the products are at most 2^exponent each.
        terms: as many, written over.
        full: added to.
        row: of its sums.
    """
    if not add_products(left, right, exponent, full.sums[row]):
        for k in range(left.size):
            terms[k] = left[k] * right[k]
        _add_samples(terms, full.sums[row], full.lost, row)


_add_any_products = linked(add_any_products)


@scalar
def _add_row(
    left: Any, right: Any, exponent: Any, lowest: Any, full: Any, row: Any, terms: Any
) -> None:
    if not add_coarse_products(left, right, exponent, lowest, full.sums[row]):
        _add_any_products(left, right, exponent, terms, full, row)


@jit
def add_energies(
    ref: Doubles, errors: Doubles, sizes: tuple[int, int, int, int], full: Full, terms: Doubles
) -> None:
    """Add e^2, r^2 and r*e of each element, exactly; `sizes` is what `widen` returned."""
    of_ref, of_error = exponent_of(sizes[0]), exponent_of(sizes[1])
    low_ref, low_error = sizes[2], sizes[3]
    part = terms[: ref.size]
    _add_row(errors, errors, of_error + of_error, low_error + low_error, full, EE, part)
    _add_row(ref, ref, of_ref + of_ref, low_ref + low_ref, full, RR, part)
    _add_row(ref, errors, of_ref + of_error, low_ref + low_error, full, RE, part)


_add_energies = linked(add_energies)


@jit
def add_rows_again(
    ref: Numbers, cand: Numbers, of_error: bool, of_ref: bool, full: Full, room: Room
) -> None:
    """Add r*e of each element, exactly, and as asked e^2 and r^2, of up to `PIECE` finite pairs."""
    wide, errors, terms = room.ref[: ref.size], room.errors[: ref.size], room.terms[: ref.size]
    top_ref, top_error, _, _ = widen(ref, cand, wide, errors)
    above_ref, above_error = exponent_of(top_ref), exponent_of(top_error)
    if of_error:
        _add_any_products(errors, errors, above_error + above_error, terms, full, EE)
    if of_ref:
        _add_any_products(wide, wide, above_ref + above_ref, terms, full, RR)
    _add_any_products(wide, errors, above_ref + above_error, terms, full, RE)


@jit
def add_all_products(ref: Numbers, cand: Numbers, full: Full, room: Room) -> None:
    """Add e^2, r^2 and r*e of each element of up to `PIECE` finite pairs, exactly."""
    wide, errors = room.ref[: ref.size], room.errors[: ref.size]
    _add_energies(wide, errors, widen(ref, cand, wide, errors), full, room.terms)


@jit
def measure_narrow(
    ref: Numbers,
    cand: Numbers,
    size: int,
    dirty: npt.NDArray[np.bool_],
    full: Full,
    room: Room,
) -> None:
    """Measure the clean stretches of samples that are too narrow to be ranked.

    Args:
        ref: flat values of these samples, of one dtype with those of `cand`.
        cand: the same of the candidate.
        size: elements a stretch.
        dirty: `(stretches,)` those that are left out.
        full: added to.
        room: written over.
    """
    for number in range(dirty.size):
        if dirty[number]:
            continue
        stop = smaller(number * size + size, ref.size)
        for at in range(number * size, stop, PIECE):
            r, c = ref[at : smaller(at + PIECE, stop)], cand[at : smaller(at + PIECE, stop)]
            wide, errors = room.ref[: r.size], room.errors[: r.size]
            sizes = widen(r, c, wide, errors)
            count_errors(errors, sizes[1], room)
            _add_energies(wide, errors, sizes, full, room.terms)


@jit
def measure_wide(
    ref: Numbers,
    cand: Numbers,
    size: int,
    width: int,
    dirty: npt.NDArray[np.bool_],
    energies: Doubles,
    full: Full,
    room: Room,
) -> None:
    """Measure the clean stretches of samples that are ranked, but for their sums.

    Args:
        ref: flat values of these samples, of one dtype with those of `cand`.
        cand: the same of the candidate.
        size: elements a stretch.
        width: elements a sample.
        dirty: `(stretches,)` those that are left out.
        energies: `(3, samples)` set as by `rank.sum_samples`, of clean stretches.
        full: added to.
        room: written over.
    """
    for number in range(dirty.size):
        if dirty[number]:
            continue
        stop = smaller(number * size + size, ref.size)
        for at in range(number * size, stop, PIECE):
            r, c = ref[at : smaller(at + PIECE, stop)], cand[at : smaller(at + PIECE, stop)]
            wide, errors = room.ref[: r.size], room.errors[: r.size]
            _, top_error, _, _ = widen(r, c, wide, errors)
            count_errors(errors, top_error, room)
            sum_finite(wide, errors, at, width, energies, room.lanes)


@scalar
def widen(
    ref: Numbers, cand: Numbers, wide_ref: Doubles, errors: Doubles
) -> tuple[int, int, int, int]:
    """Write the reference and errors in float64.

    Returns:
        Bits of the largest |ref| and |error|; exponents of powers of two that all |ref|, and all
        |error|, reach that aren't zero.
    """
    top_ref = top_error = np.int64(0)
    low_ref = low_error = np.uint64(0xFFFFFFFFFFFFFFFF)
    for k in range(ref.size):
        r = np.float64(ref[k])
        error = np.float64(cand[k]) - r
        wide_ref[k] = r
        errors[k] = error
        of_ref = bits_of(abs(r))
        of_error = bits_of(abs(error))
        top_ref, top_error = larger(top_ref, of_ref), larger(top_error, of_error)
        low_ref = smaller(low_ref, np.uint64(of_ref - 1))  # zero is larger than all others
        low_error = smaller(low_error, np.uint64(of_error - 1))
    return whole(top_ref), whole(top_error), _reached(low_ref), _reached(low_error)


@scalar
def _reached(bits: Any) -> int:
    """Exponent of a power of two that is at most a number whose bits, less one, are given."""
    field = np.int64(bits >> np.uint64(52))
    if field == 0:
        return -1074
    return whole(smaller(whole(field), 2046) - 1023)


@scalar
def begin_bins(spread: Any) -> None:
    """Before the first errors are counted."""
    spread[0], spread[1], spread[2] = 0, 0x7FFF, 0


@scalar
def count_errors(errors: Doubles, top: int, room: Room) -> None:
    """Count |error| in `room.counts`; `top` has the bits of the largest one."""
    bins, spread = room.bins[: errors.size], room.spread
    zeros, lowest = find_bins(errors, bins)
    spread[0] += zeros
    spread[1], spread[2] = smaller(spread[1], lowest), larger(spread[2], top >> 49)
    count_bins(bins, room.words[: errors.size >> 2], room.counts)


@scalar
def find_bins(errors: Doubles, bins: npt.NDArray[np.uint16]) -> tuple[int, int]:
    """Top bits of each |error|; errors that are zero, and the lowest of the others' bits."""
    zeros = np.int64(0)
    lowest = np.uint16(0xFFFF)
    for k in range(errors.size):
        bits = bits_of(abs(errors[k]))
        top = np.uint16(bits >> 49)
        bins[k] = top
        lowest = smaller(lowest, np.uint16(top - np.uint16(1)))
        zeros += np.int64(bits == 0)
    return whole(zeros), whole(np.uint16(lowest + np.uint16(1)))


@scalar
def count_bins(bins: npt.NDArray[np.uint16], words: npt.NDArray[np.uint64], counts: Counts) -> None:
    """Count bins in four columns in turn, so that equal neighbours don't wait for each other."""
    mask = np.uint64(0xFFFF)
    for k in range(words.size):
        word = words[k]
        counts[(word & mask) << np.uint64(2)] += 1
        counts[((word >> np.uint64(16)) & mask) << np.uint64(2) | np.uint64(1)] += 1
        counts[((word >> np.uint64(32)) & mask) << np.uint64(2) | np.uint64(2)] += 1
        counts[(word >> np.uint64(48)) << np.uint64(2) | np.uint64(3)] += 1
    for k in range(4 * words.size, bins.size):
        counts[np.int64(bins[k]) * 4] += 1


@jit
def collect_bins(counts: Counts, spread: Counts, histogram: Counts) -> None:
    """Move what was counted into `histogram`, `(BINS,)`.

    Its first two bins are zero and the smallest numbers, which begin with the same bits.
    """
    _move_bin(counts, 0, histogram)
    for place in range(larger(spread[1], 1), spread[2] + 1):
        _move_bin(counts, place, histogram)
    histogram[0] += spread[0]
    histogram[1] -= spread[0]


@scalar
def _move_bin(counts: Any, place: int, histogram: Any) -> None:
    for column in range(4 * place, 4 * place + 4):
        histogram[place + 1] += counts[column]
        counts[column] = 0
