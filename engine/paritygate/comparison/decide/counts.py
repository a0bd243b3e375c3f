"""What a block's decisions count to: pairs, extreme margins, right and wrong by label."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from paritygate.comparison.decide.base import Codes, Flags, Floats, count
from paritygate.tally.decision import UNDEFINED
from paritygate.tally.pairs import Pair, bound_pairs
from paritygate.tally.records import LabelTally, MarginAt

NO_LABEL = -3
OTHER_LABEL = -4
FEW_PAIRS = 1 << 14


def count_pairs(ref: Codes, cand: Codes, codes: int) -> dict[Pair, int]:
    """How often each pair of codes, or of undefined, was met."""
    wide = codes + 1
    both = (ref + 1) * wide + cand + 1
    if wide * wide <= FEW_PAIRS:
        times = np.bincount(both, minlength=wide * wide)
        keys = np.flatnonzero(times)
        counts = times[keys]
    else:
        keys, counts = np.unique(both, return_counts=True)
    return {
        (key // wide - 1, key % wide - 1): n
        for key, n in zip(keys.tolist(), counts.tolist(), strict=True)
    }


def name_pairs(pairs: dict[Pair, int], texts: tuple[str, ...]) -> tuple[dict[Pair, int], int]:
    """Pairs of a block's codes as pairs of texts, bounded; and how often others were met."""
    named: dict[Pair, int] = {}
    for (ref, cand), n in pairs.items():
        pair = texts[int(ref)], texts[int(cand)]
        named[pair] = named.get(pair, 0) + n
    return bound_pairs(named)


class Rows(Struct, frozen=True):
    """Which decisions the rows of an array are.

    Attributes:
        ordinals: `(n,)` of all samples.
        each: decisions of a sample.
        is_positioned: whether the place within the sample is told.
        numbers: of each row; None: all, one after the other.
    """

    ordinals: Codes
    each: int
    is_positioned: bool
    numbers: Codes | None = None

    def place(self, margin: float, rows: Codes) -> MarginAt:
        """A margin at the first of some rows, in pack order."""
        numbers = rows if self.numbers is None else self.numbers[rows]
        of_row = self.ordinals[numbers // self.each]
        first = int(of_row.min())
        if not self.is_positioned:
            return MarginAt(margin, first)
        return MarginAt(margin, first, int((numbers[of_row == first] % self.each).min()))


def find_extreme(pick: Any, margin: Floats, chosen: Flags, rows: Rows) -> MarginAt | None:
    """The smallest or largest of the chosen margins, of equal ones the first in pack order.

    Args:
        pick: `np.argmin` or `np.argmax`.
        margin: `(rows,)`.
        chosen: `(rows,)`.
        rows: what they are.
    """
    at = np.flatnonzero(chosen)
    if not at.size:
        return None
    margins = margin[at]
    best = margins[pick(margins)]
    return rows.place(float(best), at[margins == best])


def count_labels(ref: Codes, cand: Codes, truth: npt.NDArray[Any]) -> LabelTally:
    """Compare decisions with the truth.

    Args:
        ref: `(n,)` codes, or `(n, k)` where any of the k may be right.
        cand: the same for the candidate.
        truth: `(n,)` codes, -1 and `NO_LABEL` where there is no such label.
    """
    known = (truth != UNDEFINED) & (truth != NO_LABEL)
    ref_right, cand_right = _is_right(ref, truth) & known, _is_right(cand, truth) & known
    return LabelTally(
        labelled=count(known),
        unknown=count(~known),
        correct_ref=count(ref_right),
        correct_cand=count(cand_right),
        changed_to_wrong=count(ref_right & ~cand_right),
        changed_to_right=count(cand_right & ~ref_right),
    )


def _is_right(codes: Codes, truth: npt.NDArray[Any]) -> Flags:
    if codes.ndim == 1:
        return np.asarray(codes == truth)
    return np.asarray((codes == truth[:, None]).any(axis=1))
