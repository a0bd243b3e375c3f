"""Decisions of one side: bands, argmax and top-k, with margins and at-risk samples.

Scores are read-only 1-D C views of any float, integer or (as uint8) bool dtype. A code is the
index of a band or class, `UNDEFINED` where a NaN takes part. Margins are absolute, in float64.
Sources: NUMERICS, "Decisions"; IEEE 754 comparisons, so -0 equals +0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from paritygate.kernels._jit import jit, scalar
from paritygate.kernels.scalar import allowed

UNDEFINED = -1

Scores = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@scalar
def band_of(score: float, edges: Floats, tie_up: Flags) -> int:
    """Count the edges that a float64 score has passed; `UNDEFINED` for NaN."""
    if score != score:
        return UNDEFINED
    passed = 0
    for k in range(edges.size):
        if score > edges[k] or (score == edges[k] and tie_up[k]):
            passed += 1
    return passed


@jit
def band_codes(scores: Scores, edges: Floats, tie_up: Flags, codes: Ints) -> None:
    """Find the band of each score.

    Args:
        scores: `(n,)`; 64-bit integers are judged exactly as long as every |edge| < 2^53.
        edges: `(k,)` ascending, already rounded to the dtype that is compared in.
        tie_up: `(k,)` whether a score equal to the edge falls into the upper band.
        codes: `(n,)` written.
    """
    for i in range(scores.size):
        codes[i] = band_of(np.float64(scores[i]), edges, tie_up)


@jit
def band_margins(
    ref: Scores, edges: Floats, atol: float, rtol: float, margins: Floats, at_risk: Flags
) -> None:
    """Measure how far each reference score is from its nearest edge, and what tolerance spans.

    Args:
        ref: `(n,)`.
        edges: `(k,)`, k >= 1.
        atol: absolute tolerance.
        rtol: tolerance relative to |ref|.
        margins: `(n,)` written; NaN for a NaN score, inf for an infinite one.
        at_risk: `(n,)` written: a finite margin that is at most the error allowed for the score.
    """
    for i in range(ref.size):
        score = np.float64(ref[i])
        nearest = abs(score - edges[0])
        for k in range(1, edges.size):
            distance = abs(score - edges[k])
            if distance < nearest:
                nearest = distance
        margins[i] = nearest
        at_risk[i] = nearest < np.inf and nearest <= allowed(score, atol, rtol)


@jit
def edge_sides(ref: Scores, edges: Floats, sides: Ints, nearest: Floats) -> None:
    """Count the scores below, exactly on and above each edge; NaN counts nowhere.

    Args:
        ref: `(n,)`.
        edges: `(k,)`.
        sides: `(3 * k,)` added to: below, on, above of each edge in turn.
        nearest: `(2 * k,)` lowered to the smallest distance below and above each edge in turn.
    """
    for k in range(edges.size):
        edge = edges[k]
        below = 0
        on = 0
        above = 0
        near_below = nearest[2 * k]
        near_above = nearest[2 * k + 1]
        for i in range(ref.size):  # without a branch: scores lie on either side in no order
            score = np.float64(ref[i])
            below += score < edge
            on += score == edge
            above += score > edge
            gap = edge - score
            near_below = gap if (gap > 0.0 and gap < near_below) else near_below
            near_above = -gap if (gap < 0.0 and -gap < near_above) else near_above
        sides[3 * k] += below
        sides[3 * k + 1] += on
        sides[3 * k + 2] += above
        nearest[2 * k] = near_below
        nearest[2 * k + 1] = near_above


@jit
def argmax_codes(scores: Scores, width: int, codes: Ints, tied: Flags) -> None:
    """Find each row's maximum, the lowest index of a tie, in the scores' own dtype.

    Args:
        scores: `(n * width,)`, row after row.
        width: classes in a row, >= 1.
        codes: `(n,)` written; `UNDEFINED` for a row with any NaN.
        tied: `(n,)` written: whether several classes share the maximum; false where undefined.
    """
    for i in range(codes.size):
        row = i * width
        top = scores[row]
        code = 0
        shared = False
        undefined = top != top
        for j in range(1, width):
            score = scores[row + j]
            if score > top:
                top = score
                code = j
                shared = False
            elif score == top:
                shared = True
            elif score != score:
                undefined = True
        codes[i] = UNDEFINED if undefined else code
        tied[i] = shared and not undefined


@jit
def argmax_margins(
    ref: Scores,
    width: int,
    codes: Ints,
    atol: float,
    rtol: float,
    margins: Floats,
    at_risk: Flags,
) -> None:
    """Measure each row's lead of the maximum over the runner-up, and whether tolerance spans it.

    Args:
        ref: `(n * width,)`, row after row.
        width: classes in a row, >= 1.
        codes: `(n,)` as `argmax_codes` wrote them for the reference.
        atol: absolute tolerance.
        rtol: tolerance relative to |ref|.
        margins: `(n,)` written; NaN where undefined, inf for a single class, 0 for a tie.
        at_risk: `(n,)` written: a tie, or a finite margin that is at most the sum of the errors
            allowed for the two scores.
    """
    for i in range(codes.size):
        margins[i] = np.nan if codes[i] == UNDEFINED else np.inf
        at_risk[i] = False
        if codes[i] == UNDEFINED or width == 1:
            continue
        row = i * width
        code = codes[i]
        other = 1 if code == 0 else 0
        for j in range(width):
            if j != code and ref[row + j] > ref[row + other]:
                other = j
        top = np.float64(ref[row + code])
        second = np.float64(ref[row + other])
        margin = 0.0 if top == second else top - second
        bound = allowed(top, atol, rtol) + allowed(second, atol, rtol)
        margins[i] = margin
        at_risk[i] = margin == 0.0 or (margin < np.inf and margin <= bound)


@jit
def topk_codes(scores: Scores, width: int, best: Ints, rows: int) -> None:
    """Find the first places of each row, largest score first, the lowest index of a tie first.

    Args:
        scores: `(rows * width,)`, row after row, compared in their own dtype.
        width: classes in a row, >= 1.
        best: `(rows * m,)` written, 1 <= m <= width; `UNDEFINED` in all of a row with any NaN.
        rows: how many.
    """
    if rows == 0:
        return
    m = best.size // rows
    for i in range(rows):
        row = i * width
        base = i * m
        filled = 0
        undefined = False
        for j in range(width):
            score = scores[row + j]
            if score != score:
                undefined = True
                break
            if filled == m and not score > scores[row + best[base + m - 1]]:
                continue
            place = filled if filled < m else m - 1
            while place > 0 and score > scores[row + best[base + place - 1]]:
                best[base + place] = best[base + place - 1]
                place -= 1
            best[base + place] = j
            if filled < m:
                filled += 1
        if undefined:
            for j in range(m):
                best[base + j] = UNDEFINED


@jit
def topk_margins(
    ref: Scores,
    width: int,
    best: Ints,
    k: int,
    ranked: bool,
    atol: float,
    rtol: float,
    margins: Floats,
    at_risk: Flags,
) -> None:
    """Measure how close each row's first k places are to being others, and what tolerance spans.

    Args:
        ref: `(n * width,)`, row after row.
        width: classes in a row.
        best: `(n * m,)` as `topk_codes` wrote them, m = min(k + 1, width).
        k: places that count.
        ranked: whether their order counts: then every gap between neighbours down to the first
            place that doesn't count, else only that last gap.
        atol: absolute tolerance.
        rtol: tolerance relative to |ref|.
        margins: `(n,)` written; the smallest gap, NaN where undefined, inf where there is none.
        at_risk: `(n,)` written: a tie, or a finite gap that is at most the sum of the errors
            allowed for the two scores.
    """
    n = margins.size
    if n == 0:
        return
    m = best.size // n
    first = 0 if ranked else k - 1
    for i in range(n):
        row = i * width
        base = i * m
        at_risk[i] = False
        if best[base] == UNDEFINED:
            margins[i] = np.nan
            continue
        margins[i] = np.inf
        for j in range(first, min(k, m - 1)):
            high = np.float64(ref[row + best[base + j]])
            low = np.float64(ref[row + best[base + j + 1]])
            gap = 0.0 if high == low else high - low
            bound = allowed(high, atol, rtol) + allowed(low, atol, rtol)
            if gap < margins[i]:
                margins[i] = gap
            if gap == 0.0 or (gap < np.inf and gap <= bound):
                at_risk[i] = True


@jit
def topk_ties(scores: Scores, width: int, best: Ints, k: int, ranked: bool, tied: Flags) -> None:
    """Find the rows where a tie, in the scores' own dtype, decides about the first k places.

    Args:
        scores: `(n * width,)`, row after row.
        width: classes in a row.
        best: `(n * m,)` as `topk_codes` wrote them, m = min(k + 1, width).
        k: places that count.
        ranked: whether a tie among them counts too, or only one with the first that doesn't.
        tied: `(n,)` written; false where undefined.
    """
    n = tied.size
    if n == 0:
        return
    m = best.size // n
    first = 0 if ranked else k - 1
    for i in range(n):
        row = i * width
        base = i * m
        tied[i] = False
        if best[base] == UNDEFINED:
            continue
        for j in range(first, min(k, m - 1)):
            if scores[row + best[base + j]] == scores[row + best[base + j + 1]]:
                tied[i] = True
