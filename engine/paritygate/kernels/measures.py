"""What the tier "full" measures of clean stretches, beyond what the scan counts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from paritygate.kernels._jit import jit, scalar
from paritygate.kernels.grids import (
    HIGHEST,
    PIECE,
    add_each,
    add_products,
    add_terms,
    exponent_of,
)
from paritygate.kernels.rank import rank_samples, sum_finite

EE, RR, RE = 0, 1, 2  # rows of `sums`

Numbers = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


class Full(NamedTuple):
    """What is added to.

    Attributes:
        ranked: whether samples are wide enough to be ranked; then their sums are summed.
        histogram: `(BINS,)` of |e|.
        sums: `(3, CHUNKS)` sums of e^2, r^2 and r*e.
        lost: `(3,)` terms of these that are not finite.
        rank_undefined, rank_at, rank: as `rank.rank_samples` has them.
    """

    ranked: bool
    histogram: Counts
    sums: Counts
    lost: Counts
    rank_undefined: Counts
    rank_at: Counts
    rank: Doubles


class Room(NamedTuple):
    """What is written over.

    Attributes:
        ref, errors, terms: `(PIECE,)`.
        bins: `(PIECE,)` of a piece's errors; `words` is the same memory, four a word.
        counts: `(4 * 2^14,)`, all zero between two calls.
        energies: `(3, PIECE)`.
        lanes: `(24,)`.
    """

    ref: Doubles
    errors: Doubles
    terms: Doubles
    bins: npt.NDArray[np.uint16]
    words: npt.NDArray[np.uint64]
    counts: Counts
    energies: Doubles
    lanes: Doubles


@jit
def measure_floats(
    ref: Numbers,
    cand: Numbers,
    width: int,
    start: int,
    samples: int,
    ordinals: Counts,
    dirty: npt.NDArray[np.bool_],
    full: Full,
    room: Room,
) -> None:
    """Measure the clean stretches of some samples.

    Args:
        ref: flat values of these samples, of one dtype with those of `cand`.
        cand: the same of the candidate.
        width: elements a sample, at least 1.
        start: number of the first sample.
        samples: samples a stretch.
        ordinals: of all samples.
        dirty: `(stretches,)` those that are left out.
        full: added to.
        room: written over.
    """
    size = samples * width
    zeros, lowest, highest = 0, 0x7FFF, 0
    for number in range(dirty.size):
        if dirty[number]:
            continue
        base = number * size
        stop = min(base + size, ref.size)
        for at in range(base, stop, PIECE):
            r, c = ref[at : min(at + PIECE, stop)], cand[at : min(at + PIECE, stop)]
            wide_ref, errors = room.ref[: r.size], room.errors[: r.size]
            top_ref, top_error = widen(r, c, wide_ref, errors)
            none, low = find_bins(errors, room.bins[: r.size])
            zeros, lowest = zeros + none, min(lowest, low)
            highest = max(highest, top_error >> 49)
            count_bins(room.bins[: r.size], room.words[: r.size >> 2], room.counts)
            if full.ranked:
                sum_finite(wide_ref, errors, at - base, width, room.energies, room.lanes)
            else:
                add_energies(wide_ref, errors, top_ref, top_error, full, room.terms)
        if full.ranked:
            here = (stop - base) // width
            first = start + number * samples
            rank_samples(
                room.energies, here, first, ordinals,
                full.rank_undefined, full.rank_at, full.rank,
            )  # fmt: skip
            add_samples(room.energies[0, :here], full.sums, full.lost, RR)
            add_samples(room.energies[1, :here], full.sums, full.lost, EE)
            add_samples(room.energies[2, :here], full.sums, full.lost, RE)
    collect_bins(room.counts, zeros, lowest, highest, full.histogram)


@jit
def widen(ref: Numbers, cand: Numbers, wide_ref: Doubles, errors: Doubles) -> tuple[int, int]:
    """Write the reference and errors in float64; bits of the largest |ref| and |error|."""
    top_ref = top_error = np.int64(0)
    for k in range(ref.size):
        r = np.float64(ref[k])
        error = np.float64(cand[k]) - r
        wide_ref[k] = r
        errors[k] = error
        top_ref = max(top_ref, np.float64(abs(r)).view(np.int64))
        top_error = max(top_error, np.float64(abs(error)).view(np.int64))
    return int(top_ref), int(top_error)


@jit
def find_bins(errors: Doubles, bins: npt.NDArray[np.uint16]) -> tuple[int, int]:
    """Top bits of each |error|; errors that are zero, and the lowest of the others' bits."""
    zeros = np.int64(0)
    lowest = np.uint16(0xFFFF)
    for k in range(errors.size):
        bits = np.float64(abs(errors[k])).view(np.int64)
        top = np.uint16(bits >> 49)
        bins[k] = top
        lowest = min(lowest, np.uint16(top - np.uint16(1)))
        zeros += np.int64(bits == 0)
    return int(zeros), int(np.uint16(lowest + np.uint16(1)))


@jit
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
def collect_bins(counts: Counts, zeros: int, lowest: int, highest: int, histogram: Counts) -> None:
    """Move what was counted into `histogram`; below the lowest bin there is only bin 0."""
    _move(counts, 0, histogram)
    histogram[0] += zeros
    histogram[1] -= zeros
    for top in range(max(lowest, 1), highest + 1):
        _move(counts, top, histogram)


@scalar
def _move(counts: Any, top: int, histogram: Any) -> None:
    for column in range(4):
        histogram[top + 1] += counts[4 * top + column]
        counts[4 * top + column] = 0


@jit
def add_energies(
    ref: Doubles, errors: Doubles, top_ref: int, top_error: int, full: Full, terms: Doubles
) -> None:
    """Add r^2, e^2 and r*e of each element, exactly."""
    of_ref, of_error = exponent_of(top_ref), exponent_of(top_error)
    full.lost[RR] += add_products(ref, ref, 2 * of_ref, full.sums[RR], terms)
    if top_error > 0:
        full.lost[EE] += add_products(errors, errors, 2 * of_error, full.sums[EE], terms)
        full.lost[RE] += add_products(ref, errors, of_ref + of_error, full.sums[RE], terms)


@jit
def add_samples(terms: Doubles, sums: Counts, lost: Counts, row: int) -> None:
    """Add sums of samples to a row of `sums`, exactly; they are written over."""
    for at in range(0, terms.size, PIECE):
        part = terms[at : at + PIECE]
        top = np.int64(0)
        for k in range(part.size):
            top = max(top, np.float64(abs(part[k])).view(np.int64))
        exponent = exponent_of(int(top))
        if exponent < HIGHEST:
            add_terms(part, exponent, sums[row])
        else:
            lost[row] += add_each(part, sums[row])
