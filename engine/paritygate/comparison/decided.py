"""What was decided of each sample of a block, whatever groups its samples were judged in."""

from __future__ import annotations

import numpy as np

from paritygate.comparison.decide.detail import AnyDetail, Told
from paritygate.comparison.groups import Group
from paritygate.comparison.rows import Floats, Ints


class Decided:
    """One decision of the samples of a block."""

    def __init__(self) -> None:
        self._parts: list[tuple[Ints | None, AnyDetail]] = []

    def add(self, group: Group, detail: AnyDetail) -> Ints:
        """Take in what was decided of a group; its samples of which a decision differs."""
        self._parts.append((group.rows, detail))
        return _in_block(group.rows, detail.flipped_rows)

    @property
    def flips(self) -> tuple[Ints, Floats]:
        """Samples of which a decision differs, group by group, and the margin of each."""
        rows = [_in_block(of, detail.flipped_rows) for of, detail in self._parts]
        margins = [detail.flip_margins for _, detail in self._parts]
        return np.concatenate(rows), np.concatenate(margins)

    def told(self, rows: Ints) -> Told:
        """Some samples' decisions as text, and margins; empty and NaN where nothing was decided."""
        ref, cand, margin = [""] * rows.size, [""] * rows.size, np.full(rows.size, np.nan)
        for of, detail in self._parts:
            at = np.arange(rows.size) if of is None else np.flatnonzero(np.isin(rows, of))
            found = detail.told(rows[at] if of is None else np.searchsorted(of, rows[at]))
            margin[at] = found.margin
            for place, ours, theirs in zip(at.tolist(), found.ref, found.cand, strict=True):
                ref[place], cand[place] = ours, theirs
        return Told(ref, cand, margin)


def _in_block(of: Ints | None, rows: Ints) -> Ints:
    return rows if of is None else of[rows]
