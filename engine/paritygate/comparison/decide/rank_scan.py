"""Largest classes by a scan, and what was counted by it."""

from __future__ import annotations

from typing import Any

import numpy as np

from paritygate.comparison.decide.scanned import (
    BINS_WITH_NAN,
    Scanned,
    bins_of,
    first_unlisted,
)
from paritygate.core.policy import Tolerance
from paritygate.core.tensors import Array

_BITS = {np.dtype(np.float32): np.int32, np.dtype(np.float64): np.int64}
# Below so many classes many rows are looked at together.
_WIDE = 16


def can_scan(ref: Array, cand: Array) -> bool:
    """Whether a scan takes such scores."""
    return ref.dtype in _BITS and ref.dtype == cand.dtype


def scan_argmax(
    ref: Array, cand: Array, classes: int, tolerance: Tolerance, rows: int, *, is_full: bool
) -> Scanned:
    """Count the rows in which one class is alone at the top of both sides; list the others.

    Args:
        ref: `(rows * classes,)` float32 or float64, as it is compared.
        cand: the same.
        classes: at least 2.
        tolerance: of the output.
        rows: how many.
        is_full: whether margins are counted by size.
    """
    from paritygate.kernels import scan_ranks as kernels

    counts, listed = _counts(classes, is_full=is_full), np.empty(rows, np.int64)
    bounds = tolerance.atol, tolerance.rtol
    if classes < _WIDE:
        tile = _tile(classes, ref.dtype)
        found = kernels.scan_argmax_narrow(ref, cand, classes, *bounds, counts, tile, listed)
    else:
        bits = ref.view(_BITS[ref.dtype])
        found = kernels.scan_argmax(ref, bits, cand, classes, *bounds, counts, listed)
    return _scanned(counts, listed, found)


def scan_topk(
    ref: Array,
    cand: Array,
    classes: int,
    k: int,
    tolerance: Tolerance,
    rows: int,
    *,
    is_ranked: bool,
    is_full: bool,
) -> Scanned:
    """Count the rows in which the same k classes are first on both sides; list the others."""
    from paritygate.kernels import scan_topk as kernels

    counts, listed = _counts(classes, is_full=is_full), np.empty(rows, np.int64)
    bits, places, scores = ref.view(_BITS[ref.dtype]), np.zeros(k, np.int64), np.zeros(k + 1)
    bounds = tolerance.atol, tolerance.rtol
    found = kernels.scan_topk(
        ref, bits, cand, classes, k, is_ranked, *bounds, counts, places, scores, listed
    )
    return _scanned(counts, listed, found)


def _counts(classes: int, *, is_full: bool) -> Any:
    from paritygate.kernels.scan_ranks import Counts

    return Counts(
        classes=np.zeros(classes, np.int64),
        risk=np.zeros(1, np.int64),
        least=np.full(1, np.inf),
        least_at=np.full(1, -1, np.int64),
        margins=np.zeros(BINS_WITH_NAN if is_full else 0, np.int64),
    )


def _tile(classes: int, dtype: np.dtype[Any]) -> Any:
    from paritygate.kernels.scan_ranks import STRIDE, TILE, Tile

    ref, cand = (np.zeros(classes * STRIDE, dtype) for _ in range(2))
    top, second, other = (np.zeros(TILE, dtype) for _ in range(3))
    place, times, others, state = (np.zeros(TILE, np.int32) for _ in range(4))
    return Tile(ref, cand, top, second, place, times, other, others, state)


def _scanned(counts: Any, listed: Any, found: int) -> Scanned:
    rows, listed = listed.size, listed[:found].copy()
    met = np.flatnonzero(counts.classes)
    times = counts.classes[met].tolist()
    row = int(counts.least_at[0])
    return Scanned(
        rows - found,
        listed,
        {(code, code): n for code, n in zip(met.tolist(), times, strict=True)},
        int(counts.risk[0]),
        float(counts.least[0]),
        first_unlisted(listed, rows) if row < 0 else row,
        bins_of(counts.margins),
    )
