"""From two sides of one output to decisions: codes, flips, margins, and their tally."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from paritygate.comparison.decide.base import (
    Codes,
    Decided,
    Flags,
    Floats,
    choose_compare_as,
    flat,
)
from paritygate.comparison.decide.counting import Counting
from paritygate.comparison.decide.counts import Rows
from paritygate.comparison.decide.detail import AnyDetail, DecisionDetail, LazyDetail
from paritygate.comparison.decide.function import Function
from paritygate.comparison.decide.judges import check_kind, free_judge, ranked_judge
from paritygate.comparison.decide.layout import lay_out
from paritygate.comparison.decide.names import truth_lookup, unique_names
from paritygate.comparison.decide.scanned import AT_ONCE, FEWEST, MOST_LISTED
from paritygate.comparison.decide.topk import TopkJudge
from paritygate.core.dtypes import dtype_name, widened
from paritygate.core.policy import DecisionRule, Tolerance
from paritygate.core.tensors import Array
from paritygate.tally.decision import UNDEFINED, UNDEFINED_NAME, DecisionTally

Stats = Literal["gate", "full"]
Look = Callable[[Codes], DecisionDetail]


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
        check_kind(rule, where)
        self._free = free_judge(rule, function, self._dtypes, compare_as, where)
        self._layout = lay_out(rule, self._shape, where)
        self._ranked = (
            None
            if self._free
            else ranked_judge(
                rule, tolerance, self._dtypes, self._layout.classes, compare_as, where
            )
        )
        given = rule.bands.names if rule.bands is not None else rule.labels or rule.ref_labels
        labels = given or [str(index) for index in range(self._layout.classes)]
        self.names = () if self._free is not None else unique_names(labels, where)
        self._truth = truth_lookup(labels)
        judge = self._free or self._ranked
        assert judge is not None
        self._counting = Counting(rule, judge, self.names, stats)
        self._cand_codes = _codes_by_name(rule) if self._free is None else None

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
        """Decide every sample on both sides, and keep what was decided.

        Args:
            ref: `(n, *sample_shape)` in the reference's dtype.
            cand: `(n, *sample_shape)` in the candidate's dtype.
            ordinals: `(n,)` int64, the samples' positions in the pack.
            truth: `(n,)` as `truth_codes` gives them, or None without labels.

        Raises:
            ValueError: if an array isn't what was announced.
            DecisionError: a user's function raised, or answered something unusable.
        """
        self._check(ref, cand, ordinals, truth)
        decided = self._decide(ref, cand, ordinals.size * self._layout.each)
        flipped = self._flips(decided)
        detail = self._detail(decided, flipped, ordinals.size)
        tally = self._counting.count(decided, flipped, self._rows(ordinals), truth)
        return replace(tally, samples=ordinals.size, flips=detail.flipped_rows.size), detail

    def compare_lazily(
        self,
        ref: Array,
        cand: Array,
        ordinals: Codes,
        truth: npt.NDArray[Any] | None = None,
    ) -> tuple[DecisionTally, AnyDetail]:
        """The same, but of many samples only what is told of them all is kept.

        Ordinals must be ascending, and both arrays stay as they are while the detail is asked.
        """
        self._check(ref, cand, ordinals, truth)
        if self._free is not None or ref.size < FEWEST:
            return self.compare(ref, cand, ordinals, truth)

        def look(rows: Codes) -> DecisionDetail:
            return self.compare(ref[rows], cand[rows], ordinals[rows])[1]

        found = self._scan(ref, cand, ordinals, look) if truth is None else None
        return found or self._in_parts(ref, cand, ordinals, truth, look)

    def _scan(
        self, ref: Array, cand: Array, ordinals: Codes, look: Look
    ) -> tuple[DecisionTally, LazyDetail] | None:
        """Count what is usual at once; None where a scan can't, or would leave most to be done."""
        if self._cand_codes is not None:
            return None
        assert self._ranked is not None
        sides = self._sides(ref, cand)
        rows = ordinals.size * self._layout.each
        scanned = self._ranked.scan(*sides, rows, is_full=self._stats == "full")
        if scanned is None or scanned.listed.size > MOST_LISTED * rows:
            return None
        tally = self._counting.count_usual(scanned, self._rows(ordinals))
        flipped, margins = [np.empty(0, np.int64)], [np.empty(0)]
        for at in range(0, scanned.listed.size, AT_ONCE):
            listed = scanned.listed[at : at + AT_ONCE]
            ref_rows, cand_rows = (_picked(side, listed, rows) for side in sides)
            decided = self._ranked(ref_rows, cand_rows, listed.size)
            flips = self._flips(decided)
            here = self._rows(ordinals, listed)
            tally = tally.merge(self._counting.count(decided, flips, here, None))
            flipped.append(listed[flips])
            margins.append(decided.margin[flips])
        at_row, margin = np.concatenate(flipped), np.concatenate(margins)
        if self._layout.positions is not None:
            at_row = np.unique(at_row // self._layout.each)
            margin = look(at_row).margin
        tally = replace(tally, samples=ordinals.size, flips=at_row.size)
        return tally, LazyDetail(at_row, margin, look)

    def _in_parts(
        self,
        ref: Array,
        cand: Array,
        ordinals: Codes,
        truth: npt.NDArray[Any] | None,
        look: Look,
    ) -> tuple[DecisionTally, LazyDetail]:
        """Look at every sample, at so many at once that what is made stays in the cache."""
        step = max(1, AT_ONCE // max(1, self._layout.each))
        tally, flipped, margins = None, [], []
        for at in range(0, ordinals.size, step):
            part = slice(at, at + step)
            labels = None if truth is None else truth[part]
            own, detail = self.compare(ref[part], cand[part], ordinals[part], labels)
            tally = own if tally is None else tally.merge(own)
            flipped.append(at + detail.flipped_rows)
            margins.append(detail.flip_margins)
        assert tally is not None
        return tally, LazyDetail(np.concatenate(flipped), np.concatenate(margins), look)

    def _rows(self, ordinals: Codes, numbers: Codes | None = None) -> Rows:
        return Rows(ordinals, self._layout.each, self._layout.positions is not None, numbers)

    def _check(
        self, ref: Array, cand: Array, ordinals: Codes, truth: npt.NDArray[Any] | None
    ) -> None:
        for side, values, dtype in zip(("ref", "cand"), (ref, cand), self._dtypes, strict=True):
            self._check_array(side, values, dtype, ordinals.size)
        if truth is not None and truth.shape != ordinals.shape:
            raise ValueError(
                f"decision {self._rule.name!r}: {truth.size} labels for {ordinals.size} samples"
            )

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
        return self._by_name(self._ranked(*self._sides(ref, cand), rows))

    def _sides(self, ref: Array, cand: Array) -> tuple[Array, Array]:
        made = [self._layout.rows(self._transformed(widened(side))) for side in (ref, cand)]
        return made[0], made[1]

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


def _codes_by_name(rule: DecisionRule) -> Codes | None:
    """For each class of the candidate the reference's of the same name; last: undefined."""
    if rule.ref_labels is None or rule.cand_labels is None:
        return None
    codes = [rule.ref_labels.index(name) for name in rule.cand_labels]
    return np.array([*codes, UNDEFINED], np.int64)


def _picked(side: Array, listed: Codes, rows: int) -> Array:
    return flat(side.reshape(rows, -1)[listed])


def _told_places(margin: Floats, flipped: Flags) -> Codes:
    """For each sample the flip with the largest margin, else the decision with the smallest."""
    if not margin.shape[1]:
        return np.zeros(len(margin), np.int64)
    unknown = np.isnan(margin)
    widest = np.where(flipped, np.where(unknown, 0.0, margin), -1.0).argmax(axis=1)
    closest = np.where(unknown, np.inf, margin).argmin(axis=1)
    places: Codes = np.where(flipped.any(axis=1), widest, closest).astype(np.int64)
    return places
