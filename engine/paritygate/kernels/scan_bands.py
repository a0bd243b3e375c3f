"""Bands of whole stretches of scores: what is usual is counted without a look at any one of them.

A score is usual where both sides fall into the same band under either `compare_as` and neither is
NaN. Whatever else there is, is listed and left to `kernels.decisions`. Scores are compared in their
own dtype, which is exact: a score has passed an edge where it is at least the lowest that has.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from paritygate.kernels._jit import jit, scalar
from paritygate.kernels.scalar import allowed, bin_of

STRETCH = 2048
FIRST = 64  # scores of the first stretch: it only brings the windows close to the edges
_NEAR, _ODD = 1, 2

Scores = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Edges(NamedTuple):
    """Edges of a rule, of which `(k,)` arrays are in the scores' dtype; NaN makes k even.

    Attributes:
        exact: `(edges,)` float64, as they are compared.
        passed: `(k,)` the lowest score that has passed the edge.
        switched: `(k,)` the only score that the other `compare_as` puts on the other side; or NaN.
        risky: `(2, k)` all scores at risk by the edge lie between these; infinities the wrong way
            round for none.
    """

    exact: Doubles
    passed: Scores
    switched: Scores
    risky: Scores


class Counts(NamedTuple):
    """What is found out about usual scores, added to.

    Attributes:
        passes: `(k,)` reference scores that have passed each edge.
        on: `(edges,)` those that equal it.
        nearest: `(2 * edges,)` smallest distance below and above each edge in turn.
        window: `(2, k)` in the scores' dtype: only between these is a score that comes nearer to
            the edge, equals it or is at risk by it.
        risk: `(1,)` scores at risk.
        least: `(1,)` smallest margin.
        least_at: `(1,)` the first score that has it; -1 before there is one.
        margins: bins of margins, with room for those of NaN at the end; empty if not wanted.
    """

    passes: Ints
    on: Ints
    nearest: Doubles
    window: Scores
    risk: Ints
    least: Doubles
    least_at: Ints
    margins: Ints


class Room(NamedTuple):
    """Flags of a stretch, as bytes and as the same memory in words; and margins."""

    flags: npt.NDArray[np.uint8]
    words: npt.NDArray[np.uint64]
    margins: Doubles


@jit
def scan_bands(
    ref: Scores,
    cand: Scores,
    edges: Edges,
    atol: float,
    rtol: float,
    counts: Counts,
    room: Room,
    listed: Ints,
) -> int:
    """Count the usual scores, and list the others.

    Args:
        ref: `(n,)` of one dtype with `cand`.
        cand: `(n,)`.
        edges: of the rule.
        atol: absolute tolerance.
        rtol: tolerance relative to |ref|.
        counts: added to.
        room: written over.
        listed: `(n,)` written: places of the scores that aren't usual, ascending.

    Returns:
        How many are listed.
    """
    found = 0
    base = 0
    while base < ref.size:
        size = FIRST if base == 0 else STRETCH
        r, c = ref[base : base + size], cand[base : base + size]
        near = odd = 0
        for k in range(0, edges.passed.size, 2):
            first, second, is_near, is_odd = _look(
                r, c, edges.passed[k], edges.passed[k + 1],
                edges.switched[k], edges.switched[k + 1],
                counts.window[0, k], counts.window[1, k],
                counts.window[0, k + 1], counts.window[1, k + 1],
            )  # fmt: skip
            counts.passes[k] += first
            counts.passes[k + 1] += second
            near += is_near
            odd += is_odd
        if counts.margins.size > 0:
            _measure(r, edges.exact, room.margins)
            _count(room.margins[: r.size], counts.margins)
        if near + odd > 0:
            found = _take(r, c, base, edges, atol, rtol, counts, room, listed, found)
        base += size
    return found


@scalar
def _look(
    ref: Any, cand: Any, p0: Any, p1: Any, x0: Any, x1: Any, lo0: Any, hi0: Any, lo1: Any, hi1: Any
) -> Any:
    """By two edges: passes of each, scores within their windows, scores that aren't usual."""
    first = second = near = odd = np.int32(0)
    for k in range(ref.size):
        r, c = ref[k], cand[k]
        r0, r1 = r >= p0, r >= p1
        first = np.int32(first + np.int32(r0))
        second = np.int32(second + np.int32(r1))
        near = np.int32(near + np.int32(_is_near(r, lo0, hi0, lo1, hi1)))
        odd = np.int32(odd + np.int32(_is_odd(r, c, r0, r1, p0, p1, x0, x1)))
    return first, second, near, odd


