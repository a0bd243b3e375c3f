"""What a scan leaves: counts of usual decisions, and the rows that are to be looked at."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from paritygate.tally.histogram import BINS, Histogram
from paritygate.tally.pairs import Pair
from paritygate.tally.records import EdgeSides

# Below so many scores a scan gains nothing that counts.
FEWEST = 4096
MOST_LISTED = 0.5  # share of the rows from which on all are looked at as they lie
AT_ONCE = 1 << 14  # so that what is made a row stays in the processor's cache
BINS_WITH_NAN = BINS + 8


class Scanned(Struct, frozen=True):
    """Decisions of a block, of which some are listed and not counted.

    Attributes:
        rows: how many aren't listed.
        listed: ascending int64, rows in which the two sides may differ or something is undefined.
        pairs: of the other rows, in which both sides decide alike.
        at_risk: of those; None where that can't be told.
        least: their smallest margin.
        least_row: the first row that has it; -1 where all are listed.
        margins: of those; None in tier "gate".
        edges: sides of those.
    """

    rows: int
    listed: npt.NDArray[np.int64]
    pairs: Mapping[Pair, int]
    at_risk: int | None
    least: float
    least_row: int
    margins: Histogram | None
    edges: tuple[EdgeSides, ...] = ()


def first_unlisted(listed: npt.NDArray[np.int64], rows: int) -> int:
    """The first row that isn't listed; -1 where all are."""
    if listed.size == rows:
        return -1
    gaps = np.flatnonzero(listed != np.arange(listed.size))
    return int(gaps[0]) if gaps.size else int(listed.size)


def bins_of(counts: npt.NDArray[np.int64]) -> Histogram | None:
    """The histogram of `(BINS_WITH_NAN,)` counts; None where nothing was to be counted."""
    return Histogram.from_counts(counts[:BINS]) if counts.size else None
