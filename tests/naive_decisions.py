"""Brute-force oracles of decisions: plain Python numbers, one sample at a time."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

UNDEFINED = -1


def to_float32(value: float) -> float:
    """A float rounded to float32, to nearest even; beyond its range an infinity."""
    with np.errstate(over="ignore", under="ignore"):
        return float(np.float32(value))


def band(score, edges, tie_up) -> int:
    """Index of the band, found from the top: the first edge that isn't passed ends the search."""
    if math.isnan(score):
        return UNDEFINED
    for index in range(len(edges), 0, -1):
        edge = edges[index - 1]
        if score > edge or (score == edge and tie_up[index - 1]):
            return index
    return 0


def argmax(row) -> int:
    """Lowest index of the maximum."""
    if any(math.isnan(x) for x in row):
        return UNDEFINED
    return list(row).index(max(row))


def allowed(ref: float, atol: float, rtol: float) -> float:
    product = rtol * abs(ref)
    return atol + product


def band_margin(score, edges) -> float:
    if math.isnan(score):
        return math.nan
    return min(abs(float(score) - edge) for edge in edges)


def band_at_risk(score, edges, atol, rtol) -> bool:
    margin = band_margin(score, edges)
    return math.isfinite(margin) and margin <= allowed(float(score), atol, rtol)


def border_scores(row) -> tuple[float, float]:
    first, second = sorted((float(x) for x in row), reverse=True)[:2]
    return first, second


def argmax_margin(row) -> float:
    if argmax(row) == UNDEFINED:
        return math.nan
    if len(row) == 1:
        return math.inf
    first, second = border_scores(row)
    return 0.0 if first == second else first - second


def argmax_at_risk(row, atol, rtol) -> bool:
    margin = argmax_margin(row)
    if not math.isfinite(margin):
        return False
    first, second = border_scores(row)
    return margin == 0 or margin <= allowed(first, atol, rtol) + allowed(second, atol, rtol)


def tied(row) -> bool:
    return argmax(row) != UNDEFINED and list(row).count(max(row)) > 1


def is_flip(ref: int, cand: int, nonfinite: str) -> bool:
    if ref == UNDEFINED and cand == UNDEFINED:
        return nonfinite != "match"
    return ref != cand


@dataclass
class Count:
    """What a tally has to count, from codes alone."""

    flips: int = 0
    matrix: Counter = field(default_factory=Counter)
    labels: Counter = field(default_factory=Counter)


def count(ref, cand, nonfinite, truth=None) -> Count:
    found = Count()
    for i, (r, c) in enumerate(zip(ref, cand, strict=True)):
        found.flips += is_flip(r, c, nonfinite)
        found.matrix[r, c] += 1
        if truth is None:
            continue
        t = truth[i]
        if t == UNDEFINED:
            found.labels["unknown"] += 1
            continue
        found.labels["labelled"] += 1
        found.labels["correct_ref"] += r == t
        found.labels["correct_cand"] += c == t
        found.labels["changed_to_wrong"] += r == t and c != t
        found.labels["changed_to_right"] += r != t and c == t
    return found
