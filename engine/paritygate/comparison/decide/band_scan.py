"""Bands of a score by a scan: the edges in the scores' own dtype, and what was counted by them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from paritygate.comparison.decide.base import Flags, Floats
from paritygate.comparison.decide.scanned import (
    BINS_WITH_NAN,
    Scanned,
    bins_of,
    first_unlisted,
)
from paritygate.core.policy import Tolerance
from paritygate.core.tensors import Array
from paritygate.tally.pairs import Pair
from paritygate.tally.records import EdgeSides

MOST_EDGES = 8
DTYPES = (np.dtype(np.float32), np.dtype(np.float64))
_SLACK = 1 + Fraction(1, 2**40)  # above what four roundings of a float64 can do
_LEAST = Fraction(1, 2**1000)

Scores = npt.NDArray[Any]


class Rule(Struct, frozen=True):
    """Bands as they are scanned, whatever the scores' dtype.

    Attributes:
        exact: edges as they are compared, ascending.
        rounded: the same in the reference's dtype.
        tie_up: whether a score equal to the edge falls into the upper band.
        switches: for each edge whether the other `compare_as` decides the rounded edge otherwise.
        tolerance: of the output; None where it says nothing of the scores.
    """

    exact: Floats
    rounded: Floats
    tie_up: Flags
    switches: Flags
    tolerance: Tolerance | None


def scan_bands(rule: Rule, edges: Any, ref: Array, cand: Array, *, is_full: bool) -> Scanned:
    """Count the usual scores of a block and list the others.

    Args:
        rule: of at most `MOST_EDGES` edges.
        edges: as `edges_in` gives them for the scores' dtype.
        ref: `(n,)` in one of `DTYPES`, as it is compared, of numbers of the reference's dtype.
        cand: the same.
        is_full: whether margins are counted by size.
    """
    from paritygate.kernels import scan_bands as kernels

    dtype, k = ref.dtype, len(rule.exact)
    window = np.full((k, 2), (-np.inf, np.inf), dtype).T.copy()
    counts = kernels.Counts(
        passes=np.zeros(k, np.int64),
        on=np.zeros(k, np.int64),
        nearest=np.full(2 * k, np.inf),
        window=window,
        risk=np.zeros(1, np.int64),
        least=np.full(1, np.inf),
        least_at=np.full(1, -1, np.int64),
        margins=np.zeros(BINS_WITH_NAN if is_full else 0, np.int64),
    )
    flags = np.zeros(kernels.STRETCH, np.uint8)
    room = kernels.Room(
        flags, flags.view(np.uint64), np.empty(kernels.STRETCH), np.empty(k, np.int64)
    )
    listed = np.empty(ref.size, np.int64)
    atol, rtol = (rule.tolerance.atol, rule.tolerance.rtol) if rule.tolerance else (0.0, 0.0)
    found = kernels.scan_bands(ref, cand, edges, atol, rtol, counts, room, listed)
    return _scanned(rule, counts, listed[:found].copy(), ref.size)


def _scanned(rule: Rule, counts: Any, listed: npt.NDArray[np.int64], size: int) -> Scanned:
    usual = size - listed.size
    passes = [usual, *counts.passes[: len(rule.exact)].tolist(), 0]
    pairs: dict[Pair, int] = {
        (band, band): above - beyond
        for band, (above, beyond) in enumerate(pairwise(passes))
        if above > beyond
    }
    row = int(counts.least_at[0])
    return Scanned(
        usual,
        listed,
        pairs,
        int(counts.risk[0]) if rule.tolerance else None,
        float(counts.least[0]),
        first_unlisted(listed, size) if row < 0 else row,
        bins_of(counts.margins),
        _sides(rule, counts, usual),
    )


def _sides(rule: Rule, counts: Any, usual: int) -> tuple[EdgeSides, ...]:
    sides = []
    nearest = counts.nearest.reshape(-1, 2)
    for k, passed in enumerate(counts.passes[: len(rule.exact)].tolist()):
        on = int(counts.on[k])
        above = passed - on if rule.tie_up[k] else passed
        sides.append(EdgeSides.of((usual - above - on, on, above), nearest[k]))
    return tuple(sides)


def edges_in(rule: Rule, dtype: np.dtype[Any]) -> Any:
    """Edges in the dtype of scores, as kernels take them; None where one is beyond the finite."""
    from paritygate.kernels import scan_bands as kernels

    size = len(rule.exact)
    passed, switched = np.empty(size, dtype), np.full(size, np.nan, dtype)
    risky = np.empty((2, size), dtype)
    for k, edge in enumerate(rule.exact.tolist()):
        passed[k] = _lowest_that_passed(edge, dtype, is_up=bool(rule.tie_up[k]))
        if rule.switches[k]:
            switched[k] = rule.rounded[k]
        risky[:, k] = _risky(edge, dtype, rule.tolerance)
    with np.errstate(invalid="ignore", over="ignore"):
        beyond = np.where(switched >= passed, np.nextafter(switched, dtype.type(np.inf)), passed)
    either = np.array([np.fmin(passed, switched), beyond], dtype)
    if not np.isfinite(either).all():
        return None
    # What is subtracted from a zero then leaves +0: the edge is passed.
    either[either == 0] = -0.0
    return kernels.Edges(rule.exact, passed, switched, either, risky)


def _lowest_that_passed(edge: float, dtype: np.dtype[Any], *, is_up: bool) -> Any:
    score = _to(dtype, edge)
    if float(score) < edge or (float(score) == edge and not is_up):
        score = np.nextafter(score, dtype.type(np.inf))
    return score


def _risky(edge: float, dtype: np.dtype[Any], tolerance: Tolerance | None) -> Sequence[Any]:
    """Two scores between which all lie that may be at risk by an edge."""
    if tolerance is None:
        return np.inf, -np.inf
    low = -_highest_at_risk(-edge, tolerance)
    high = _highest_at_risk(edge, tolerance)
    beyond = [_to(dtype, low), _to(dtype, high)]
    for _ in range(2):  # once for what was rounded to float64, once to the dtype
        ways = dtype.type(-np.inf), dtype.type(np.inf)
        beyond = [np.nextafter(end, way) for end, way in zip(beyond, ways, strict=True)]
    return beyond


def _highest_at_risk(edge: float, tolerance: Tolerance) -> float:
    """A bound of x - edge <= atol + rtol * |x|."""
    rtol = Fraction(tolerance.rtol) * _SLACK
    reach = Fraction(edge) + Fraction(tolerance.atol) * _SLACK + _LEAST
    if rtol >= 1:
        return math.inf
    try:
        return float(reach / (1 - rtol) if reach >= 0 else reach / (1 + rtol))
    except OverflowError:
        return math.inf if reach > 0 else -math.inf


def _to(dtype: np.dtype[Any], value: float) -> Any:
    with np.errstate(over="ignore", under="ignore"):
        return dtype.type(value)
