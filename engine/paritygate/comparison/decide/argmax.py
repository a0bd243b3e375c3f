"""The class with the largest value of a row, and its lead over the runner-up."""

from __future__ import annotations

from typing import Literal

import numpy as np

from paritygate.comparison.decide.base import (
    Codes,
    CompareAs,
    Decided,
    Flags,
    count,
    differing,
    flat,
    narrowed,
    narrows,
    other_than,
    widens,
)
from paritygate.core.policy import DecisionRule, Tolerance
from paritygate.core.tensors import Array


class ArgmaxJudge:
    """Takes the class with the largest value of each row."""

    kind: Literal["argmax"] = "argmax"

    def __init__(
        self, classes: int, tolerance: Tolerance, ref_dtype: str, compare_as: CompareAs
    ) -> None:
        self._classes = classes
        self._tolerance = tolerance
        self._ref_dtype = ref_dtype
        self._compare_as = compare_as

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
        if narrows(cand, self._ref_dtype) or widens(ref) or widens(cand):
            other = other_than(self._compare_as)
            others, _ = self._codes((self._as(other, ref), self._as(other, cand)), samples)
            depends = differing(codes, others)
        tied_ref, tied_cand = map(count, ties)
        return Decided(*codes, margin, count(at_risk), depends, tied_ref, tied_cand)

    def _as(self, compare_as: CompareAs, values: Array) -> Array:
        if compare_as == "output":
            return narrowed(values, self._ref_dtype)
        return flat(values.astype(np.float64)) if widens(values) else values

    def _codes(
        self, sides: tuple[Array, Array], samples: int
    ) -> tuple[tuple[Codes, Codes], tuple[Flags, Flags]]:
        from paritygate.kernels import decisions as kernels

        codes = np.empty(samples, np.int64), np.empty(samples, np.int64)
        ties = np.empty(samples, np.bool_), np.empty(samples, np.bool_)
        for scores, code, tied in zip(sides, codes, ties, strict=True):
            kernels.argmax_codes(scores, self._classes, code, tied)
        return codes, ties


def check_classes(rule: DecisionRule, shape: tuple[int, ...], where: str) -> int:
    """Classes of a row.

    Raises:
        ValueError: an argmax can't be taken of such samples.
    """
    if len(shape) > 1:
        raise ValueError(
            f"{where}: a sample has shape {list(shape)}; this rule takes one argmax a sample and "
            "doesn't judge one for each position; it needs an output of shape [batch, classes]"
        )
    if not shape or shape[0] < 2:
        raise ValueError(
            f"{where}: argmax needs a class axis with at least two classes, but a sample has shape "
            f"{list(shape)}; a single score is decided by bands"
        )
    if rule.axis not in (-1, 1):
        raise ValueError(f"{where}: axis is {rule.axis}; argmax takes the last axis, axis = -1")
    if rule.labels is not None and len(rule.labels) != shape[0]:
        raise ValueError(
            f"{where}: {len(rule.labels)} labels for {shape[0]} classes; give one a class, in order"
        )
    return shape[0]
