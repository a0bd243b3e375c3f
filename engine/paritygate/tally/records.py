"""Small records of a decision's tally: margins with their place, sides of edges, labels."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import asdict

T = TypeVar("T", bound=Struct)


class MarginAt(Struct, frozen=True):
    """A margin and the ordinal of its sample; of equal margins the lowest ordinal counts.

    `position` tells which of a sample's decisions it is, -1 where a sample has one.
    """

    margin: float
    ordinal: int
    position: int = -1

    def smaller(self, other: MarginAt) -> MarginAt:
        """Return the one with the smaller margin."""
        return min(self, other, key=lambda at: (at.margin, at.ordinal, at.position))

    def larger(self, other: MarginAt) -> MarginAt:
        """Return the one with the larger margin."""
        return min(self, other, key=lambda at: (-at.margin, at.ordinal, at.position))


class EdgeSides(Struct, frozen=True):
    """Reference scores below, exactly on and above one edge of a band rule.

    `nearest_below` and `nearest_above` are the smallest finite distances of those that aren't on
    it; None where there is none.
    """

    below: int = 0
    on: int = 0
    above: int = 0
    nearest_below: float | None = None
    nearest_above: float | None = None

    @staticmethod
    def of(counts: Iterable[int], nearest: Iterable[float]) -> EdgeSides:
        """From counts below, on and above, and distances below and above, inf for none."""
        below, on, above = map(int, counts)
        return EdgeSides(below, on, above, *(float(d) if d < math.inf else None for d in nearest))

    def merge(self, other: EdgeSides) -> EdgeSides:
        """Both together."""
        return EdgeSides(
            self.below + other.below,
            self.on + other.on,
            self.above + other.above,
            _least(self.nearest_below, other.nearest_below),
            _least(self.nearest_above, other.nearest_above),
        )


class LabelTally(Struct, frozen=True):
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


def _least(ours: float | None, theirs: float | None) -> float | None:
    return min((d for d in (ours, theirs) if d is not None), default=None)


def _add_fields(ours: T, theirs: T) -> T:
    theirs_by_name = asdict(theirs)
    return type(ours)(**{name: n + theirs_by_name[name] for name, n in asdict(ours).items()})
