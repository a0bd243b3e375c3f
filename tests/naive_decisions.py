"""Brute-force oracles of decisions: plain Python numbers, one sample at a time."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal, localcontext

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


def topk(row, k) -> list[int]:
    """Indices of the k largest, by sorting the whole row; ties to the lowest index."""
    if any(math.isnan(x) for x in row):
        return [UNDEFINED] * k
    return sorted(range(len(row)), key=lambda i: (-row[i], i))[:k]


def topk_gaps(row, k, ranked) -> list[tuple[float, float, float]]:
    """Neighbours in the order of the row whose exchange changes the decision, with their gap."""
    ordered = [float(row[i]) for i in topk(row, len(row))]
    places = range(k) if ranked else [k - 1]
    pairs = [(ordered[p], ordered[p + 1]) for p in places if p + 1 < len(ordered)]
    return [(0.0 if high == low else high - low, high, low) for high, low in pairs]


def topk_margin(row, k, ranked) -> float:
    if topk(row, k)[0] == UNDEFINED:
        return math.nan
    return min([gap for gap, _, _ in topk_gaps(row, k, ranked)], default=math.inf)


def topk_at_risk(row, k, ranked, atol, rtol) -> bool:
    if topk(row, k)[0] == UNDEFINED:
        return False
    return any(
        gap == 0 or (gap < math.inf and gap <= allowed(high, atol, rtol) + allowed(low, atol, rtol))
        for gap, high, low in topk_gaps(row, k, ranked)
    )


def topk_tied(row, k, ranked) -> bool:
    """In the row's own numbers: integers beyond 2**53 aren't equal because a float would be."""
    order = topk(row, len(row))
    if order[0] == UNDEFINED:
        return False
    places = range(k) if ranked else [k - 1]
    return any(row[order[p]] == row[order[p + 1]] for p in places if p + 1 < len(row))


def topk_pairs(ref, cand, ranked) -> list[tuple[int, int]]:
    """k pairs: place by place, or what stayed, and what left with what entered."""
    if ranked or UNDEFINED in (ref[0], cand[0]):
        return list(zip(ref, cand, strict=True))
    left = [c for c in ref if c not in set(cand)]
    entered = [c for c in cand if c not in set(ref)]
    return [(c, c) for c in set(ref) & set(cand)] + list(zip(left, entered, strict=True))


def softmax(row) -> list[Decimal]:
    """To 60 digits."""
    with localcontext() as context:
        context.prec = 60
        terms = [Decimal(x).exp() for x in row]
        total = sum(terms)
        return [term / total for term in terms]


def sigmoid(x) -> Decimal:
    with localcontext() as context:
        context.prec = 60
        return 1 / (1 + Decimal(-x).exp())
