"""The k classes with the largest values of a row, as a set or in order."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from paritygate.comparison.decide.base import (
    Codes,
    CompareAs,
    Decided,
    Flags,
    count,
    order_depends,
    other_than,
    ranked_as,
)
from paritygate.comparison.decide.rank_scan import can_scan, scan_topk
from paritygate.comparison.decide.scanned import Scanned
from paritygate.core.policy import DecisionRule, Tolerance
from paritygate.core.tensors import Array
from paritygate.tally.decision import UNDEFINED, Kind
from paritygate.tally.pairs import Pair


class TopkJudge:
    """Takes the classes with the `k` largest values of each row, the largest first."""

    kind: ClassVar[Kind] = "topk"

    def __init__(
        self,
        rule: DecisionRule,
        classes: int,
        tolerance: Tolerance,
        ref_dtype: str,
        compare_as: CompareAs,
        *,
        is_one_dtype: bool,
    ) -> None:
        self.k = rule.topk or 1
        self.is_ranked = rule.order == "ranked"
        self._classes = classes
        self._tolerance = tolerance
        self._ref_dtype = ref_dtype
        self._compare_as = compare_as
        self._is_transformed = rule.transform is not None
        self._is_scanned = is_one_dtype and not self._is_transformed

    def __call__(self, ref: Array, cand: Array, samples: int) -> Decided:
        """Decide both sides of a block; views as `flat` makes them."""
        from paritygate.kernels import decisions as kernels

        sides = [self._as(self._compare_as, side) for side in (ref, cand)]
        best = [self._best(side, samples) for side in sides]
        margin, at_risk = np.empty(samples), np.empty(samples, np.bool_)
        kernels.topk_margins(
            sides[0],
            self._classes,
            best[0].reshape(-1),
            self.k,
            self.is_ranked,
            self._tolerance.atol,
            self._tolerance.rtol,
            margin,
            at_risk,
        )
        ties = [self._ties(*pair) for pair in zip(sides, best, strict=True)]
        codes = [np.ascontiguousarray(side[:, : self.k]) for side in best]
        depends = 0
        if any(order_depends(side, self._ref_dtype) for side in (ref, cand)):
            other = other_than(self._compare_as)
            others = [
                self._best(self._as(other, side), samples)[:, : self.k] for side in (ref, cand)
            ]
            depends = count(self.differ(codes[0], others[0]) | self.differ(codes[1], others[1]))
        risk = None if self._is_transformed else count(at_risk)
        return Decided(codes[0], codes[1], margin, risk, depends, ties[0], ties[1])

    def differ(self, ref: Codes, cand: Codes) -> Flags:
        """Rows of `(rows, k)` codes that aren't the same decision."""
        if not self.is_ranked:
            ref, cand = np.sort(ref, axis=1), np.sort(cand, axis=1)
        return np.asarray((ref != cand).any(axis=1))

    def scan(self, ref: Array, cand: Array, samples: int, *, is_full: bool) -> Scanned | None:
        """Count what is usual of a block and list the rest; None for scores that can't be."""
        if not self._is_scanned or not can_scan(ref, cand):
            return None
        return scan_topk(
            ref, cand, self._classes, self.k, self._tolerance, samples,
            is_ranked=self.is_ranked, is_full=is_full,
        )  # fmt: skip

    def _as(self, compare_as: CompareAs, values: Array) -> Array:
        return ranked_as(compare_as, values, self._ref_dtype)

    def _best(self, scores: Array, samples: int) -> Codes:
        from paritygate.kernels import decisions as kernels

        places = min(self.k + 1, self._classes)
        best = np.empty((samples, places), np.int64)
        kernels.topk_codes(scores, self._classes, best.reshape(-1), samples)
        return best

    def _ties(self, scores: Array, best: Codes) -> int:
        from paritygate.kernels import decisions as kernels

        tied = np.empty(len(best), np.bool_)
        kernels.topk_ties(scores, self._classes, best.reshape(-1), self.k, self.is_ranked, tied)
        return count(tied)


def pair_places(ref: Codes, cand: Codes, *, is_ranked: bool) -> dict[Pair, int]:
    """Count k pairs a row: place by place in order, or of sets what stayed, left and entered.

    Classes that left a set are paired with those that entered it, each in the order of its own
    side.
    """
    same = ref == cand if is_ranked else np.zeros_like(ref, np.bool_)
    if not is_ranked:
        same |= (np.sort(ref, axis=1) == np.sort(cand, axis=1)).all(axis=1, keepdims=True)
    codes, counts = np.unique(ref[same], return_counts=True)
    pairs: dict[Pair, int] = {
        (code, code): n for code, n in zip(codes.tolist(), counts.tolist(), strict=True)
    }
    rest = np.flatnonzero(~same.all(axis=1))
    for ours, theirs in zip(ref[rest].tolist(), cand[rest].tolist(), strict=True):
        for pair in _pairs(ours, theirs, is_ranked=is_ranked):
            pairs[pair] = pairs.get(pair, 0) + 1
    return pairs


def _pairs(ref: list[int], cand: list[int], *, is_ranked: bool) -> list[Pair]:
    if is_ranked:
        return [(r, c) for r, c in zip(ref, cand, strict=True) if r != c]
    if UNDEFINED in (ref[0], cand[0]):
        return list(zip(ref, cand, strict=True))
    left = [code for code in ref if code not in cand]
    entered = [code for code in cand if code not in ref]
    stayed: list[Pair] = [(code, code) for code in ref if code in cand]
    return [*stayed, *zip(left, entered, strict=True)]
