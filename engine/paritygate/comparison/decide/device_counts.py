"""From what a GPU has found out about decisions to their tally."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from paritygate.comparison.decide.base import Codes, Decided, Flags, Floats
from paritygate.comparison.decide.counting import Counting
from paritygate.comparison.decide.counts import Rows
from paritygate.comparison.decide.scanned import Scanned
from paritygate.gpu import decide
from paritygate.gpu.decided import Counted
from paritygate.tally.decision import UNDEFINED, DecisionTally
from paritygate.tally.histogram import Histogram
from paritygate.tally.pairs import Pair
from paritygate.tally.records import EdgeSides, LabelTally, MarginAt


class Flipped(Struct, frozen=True):
    """Samples whose decisions flipped.

    Attributes:
        rows: `(n,)` ascending, numbered as they were added.
        margins: `(n,)` margin of each; of several decisions the largest of those that flipped.
    """

    rows: Codes
    margins: Floats


def flipped_samples(counted: Counted, each: int) -> Flipped:
    """The samples of rows that flipped, each with the margin that is told of it."""
    samples, first = np.unique(counted.rows // max(1, each), return_index=True)
    known = np.where(np.isnan(counted.margins), 0.0, counted.margins)
    bounds = zip(first.tolist(), [*first[1:].tolist(), counted.rows.size], strict=False)
    told = [low + int(known[low:high].argmax()) for low, high in bounds]
    return Flipped(samples, counted.margins[np.array(told, np.int64)])


def tally_of(
    counted: Counted, counting: Counting, rows: Rows, total: int, *, is_labelled: bool
) -> DecisionTally:
    """The tally of all rows, but for samples that flipped and edges.

    Args:
        counted: as it was read.
        counting: of the rule.
        rows: which decisions those that flipped are.
        total: rows that were decided.
        is_labelled: whether there were labels.
    """
    counts = counted.counts.tolist()
    scanned = Scanned(
        total - counted.rows.size,
        counted.rows,
        _usual_pairs(counted),
        counts[decide.AT_RISK],
        counted.least,
        -1,
        Histogram.from_counts(counted.bins) if counting.stats == "full" else None,
    )
    ordinal, position = counted.place
    least = MarginAt(counted.least, ordinal, position if rows.is_positioned else -1)
    usual = replace(
        counting.count_usual(scanned, rows),
        tied_ref=counts[decide.TIED_REF],
        tied_cand=counts[decide.TIED_CAND],
        depends_on_compare_as=counts[decide.DEPENDS],
        margin_min=least if ordinal >= 0 else None,
        labels=_labels(counts) if is_labelled else None,
    )
    pairs = counted.pairs if counting.rule.topk else counted.pairs[:, :, 0]
    ref, cand = (np.ascontiguousarray(pairs[:, side]) for side in (0, 1))
    flips = Decided(ref, cand, counted.margins, 0, 0)
    flipped = np.ones(counted.rows.size, np.bool_)
    return usual.merge(counting.count(flips, flipped, rows, None))


def edge_sides(
    tally: DecisionTally, edges: Floats, tie_up: Flags, on: Codes, ends: Floats
) -> tuple[EdgeSides, ...]:
    """Sides of the edges of a band rule on which all reference scores lie.

    Args:
        tally: of all of them.
        edges: `(k,)` as they are compared.
        tie_up: `(k,)` whether a score equal to the edge falls into the upper band.
        on: `(k,)` scores that equal the edge.
        ends: `(2, k + 1)` lowest and highest score of each band that is on no edge, NaN for none.
    """
    defined = [(ref, n) for (ref, _), n in tally.matrix.items() if ref != UNDEFINED]
    total = sum(n for _, n in defined)
    met = edges[on > 0]
    scores = np.concatenate((ends[0], ends[1], met))
    sides = []
    for k, edge in enumerate(edges.tolist()):
        passed = sum(n for code, n in defined if int(code) > k)
        above = passed - int(on[k]) if tie_up[k] else passed
        with np.errstate(over="ignore"):
            gaps = edge - scores
        below, beyond = gaps[gaps > 0.0], -gaps[gaps < 0.0]
        nearest = (side.min(initial=np.inf) for side in (below, beyond))
        sides.append(EdgeSides.of((total - above - int(on[k]), on[k], above), nearest))
    return tuple(sides)


def _usual_pairs(counted: Counted) -> dict[Pair, int]:
    met = np.flatnonzero(counted.codes)
    times = counted.codes[met].tolist()
    return {(at - 1, at - 1): n for at, n in zip(met.tolist(), times, strict=True)}


def _labels(counts: list[int]) -> LabelTally:
    return LabelTally(
        labelled=counts[decide.LABELLED],
        unknown=counts[decide.UNKNOWN],
        correct_ref=counts[decide.RIGHT_REF],
        correct_cand=counts[decide.RIGHT_CAND],
        changed_to_wrong=counts[decide.TO_WRONG],
        changed_to_right=counts[decide.TO_RIGHT],
    )
