"""Decisions of one side: bands and argmax, with margins and at-risk samples.

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
def edge_sides(ref: Scores, edges: Floats, sides: Ints) -> None:
    """Count the scores below, exactly on and above each edge; NaN counts nowhere.

    Args:
        ref: `(n,)`.
        edges: `(k,)`.
        sides: `(3 * k,)` added to: below, on, above of each edge in turn.
    """
    for i in range(ref.size):
        score = np.float64(ref[i])
        for k in range(edges.size):
            if score < edges[k]:
                sides[3 * k] += 1
            elif score == edges[k]:
                sides[3 * k + 1] += 1
            elif score > edges[k]:
                sides[3 * k + 2] += 1


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
