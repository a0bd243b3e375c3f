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
from paritygate.kernels.typed import add, both, differing, either, own_bits, sign_of, whole

STRETCH = 2048
FIRST = 64  # scores of the first stretch: it only brings the windows close to the edges
_NEAR, _ODD = 1, 2

Scores = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Edges(NamedTuple):
    """Edges of a rule, of which `(k,)` arrays are in the scores' dtype.

    Attributes:
        exact: `(edges,)` float64, as they are compared.
        passed: `(k,)` the lowest score that has passed the edge.
        switched: `(k,)` the only score that the other `compare_as` puts on the other side; or NaN.
        either: `(2, k)` finite, no +0: scores below the first are below the edge under either
            `compare_as`, those from the second on have passed it.
        risky: `(2, k)` all scores at risk by the edge lie between these; infinities the wrong way
            round for none.
    """

    exact: Doubles
    passed: Scores
    switched: Scores
    either: Scores
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
    """Flags of a stretch, as bytes and as the same memory in words; margins; scores by edge."""

    flags: npt.NDArray[np.uint8]
    words: npt.NDArray[np.uint64]
    margins: Doubles
    above: Ints


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
        is_asked = _has_nan(r, c)
        last = edges.passed.size - 1
        for k in range(0, last + 1, 2):
            j = min(k + 1, last)
            above_k, above_j, is_near = _look(
                r, c, edges.either[0, k], edges.either[1, k],
                edges.either[0, j], edges.either[1, j],
                counts.window[0, k], counts.window[1, k],
                counts.window[0, j], counts.window[1, j],
            )  # fmt: skip
            room.above[k], room.above[j] = above_k, above_j
            is_asked |= is_near
        for k in range(last + 1):
            counts.passes[k] += _passes(r, edges.passed[k]) if is_asked else room.above[k]
        if counts.margins.size > 0:
            _measure(r, edges.exact, room.margins)
            _count(room.margins[: r.size], counts.margins)
        if is_asked:
            found = _take(r, c, base, edges, atol, rtol, counts, room, listed, found)
        base += size
    return found


@scalar
def _has_nan(ref: Any, cand: Any) -> bool:
    found = np.int32(0)
    for k in range(ref.size):
        found = add(found, np.int32((ref[k] != ref[k]) | (cand[k] != cand[k])))
    return bool(found > 0)


@scalar
def _passes(ref: Any, passed: Any) -> int:
    found = np.int32(0)
    for k in range(ref.size):
        found = add(found, np.int32(ref[k] >= passed))
    return whole(found)


@scalar
def _look(
    ref: Any, cand: Any, a0: Any, b0: Any, a1: Any, b1: Any, lo0: Any, hi0: Any, lo1: Any, hi1: Any
) -> Any:
    """By two edges: scores above each one's window, and whether one is within or isn't usual.

    What counts is the signs of differences, so that nothing waits for a comparison. A reference
    score that is switched is within the window: nothing usual is nearer. Where none is within,
    those above it are those that have passed. The sign of a NaN may ask for a look, no more.
    """
    below0 = below1 = asked = own_bits(a0 - a0)
    for k in range(ref.size):
        r, c = ref[k], cand[k]
        side0, side1 = own_bits(r - hi0), own_bits(r - hi1)
        below0, below1 = add(below0, sign_of(side0)), add(below1, sign_of(side1))
        asked = either(asked, both(own_bits(lo0 - r), side0))
        asked = either(asked, both(own_bits(lo1 - r), side1))
        asked = either(asked, differing(side0, own_bits(c - a0)))
        asked = either(asked, differing(side0, own_bits(c - b0)))
        asked = either(asked, differing(side1, own_bits(c - a1)))
        asked = either(asked, differing(side1, own_bits(c - b1)))
    return ref.size - whole(below0), ref.size - whole(below1), asked < 0


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
    last = edges.passed.size - 1
    for k in range(0, last + 1, 2):
        j = min(k + 1, last)
        _mark(
            ref, cand, edges.passed[k], edges.passed[j],
            edges.switched[k], edges.switched[j],
            counts.window[0, k], counts.window[1, k],
            counts.window[0, j], counts.window[1, j],
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
