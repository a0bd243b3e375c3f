"""The class with the largest value of a row, and its lead over the runner-up."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from paritygate.comparison.decide.base import (
    Codes,
    CompareAs,
    Decided,
    Flags,
    count,
    differing,
    order_depends,
    other_than,
    ranked_as,
)
from paritygate.comparison.decide.rank_scan import can_scan, scan_argmax
from paritygate.comparison.decide.scanned import Scanned
from paritygate.core.policy import DecisionRule, Tolerance
from paritygate.core.tensors import Array
from paritygate.tally.decision import Kind


class ArgmaxJudge:
    """Takes the class with the largest value of each row."""

    kind: ClassVar[Kind] = "argmax"

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
        self._classes = classes
        self._tolerance = tolerance
        self._ref_dtype = ref_dtype
        self._compare_as = compare_as
        self._is_transformed = rule.transform is not None
        self._is_scanned = is_one_dtype and not self._is_transformed

    def __call__(self, ref: Array, cand: Array, samples: int) -> Decided:
        """Decide both sides of a block; views as `flat` makes them."""
        from paritygate.kernels import decisions as kernels

        main = self._as(self._compare_as, ref), self._as(self._compare_as, cand)
        codes, ties = self._codes(main, samples)
        margin, at_risk = np.empty(samples), np.empty(samples, np.bool_)
        kernels.argmax_margins(
            main[0],
            self._classes,
            codes[0],
            self._tolerance.atol,
            self._tolerance.rtol,
            margin,
            at_risk,
        )
        depends = 0
        if any(order_depends(side, self._ref_dtype) for side in (ref, cand)):
            other = other_than(self._compare_as)
            others, _ = self._codes((self._as(other, ref), self._as(other, cand)), samples)
            depends = differing(codes, others)
        risk = None if self._is_transformed else count(at_risk)
        return Decided(*codes, margin, risk, depends, count(ties[0]), count(ties[1]))

    def scan(self, ref: Array, cand: Array, samples: int, *, is_full: bool) -> Scanned | None:
        """Count what is usual of a block and list the rest; None for scores that can't be."""
        if not self._is_scanned or not can_scan(ref, cand):
            return None
        return scan_argmax(ref, cand, self._classes, self._tolerance, samples, is_full=is_full)

    def _as(self, compare_as: CompareAs, values: Array) -> Array:
        return ranked_as(compare_as, values, self._ref_dtype)

    def _codes(
        self, sides: tuple[Array, Array], samples: int
    ) -> tuple[tuple[Codes, Codes], tuple[Flags, Flags]]:
        from paritygate.kernels import decisions as kernels

        codes = np.empty(samples, np.int64), np.empty(samples, np.int64)
        ties = np.empty(samples, np.bool_), np.empty(samples, np.bool_)
        for scores, code, tied in zip(sides, codes, ties, strict=True):
            kernels.argmax_codes(scores, self._classes, code, tied)
        return codes, ties
