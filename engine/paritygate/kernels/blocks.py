"""A block of floats in one call: scanned in parts that stay in the processor's cache.

What a part's scan asks, and what the tier "full" measures, follows at once, without a return to
Python: a call that gives the GIL back waits for it again, beside a thread that has it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from paritygate.kernels import measures, rank, scan, scan_failing, scan_full, steps
from paritygate.kernels._jit import jit, scalar
from paritygate.kernels.elements import Found, Rule
from paritygate.kernels.failing import Failing
from paritygate.kernels.grids import HIGHEST
from paritygate.kernels.linked import linked
from paritygate.kernels.measures import Full, Room, begin_bins
from paritygate.kernels.typed import smaller

_ENOUGH = 16  # stretches that say whether more are worth a scan

Numbers = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

_scan_floats = linked(scan.scan_floats)
_scan_full = linked(scan_full.scan_full)
_look = linked(scan.look)
_sum_again = linked(scan.sum_again)
_keep_suspects = linked(scan_failing.keep_suspects)
_scan_failing = linked(scan_failing.scan_failing)
_measure_wide = linked(measures.measure_wide)
_measure_narrow = linked(measures.measure_narrow)
_collect_bins = linked(measures.collect_bins)
_add_samples = linked(measures.add_samples)
_keep_steps = linked(steps.keep_steps)
_rank_samples = linked(rank.rank_samples)


class Layout(NamedTuple):
    """How a block is cut.

    Attributes:
        width: elements a sample, at least 1.
        samples: samples a stretch.
        pieces: pieces of `grids.PIECE` elements a stretch.
        most: stretches of a part.
        first: number of the first sample.
    """

    width: int
    samples: int
    pieces: int
    most: int
    first: int


class Sums(NamedTuple):
    """Sums of e, |e|, e^2, r^2 and r*e, and what they are made with.

    Attributes:
        chunks: `(5, CHUNKS)`, added to.
        guess: `(1,)` exponent that errors are expected to lie below; written over.
        units: `(2, pieces)`, written over.
        states: `(most * pieces,)`, written over.
        errors: `(PIECE,)`, written over.
        rest: the same.
    """

    chunks: Counts
    guess: Counts
    units: Counts
    states: npt.NDArray[np.uint8]
    errors: Doubles
    rest: Doubles


class Measured(NamedTuple):
    """What the tier "full" adds to, and what it writes over."""

    into: Full
    room: Room


class Steps(NamedTuple):
    """Distances in steps of a dtype; as of `steps.keep_steps`.

    Attributes:
        ref: bits of the block's values.
        cand: the same of the candidate.
        floor: bits of the smallest |ref| of the second kind.
        best_at: `(2, 2)`.
        best: `(2,)`.
    """

    ref: Numbers
    cand: Numbers
    floor: int
    best_at: Counts
    best: npt.NDArray[np.uint64]


class Ranks(NamedTuple):
    """Samples ranked; as of `rank.rank_samples`.

    Attributes:
        ordinals: of all samples.
        undefined: `(2,)`.
        best_at: `(2,)`.
        best: `(2, 3)`.
        energies: `(3, samples of a part)`, written over.
    """

    ordinals: Counts
    undefined: Counts
    best_at: Counts
    best: Doubles
    energies: Doubles


@jit
def scan_block(
    ref: Numbers,
    cand: Numbers,
    layout: Layout,
    rule: Rule,
    found: Found,
    sums: Sums,
    failing: Failing,
    dirty: npt.NDArray[np.bool_],
    full: Measured | None,
    ranks: Ranks | None,
    apart: Steps | None,
) -> None:
    """Count what is finite of a block of samples.

    Args:
        ref: flat values, float32 or float64.
        cand: the same of the candidate, of the same dtype.
        layout: how they are cut.
        rule: what is tolerated; no bound of a finite value is infinite.
        found: extremes and classes, added to; extremes so far are of samples before these.
        sums: added to.
        failing: samples that fail, added to.
        dirty: `(stretches,)`, set for those that are not finite or come after too many of them, of
            which nothing is counted.
        full: what the tier "full" adds to; None: nothing.
        ranks: where samples are ranked by it.
        apart: where steps are counted by it.
    """
    size = layout.width * layout.samples
    at, most, unclean, many_fail = 0, 1, 0, False
    if full is not None:
        begin_bins(full.room.spread)
    while at < dirty.size:
        count = smaller(most, dirty.size - at)
        part = slice(at * size, smaller((at + count) * size, ref.size))
        r, c, first = ref[part], cand[part], layout.first + at * layout.samples
        states = sums.states[: count * layout.pieces]
        is_measured = False
        if many_fail:
            found.classes[0, 0] += _scan_failing(
                r, c, size, layout.width, first, found.best_error, found.best_excess,
                sums.guess[0], sums.chunks, sums.units, states, rule, failing,
            )  # fmt: skip
        elif full is not None and apart is not None and layout.pieces == 1:
            is_measured = True
            energies = None if ranks is None else ranks.energies
            found.classes[0, 0] += _scan_full(
                r, c, size, rule, found, apart.floor, apart.best_at, apart.best, sums.chunks,
                full.into, full.room, states, energies, layout.width,
            )  # fmt: skip
            if apart.ref.itemsize == ref.itemsize and _all_of(states) & scan_full.STEPS:
                _look_at_steps(apart, part, layout, first, states, dirty[at : at + count])
        else:
            found.classes[0, 0] += _scan_floats(
                r, c, size, rule.atol, rule.rtol, rule.cap, found.best_at, found.best_error,
                found.best_excess, sums.guess[0], sums.chunks, sums.units, states,
            )  # fmt: skip
        asked = _all_of(states)
        if asked & (scan.LOOK | scan.SUSPECT):
            # What is asked first answers most of the other: before anything failed, whether it may.
            is_late = found.best_excess[0] > 1.0
            for turn in range(2):
                if (turn == 0) == is_late and _all_of(states) & scan.SUSPECT:
                    many_fail = count > 1 and 2 * _suspects(states) > states.size
                    _keep_suspects(
                        r, c, size, layout.width, first, found.best_error, found.best_excess,
                        layout.pieces, states, rule, failing,
                    )  # fmt: skip
                if (turn == 1) == is_late and _all_of(states) & scan.LOOK:
                    _look(
                        r, c, size, layout.width, first, rule.atol, rule.rtol, rule.cap,
                        found.best_at, found.best_error, found.best_excess, layout.pieces, states,
                    )  # fmt: skip
        if asked & scan.AGAIN:
            exponent = _sum_again(
                r, c, size, sums.chunks, layout.pieces, states, sums.errors, sums.rest
            )
            # Room for a little growth where they grew, as fine as can be where it was too coarse.
            sums.guess[0] = smaller(exponent + (exponent > sums.guess[0]), HIGHEST - 1)
        left = dirty[at : at + count]
        if asked & scan.LEFT:
            for number in range(count):
                left[number] = (states[number * layout.pieces] & scan.LEFT) != 0
                unclean += left[number]
        if full is not None:
            if ranks is not None:
                if not is_measured:
                    _measure_wide(
                        r, c, size, layout.width, left, ranks.energies, full.into, full.room
                    )
                _rank(ranks, layout.samples, r.size // layout.width, first, left, full.into)
            elif not is_measured:
                _measure_narrow(r, c, size, left, full.into, full.room)
            if apart is not None and not (is_measured and apart.ref.itemsize == ref.itemsize):
                _keep_steps(
                    apart.ref[part], apart.cand[part], layout.width, first, layout.samples,
                    left, apart.floor, apart.best_at, apart.best,
                )  # fmt: skip
        at += count
        most = smaller(2 * most, layout.most)
        if 2 * unclean > at and at >= _ENOUGH:
            dirty[at:] = True
            break
    if full is not None:
        _collect_bins(full.room.counts, full.room.spread, full.into.histogram)


@scalar
def _all_of(states: Any) -> Any:
    asked = np.uint8(0)
    for k in range(states.size):
        asked |= states[k]
    return asked


@scalar
def _look_at_steps(apart: Any, part: Any, layout: Any, first: int, states: Any, clean: Any) -> None:
    """Look for the largest distances in stretches that may hold them; `clean` is all false."""
    for number in range(states.size):
        if not states[number] & scan_full.STEPS:
            continue
        start = part.start + number * layout.samples * layout.width
        own = slice(start, smaller(start + layout.samples * layout.width, part.stop))
        _keep_steps(
            apart.ref[own], apart.cand[own], layout.width, first + number * layout.samples,
            layout.samples, clean[number : number + 1], apart.floor, apart.best_at, apart.best,
        )  # fmt: skip


@scalar
def _suspects(states: Any) -> int:
    found = 0
    for k in range(states.size):
        found += 1 if states[k] & scan.SUSPECT else 0
    return found


@scalar
def _rank(ranks: Any, step: int, samples: int, start: int, left: Any, full: Any) -> None:
    """Rank the samples of clean stretches, and add up their energies."""
    number = 0
    while number < left.size:
        if left[number]:
            number += 1
            continue
        first = number * step
        while number < left.size and not left[number]:
            number += 1
        last = smaller(number * step, samples)
        _rank_samples(
            ranks.energies, first, last - first, start, ranks.ordinals,
            ranks.undefined, ranks.best_at, ranks.best,
        )  # fmt: skip
        for row in range(3):
            _add_samples(ranks.energies[row, first:last], full.sums[row], full.lost, row)
