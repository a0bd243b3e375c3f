"""The mergeable statistics of one decision: flips, matrix, margins, risk, labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeVar

from paritygate.tally.histogram import Histogram

UNDEFINED = -1
UNDEFINED_NAME = "undefined"

Codes = tuple[int, int]
T = TypeVar("T")


@dataclass(frozen=True)
class MarginAt:
    """A margin and the ordinal of its sample; of equal margins the lowest ordinal counts."""

    margin: float
    ordinal: int

    def smaller(self, other: MarginAt) -> MarginAt:
        """Return the one with the smaller margin."""
        return min(self, other, key=lambda at: (at.margin, at.ordinal))

    def larger(self, other: MarginAt) -> MarginAt:
        """Return the one with the larger margin."""
        return min(self, other, key=lambda at: (-at.margin, at.ordinal))


@dataclass(frozen=True)
class EdgeSides:
    """Reference scores below, exactly on and above one edge of a band rule."""

    below: int = 0
    on: int = 0
    above: int = 0

    def merge(self, other: EdgeSides) -> EdgeSides:
        """Add both."""
        return _add_fields(self, other)


@dataclass(frozen=True)
class LabelTally:
    """Decisions against the truth.

    Attributes:
        labelled: samples whose label is a name or index of the decision.
        unknown: samples with any other label; in none of the counts below.
        correct_ref, correct_cand: samples that a side decides as labelled.
        changed_to_wrong: right on the reference, wrong on the candidate.
        changed_to_right: wrong on the reference, right on the candidate.
    """

    labelled: int = 0
    unknown: int = 0
    correct_ref: int = 0
    correct_cand: int = 0
    changed_to_wrong: int = 0
    changed_to_right: int = 0

    def merge(self, other: LabelTally) -> LabelTally:
        """Add both."""
        return _add_fields(self, other)


@dataclass(frozen=True)
class DecisionTally:
    """One decision over some blocks. A code is an index of a band or class, -1 for undefined.

    Attributes:
        kind: "bands" or "argmax".
        tier: "full" also carries the histogram of all margins.
        samples: samples decided.
        flips: samples whose decisions differ under the policy.
        matrix: (ref code, cand code) -> samples, sparse.
        tied_ref, tied_cand: argmax rows where several classes share the maximum.
        at_risk: samples whose margin is within the error that the tolerance allows.
        depends_on_compare_as: samples decided otherwise under the other `compare_as`.
        margins: margins of all samples with a defined reference decision; None in tier "gate".
        margin_min: smallest of them.
        flip_margins: margins of the flipped ones among them.
        flip_margin_min, flip_margin_max: smallest and largest of those.
        edges: for each edge of a band rule the sides on which the reference scores lie.
        labels: against the truth; None without labels.
    """

    kind: Literal["bands", "argmax"]
    tier: Literal["gate", "full"]
    samples: int = 0
    flips: int = 0
    matrix: Mapping[Codes, int] = field(default_factory=dict)
    tied_ref: int = 0
    tied_cand: int = 0
    at_risk: int = 0
    depends_on_compare_as: int = 0
    margins: Histogram | None = None
    margin_min: MarginAt | None = None
    flip_margins: Histogram = field(default_factory=Histogram)
    flip_margin_min: MarginAt | None = None
    flip_margin_max: MarginAt | None = None
    edges: tuple[EdgeSides, ...] = ()
    labels: LabelTally | None = None

    @property
    def undefined_ref(self) -> int:
        """Samples without a defined decision of the reference."""
        return sum(n for (ref, _), n in self.matrix.items() if ref == UNDEFINED)

    @property
    def undefined_cand(self) -> int:
        """Samples without a defined decision of the candidate."""
        return sum(n for (_, cand), n in self.matrix.items() if cand == UNDEFINED)

    def merge(self, other: DecisionTally) -> DecisionTally:
        """Put two disjoint sets of samples together.

        Raises:
            ValueError: if the tallies are of different rules or tiers.
        """
        ours, theirs = self._header, other._header
        if ours != theirs:
            raise ValueError(f"tallies of different decisions don't merge: {ours} and {theirs}")
        return DecisionTally(
            kind=self.kind,
            tier=self.tier,
            samples=self.samples + other.samples,
            flips=self.flips + other.flips,
            matrix=dict(Counter(self.matrix) + Counter(other.matrix)),
            tied_ref=self.tied_ref + other.tied_ref,
            tied_cand=self.tied_cand + other.tied_cand,
            at_risk=self.at_risk + other.at_risk,
            depends_on_compare_as=self.depends_on_compare_as + other.depends_on_compare_as,
            margins=_either(Histogram.merge, self.margins, other.margins),
            margin_min=_either(MarginAt.smaller, self.margin_min, other.margin_min),
            flip_margins=self.flip_margins.merge(other.flip_margins),
            flip_margin_min=_either(MarginAt.smaller, self.flip_margin_min, other.flip_margin_min),
            flip_margin_max=_either(MarginAt.larger, self.flip_margin_max, other.flip_margin_max),
            edges=tuple(a.merge(b) for a, b in zip(self.edges, other.edges, strict=True)),
            labels=_either(LabelTally.merge, self.labels, other.labels),
        )

    @property
    def _header(self) -> tuple[str, str, int]:
        return self.kind, self.tier, len(self.edges)

    def figures(self, names: Sequence[str], max_error: float | None) -> dict[str, Any]:
        """Compute what the summary prints.

        Args:
            names: name of each code.
            max_error: largest |cand - ref| of the output over pairs finite on both sides, as
                far as it is known.

        Returns:
            JSON types, but for infinite floats; a figure that isn't computed is None, and its
            reason stands under `not_computed`.
        """
        observed, reason = self._at_risk_observed(max_error)
        is_argmax = self.kind == "argmax"
        return {
            "samples": self.samples,
            "flips": self.flips,
            "agreement": (self.samples - self.flips) / self.samples if self.samples else None,
            "flip_rate_upper_95": flip_rate_upper(self.flips, self.samples),
            "undefined": {"ref": self.undefined_ref, "cand": self.undefined_cand},
            "matrix": self._named_matrix(names),
            "tied": {"ref": self.tied_ref, "cand": self.tied_cand} if is_argmax else None,
            "edges": None if is_argmax else self._named_edges(names),
            "margin_min": _margin_figure(self.margin_min),
            "flip_margin": {
                "min": _margin_figure(self.flip_margin_min),
                "median": self._flip_median(),
                "max": _margin_figure(self.flip_margin_max),
            },
            "at_risk": self.at_risk,
            "at_risk_observed": observed,
            "depends_on_compare_as": self.depends_on_compare_as,
            "labels": None if self.labels is None else _fields(self.labels),
            "not_computed": {} if reason is None else {"at_risk_observed": reason},
        }

    def _at_risk_observed(self, max_error: float | None) -> tuple[int | None, str | None]:
        if self.margins is None:
            return None, "the histogram of margins belongs to the tier full"
        if max_error is None:
            return None, "no error was measured between finite values"
        reach = max_error if self.kind == "bands" else 2 * max_error
        return self.margins.count_up_to(reach), None

    def _flip_median(self) -> float | None:
        if self.flip_margin_max is None:
            return None
        return self.flip_margins.quantile(0.5, self.flip_margin_max.margin)

    def _named_matrix(self, names: Sequence[str]) -> dict[str, dict[str, int]]:
        named: dict[str, dict[str, int]] = {}
        for (ref, cand), n in sorted(self.matrix.items()):
            named.setdefault(_name(names, ref), {})[_name(names, cand)] = n
        return named

    def _named_edges(self, names: Sequence[str]) -> list[dict[str, Any]]:
        between = zip(names, names[1:], self.edges, strict=False)
        return [{"between": [low, high], **_fields(sides)} for low, high, sides in between]

    def to_json(self) -> dict[str, Any]:
        """Write JSON types only; equal tallies give equal JSON."""
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "matrix": [[*codes, n] for codes, n in sorted(self.matrix.items())],
            "margins": None if self.margins is None else self.margins.to_json(),
            "flip_margins": self.flip_margins.to_json(),
            "margin_min": _write_margin(self.margin_min),
            "flip_margin_min": _write_margin(self.flip_margin_min),
            "flip_margin_max": _write_margin(self.flip_margin_max),
            "edges": [list(_fields(sides).values()) for sides in self.edges],
            "labels": None if self.labels is None else list(_fields(self.labels).values()),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> DecisionTally:
        """Read back the tally that gave this JSON."""
        margins, labels = data["margins"], data["labels"]
        return DecisionTally(
            **{name: data[name] for name in _PLAIN},
            matrix={(ref, cand): n for ref, cand, n in data["matrix"]},
            margins=None if margins is None else Histogram.from_json(margins),
            flip_margins=Histogram.from_json(data["flip_margins"]),
            margin_min=_read_margin(data["margin_min"]),
            flip_margin_min=_read_margin(data["flip_margin_min"]),
            flip_margin_max=_read_margin(data["flip_margin_max"]),
            edges=tuple(EdgeSides(*sides) for sides in data["edges"]),
            labels=None if labels is None else LabelTally(*labels),
        )


_PLAIN = (
    "kind",
    "tier",
    "samples",
    "flips",
    "tied_ref",
    "tied_cand",
    "at_risk",
    "depends_on_compare_as",
)


def flip_rate_upper(flips: int, samples: int) -> float:
    """Bound the flip rate from above with 95 % confidence, one-sided, for independent samples.

    `Beta^-1(0.95; flips + 1, samples - flips)`; 1 where every sample flipped.
    Source: Clopper and Pearson, Biometrika 26 (1934).
    """
    if flips == samples:
        return 1.0
    from scipy.special import betaincinv

    return float(betaincinv(flips + 1, samples - flips, 0.95))


def _name(names: Sequence[str], code: int) -> str:
    return UNDEFINED_NAME if code == UNDEFINED else names[code]


def _margin_figure(at: MarginAt | None) -> dict[str, Any] | None:
    return None if at is None else _fields(at)


def _write_margin(at: MarginAt | None) -> list[Any] | None:
    return None if at is None else [at.margin.hex(), at.ordinal]


def _read_margin(data: Sequence[Any] | None) -> MarginAt | None:
    return None if data is None else MarginAt(float.fromhex(data[0]), data[1])


def _fields(record: Any) -> dict[str, Any]:
    return {f.name: getattr(record, f.name) for f in fields(record)}


def _add_fields(ours: T, theirs: T) -> T:
    theirs_by_name = _fields(theirs)
    return type(ours)(**{name: n + theirs_by_name[name] for name, n in _fields(ours).items()})


def _either(merge: Callable[[T, T], T], ours: T | None, theirs: T | None) -> T | None:
    if ours is None or theirs is None:
        return theirs if ours is None else ours
    return merge(ours, theirs)
