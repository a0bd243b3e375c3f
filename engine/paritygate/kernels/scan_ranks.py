"""Largest classes of whole blocks of rows: what is usual is counted.

A row is usual where the maximum of the reference is one class alone, and that class is alone at the
top of the candidate too; likewise the first k. It is proved by counting the scores that aren't
below it, among which a NaN is. Whatever else there is, is listed and left to `kernels.decisions`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from paritygate.kernels._jit import jit, scalar
from paritygate.kernels.scalar import allowed, bin_of

TILE, STRIDE = 256, 272  # a stride of no power of two: such share a place in the cache
_FAR, _NEAR, _UNUSUAL = 0, 1, 2
# Above what the roundings of a bound, and of it to a score, can do.
_RELATIVE, _ABSOLUTE = 1e-6, 1e-37

Scores = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]
Places = npt.NDArray[np.int32]


class Counts(NamedTuple):
    """What is found out about usual rows, added to.

    Attributes:
        classes: `(width,)` rows by their class.
        risk: `(1,)` rows at risk.
        least: `(1,)` smallest margin.
        least_at: `(1,)` the first row that has it; -1 before there is one.
        margins: bins of margins; empty if not wanted.
    """

    classes: Ints
    risk: Ints
    least: Doubles
    least_at: Ints
    margins: Ints


@jit
def scan_argmax(
    ref: Scores,
    bits: Scores,
    cand: Scores,
    width: int,
    atol: float,
    rtol: float,
    counts: Counts,
    listed: Ints,
) -> int:
    """Count the usual rows, and list the others.

    Args:
        ref: `(n * width,)` float32 or float64, row after row.
        bits: the same memory as signed integers.
        cand: as `ref`.
        width: classes in a row, at least 2.
        atol: absolute tolerance.
        rtol: tolerance relative to |ref|.
        counts: added to.
        listed: `(n,)` written: the rows that aren't usual, ascending.

    Returns:
        How many are listed.
    """
    found = 0
    is_full = counts.margins.size > 0
    near, slope = _reach(atol, rtol)
    for i in range(listed.size):
        at = i * width
        r, b, c = ref[at : at + width], bits[at : at + width], cand[at : at + width]
        code, top, second = _rank(r, b, is_full, counts.least[0], near, slope)
        if code < 0 or not _is_top(c, code):
            listed[found] = i
            found += 1
            continue
        counts.classes[code] += 1
        if second == second:
            _measure(top, second, i, atol, rtol, counts)
    return found


@scalar
def _rank(r: Any, bits: Any, is_full: bool, least: float, near: float, slope: float) -> Any:
    """Class of the maximum, -1 where it isn't one alone; the maximum; and the runner-up.

    The runner-up is NaN where it is proved to be too far away to matter.
    """
    top = largest(bits)
    score = r.dtype.type(top)
    if not is_full:
        cut = top - max(least, near + slope * abs(top))
        cut -= abs(cut) * _RELATIVE + _ABSOLUTE
        times, place = count_from(r, r.dtype.type(cut))
        if times == 1:
            return np.int64(place), top, np.nan
    times, place = count_from(r, score)
    if times != 1:
        return np.int64(-1), top, np.nan
    return np.int64(place), top, largest_below(r, bits, score)


@scalar
def _reach(atol: float, rtol: float) -> Any:
    """A lead m beyond which tolerance can't span it, constant and share of the maximum.

    From m <= 2 atol + rtol (|top| + |top| + m).
    """
    share = 2.0 / (1.0 - rtol) * (1.0 + _RELATIVE)
    return atol * share, rtol * share


@scalar
def _value(bits: int, itemsize: int) -> float:
    if itemsize == 4:
        return np.float64(np.int32(bits).view(np.float32))
    return np.float64(np.int64(bits).view(np.float64))


@scalar
def largest(bits: Any) -> float:
    """The largest number: of positive ones that of the largest bits, else of the smallest."""
    high = low = bits[0]
    for k in range(bits.size):
        high = max(high, bits[k])
        low = min(low, bits[k])
    return _value(high if high >= 0 else low, bits.itemsize)


@scalar
def largest_below(r: Any, bits: Any, top: Any) -> float:
    """The largest of those below one; NaN where there is none."""
    lowest = bits.dtype.type(1 << (8 * bits.itemsize - 1))
    highest = bits.dtype.type(~lowest)
    high, low = lowest, highest
    for k in range(bits.size):
        is_below = r[k] < top
        high = max(high, bits[k] if is_below else lowest)
        low = min(low, bits[k] if is_below else highest)
    return _value(high if high >= 0 else low, bits.itemsize)


@scalar
def count_from(r: Any, cut: Any) -> Any:
    """How many scores aren't below one, and the sum of their places."""
    times = place = np.int32(0)
    for k in range(r.size):
        is_up = not r[k] < cut
        times = np.int32(times + np.int32(is_up))
        place = np.int32(place + (np.int32(k) if is_up else np.int32(0)))
    return times, place


@scalar
def _is_top(c: Any, code: int) -> bool:
    """Whether all other scores are proved to be below that of a class."""
    return bool(count_not_below(c, c[code]) == 1)


