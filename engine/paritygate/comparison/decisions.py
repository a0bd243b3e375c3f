"""From two sides of one output to decisions: codes, flips, margins, and their tally."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from paritygate.comparison.decide.argmax import ArgmaxJudge
from paritygate.comparison.decide.bands import BandJudge
from paritygate.comparison.decide.base import (
    Codes,
    CompareAs,
    Decided,
    Flags,
    Floats,
    choose_compare_as,
    count,
)
from paritygate.comparison.decide.counts import (
    NO_LABEL,
    OTHER_LABEL,
    count_labels,
    count_pairs,
    find_extreme,
    name_pairs,
)
from paritygate.comparison.decide.equal import EqualJudge
from paritygate.comparison.decide.function import Function, FunctionJudge
from paritygate.comparison.decide.layout import lay_out
from paritygate.comparison.decide.names import truth_lookup, unique_names
from paritygate.comparison.decide.topk import TopkJudge, pair_places
from paritygate.core.dtypes import dtype_name, widened
from paritygate.core.policy import DecisionRule, Tolerance
from paritygate.core.tensors import Array
from paritygate.tally.decision import UNDEFINED, UNDEFINED_NAME, DecisionTally
from paritygate.tally.histogram import Histogram

Stats = Literal["gate", "full"]
Tell = Callable[[int], tuple[str, str]]


@dataclass(frozen=True)
class DecisionDetail:
    """Decisions of `n` samples.

    Attributes:
        ref: code of the reference's decision, -1 where undefined: `(n,)`; `(n, k)` of top-k;
            `(n, each)` or `(n, each, k)` where a sample has several. Codes of free values mean
            something in their block only.
        cand: the same for the candidate.
        margin: `(n,)` absolute margin of the reference; NaN where it is undefined or a free value,
            inf where nothing finite lies between the score and another decision. Of several
            decisions the largest of those that flipped, or the smallest of all.
        flipped: `(n,)` whether any decision of the sample differs under the policy.
        tell: index of a sample -> both sides' decision as text, of several the one with `margin`.
    """

    ref: Codes
    cand: Codes
    margin: Floats
    flipped: Flags
    tell: Tell


class DecisionComparer:
    """Derives the decisions of a sample from both sides of an output; stateless, thread-safe.

    Attributes:
        names: name of each code: bands from the lowest score up, or classes by index; empty where
            decisions are free values.
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
        function: Function | None = None,
    ) -> None:
        """Prepare a rule for one output.

        Args:
            rule: exactly one kind of rule.
            tolerance: of the same output; what counts as at risk, and as a NaN that agrees.
            ref_dtype: dtype name of the reference output.
            cand_dtype: dtype name of the candidate output.
            sample_shape: shape of one sample, without the sample axis.
            stats: "full" adds the histogram of all margins.
            function: of a `python` rule.

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
        _check_kind(rule, where)
        self._free: EqualJudge | FunctionJudge | None = _free_judge(
            rule, function, self._dtypes, compare_as, where
        )
        self._layout = lay_out(rule, self._shape, where)
        self._ranked = None if self._free else self._ranked_judge(compare_as, where)
        given = rule.bands.names if rule.bands is not None else rule.labels or rule.ref_labels
        labels = given or [str(index) for index in range(self._layout.classes)]
        self.names = () if self._free is not None else unique_names(labels, where)
        self._truth = truth_lookup(labels)
        self._cand_codes = _codes_by_name(rule) if self._free is None else None

    def _ranked_judge(
        self, compare_as: CompareAs, where: str
    ) -> BandJudge | ArgmaxJudge | TopkJudge:
        rule, dtype = self._rule, self._dtypes[0]
        if rule.bands is not None:
            return BandJudge(rule, self._tolerance, dtype, compare_as, where)
        kind = ArgmaxJudge if rule.argmax else TopkJudge
        return kind(rule, self._layout.classes, self._tolerance, dtype, compare_as)

    def truth_codes(self, values: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
        """Translate a label column: strings by name, integers by index of the band or class.

        Args:
            values: `(n,)` strings (object or str dtype, None for null), integers or bools.

        Returns:
            `(n,)` int64, -1 for a value that is no name and no index (or a name that several
            classes share); for free values their keys as objects. None if such a column can't hold
            labels (floats, for one), or a sample has several decisions, which one label can't be
            compared with.
        """
        if self._layout.positions is not None or values.dtype.kind not in "iubOUT":
            return None
        if self._free is not None:
            keys = np.empty(values.size, np.object_)
            keys[:] = [None if v is None else self._free.truth_key(v) for v in values.tolist()]
            return keys
        if values.dtype.kind in "iub":
            codes = np.full(values.size, UNDEFINED, np.int64)
            known = (values >= 0) & (values < len(self.names))
            codes[known] = values[known]
            return codes
        found = (self._truth.get(value, UNDEFINED) for value in values.tolist())
        return np.fromiter(found, np.int64, values.size)

    def compare(
        self,
        ref: Array,
        cand: Array,
        ordinals: Codes,
        truth: npt.NDArray[Any] | None = None,
    ) -> tuple[DecisionTally, DecisionDetail]:
        """Decide every sample on both sides.

        Args:
            ref: `(n, *sample_shape)` in the reference's dtype.
            cand: `(n, *sample_shape)` in the candidate's dtype.
            ordinals: `(n,)` int64, the samples' positions in the pack.
            truth: `(n,)` as `truth_codes` gives them, or None without labels.

        Raises:
            ValueError: if an array isn't what was announced.
            DecisionError: a user's function raised, or answered something unusable.
        """
        for side, values, dtype in zip(("ref", "cand"), (ref, cand), self._dtypes, strict=True):
            self._check_array(side, values, dtype, ordinals.size)
        if truth is not None and truth.shape != ordinals.shape:
            raise ValueError(
                f"decision {self._rule.name!r}: {truth.size} labels for {ordinals.size} samples"
            )
        decided = self._decide(ref, cand, ordinals.size * self._layout.each)
        flipped = self._flips(decided)
        detail = self._detail(decided, flipped, ordinals.size)
        return self._tally(decided, flipped, detail, ordinals, truth), detail

    def _check_array(self, side: str, values: Array, dtype: str, samples: int) -> None:
        wanted = (samples, *self._shape)
        found = "string" if values.dtype.kind in "OUT" else dtype_name(values.dtype)
        if values.shape != wanted or found != dtype:
            raise ValueError(
                f"decision {self._rule.name!r}: {side} is {found}{list(values.shape)}, "
                f"announced was {dtype}{list(wanted)}"
            )

    def _decide(self, ref: Array, cand: Array, rows: int) -> Decided:
        if self._free is not None:
            return self._free(widened(ref), widened(cand), rows)
        assert self._ranked is not None
        sides = [self._layout.rows(self._transformed(widened(side))) for side in (ref, cand)]
        return self._by_name(self._ranked(sides[0], sides[1], rows))

    def _transformed(self, values: Array) -> Array:
        if self._rule.transform is None:
            return values
        from paritygate.kernels.transforms import transform_scores

        return transform_scores(self._rule.transform, values, self._layout.axis or self._rule.axis)

    def _by_name(self, decided: Decided) -> Decided:
        """The candidate's classes by their names, where it has an order of its own."""
        if self._cand_codes is None:
            return decided
        return replace(decided, cand=self._cand_codes[decided.cand])

    def _flips(self, decided: Decided) -> Flags:
        """Which decisions differ under the policy, `(rows,)`."""
        ref, cand = decided.ref, decided.cand
        if isinstance(self._ranked, TopkJudge):
            flipped = self._ranked.differ(ref, cand)
            ref = ref[:, 0]
        else:
            flipped = ref != cand
        if self._tolerance.nonfinite != "match":
            flipped = flipped | (ref == UNDEFINED)
        return np.asarray(flipped)

    def _detail(self, decided: Decided, flipped: Flags, samples: int) -> DecisionDetail:
        if self._layout.positions is None:
            return DecisionDetail(
                decided.ref,
                decided.cand,
                decided.margin,
                flipped,
                lambda at: (
                    self._text(decided, decided.ref[at]),
                    self._text(decided, decided.cand[at]),
                ),
            )
        each = self._layout.each
        ref = decided.ref.reshape(samples, each, *decided.ref.shape[1:])
        cand = decided.cand.reshape(ref.shape)
        margin, by_place = decided.margin.reshape(samples, each), flipped.reshape(samples, each)
        told = _told_places(margin, by_place)

        def tell(at: int) -> tuple[str, str]:
            if not each:
                return "", ""
            place = int(told[at])
            where = f" at {self._layout.place(place)}"
            return (
                self._text(decided, ref[at, place]) + where,
                self._text(decided, cand[at, place]) + where,
            )

        of_sample = margin[np.arange(samples), told] if each else np.full(samples, np.nan)
        return DecisionDetail(ref, cand, of_sample, np.asarray(by_place.any(axis=1)), tell)

    def _text(self, decided: Decided, code: Any) -> str:
        if np.ndim(code):
            if code[0] == UNDEFINED:
                return UNDEFINED_NAME
            joint = " > " if self._rule.order == "ranked" else ", "
            return joint.join(self.names[c] for c in code.tolist())
        if code == UNDEFINED:
            return UNDEFINED_NAME
        return (decided.texts or self.names)[int(code)]

    def _tally(
        self,
        decided: Decided,
        flipped: Flags,
        detail: DecisionDetail,
        ordinals: Codes,
        truth: npt.NDArray[Any] | None,
    ) -> DecisionTally:
        measured = ~np.isnan(decided.margin)
        lost = flipped & measured
        has_margins = self._stats == "full" and self._free is None
        place = {"is_positioned": self._layout.positions is not None}
        matrix, others = self._matrix(decided)
        return DecisionTally(
            kind=self._free.kind if self._free is not None else self._kind,
            tier=self._stats,
            samples=ordinals.size,
            flips=count(detail.flipped),
            matrix=matrix,
            tied_ref=decided.tied_ref,
            tied_cand=decided.tied_cand,
            at_risk=decided.at_risk,
            depends_on_compare_as=decided.depends,
            margins=Histogram.of(decided.margin[measured]) if has_margins else None,
            margin_min=find_extreme(np.argmin, decided.margin, ordinals, measured, **place),
            flip_margins=Histogram.of(decided.margin[lost]),
            flip_margin_min=find_extreme(np.argmin, decided.margin, ordinals, lost, **place),
            flip_margin_max=find_extreme(np.argmax, decided.margin, ordinals, lost, **place),
            edges=decided.edges,
            labels=None if truth is None else self._labels(decided, truth),
            places=self._rule.topk or 1,
            transform=self._rule.transform or "",
            positions=flipped.size,
            position_flips=count(flipped),
            other_pairs=others,
            **place,
        )

    @property
    def _kind(self) -> Any:
        assert self._ranked is not None
        return self._ranked.kind

    def _matrix(self, decided: Decided) -> tuple[dict[Any, int], int]:
        if isinstance(self._ranked, TopkJudge):
            is_ranked = self._ranked.is_ranked
            return pair_places(decided.ref, decided.cand, is_ranked=is_ranked), 0
        codes = len(decided.texts or self.names)
        pairs = count_pairs(decided.ref, decided.cand, codes)
        return name_pairs(pairs, decided.texts) if self._free is not None else (pairs, 0)

    def _labels(self, decided: Decided, truth: npt.NDArray[Any]) -> Any:
        if self._free is not None:
            known = self._free.knows_label(decided)
            codes = (
                decided.keys.get(key, OTHER_LABEL) if known(key) else NO_LABEL
                for key in truth.tolist()
            )
            truth = np.fromiter(codes, np.int64, truth.size)
        return count_labels(decided.ref, decided.cand, truth)


