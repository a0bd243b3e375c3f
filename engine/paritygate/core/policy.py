"""What is tolerated: per-output tolerances and decision rules, as the judge sees them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from paritygate.core.bands import Bands


@dataclass(frozen=True)
class Tolerance:
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


@dataclass(frozen=True)
class DecisionRule:
    """A downstream action derived from an output.

    Attributes:
        name: the decision's name.
        output: output that it is derived from.
        bands: band rule, for a score (one element a sample).
        argmax: whether the class is the index of the row's maximum.
        axis: axis of the argmax, counted in the batched tensor; -1 only for now.
        compare_as: "output" (the reference output's dtype) or "float64"; None: not
            said, which is an error where the two sides differ in dtype.
        labels: names of the classes; None: their indices.
        label_column: pack column with the truth; None: the pack's label column, if it fits.
    """

    name: str
    output: str
    bands: Bands | None = None
    argmax: bool = False
    axis: int = -1
    compare_as: Literal["output", "float64"] | None = None
    labels: tuple[str, ...] | None = None
    label_column: str | None = None
