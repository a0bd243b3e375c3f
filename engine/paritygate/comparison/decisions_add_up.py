"""Whether decisions that a GPU counted and listed can be: as `adds_up` of elements."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from paritygate.comparison.adds_up import is_ascending
from paritygate.comparison.decide.base import Codes
from paritygate.comparison.decide.detail import DecisionDetail
from paritygate.comparison.decide.topk import TopkJudge
from paritygate.tally.decision import UNDEFINED, DecisionTally

Doubles = npt.NDArray[np.float64]


def what_is_wrong(tally: DecisionTally, flipped: Codes, ordinals: Codes | range) -> str:
    """Why what was counted of the samples of these ordinals can't be right; empty where it may."""
    samples = len(ordinals)
    made = tally.positions if tally.is_positioned else tally.samples
    total = sum(tally.matrix.values()) + tally.other_pairs
    if tally.samples != samples or total != made * tally.places:
        return (
            f"it decided {tally.samples:,} of {samples:,} samples, and counted {total:,} pairs of "
            f"{made * tally.places:,}"
        )
    differ = sum(count for (ref, cand), count in tally.matrix.items() if ref != cand)
    known = tally.position_flips if tally.is_positioned else tally.flips
    if not is_ascending(flipped, samples):
        return "the samples that it lists as flipped aren't samples, or are listed twice"
    if len(flipped) != tally.flips or (tally.places == 1 and known < differ):
        return f"it counted {differ:,} decisions that differ, and {known:,} that flipped"
    return _of_margins(tally, made, ordinals) or _of_counts(tally, made)


def what_is_wrongly_listed(
    rows: Codes,
    margins: Doubles,
    pairs: Codes,
    total: int,
    codes: int,
    *,
    judge: object,
    match: bool,
) -> str:
    """Why decisions can't have flipped as they are listed; empty where they may have.

    Args:
        rows: `(n,)` which decisions.
        margins: `(n,)` theirs.
        pairs: `(n, 2, places)` codes of the reference and of the candidate.
        total: decisions that were made.
        codes: how many codes there are.
        judge: of the rule.
        match: whether undefined on both sides agrees.
    """
    if not is_ascending(rows, total):
        return "the decisions that it lists as flipped aren't decisions, or are listed twice"
    if not np.all((pairs >= UNDEFINED) & (pairs < codes)):
        return "it lists codes that there aren't"
    ref, cand = pairs[:, 0], pairs[:, 1]
    is_undefined = ref[:, 0] == UNDEFINED
    is_right = np.where(is_undefined, np.isnan(margins), margins >= 0.0)
    if not np.all(is_right):
        return "it lists margins of undefined decisions, or none of others"
    if isinstance(judge, TopkJudge):
        differ = judge.differ(ref, cand)
    else:
        differ = ref[:, 0] != cand[:, 0]
    if not np.all(differ | (is_undefined & (not match))):
        return "it lists decisions as flipped that are the same on both sides"
    return ""


def what_is_told_wrong(flipped: Codes, margins: Doubles, rows: Codes, found: DecisionDetail) -> str:
    """Of which of some samples the decision is another than was listed; empty where of none.

    Args:
        flipped: `(n,)` samples that are listed, ascending.
        margins: `(n,)` theirs.
        rows: `(k,)` samples, ascending.
        found: what is decided of these by their values.
    """
    is_listed = np.isin(rows, flipped)
    listed = np.full(rows.size, np.nan)
    listed[is_listed] = margins[np.searchsorted(flipped, rows[is_listed])]
    is_margin = (listed == found.margin) | (np.isnan(listed) & np.isnan(found.margin))
    wrong = np.flatnonzero((is_listed != found.flipped) | (is_listed & ~is_margin))
    if not wrong.size:
        return ""
    at = wrong[0]
    said, is_so = ("" if so else "not " for so in (is_listed[at], found.flipped[at]))
    return (
        f"it lists sample {int(rows[at]):,} of a block as {said}flipped, and by its values, as "
        f"they came back, it has {is_so}flipped, or by another margin"
    )


def _of_margins(tally: DecisionTally, made: int, ordinals: Codes | range) -> str:
    undefined = tally.undefined_ref
    if tally.margins is not None and tally.margins.total + undefined != made:
        return f"it counted {tally.margins.total:,} margins of {made - undefined:,}"
    for side in tally.edges:
        found = side.below + side.on + side.above
        if found + undefined != made:
            return f"it counted {found:,} scores beside an edge of {made - undefined:,}"
    least = tally.margin_min
    if (least is None) != (undefined == made):
        return f"it has no smallest margin of {made - undefined:,}, or one of none"
    if least is not None and not least.margin >= 0.0:
        return f"it says that the smallest margin is {least.margin:.3g}"
    if least is not None and least.ordinal not in ordinals:
        return f"it names a sample that wasn't sent: row {least.ordinal:,}"
    return ""


def _of_counts(tally: DecisionTally, made: int) -> str:
    """Rows of which something is said are no more than there are, and labels balance."""
    counts = (tally.tied_ref, tally.tied_cand, tally.at_risk or 0, tally.depends_on_compare_as or 0)
    if not all(0 <= n <= made for n in counts):
        return f"it counted up to {max(counts):,} ties or risks in {made:,} decisions"
    labels = tally.labels
    if labels is None:
        return ""
    moved = labels.correct_ref - labels.changed_to_wrong, labels.correct_cand
    kept = moved[0] + labels.changed_to_right == moved[1]
    if labels.labelled + labels.unknown != made or not kept or not 0 <= moved[0] <= made:
        return (
            f"it counted {labels.labelled:,} labels of {made:,}, or right ones that don't balance"
        )
    return ""
