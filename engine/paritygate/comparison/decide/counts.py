"""What a block's decisions count to: pairs, extreme margins, right and wrong by label."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

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


def find_extreme(
    pick: Any, margin: Floats, ordinals: Codes, chosen: Flags, *, is_positioned: bool
) -> MarginAt | None:
    """The smallest or largest of the chosen margins, of equal ones the first in pack order.

    Args:
        pick: `np.argmin` or `np.argmax`.
        margin: `(n * each,)`.
        ordinals: `(n,)`.
        chosen: `(n * each,)`.
        is_positioned: whether the place within the sample is told.
    """
    rows = np.flatnonzero(chosen)
    if not rows.size:
        return None
    margins = margin[rows]
    best = margins[pick(margins)]
    rows = rows[margins == best]
    each = margin.size // ordinals.size
    of_row = ordinals[rows // each]
    first = int(of_row.min())
    if not is_positioned:
        return MarginAt(float(best), first)
    return MarginAt(float(best), first, int((rows[of_row == first] % each).min()))


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