def _check_kind(rule: DecisionRule, where: str) -> None:
    kinds = (rule.bands, rule.argmax or None, rule.topk, rule.equal or None, rule.python)
    if sum(kind is not None for kind in kinds) != 1:
        raise ValueError(
            f"{where}: needs a rule, exactly one of bands, argmax = true, topk, equal = true and "
            "python"
        )
    if rule.bands is not None and rule.labels is not None:
        raise ValueError(f"{where}: bands are named in the rule itself; remove labels")


def _free_judge(
    rule: DecisionRule,
    function: Function | None,
    dtypes: tuple[str, str],
    compare_as: CompareAs,
    where: str,
) -> EqualJudge | FunctionJudge | None:
    if rule.equal:
        return EqualJudge(rule, *dtypes, compare_as, where)
    if rule.python is None:
        return None
    if function is None:
        raise ValueError(f"{where}: the function {rule.python!r} wasn't loaded")
    return FunctionJudge(rule, function, dtypes[0], compare_as)


def _codes_by_name(rule: DecisionRule) -> Codes | None:
    """For each class of the candidate the reference's of the same name; last: undefined."""
    if rule.ref_labels is None or rule.cand_labels is None:
        return None
    codes = [rule.ref_labels.index(name) for name in rule.cand_labels]
    return np.array([*codes, UNDEFINED], np.int64)


def _told_places(margin: Floats, flipped: Flags) -> Codes:
    """For each sample the flip with the largest margin, else the decision with the smallest."""
    if not margin.shape[1]:
        return np.zeros(len(margin), np.int64)
    unknown = np.isnan(margin)
    widest = np.where(flipped, np.where(unknown, 0.0, margin), -1.0).argmax(axis=1)
    closest = np.where(unknown, np.inf, margin).argmin(axis=1)
    places: Codes = np.where(flipped.any(axis=1), widest, closest).astype(np.int64)
    return places
