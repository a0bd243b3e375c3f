"""The mergeable statistics of one decision: flips, matrix, margins, risk, labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from msgspec import Struct, field
from msgspec.structs import asdict

from paritygate.tally.histogram import Histogram
from paritygate.tally.pairs import Code, Pair, bound_pairs, merge_pairs, pair_order
from paritygate.tally.records import EdgeSides, LabelTally, MarginAt

UNDEFINED = -1
UNDEFINED_NAME = "undefined"

Kind = Literal["bands", "argmax", "topk", "equal", "python"]
# Kinds whose decisions are values: no margin, and pairs are counted by text.
FREE = ("equal", "python")
T = TypeVar("T")


class DecisionTally(Struct, frozen=True):
    """One decision over some blocks. A code is an index of a band or class, -1 for undefined.

    Where a sample has several decisions, one a position, `samples` and `flips` count samples and
    everything else counts positions.

    Attributes:
        kind: how it is derived.
        tier: "full" also carries the histogram of all margins.
        samples: samples decided.
        flips: samples whose decisions differ under the policy.
        matrix: (ref, cand) -> count, sparse: codes, or texts where decisions are free values; of
            top-k each of the k places is one pair.
        tied_ref, tied_cand: rows in which a tie decides.
        at_risk: those whose margin is within the error that the tolerance allows; None where that
            can't be told.
        depends_on_compare_as: those decided otherwise under the other `compare_as`; None likewise.
        margins: margins of all with a defined reference decision; None in tier "gate".
        margin_min: smallest of them.
        flip_margins: margins of the flipped ones among them.
        flip_margin_min, flip_margin_max: smallest and largest of those.
        edges: for each edge of a band rule the sides on which the reference scores lie.
        labels: against the truth; None without labels.
        places: pairs that a decision gives: k for top-k, else 1.
        is_positioned: whether a sample has a decision a position.
        transform: what the output went through first; "" for nothing.
        positions: decisions made; as many as samples where a sample has one.
        position_flips: how many of them differ.
        other_pairs: pairs beyond those in the matrix, which is bounded for free values.
    """

    kind: Kind
    tier: Literal["gate", "full"]
    samples: int = 0
    flips: int = 0
    matrix: Mapping[Pair, int] = field(default_factory=dict)
    tied_ref: int = 0
    tied_cand: int = 0
    at_risk: int | None = 0
    depends_on_compare_as: int | None = 0
    margins: Histogram | None = None
    margin_min: MarginAt | None = None
    flip_margins: Histogram = field(default_factory=Histogram)
    flip_margin_min: MarginAt | None = None
    flip_margin_max: MarginAt | None = None
    edges: tuple[EdgeSides, ...] = ()
    labels: LabelTally | None = None
    places: int = 1
    is_positioned: bool = False
    transform: str = ""
    positions: int = 0
    position_flips: int = 0
    other_pairs: int = 0

    @property
    def is_never_defined(self) -> bool:
        """Whether there was something to decide, and nothing was ever decided, on both sides."""
        made = self.positions if self.is_positioned else self.samples
        return made > 0 and self.undefined_ref == self.undefined_cand == made

    @property
    def undefined_ref(self) -> int:
        """Decisions of the reference that aren't defined."""
        return sum(n for (ref, _), n in self.matrix.items() if ref == UNDEFINED) // self.places

    @property
    def undefined_cand(self) -> int:
        """Decisions of the candidate that aren't defined."""
        return sum(n for (_, cand), n in self.matrix.items() if cand == UNDEFINED) // self.places

    def merge(self, other: DecisionTally) -> DecisionTally:
        """Put two disjoint sets of samples together.

        Raises:
            ValueError: if the tallies are of different rules or tiers.
        """
        ours, theirs = self._header, other._header
        if ours != theirs:
            raise ValueError(f"tallies of different decisions don't merge: {ours} and {theirs}")
        matrix = merge_pairs(self.matrix, other.matrix)
        beyond = self.other_pairs + other.other_pairs
        if self.kind in FREE:
            matrix, dropped = bound_pairs(matrix)
            beyond += dropped
        return DecisionTally(
            kind=self.kind,
            tier=self.tier,
            samples=self.samples + other.samples,
            flips=self.flips + other.flips,
            matrix=matrix,
            tied_ref=self.tied_ref + other.tied_ref,
            tied_cand=self.tied_cand + other.tied_cand,
            at_risk=_either(int.__add__, self.at_risk, other.at_risk),
            depends_on_compare_as=_either(
                int.__add__, self.depends_on_compare_as, other.depends_on_compare_as
            ),
            margins=_either(Histogram.merge, self.margins, other.margins),
            margin_min=_either(MarginAt.smaller, self.margin_min, other.margin_min),
            flip_margins=self.flip_margins.merge(other.flip_margins),
            flip_margin_min=_either(MarginAt.smaller, self.flip_margin_min, other.flip_margin_min),
            flip_margin_max=_either(MarginAt.larger, self.flip_margin_max, other.flip_margin_max),
            edges=tuple(a.merge(b) for a, b in zip(self.edges, other.edges, strict=True)),
            labels=_either(LabelTally.merge, self.labels, other.labels),
            places=self.places,
            is_positioned=self.is_positioned,
            transform=self.transform,
            positions=self.positions + other.positions,
            position_flips=self.position_flips + other.position_flips,
            other_pairs=beyond,
        )

    @property
    def _header(self) -> tuple[object, ...]:
        return (
            self.kind,
            self.tier,
            len(self.edges),
            self.places,
            self.is_positioned,
            self.transform,
        )

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
        missing = {} if reason is None else {"at_risk_observed": reason}
        if self.at_risk is None:
            missing["at_risk"] = self._no_risk()
        if self.depends_on_compare_as is None:
            missing["depends_on_compare_as"] = "the function is called once a side"
        figures = {
            "kind": self.kind,
            "samples": self.samples,
            "flips": self.flips,
            "agreement": (self.samples - self.flips) / self.samples if self.samples else None,
            "flip_rate_upper_95": flip_rate_upper(self.flips, self.samples),
            "undefined": {"ref": self.undefined_ref, "cand": self.undefined_cand},
            "matrix": self._named_matrix(names),
            "tied": self._tied(),
            "edges": self._named_edges(names) if self.kind == "bands" else None,
            "margin_min": _margin_figure(self.margin_min),
            "flip_margin": {
                "min": _margin_figure(self.flip_margin_min),
                "median": self._flip_median(),
                "max": _margin_figure(self.flip_margin_max),
            },
            "at_risk": self.at_risk,
            "at_risk_observed": observed,
            "depends_on_compare_as": self.depends_on_compare_as,
            "labels": None if self.labels is None else asdict(self.labels),
            "not_computed": missing,
        }
        return figures | self._more_figures()

    def _tied(self) -> dict[str, int] | None:
        ranks = self.kind in ("argmax", "topk")
        return {"ref": self.tied_ref, "cand": self.tied_cand} if ranks else None

    def _more_figures(self) -> dict[str, Any]:
        more: dict[str, Any] = {}
        if self.is_positioned:
            more |= {"positions": self.positions, "flipped_positions": self.position_flips}
        if self.transform:
            more["transform"] = self.transform
        if self.kind in FREE:
            more["pairs_not_listed"] = self.other_pairs
        return more

    def _no_risk(self) -> str:
        if self.kind in FREE:
            return "such a decision has no margin"
        return f"the tolerance is of the output before {self.transform}"

    def _at_risk_observed(self, max_error: float | None) -> tuple[int | None, str | None]:
        if self.at_risk is None:
            return None, self._no_risk()
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
        for (ref, cand), n in self._sorted_matrix():
            named.setdefault(_name(names, ref), {})[_name(names, cand)] = n
        return named

    def _sorted_matrix(self) -> list[tuple[Pair, int]]:
        if self.kind in FREE:
            return sorted(self.matrix.items(), key=lambda item: pair_order(item[0]))
        return sorted(self.matrix.items(), key=lambda item: _numbers(item[0]))

    def _named_edges(self, names: Sequence[str]) -> list[dict[str, Any]]:
        between = zip(names, names[1:], self.edges, strict=False)
        return [{"between": [low, high], **asdict(sides)} for low, high, sides in between]

    def to_json(self) -> dict[str, Any]:
        """Write JSON types only; equal tallies give equal JSON."""
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "matrix": [[*codes, n] for codes, n in self._sorted_matrix()],
            "margins": None if self.margins is None else self.margins.to_json(),
            "flip_margins": self.flip_margins.to_json(),
            "margin_min": _write_margin(self.margin_min),
            "flip_margin_min": _write_margin(self.flip_margin_min),
            "flip_margin_max": _write_margin(self.flip_margin_max),
            "edges": [list(asdict(sides).values()) for sides in self.edges],
            "labels": None if self.labels is None else list(asdict(self.labels).values()),
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
    "places",
    "is_positioned",
    "transform",
    "positions",
    "position_flips",
    "other_pairs",
)


