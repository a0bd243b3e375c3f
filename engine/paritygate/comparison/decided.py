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
        self._told: dict[int, tuple[str, str, float]] = {}

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
        left = np.array([at for at in rows.tolist() if at not in self._told], np.int64)
        for of, detail in self._parts if left.size else ():
            own = left if of is None else left[np.isin(left, of)]
            found = detail.told(own if of is None else np.searchsorted(of, own))
            kept = zip(found.ref, found.cand, found.margin.tolist(), strict=True)
            self._told.update(zip(own.tolist(), kept, strict=True))
        nothing = "", "", np.nan
        all_told = [self._told.get(at, nothing) for at in rows.tolist()]
        return Told(
            [ref for ref, _, _ in all_told],
            [cand for _, cand, _ in all_told],
            np.array([margin for _, _, margin in all_told], np.float64),
        )


def _in_block(of: Ints | None, rows: Ints) -> Ints:
    return rows if of is None else of[rows]
