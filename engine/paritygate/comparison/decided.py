"""What was decided of each sample of a block, whatever groups its samples were judged in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from paritygate.comparison.decisions import DecisionDetail
from paritygate.comparison.groups import Group
from paritygate.comparison.rows import Floats, Ints, Mask

Tell = Callable[[int], tuple[str, str]]


@dataclass(frozen=True)
class Decided:
    """One decision of `n` samples.

    Attributes:
        margin: `(n,)` as `DecisionDetail`; NaN where nothing was decided.
        flipped: `(n,)` whether any decision of the sample differs.
        tell: index of a sample -> both sides' decision as text; empty where nothing was decided.
    """

    margin: Floats
    flipped: Mask
    tell: Tell

    @staticmethod
    def of(group: Group, detail: DecisionDetail, before: Decided | None, count: int) -> Decided:
        """What was decided of a group, beside what was of other groups of the block."""
        if group.rows is None:
            return Decided(detail.margin, detail.flipped, detail.tell)
        nothing = Decided(np.full(count, np.nan), np.zeros(count, np.bool_), _nothing)
        before = before or nothing
        margin, flipped = before.margin.copy(), before.flipped.copy()
        margin[group.rows], flipped[group.rows] = detail.margin, detail.flipped
        places: Ints = np.full(count, -1, np.int64)
        places[group.rows] = np.arange(len(group.rows))
        earlier, own = before.tell, detail.tell

        def tell(at: int) -> tuple[str, str]:
            return own(int(places[at])) if places[at] >= 0 else earlier(at)

        return Decided(margin, flipped, tell)


def _nothing(_at: int) -> tuple[str, str]:
    return "", ""
