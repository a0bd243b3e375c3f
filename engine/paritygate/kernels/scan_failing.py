"""Stretches of samples of which some fail, where every element is finite.

Where few do, the stretches that are suspect are looked at again; where many do, flags are written
in the pass that sums.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from paritygate.kernels._jit import jit, scalar
from paritygate.kernels.elements import Rule
from paritygate.kernels.failing import Failing, keep_failing
from paritygate.kernels.grids import HIGHEST, PIECE, add_units, anchor_of, first_grid
from paritygate.kernels.scalar import allowed
from paritygate.kernels.scan import ABS_E, AGAIN, LARGEST, LEFT, LOOK, SUSPECT, E, near_worst
from paritygate.kernels.typed import bits_of, larger, number_of

_SPARSE = 8  # so many times the elements of failing samples are no more than those of a stretch

Numbers = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
States = npt.NDArray[np.uint8]


@jit
def keep_suspects(
    ref: Numbers,
    cand: Numbers,
    size: int,
    width: int,
    first: int,
    best_error: Doubles,
    best_excess: Doubles,
    pieces: int,
    states: States,
    rule: Rule,
    failing: Failing,
) -> None:
    """Keep the failing samples of stretches that have a suspect piece.

    Suspect pieces that hold no extreme are no longer to be looked at.

    Args:
        ref: as of `scan_floats`.
        cand: the same.
        size: the same.
        width: elements a sample.
        first: number of the first sample.
        best_error: as of `elements.Found`.
        best_excess: the same.
        pieces: pieces a stretch.
        states: as `scan_floats` set them.
        rule: what is tolerated.
        failing: added to.
    """
    worst = min(best_excess[0], LARGEST)
    least, slope, share = near_worst(rule.atol, rule.rtol, best_error[1], worst)
    for number in range(states.size // pieces):
        found = np.uint8(0)
        for piece in range(pieces):
            found |= states[number * pieces + piece]
        if not found & np.uint8(SUSPECT):
            continue
        start = number * size
        stop = min(start + size, ref.size)
        for piece in range(pieces):
            at = start + piece * PIECE
            r, c = ref[at : min(at + PIECE, stop)], cand[at : min(at + PIECE, stop)]
            flags = failing.flags[at - start : at - start + r.size]
            near = np.int64(0)
            for k in range(r.size):
                value = np.float64(r[k])
                error = abs(np.float64(c[k]) - value)
                flags[k] = np.uint8(not error <= allowed(value, rule.atol, rule.rtol))
                is_near = not error < share * allowed(value, least, slope)
                near += np.int64(is_near) + np.int64(error > best_error[0])
            if rule.cap < math.inf:
                for k in range(r.size):
                    error = abs(np.float64(c[k]) - np.float64(r[k]))
                    flags[k] |= np.uint8(not error <= rule.cap) << np.uint8(1)
            if near == 0:
                states[number * pieces + piece] &= np.uint8(AGAIN)
        for k in range(stop - start, (stop - start + 7) & ~7):
            failing.flags[k] = 0
        keep_failing(stop - start, width, first + start // width, rule, failing)


@jit
def scan_failing(
    ref: Numbers,
    cand: Numbers,
    size: int,
    width: int,
    first: int,
    best_error: Doubles,
    best_excess: Doubles,
    guess: int,
    chunks: Counts,
    units: Counts,
    states: States,
    rule: Rule,
    failing: Failing,
) -> int:
    """As `scan.scan_floats`, and keep the samples that fail; no piece is left suspect.

    Args:
        ref: as of `scan_floats`.
        cand: the same.
        size: the same.
        width: elements a sample.
        first: number of the first sample.
        best_error: as of `elements.Found`, of elements before these; there are some.
        best_excess: the same.
        guess: as of `scan_floats`.
        chunks: the same.
        units: the same.
        states: the same.
        rule: what is tolerated.
        failing: added to.

    Returns:
        Elements of these stretches.
    """
    grid = first_grid(guess)
    anchor = anchor_of(grid)
    base = np.float64(anchor).view(np.int64)
    highest = np.int64(min(guess, HIGHEST - 1) + 1022)
    pieces = units.shape[1]
    counted = 0
    for number in range(states.size // pieces):
        start = number * size
        stop = min(start + size, ref.size)
        own = states[number * pieces : (number + 1) * pieces]
        all_states = np.uint8(0)
        for piece in range(pieces):
            at = start + piece * PIECE
            r, c = ref[at : min(at + PIECE, stop)], cand[at : min(at + PIECE, stop)]
            flags = failing.flags[at - start : at - start + r.size]
            top = total = magnitude = left = np.int64(0)
            for k in range(r.size):
                value = np.float64(r[k])
                e = np.float64(c[k]) - value
                bits = bits_of(abs(e))
                top = larger(top, bits)
                flags[k] = np.uint8(not abs(e) <= allowed(value, rule.atol, rule.rtol))
                near = abs(e) + anchor
                total += bits_of(e + anchor)
                magnitude += bits_of(near)
                left |= bits_of(near - anchor) ^ bits
            error = number_of(top)
            if not error <= rule.cap:
                for k in range(r.size):
                    error_k = abs(np.float64(c[k]) - np.float64(r[k]))
                    flags[k] |= np.uint8(not error_k <= rule.cap) << np.uint8(1)
            state = np.uint8(LOOK if error > best_error[0] else 0)
            if (top >> 52) > highest or left != 0:
                state |= np.uint8(AGAIN)
            if not (error < math.inf and (top >> 52) < HIGHEST + 1022):
                state = np.uint8(LEFT)
            own[piece] = state
            units[0, piece], units[1, piece] = total - r.size * base, magnitude - r.size * base
            all_states |= state
        if all_states & np.uint8(LEFT):
            for piece in range(pieces):
                own[piece] = LEFT
            continue
        counted += stop - start
        for piece in range(pieces):
            if not own[piece] & np.uint8(AGAIN):
                add_units(chunks[E], units[0, piece], grid)
                add_units(chunks[ABS_E], units[1, piece], grid)
        for k in range(stop - start, (stop - start + 7) & ~7):
            failing.flags[k] = 0
        before = failing.total[0]
        keep_failing(stop - start, width, first + start // width, rule, failing)
        rows = failing.rows[before : failing.total[0]]
        _find_worse(
            ref[start:stop], cand[start:stop], width, first + start // width, rows,
            best_error, best_excess, own, rule,
        )  # fmt: skip
    return counted


@scalar
def _find_worse(
    ref: Any, cand: Any, width: int, first: int, rows: Any, best_error: Any, best_excess: Any,
    states: Any, rule: Any,
) -> None:  # fmt: skip
    """Find pieces of a stretch that may hold an excess worse than the worst so far.

    Where that is above 1, only samples that fail can; few of them are looked at one by one.
    """
    worst = min(best_excess[0], LARGEST)
    lowest, slope, share = near_worst(rule.atol, rule.rtol, best_error[1], worst)
    is_sparse = worst > 1.0 and _SPARSE * rows.size * width <= ref.size
    for number in range(rows.size if is_sparse else states.size):
        at, step = number * PIECE, PIECE
        if is_sparse:
            at, step = (rows[number] - first) * width, width
        r, c = ref[at : min(at + step, ref.size)], cand[at : min(at + step, ref.size)]
        below = np.int64(-1)
        for k in range(r.size):
            value = np.float64(r[k])
            bits = bits_of(abs(np.float64(c[k]) - value))
            below &= bits - bits_of(share * allowed(value, lowest, slope))  # ordered like numbers
        if below >= 0:
            states[0 if is_sparse else number] |= np.uint8(LOOK)