@scalar
def _is_near(r: Any, lo0: Any, hi0: Any, lo1: Any, hi1: Any) -> bool:
    return bool(((r > lo0) & (r < hi0)) | ((r > lo1) & (r < hi1)))


@scalar
def _is_odd(r: Any, c: Any, r0: bool, r1: bool, p0: Any, p1: Any, x0: Any, x1: Any) -> bool:
    moves = (r0 != (c >= p0)) | (r1 != (c >= p1))
    switches = (r == x0) | (r == x1) | (c == x0) | (c == x1)
    return bool(moves | switches | (r != r) | (c != c))


@scalar
def _mark(
    ref: Any, cand: Any, p0: Any, p1: Any, x0: Any, x1: Any, lo0: Any, hi0: Any, lo1: Any, hi1: Any,
    flags: Any,
) -> None:  # fmt: skip
    for k in range(ref.size):
        r, c = ref[k], cand[k]
        near = _is_near(r, lo0, hi0, lo1, hi1)
        odd = _is_odd(r, c, r >= p0, r >= p1, p0, p1, x0, x1)
        flags[k] |= np.uint8(np.uint8(near) | (np.uint8(odd) << np.uint8(1)))


@jit
def _take(
    ref: Any,
    cand: Any,
    base: int,
    edges: Edges,
    atol: float,
    rtol: float,
    counts: Counts,
    room: Room,
    listed: Ints,
    found: int,
) -> int:
    """Look at the scores of a stretch that are near an edge, and list those that aren't usual."""
    flags, words = room.flags, room.words
    for k in range(flags.size):
        flags[k] = 0
    for k in range(0, edges.passed.size, 2):
        _mark(
            ref, cand, edges.passed[k], edges.passed[k + 1],
            edges.switched[k], edges.switched[k + 1],
            counts.window[0, k], counts.window[1, k],
            counts.window[0, k + 1], counts.window[1, k + 1],
            flags[: ref.size],
        )  # fmt: skip
    for word in range(words.size):
        if words[word] == 0:
            continue
        for k in range(8 * word, 8 * word + 8):
            if flags[k] & _ODD:
                _leave_out(ref[k], edges, counts)
                listed[found] = base + k
                found += 1
            elif flags[k] & _NEAR:
                _come_near(ref[k], base + k, edges, atol, rtol, counts)
    return found


@jit
def _leave_out(score: Any, edges: Edges, counts: Counts) -> None:
    """Take a score that isn't usual out of what was counted of its stretch."""
    for k in range(edges.exact.size):
        if score >= edges.passed[k]:
            counts.passes[k] -= 1
    if counts.margins.size > 0:
        margin = abs(np.float64(score) - edges.exact[0])
        for k in range(1, edges.exact.size):
            margin = _lower(margin, abs(np.float64(score) - edges.exact[k]))
        counts.margins[bin_of(margin)] -= 1


@jit
def _come_near(score: Any, at: int, edges: Edges, atol: float, rtol: float, counts: Counts) -> None:
    """Count a usual score by its edges, and draw their windows closer."""
    wide = np.float64(score)
    margin = np.inf
    for k in range(edges.exact.size):
        gap = edges.exact[k] - wide
        margin = _lower(margin, abs(gap))
        if gap == 0.0:
            counts.on[k] += 1
        elif gap > 0.0 and gap <= counts.nearest[2 * k]:
            counts.nearest[2 * k] = gap
            counts.window[0, k] = _lower(max(counts.window[0, k], score), edges.risky[0, k])
        elif gap < 0.0 and -gap <= counts.nearest[2 * k + 1]:
            counts.nearest[2 * k + 1] = -gap
            higher = min(counts.window[1, k], score)
            counts.window[1, k] = higher if higher > edges.risky[1, k] else edges.risky[1, k]
    if margin < np.inf and margin <= allowed(wide, atol, rtol):
        counts.risk[0] += 1
    if margin < counts.least[0]:
        counts.least[0] = margin
        counts.least_at[0] = at


@scalar
def _lower(ours: Any, theirs: Any) -> Any:
    return theirs if theirs < ours else ours


@scalar
def _measure(ref: Any, edges: Any, margins: Any) -> None:
    for k in range(ref.size):
        margins[k] = abs(np.float64(ref[k]) - edges[0])
    for e in range(1, edges.size):
        edge = edges[e]
        for k in range(ref.size):
            margins[k] = _lower(margins[k], abs(np.float64(ref[k]) - edge))


@scalar
def _count(margins: Any, bins: Any) -> None:
    for k in range(margins.size):
        bins[bin_of(margins[k])] += 1
