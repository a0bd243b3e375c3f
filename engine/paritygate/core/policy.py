"""What is tolerated: per-output tolerances and decision rules, as the judge sees them."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from msgspec import Struct

from paritygate.core.bands import Bands


class Tolerance(Struct, frozen=True):
    """Rule for one output of one stage.

    `allowed = atol + rtol * |ref|` in float64, product and sum rounded separately.

    Attributes:
        atol: absolute, finite, >= 0.
        rtol: relative to the reference, 0 <= rtol < 1.
        nonfinite: "fail", or "match" (same class and sign in the same place counts as equal).
        max_outlier_fraction: share of a sample's elements that may fail, never non-finite ones.
        max_abs: hard cap on |cand - ref| that no outlier may pass; None for none.
        candidate_dtype: the candidate's dtype where it may differ from the reference's.
    """

    atol: float = 0.0
    rtol: float = 0.0
    nonfinite: Literal["fail", "match"] = "fail"
    max_outlier_fraction: float = 0.0
    max_abs: float | None = None
    candidate_dtype: str | None = None

    def outliers_allowed(self, elements: int) -> int:
        """Failing elements that a sample of `elements` elements may have."""
        return int(Fraction(repr(self.max_outlier_fraction)) * elements)


Transform = Literal["softmax", "sigmoid"]


class DecisionRule(Struct, frozen=True):
    """A downstream action derived from an output.

    Attributes:
        name: the decision's name.
        output: output that it is derived from.
        bands: band rule, for a score.
        argmax: whether the class is the index of the row's maximum.
        axis: class axis of argmax and top-k (and of softmax), counted with the sample axis as 0;
            the other axes hold one decision each.
        compare_as: "output" (the reference output's dtype) or "float64"; None: not
            said, which is an error where the two sides differ in dtype.
        labels: names of the classes; None: their indices.
        ref_labels, cand_labels: names of the classes where each side has an order of its own.
        label_column: pack column with the truth; None: the pack's label column, if it fits.
        topk: how many classes with the largest values count; None: no such rule.
        order: of top-k, whether their order counts ("ranked") or not ("set").
        equal: whether the output's value is the decision itself.
        elementwise: whether each element of a sample is a decision of its own.
        python: `module:function` that maps the output to decisions.
        transform: what the output goes through before, in float64.
    """

    name: str
    output: str
    bands: Bands | None = None
    argmax: bool = False
    axis: int = -1
    compare_as: Literal["output", "float64"] | None = None
    labels: tuple[str, ...] | None = None
    label_column: str | None = None
    topk: int | None = None
    order: Literal["set", "ranked"] = "set"
    equal: bool = False
    elementwise: bool = False
    python: str | None = None
    transform: Transform | None = None
    ref_labels: tuple[str, ...] | None = None
    cand_labels: tuple[str, ...] | None = None
