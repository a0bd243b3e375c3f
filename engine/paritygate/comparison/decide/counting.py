"""From what was decided of a block to its tally."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from paritygate.comparison.decide.base import Decided, Flags
from paritygate.comparison.decide.counts import (
    NO_LABEL,
    OTHER_LABEL,
    Rows,
    count_labels,
    count_pairs,
    find_extreme,
    name_pairs,
)
from paritygate.comparison.decide.judges import Free, Ranked
from paritygate.comparison.decide.scanned import Scanned
from paritygate.comparison.decide.topk import TopkJudge, pair_places
from paritygate.core.policy import DecisionRule
from paritygate.tally.decision import DecisionTally
from paritygate.tally.histogram import Histogram


class Counting(Struct, frozen=True):
    """Makes the tallies of one decision.

    Attributes:
        rule: what is decided.
        judge: how.
        names: name of each code; empty where decisions are free values.
        stats: "full" adds the histogram of all margins.
    """

    rule: DecisionRule
    judge: Ranked | Free
    names: tuple[str, ...]
    stats: Literal["gate", "full"]

    def count(
        self, decided: Decided, flipped: Flags, rows: Rows, truth: npt.NDArray[Any] | None
    ) -> DecisionTally:
        """The tally of rows that were looked at, but for its samples and their flips."""
        is_free = isinstance(self.judge, Free)
        measured = ~np.isnan(decided.margin)
        lost = flipped & measured
        has_margins = self.stats == "full" and not is_free
        matrix, others = self._matrix(decided)
        return DecisionTally(
            **self._header(rows),
            matrix=matrix,
            tied_ref=decided.tied_ref,
            tied_cand=decided.tied_cand,
            at_risk=decided.at_risk,
            depends_on_compare_as=decided.depends,
            margins=Histogram.of(decided.margin[measured]) if has_margins else None,
            margin_min=find_extreme(np.argmin, decided.margin, measured, rows),
            flip_margins=Histogram.of(decided.margin[lost]),
            flip_margin_min=find_extreme(np.argmin, decided.margin, lost, rows),
            flip_margin_max=find_extreme(np.argmax, decided.margin, lost, rows),
            edges=decided.edges,
            labels=None if truth is None else self._labels(decided, truth),
            positions=flipped.size,
            position_flips=int(np.count_nonzero(flipped)),
            other_pairs=others,
        )

    def count_usual(self, scanned: Scanned, rows: Rows) -> DecisionTally:
        """The tally of rows that a scan counted, but for their samples."""
        row = np.array([scanned.least_row], np.int64)
        return DecisionTally(
            **self._header(rows),
            matrix=scanned.pairs,
            at_risk=scanned.at_risk,
            margins=scanned.margins,
            margin_min=rows.place(scanned.least, row) if scanned.least_row >= 0 else None,
            edges=scanned.edges,
            positions=scanned.rows,
        )

    def _header(self, rows: Rows) -> dict[str, Any]:
        return {
            "kind": self.judge.kind,
            "tier": self.stats,
            "places": self.rule.topk or 1,
            "transform": self.rule.transform or "",
            "is_positioned": rows.is_positioned,
        }

    def _matrix(self, decided: Decided) -> tuple[dict[Any, int], int]:
        if isinstance(self.judge, TopkJudge):
            return pair_places(decided.ref, decided.cand, is_ranked=self.judge.is_ranked), 0
        codes = len(decided.texts or self.names)
        pairs = count_pairs(decided.ref, decided.cand, codes)
        return name_pairs(pairs, decided.texts) if isinstance(self.judge, Free) else (pairs, 0)

    def _labels(self, decided: Decided, truth: npt.NDArray[Any]) -> Any:
        if isinstance(self.judge, Free):
            known = self.judge.knows_label(decided)
            codes = (
                decided.keys.get(key, OTHER_LABEL) if known(key) else NO_LABEL
                for key in truth.tolist()
            )
            truth = np.fromiter(codes, np.int64, truth.size)
        return count_labels(decided.ref, decided.cand, truth)
