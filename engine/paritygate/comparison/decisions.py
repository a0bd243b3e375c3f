"""From two sides of one output to decisions: codes, flips, margins, and their tally."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from paritygate.core.bands import Bands
from paritygate.core.policy import DecisionRule, Tolerance
from paritygate.core.tensors import DTYPES, Array, is_float
from paritygate.tally.decision import (
    UNDEFINED,
    UNDEFINED_NAME,
    DecisionTally,
    EdgeSides,
    LabelTally,
    MarginAt,
)
from paritygate.tally.histogram import Histogram

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Stats = Literal["gate", "full"]
CompareAs = Literal["output", "float64"]

# From here on neighbouring integers share a float64, and an edge could be passed by rounding.
EXACT_INTEGERS = 2.0**53


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
        compare_as = _compare_as(rule, ref_dtype, cand_dtype, where)
        self._judge: _BandJudge | _ArgmaxJudge
        if (rule.bands is None) is not rule.argmax:
            raise ValueError(f"{where}: needs either bands or argmax = true, exactly one of them")
        if rule.bands is not None:
            _check_score(rule, self._shape, where)
            self._judge = _BandJudge(rule.bands, tolerance, ref_dtype, compare_as, where)
            labels: Sequence[str] = rule.bands.names
        else:
            classes = _check_classes(rule, self._shape, where)
            self._judge = _ArgmaxJudge(classes, tolerance, ref_dtype, compare_as)
            labels = rule.labels or [str(index) for index in range(classes)]
        self.names = _unique_names(labels, where)
        self._truth = _truth_lookup(labels)

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
        judged = self._judge(_flat(ref), _flat(cand), ordinals.size)
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
        self, judged: _Judged, detail: DecisionDetail, ordinals: Codes, truth: Codes | None
    ) -> DecisionTally:
        defined = detail.ref != UNDEFINED
        lost = detail.flipped & defined
        return DecisionTally(
            kind=self._judge.kind,
            tier=self._stats,
            samples=detail.ref.size,
            flips=_count(detail.flipped),
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


@dataclass(frozen=True)
class _Judged:
    ref: Codes
    cand: Codes
    margin: Floats
    at_risk: int
    depends: int
    tied_ref: int = 0
    tied_cand: int = 0
    edges: tuple[EdgeSides, ...] = ()


class _BandJudge:
    kind: Literal["bands"] = "bands"

    def __init__(
        self, bands: Bands, tolerance: Tolerance, ref_dtype: str, compare_as: CompareAs, where: str
    ) -> None:
        exact = np.array(bands.edges, np.float64)
        rounded = _edges_in(bands, ref_dtype, where)
        if compare_as == "output":
            _check_distinct(bands, rounded, ref_dtype, where)
        self._ref_dtype = ref_dtype
        self._compare_as = compare_as
        self._edges: dict[CompareAs, Floats] = {"output": rounded, "float64": exact}
        self._edges_differ = not np.array_equal(rounded, exact)
        self._tie_up = np.array(bands.tie_up, np.bool_)
        self._tolerance = tolerance

    def __call__(self, ref: Array, cand: Array, samples: int) -> _Judged:
        from paritygate.kernels import decisions as kernels

        edges = self._edges[self._compare_as]
        codes = self._codes(ref, cand, self._compare_as)
        margin, at_risk = np.empty(samples), np.empty(samples, np.bool_)
        kernels.band_margins(
            ref, edges, self._tolerance.atol, self._tolerance.rtol, margin, at_risk
        )
        sides = np.zeros(3 * edges.size, np.int64)
        kernels.edge_sides(ref, edges, sides)
        depends = 0
        if self._edges_differ or _narrows(cand, self._ref_dtype):
            depends = _differing(codes, self._codes(ref, cand, _other(self._compare_as)))
        return _Judged(
            *codes,
            margin,
            _count(at_risk),
            depends,
            edges=tuple(EdgeSides(*map(int, side)) for side in sides.reshape(-1, 3)),
        )

    def _codes(self, ref: Array, cand: Array, compare_as: CompareAs) -> tuple[Codes, Codes]:
        from paritygate.kernels import decisions as kernels

        ref_codes, cand_codes = np.empty(ref.size, np.int64), np.empty(ref.size, np.int64)
        edges = self._edges[compare_as]
        if compare_as == "output":
            cand = _narrowed(cand, self._ref_dtype)
        kernels.band_codes(ref, edges, self._tie_up, ref_codes)
        kernels.band_codes(cand, edges, self._tie_up, cand_codes)
        return ref_codes, cand_codes


class _ArgmaxJudge:
    kind: Literal["argmax"] = "argmax"

    def __init__(
        self, classes: int, tolerance: Tolerance, ref_dtype: str, compare_as: CompareAs
    ) -> None:
        self._classes = classes
        self._tolerance = tolerance
        self._ref_dtype = ref_dtype
        self._compare_as = compare_as

    def __call__(self, ref: Array, cand: Array, samples: int) -> _Judged:
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
        if _narrows(cand, self._ref_dtype) or _widens(ref) or _widens(cand):
            other = _other(self._compare_as)
            others, _ = self._codes((self._as(other, ref), self._as(other, cand)), samples)
            depends = _differing(codes, others)
        tied_ref, tied_cand = map(_count, ties)
        return _Judged(*codes, margin, _count(at_risk), depends, tied_ref, tied_cand)

    def _as(self, compare_as: CompareAs, values: Array) -> Array:
        if compare_as == "output":
            return _narrowed(values, self._ref_dtype)
        return _flat(values.astype(np.float64)) if _widens(values) else values

    def _codes(
        self, sides: tuple[Array, Array], samples: int
    ) -> tuple[tuple[Codes, Codes], tuple[Flags, Flags]]:
        from paritygate.kernels import decisions as kernels

        codes = np.empty(samples, np.int64), np.empty(samples, np.int64)
        ties = np.empty(samples, np.bool_), np.empty(samples, np.bool_)
        for scores, code, tied in zip(sides, codes, ties, strict=True):
            kernels.argmax_codes(scores, self._classes, code, tied)
        return codes, ties


def _compare_as(rule: DecisionRule, ref_dtype: str, cand_dtype: str, where: str) -> CompareAs:
    for dtype in (ref_dtype, cand_dtype):
        if dtype not in DTYPES:
            raise ValueError(f"{where}: dtype {dtype} can't be judged; known are {list(DTYPES)}")
    if is_float(ref_dtype) != is_float(cand_dtype):
        raise ValueError(
            f"{where}: the reference is {ref_dtype} and the candidate {cand_dtype}; floats and "
            "integers share no scale, so compare outputs of one kind"
        )
    if rule.compare_as is None and ref_dtype != cand_dtype:
        raise ValueError(
            f"{where}: the reference is {ref_dtype} and the candidate {cand_dtype}; say "
            'compare_as = "output" (both in the reference\'s dtype) or compare_as = "float64"'
        )
    return rule.compare_as or "output"


def _check_score(rule: DecisionRule, shape: tuple[int, ...], where: str) -> None:
    elements = int(np.prod(shape, dtype=np.int64))
    if elements != 1:
        raise ValueError(
            f"{where}: bands need one score a sample, but a sample of shape {list(shape)} has "
            f"{elements} elements; use argmax, or an output with one element"
        )
    if rule.labels is not None:
        raise ValueError(f"{where}: bands are named in the rule itself; remove labels")


def _check_classes(rule: DecisionRule, shape: tuple[int, ...], where: str) -> int:
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


def _edges_in(bands: Bands, dtype: str, where: str) -> Floats:
    exact = np.array(bands.edges, np.float64)
    if is_float(dtype):
        with np.errstate(over="ignore", under="ignore"):
            return exact.astype(dtype).astype(np.float64)
    low, high = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    for edge in bands.edges:
        if not edge.is_integer():
            raise ValueError(
                f"{where}: the edge {edge!r} is fractional, but the score is {dtype}; compare the "
                "dequantized output, or give whole edges"
            )
        if not low <= edge <= high or abs(edge) >= EXACT_INTEGERS:
            limits = f"{max(low, 1 - 2**53)} to {min(high, 2**53 - 1)}"
            raise ValueError(f"{where}: the edge {edge!r} of a {dtype} score is not in {limits}")
    return exact


def _check_distinct(bands: Bands, rounded: Floats, dtype: str, where: str) -> None:
    if not np.isfinite(rounded).all():
        beyond = bands.edges[int(np.argmin(np.isfinite(rounded)))]
        raise ValueError(f"{where}: the edge {beyond!r} is beyond the range of {dtype}")
    for k in range(1, rounded.size):
        if rounded[k - 1] == rounded[k]:
            raise ValueError(
                f"{where}: the edges {bands.edges[k - 1]!r} and {bands.edges[k]!r} are the same "
                f"number in {dtype}, so no score can fall between them; move them apart, or "
                'compare_as = "float64"'
            )


def _unique_names(labels: Sequence[str], where: str) -> tuple[str, ...]:
    times = Counter(labels)
    times[UNDEFINED_NAME] += 2
    names = tuple(
        f"{label} ({code})" if times[label] > 1 else label for code, label in enumerate(labels)
    )
    if len(set(names)) != len(names):
        raise ValueError(f"{where}: labels repeat in a way that can't be told apart; rename some")
    return names


def _truth_lookup(labels: Sequence[str]) -> dict[object, int]:
    times = Counter(labels)
    lookup: dict[object, int] = {code: code for code in range(len(labels))}
    lookup.update({label: code for code, label in enumerate(labels) if times[label] == 1})
    return lookup


def _other(compare_as: CompareAs) -> CompareAs:
    return "float64" if compare_as == "output" else "output"


def _narrows(values: Array, ref_dtype: str) -> bool:
    return ref_dtype == "float32" and values.dtype == np.float64


def _narrowed(values: Array, ref_dtype: str) -> Array:
    if not _narrows(values, ref_dtype):
        return values
    with np.errstate(over="ignore", under="ignore"):
        return _flat(values.astype(np.float32))


def _widens(values: Array) -> bool:
    return values.dtype.kind in "iu" and values.dtype.itemsize == 8


def _flat(values: Array) -> Array:
    flat = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("=")).reshape(-1)
    flat = flat.view(np.uint8 if flat.dtype == np.bool_ else flat.dtype)
    flat.flags.writeable = False
    return flat


def _count(flags: Flags) -> int:
    return int(np.count_nonzero(flags))


def _differing(ours: tuple[Codes, Codes], theirs: tuple[Codes, Codes]) -> int:
    return _count((ours[0] != theirs[0]) | (ours[1] != theirs[1]))


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
        labelled=_count(known),
        unknown=_count(~known),
        correct_ref=_count(ref_right),
        correct_cand=_count(cand_right),
        changed_to_wrong=_count(ref_right & ~cand_right),
        changed_to_right=_count(cand_right & ~ref_right),
    )
