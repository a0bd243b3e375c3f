"""From two sides of one output to decisions: codes, flips, margins, and their tally."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from paritygate.comparison.decide.argmax import ArgmaxJudge, check_classes
from paritygate.comparison.decide.bands import BandJudge, check_score
from paritygate.comparison.decide.base import (
    Codes,
    Decided,
    Flags,
    Floats,
    choose_compare_as,
    count,
    flat,
)
from paritygate.comparison.decide.names import truth_lookup, unique_names
from paritygate.core.policy import DecisionRule, Tolerance
from paritygate.core.tensors import Array
from paritygate.tally.decision import UNDEFINED, DecisionTally, LabelTally, MarginAt
from paritygate.tally.histogram import Histogram

Stats = Literal["gate", "full"]


@dataclass(frozen=True)
class DecisionDetail:
    """Decisions of `n` samples.

    Attributes:
        ref: `(n,)` code of the reference's decision, -1 where undefined.
        cand: `(n,)` code of the candidate's decision, -1 where undefined.
        margin: `(n,)` absolute margin of the reference; NaN exactly where `ref` is -1, inf where
            nothing finite lies between the score and another decision.
        flipped: `(n,)` whether the two decisions differ under the policy.
    """

    ref: Codes
    cand: Codes
    margin: Floats
    flipped: Flags


class DecisionComparer:
    """Derives one decision a sample from both sides of an output; stateless, thread-safe.

    Attributes:
        names: name of each code: bands from the lowest score up, or classes by index.
    """

    names: tuple[str, ...]

    def __init__(
        self,
        rule: DecisionRule,
        tolerance: Tolerance,
        ref_dtype: str,
        cand_dtype: str,
        sample_shape: tuple[int, ...],
        stats: Stats,
    ) -> None:
        """Prepare a rule for one output.

        Args:
            rule: bands or argmax.
            tolerance: of the same output; what counts as at risk, and as a NaN that agrees.
            ref_dtype: dtype name of the reference output.
            cand_dtype: dtype name of the candidate output.
            sample_shape: shape of one sample, without the sample axis.
            stats: "full" adds the histogram of all margins.

        Raises:
            ValueError: if the rule can't be applied to such an output; says what to change.
        """
        where = f"decision {rule.name!r} of output {rule.output!r}"
        self._rule = rule
        self._tolerance = tolerance
        self._stats = stats
        self._dtypes = (ref_dtype, cand_dtype)
        self._shape = tuple(sample_shape)
        compare_as = choose_compare_as(rule, ref_dtype, cand_dtype, where)
        self._judge: BandJudge | ArgmaxJudge
        if (rule.bands is None) is not rule.argmax:
            raise ValueError(f"{where}: needs either bands or argmax = true, exactly one of them")
        if rule.bands is not None:
            check_score(rule, self._shape, where)
            self._judge = BandJudge(rule.bands, tolerance, ref_dtype, compare_as, where)
            labels: Sequence[str] = rule.bands.names
        else:
            classes = check_classes(rule, self._shape, where)
            self._judge = ArgmaxJudge(classes, tolerance, ref_dtype, compare_as)
            labels = rule.labels or [str(index) for index in range(classes)]
        self.names = unique_names(labels, where)
        self._truth = truth_lookup(labels)

    def truth_codes(self, values: npt.NDArray[Any]) -> Codes | None:
        """Translate a label column: strings by name, integers by index of the band or class.

        Args:
            values: `(n,)` strings (object or str dtype, None for null), integers or bools.

        Returns:
            `(n,)` int64, -1 for a value that is no name and no index (or a name that several
            classes share); None if such a column can't hold labels (floats, for one).
        """
        if values.dtype.kind in "iub":
            codes = np.full(values.size, UNDEFINED, np.int64)
            known = (values >= 0) & (values < len(self.names))
            codes[known] = values[known]
            return codes
        if values.dtype.kind not in "OUT":
            return None
        found = (self._truth.get(value, UNDEFINED) for value in values.tolist())
        return np.fromiter(found, np.int64, values.size)

    def compare(
        self, ref: Array, cand: Array, ordinals: Codes, truth: Codes | None = None
    ) -> tuple[DecisionTally, DecisionDetail]:
        """Decide every sample on both sides.

        Args:
            ref: `(n, *sample_shape)` in the reference's dtype.
            cand: `(n, *sample_shape)` in the candidate's dtype.
            ordinals: `(n,)` int64, the samples' positions in the pack.
            truth: `(n,)` int64 as `truth_codes` gives them, or None without labels.

        Raises:
            ValueError: if an array isn't what was announced.
        """
        for side, values, dtype in zip(("ref", "cand"), (ref, cand), self._dtypes, strict=True):
            self._check_array(side, values, dtype, ordinals.size)
        if truth is not None and truth.shape != ordinals.shape:
            raise ValueError(
                f"decision {self._rule.name!r}: {truth.size} labels for {ordinals.size} samples"
            )
        judged = self._judge(flat(ref), flat(cand), ordinals.size)
        flipped = judged.ref != judged.cand
        if self._tolerance.nonfinite != "match":
            flipped |= judged.ref == UNDEFINED
        detail = DecisionDetail(judged.ref, judged.cand, judged.margin, flipped)
        return self._tally(judged, detail, ordinals, truth), detail

    def _check_array(self, side: str, values: Array, dtype: str, samples: int) -> None:
        wanted = (samples, *self._shape)
        if values.shape != wanted or values.dtype.name != dtype:
            raise ValueError(
                f"decision {self._rule.name!r}: {side} is {values.dtype}{list(values.shape)}, "
                f"announced was {dtype}{list(wanted)}"
            )

    def _tally(
        self, judged: Decided, detail: DecisionDetail, ordinals: Codes, truth: Codes | None
    ) -> DecisionTally:
        defined = detail.ref != UNDEFINED
        lost = detail.flipped & defined
        return DecisionTally(
            kind=self._judge.kind,
            tier=self._stats,
            samples=detail.ref.size,
            flips=count(detail.flipped),
            matrix=_matrix(detail.ref, detail.cand, len(self.names)),
            tied_ref=judged.tied_ref,
            tied_cand=judged.tied_cand,
            at_risk=judged.at_risk,
            depends_on_compare_as=judged.depends,
            margins=Histogram.of(detail.margin[defined]) if self._stats == "full" else None,
            margin_min=_extreme(np.argmin, detail.margin, ordinals, defined),
            flip_margins=Histogram.of(detail.margin[lost]),
            flip_margin_min=_extreme(np.argmin, detail.margin, ordinals, lost),
            flip_margin_max=_extreme(np.argmax, detail.margin, ordinals, lost),
            edges=judged.edges,
            labels=None if truth is None else _labels(detail, truth),
        )


def _matrix(ref: Codes, cand: Codes, codes: int) -> dict[tuple[int, int], int]:
    wide = codes + 1
    keys, counts = np.unique((ref + 1) * wide + cand + 1, return_counts=True)
    return {
        (key // wide - 1, key % wide - 1): count
        for key, count in zip(keys.tolist(), counts.tolist(), strict=True)
    }


def _extreme(pick: Any, margin: Floats, ordinals: Codes, chosen: Flags) -> MarginAt | None:
    if not chosen.any():
        return None
    margins, places = margin[chosen], ordinals[chosen]
    best = margins[pick(margins)]
    return MarginAt(float(best), int(places[margins == best].min()))


def _labels(detail: DecisionDetail, truth: Codes) -> LabelTally:
    known = truth != UNDEFINED
    ref_right, cand_right = (detail.ref == truth) & known, (detail.cand == truth) & known
    return LabelTally(
        labelled=count(known),
        unknown=count(~known),
        correct_ref=count(ref_right),
        correct_cand=count(cand_right),
        changed_to_wrong=count(ref_right & ~cand_right),
        changed_to_right=count(cand_right & ~ref_right),
    )