@scalar
def count_not_below(scores: Any, score: Any) -> Any:
    """How many aren't proved to be below a score."""
    times = np.int32(0)
    for k in range(scores.size):
        times = np.int32(times + np.int32(not scores[k] < score))
    return times


@scalar
def _measure(top: float, second: float, row: int, atol: float, rtol: float, counts: Counts) -> None:
    margin = top - second
    bound = allowed(top, atol, rtol) + allowed(second, atol, rtol)
    note_margin(margin, margin < np.inf and margin <= bound, row, counts)


@scalar
def note_margin(margin: float, is_risk: bool, row: int, counts: Counts) -> None:
    """Count the margin of a usual row."""
    if counts.margins.size > 0:
        counts.margins[bin_of(margin)] += 1
    counts.risk[0] += np.int64(is_risk)
    if margin < counts.least[0]:
        counts.least[0] = margin
        counts.least_at[0] = row


class Tile(NamedTuple):
    """Some rows with their classes apart, and what is found out about each row.

    Attributes:
        ref, cand: `(width * STRIDE,)`, class after class.
        top, second: `(TILE,)` of the reference.
        place, times: `(TILE,)` int32: class of the maximum, and how many scores aren't below it.
        other, others: the candidate's score of that class, and how many aren't below that.
        state: `(TILE,)` what is to be done with the row.
    """

    ref: Scores
    cand: Scores
    top: Scores
    second: Scores
    place: Places
    times: Places
    other: Scores
    others: Places
    state: Places


@jit
def scan_argmax_narrow(
    ref: Scores,
    cand: Scores,
    width: int,
    atol: float,
    rtol: float,
    counts: Counts,
    tile: Tile,
    listed: Ints,
) -> int:
    """The same for rows of few classes: many rows at once, `tile` is written over."""
    found = 0
    is_full = counts.margins.size > 0
    near, slope = _reach(atol, rtol)
    for first in range(0, listed.size, TILE):
        rows = min(TILE, listed.size - first)
        part = slice(first * width, (first + rows) * width)
        _set_apart(ref[part], width, rows, tile.ref)
        _set_apart(cand[part], width, rows, tile.cand)
        _rank_tile(tile, width, rows)
        state, place = tile.state[:rows], tile.place
        least = np.inf if is_full else counts.least[0]
        _sort_out(state, tile, least, near, slope)
        for k in range(state.size):
            if state[k] == _UNUSUAL:
                listed[found] = first + k
                found += 1
                continue
            counts.classes[np.uint64(place[k])] += 1
            if state[k] == _NEAR:
                top, second = np.float64(tile.top[k]), np.float64(tile.second[k])
                _measure(top, second, first + k, atol, rtol, counts)
    return found


@scalar
def _sort_out(state: Any, tile: Tile, least: float, near: float, slope: float) -> None:
    top, second, times, others = tile.top, tile.second, tile.times, tile.others
    for k in range(state.size):
        lead = np.float64(top[k]) - np.float64(second[k])
        reach = near + slope * abs(np.float64(top[k]))
        is_far = (lead > reach) & (lead > least)
        is_usual = (times[k] == 1) & (others[k] == 1)
        state[k] = np.int32((_FAR if is_far else _NEAR) if is_usual else _UNUSUAL)


@scalar
def _set_apart(values: Any, width: int, rows: int, into: Any) -> None:
    for j in range(width):
        scores = into[j * STRIDE : j * STRIDE + rows]
        for k in range(scores.size):
            scores[k] = values[np.uint64(k * width + j)]


@scalar
def _rank_tile(tile: Tile, width: int, rows: int) -> None:
    top, second, place, times = tile.top[:rows], tile.second[:rows], tile.place, tile.times
    other, others = tile.other, tile.others
    for k in range(rows):
        top[k] = tile.ref[k]
        second[k] = -np.inf
    for j in range(1, width):
        _rank_class(tile.ref[j * STRIDE : j * STRIDE + rows], top, second)
    for k in range(rows):
        times[k] = 0
        others[k] = 0
    for j in range(width):
        _find_class(tile.ref[j * STRIDE : j * STRIDE + rows], top, np.int32(j), place, times)
    for j in range(width):
        _take_class(tile.cand[j * STRIDE : j * STRIDE + rows], np.int32(j), place, other)
    for j in range(width):
        _count_class(tile.cand[j * STRIDE : j * STRIDE + rows], other, others)


@scalar
def _rank_class(scores: Any, top: Any, second: Any) -> None:
    for k in range(scores.size):
        score, best = scores[k], top[k]
        is_above = score > best
        lower = best if is_above else score
        top[k] = score if is_above else best
        second[k] = lower if lower > second[k] else second[k]


@scalar
def _find_class(scores: Any, top: Any, index: Any, place: Any, times: Any) -> None:
    for k in range(scores.size):
        is_up = not scores[k] < top[k]
        place[k] = index if is_up else place[k]
        times[k] += np.int32(is_up)


@scalar
def _take_class(scores: Any, index: Any, place: Any, other: Any) -> None:
    for k in range(scores.size):
        score, before = scores[k], other[k]
        other[k] = score if place[k] == index else before


@scalar
def _count_class(scores: Any, other: Any, others: Any) -> None:
    for k in range(scores.size):
        others[k] += np.int32(not scores[k] < other[k])
