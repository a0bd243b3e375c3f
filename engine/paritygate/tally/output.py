"""The mergeable statistics of one output, and the figures that a summary prints from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from paritygate.core.verdict import SAMPLE_RULES
from paritygate.tally.exact import ExactSum
from paritygate.tally.extremes import Extreme, Number, encode_number, worse
from paritygate.tally.histogram import Histogram
from paritygate.tally.texts import Difference, first_of

Tier = Literal["gate", "full"]

CLASSES = ("finite", "nan", "inf", "-inf")
RULES = (
    "tolerance.exceeded",
    "tolerance.hard_cap",
    "nonfinite.candidate",
    "nonfinite.reference",
    "nonfinite.mismatch",
)
RULE_BITS = tuple(SAMPLE_RULES[rule] for rule in RULES)
MIN_RANKED_WIDTH = 16  # elements in a sample, for SQNR and cosine of a sample to mean something
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}

_COUNTS = (
    "samples",
    "failing_samples",
    "empty_samples",
    "ranked_samples",
    "failing_elements",
    "ref_beyond_cand_range",
    "ulp_undefined",
    "sqnr_undefined",
    "cosine_undefined",
)
_VECTORS = ("rule_samples", "classes", "at_limits")
_EXTREMES = (
    "max_abs_error",
    "max_excess",
    "max_ulp",
    "max_ulp_above_atol",
    "worst_sqnr",
    "worst_cosine",
)
_SUMS = ("abs_errors", "errors", "squared_errors", "squared_refs", "ref_errors")
_OF_FULL_TIER = (
    "rmse",
    "sqnr_db",
    "one_minus_cosine",
    "abs_error_quantiles",
    "max_ulp",
    "max_ulp_above_atol",
    "ulp_undefined",
    "worst_sample_by_sqnr",
    "worst_sample_by_cosine",
)
_SAME = ("tier", "integer", "text")
_OF_ERRORS = (
    "finite_pairs",
    "nonfinite",
    "ref_beyond_cand_range",
    "mean_error",
    "mean_abs_error",
    "max_abs_error",
    "max_excess",
)
_TEXTS_HAVE_NONE = "texts are equal or not; they have no errors"
_OF_FLOATS = tuple(f for f in _OF_FULL_TIER if f not in ("rmse", "abs_error_quantiles"))


class OutputTally(Struct, frozen=True):
    """What was counted of one output over some samples.

    Errors are `cand - ref` in float64, of pairs that are finite on both sides.

    Attributes:
        tier: "gate" carries counts, largest errors and their sums, "full" all.
        integer: whether the output is of integers or bools; errors of extremes are exact ints then.
        text: whether it is of strings, which have counts and a first difference, and no errors.
        samples: samples compared; `failing_samples` of them broke a rule, `empty_samples` have no
            element, `ranked_samples` are wide enough for an SQNR of their own (full).
        rule_samples: samples that broke each of `RULES`.
        classes: elements by class (`CLASSES`) of the reference and of the candidate, row by row.
        at_limits: elements that are the smallest and the largest number of their dtype, of the
            reference, then of the candidate; of integers of at most 16 bits.
        failing_elements: elements that broke a rule, tolerated outliers included.
        ref_beyond_cand_range: finite reference elements that the candidate's dtype can't hold.
        max_abs_error: keys (error).
        max_excess: keys (error as a multiple of what is allowed, error).
        max_ulp, max_ulp_above_atol: keys (steps of the candidate's dtype); the second one over
            elements with |ref| >= atol.
        worst_sqnr, worst_cosine: keys (noise over signal), (1 - cosine); `ref` and `cand` are the
            sample's sums of r^2 and e^2.
        abs_errors, errors, squared_errors, squared_refs, ref_errors: exact sums of |e|, e, e^2,
            r^2, r*e; the last three of ranked samples are of each sample's own sum, which is
            rounded as `kernels.rank` says.
        histogram: of |e| (full).
        difference: the first two texts that differ.
    """

    tier: Tier = "full"
    integer: bool = False
    text: bool = False
    samples: int = 0
    failing_samples: int = 0
    empty_samples: int = 0
    ranked_samples: int = 0
    rule_samples: tuple[int, ...] = (0,) * len(RULES)
    classes: tuple[int, ...] = (0,) * 16
    at_limits: tuple[int, ...] = (0,) * 4
    failing_elements: int = 0
    ref_beyond_cand_range: int = 0
    max_abs_error: Extreme | None = None
    max_excess: Extreme | None = None
    abs_errors: ExactSum = field(default_factory=ExactSum)
    errors: ExactSum = field(default_factory=ExactSum)
    squared_errors: ExactSum = field(default_factory=ExactSum)
    squared_refs: ExactSum = field(default_factory=ExactSum)
    ref_errors: ExactSum = field(default_factory=ExactSum)
    histogram: Histogram = field(default_factory=Histogram)
    max_ulp: Extreme | None = None
    max_ulp_above_atol: Extreme | None = None
    ulp_undefined: int = 0
    worst_sqnr: Extreme | None = None
    worst_cosine: Extreme | None = None
    sqnr_undefined: int = 0
    cosine_undefined: int = 0
    difference: Difference | None = None

    @property
    def is_float(self) -> bool:
        """Whether a tolerance is looked up for it as for a float output."""
        return not (self.integer or self.text)

    @property
    def elements(self) -> int:
        """Elements compared."""
        return sum(self.classes)

    @property
    def finite_pairs(self) -> int:
        """Elements that are finite on both sides."""
        return self.classes[0]

    @property
    def agreeing_nonfinite(self) -> int:
        """Elements that are non-finite on both sides, of the same class and sign."""
        return self.classes[5] + self.classes[10] + self.classes[15]

    @property
    def disagreeing_nonfinite(self) -> int:
        """Elements that are non-finite on one side, or on both and unlike."""
        return self.elements - self.finite_pairs - self.agreeing_nonfinite

    def moved(self, by: int) -> OutputTally:
        """The tally of the same samples where each ordinal is larger by a number."""
        if not by:
            return self
        mine = asdict(self)
        located = {
            name: replace(at, ordinal=at.ordinal + by)
            for name in (*_EXTREMES, "difference")
            if (at := mine[name]) is not None
        }
        return OutputTally(**(mine | located))

    def merge(self, other: OutputTally) -> OutputTally:
        """The tally of the samples of both; associative and commutative, bit for bit.

        Raises:
            ValueError: tiers or kinds of dtype differ.
        """
        if (self.tier, self._kind) != (other.tier, other._kind):
            raise ValueError(
                f"can't merge a tally of tier {self.tier!r} ({self._kind}) with one of tier "
                f"{other.tier!r} ({other._kind}); compare all parts alike"
            )
        mine, theirs = asdict(self), asdict(other)
        merged: dict[str, Any] = {name: mine[name] for name in _SAME}
        for name in (*_COUNTS, *_SUMS):
            merged[name] = mine[name] + theirs[name]
        for name in _VECTORS:
            merged[name] = tuple(map(sum, zip(mine[name], theirs[name], strict=True)))
        for name in _EXTREMES:
            merged[name] = worse(mine[name], theirs[name])
        merged["histogram"] = self.histogram.merge(other.histogram)
        merged["difference"] = first_of(self.difference, other.difference)
        return OutputTally(**merged)

    def to_json(self) -> dict[str, Any]:
        """JSON types; `from_json` gives the same tally back, bit for bit."""
        mine = asdict(self)
        data: dict[str, Any] = {name: mine[name] for name in (*_SAME, *_COUNTS)}
        data |= {name: list(mine[name]) for name in _VECTORS}
        data |= {name: mine[name].to_json() for name in (*_SUMS, "histogram")}
        located = (*_EXTREMES, "difference")
        data |= {name: mine[name] and mine[name].to_json() for name in located}
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> OutputTally:
        """The tally that `to_json` wrote."""
        made: dict[str, Any] = {name: data[name] for name in (*_SAME, *_COUNTS)}
        made |= {name: tuple(data[name]) for name in _VECTORS}
        made |= {name: ExactSum.from_json(data[name]) for name in _SUMS}
        made |= {name: data[name] and Extreme.from_json(data[name]) for name in _EXTREMES}
        first = data["difference"]
        made["difference"] = first and Difference.from_json(first)
        return cls(**made, histogram=Histogram.from_json(data["histogram"]))

    def figures(self) -> dict[str, Any]:
        """What a summary prints, as JSON types; inf is the string "inf".

        A figure that isn't there is None, and `not_computed` says why, by the figure's name.
        """
        if self.text:
            return self._text_figures()
        computed = self._means()
        reasons = {name: self._reason(name) for name, found in computed.items() if found is None}
        if self.tier == "full":
            computed |= self._spread() | self._rounding() | self._sample_ranks()
        for name in _OF_FULL_TIER:
            if self.integer and name in _OF_FLOATS:
                reasons[name] = "not meaningful for integers"
            elif self.tier != "full":
                reasons[name] = "belongs to the statistics tier 'full'"
            elif computed.get(name) is None:
                reasons[name] = self._reason(name)
        computed |= {name: None for name in _OF_FULL_TIER if name in reasons}
        return self._counted() | computed | {"not_computed": reasons}

    @property
    def _kind(self) -> str:
        return "integers" if self.integer else "texts" if self.text else "floats"

    def _text_figures(self) -> dict[str, Any]:
        """Counts and the first difference; every figure of errors is None."""
        without = dict.fromkeys((*_OF_ERRORS, *_OF_FULL_TIER), _TEXTS_HAVE_NONE)
        difference = self.difference.to_json() if self.difference else None
        figures = self._counted() | dict.fromkeys(without)
        return figures | {"first_difference": difference, "not_computed": without}

    def _counted(self) -> dict[str, Any]:
        return {
            "tier": self.tier,
            "samples": self.samples,
            "failing_samples": self.failing_samples,
            "empty_samples": self.empty_samples,
            "rule_samples": {r: n for r, n in zip(RULES, self.rule_samples, strict=True) if n},
            "elements": self.elements,
            "failing_elements": self.failing_elements,
            "finite_pairs": self.finite_pairs,
            "nonfinite": {
                "ref": sum(self.classes[4:]),
                "cand": self.elements - sum(self.classes[::4]),
                "agreeing": self.agreeing_nonfinite,
                "disagreeing": self.disagreeing_nonfinite,
                "table": self._nonfinite_table(),
            },
            "ref_beyond_cand_range": self.ref_beyond_cand_range,
        } | self._saturated()

    def _saturated(self) -> dict[str, Any]:
        """Elements at the limits of their dtype, where there are any."""
        if not any(self.at_limits):
            return {}
        low, high, cand_low, cand_high = self.at_limits
        ref, cand = {"low": low, "high": high}, {"low": cand_low, "high": cand_high}
        return {"saturated": {"ref": ref, "cand": cand}}

    def _nonfinite_table(self) -> dict[str, dict[str, int]]:
        table: dict[str, dict[str, int]] = {}
        for place, count in enumerate(self.classes):
            if place and count:
                table.setdefault(CLASSES[place // 4], {})[CLASSES[place % 4]] = count
        return table

    def _means(self) -> dict[str, Any]:
        largest = _located(self.max_abs_error)
        steps = {"max_steps": largest and largest["value"]} if self.integer else {}
        return {
            "mean_error": _number(self.errors.mean(self.finite_pairs)),
            "mean_abs_error": _number(self.abs_errors.mean(self.finite_pairs)),
            "max_abs_error": largest,
            "max_excess": _located(self.max_excess),
        } | steps

    def _spread(self) -> dict[str, Any]:
        mean_square = self.squared_errors.mean(self.finite_pairs)
        top = self.max_abs_error
        quantiles = top and {
            name: _number(self.histogram.quantile(q, float(top.value)))
            for name, q in QUANTILES.items()
        }
        return {
            "rmse": None if mean_square is None else _number(math.sqrt(mean_square)),
            "sqnr_db": _number(_sqnr_db(self.squared_refs, self.squared_errors)),
            "one_minus_cosine": _number(
                one_minus_cosine(self.squared_refs, self.squared_errors, self.ref_errors)
            ),
            "abs_error_quantiles": quantiles,
        }

    def _rounding(self) -> dict[str, Any]:
        return {
            "max_ulp": _located(self.max_ulp),
            "max_ulp_above_atol": _located(self.max_ulp_above_atol),
            "ulp_undefined": self.ulp_undefined,
        }

    def _sample_ranks(self) -> dict[str, Any]:
        sqnr, cosine = self.worst_sqnr, self.worst_cosine
        return {
            "worst_sample_by_sqnr": sqnr
            and {
                "sqnr_db": _number(_decibels(sqnr.ref, sqnr.cand)),
                "ordinal": sqnr.ordinal,
                "undefined_samples": self.sqnr_undefined,
            },
            "worst_sample_by_cosine": cosine
            and {
                "one_minus_cosine": _number(cosine.value),
                "ordinal": cosine.ordinal,
                "undefined_samples": self.cosine_undefined,
            },
        }

    def _reason(self, figure: str) -> str:
        if self.finite_pairs == 0:
            return "no element is finite on both sides"
        if figure.startswith("worst_sample"):
            if self.ranked_samples == 0:
                return f"samples have fewer than {MIN_RANKED_WIDTH} elements"
            return "undefined for every sample: no energy, or too much for float64"
        if figure == "max_ulp_above_atol" and self.max_ulp is not None:
            return "no |ref| >= atol"
        if figure.startswith("max_ulp"):
            return "the reference rounds to infinity in the candidate's dtype"
        if any(getattr(self, name).overflowed for name in _SUMS):
            return "a term overflowed float64"
        return "undefined: no energy"


def one_minus_cosine(
    squared_refs: ExactSum, squared_errors: ExactSum, cross: ExactSum
) -> float | None:
    """`1 - cos(ref, cand)` from exact sums of r^2, e^2 and r*e; None where undefined.

    With a = e^2/r^2, b = r*e/r^2 and s = 1 + 2b + a: cos = (1 + b)/sqrt(s), and where that is
    positive 1 - cos = (a - b^2)/(sqrt(s)(sqrt(s) + 1 + b)), which does not cancel.
    """
    if _any_overflowed(squared_refs, squared_errors, cross) or squared_refs.units <= 0:
        return None
    noise = Fraction(squared_errors.units, squared_refs.units)
    along = Fraction(cross.units, squared_refs.units)
    power = 1 + 2 * along + noise
    if power <= 0:
        return None
    # Scaled by a power of four, so that the root of any fraction is within float64.
    scale = (power.numerator.bit_length() - power.denominator.bit_length()) // 2
    length = Fraction(math.sqrt(power / Fraction(4) ** scale)) * Fraction(2) ** scale
    if 1 + along <= 0:
        return min(2.0, float(1 - (1 + along) / length))
    return max(0.0, float((noise - along * along) / (length * (length + 1 + along))))


def _sqnr_db(squared_refs: ExactSum, squared_errors: ExactSum) -> float | None:
    if _any_overflowed(squared_refs, squared_errors) or squared_refs.units <= 0:
        return None
    return _decibels(squared_refs.units, squared_errors.units)


def _decibels(signal: Number, noise: Number) -> float:
    if noise == 0:
        return math.inf
    return 10.0 * (math.log10(signal) - math.log10(noise))


def _any_overflowed(*sums: ExactSum) -> bool:
    return any(s.overflowed for s in sums)


def _located(extreme: Extreme | None) -> dict[str, Any] | None:
    if extreme is None:
        return None
    return {
        "value": encode_number(extreme.value),
        "ordinal": extreme.ordinal,
        "index": extreme.index,
        "ref": encode_number(extreme.ref),
        "cand": encode_number(extreme.cand),
    }


def _number(value: Number | None) -> Number | str | None:
    return None if value is None else encode_number(value)