def flip_rate_upper(flips: int, samples: int) -> float:
    """Bound the flip rate from above with 95 % confidence, one-sided, for independent samples.

    `Beta^-1(0.95; flips + 1, samples - flips)`; 1 where every sample flipped.
    Source: Clopper and Pearson, Biometrika 26 (1934).
    """
    if flips == samples:
        return 1.0
    if not flips:  # the same, without an import that takes longer than many a run
        return -math.expm1(math.log(0.05) / samples)
    from scipy.special import betaincinv

    return float(betaincinv(flips + 1, samples - flips, 0.95))


def _name(names: Sequence[str], code: Code) -> str:
    if isinstance(code, str):
        return code
    return UNDEFINED_NAME if code == UNDEFINED else names[code]


def _numbers(pair: Pair) -> tuple[int, int]:
    return int(pair[0]), int(pair[1])


def _margin_figure(at: MarginAt | None) -> dict[str, Any] | None:
    if at is None:
        return None
    return {key: value for key, value in asdict(at).items() if value != -1 or key != "position"}


def _write_margin(at: MarginAt | None) -> list[Any] | None:
    if at is None:
        return None
    place = [] if at.position < 0 else [at.position]
    return [at.margin.hex(), at.ordinal, *place]


def _read_margin(data: Sequence[Any] | None) -> MarginAt | None:
    return None if data is None else MarginAt(float.fromhex(data[0]), *data[1:])


def _either(merge: Callable[[T, T], T], ours: T | None, theirs: T | None) -> T | None:
    if ours is None or theirs is None:
        return theirs if ours is None else ours
    return merge(ours, theirs)
