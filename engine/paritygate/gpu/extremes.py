"""Which of two extremes is worse: a total order, so that blocks and threads may come as they like.

An extreme is its value, what breaks a tie, and its place: the flat number of an element of a batch,
-1 where there is none. The larger value goes first, then the larger tie, then the lower ordinal,
then the lower index in the sample.
"""

from __future__ import annotations

from typing import Any

from paritygate.gpu.device import device


@device
def ordinal_of(sample: int, first: int, ordinals: Any) -> int:
    """Ordinal of a sample of a batch: they follow each other from `first` on, or are all given."""
    if first >= 0:
        return first + sample
    return int(ordinals[sample])


@device
def precedes(place: int, other: int, width: int, first: int, ordinals: Any) -> bool:
    """Whether an element goes before another one of the same batch."""
    ordinal = ordinal_of(place // width, first, ordinals)
    other_ordinal = ordinal_of(other // width, first, ordinals)
    if ordinal != other_ordinal:
        return bool(ordinal < other_ordinal)
    return bool(place % width < other % width)


@device
def outranks(
    value: float,
    tie: float,
    place: int,
    other_value: float,
    other_tie: float,
    other: int,
    width: int,
    first: int,
    ordinals: Any,
) -> bool:
    """Whether an extreme is worse than another one of the same batch."""
    if place < 0 or other < 0:
        return bool(place >= 0)
    if value != other_value:
        return bool(value > other_value)
    if tie != other_tie:
        return bool(tie > other_tie)
    return precedes(place, other, width, first, ordinals)


@device
def keep_worse(
    tops: Any, at: Any, row: int, other: int, width: int, first: int, ordinals: Any
) -> None:
    """Replace the extremes of a row by those of another one, where these are worse.

    Args:
        tops: `(3, rows)` largest error, worst excess, and the error there; or, of integers of 64
            bits, numbers in the order of these.
        at: `(2, rows)` places of both.
        row: of both; changed.
        other: the other one.
        width: elements a sample.
        first: as of `ordinal_of`.
        ordinals: the same.
    """
    size, own = tops[0, other], tops[0, row]
    if outranks(size, size, at[0, other], own, own, at[0, row], width, first, ordinals):
        tops[0, row], at[0, row] = tops[0, other], at[0, other]
    if outranks(
        tops[1, other], tops[2, other], at[1, other],
        tops[1, row], tops[2, row], at[1, row], width, first, ordinals,
    ):  # fmt: skip
        tops[1, row], tops[2, row], at[1, row] = tops[1, other], tops[2, other], at[1, other]


@device
def keep_further(
    steps: Any, at: Any, row: int, other: int, width: int, first: int, ordinals: Any
) -> None:
    """Replace the distances of a row by those of another one, where these are larger.

    Args:
        steps: `(2, rows)` largest distance of all elements, and of those whose |ref| is large.
        at: `(2, rows)` places of both.
        row: of both; changed.
        other: the other one.
        width: elements a sample.
        first: as of `ordinal_of`.
        ordinals: the same.
    """
    for kind in range(2):
        place, own = at[kind, other], at[kind, row]
        if place < 0:
            continue
        is_tie = steps[kind, other] == steps[kind, row]
        if (
            own < 0
            or steps[kind, other] > steps[kind, row]
            or (is_tie and precedes(place, own, width, first, ordinals))
        ):
            steps[kind, row], at[kind, row] = steps[kind, other], place


@device
def keep_noisier(ranks: Any, at: Any, row: int, other: int, first: int, ordinals: Any) -> None:
    """Replace the samples of a row by those of another one, where these are worse.

    Args:
        ranks: `(6, rows)` of the worst sample by noise over signal: that, its sums of r^2 and of
            e^2; then the same of the worst one by 1 - cosine.
        at: `(2, rows)` samples of both, -1 where there is none.
        row: of both; changed.
        other: the other one.
        first: as of `ordinal_of`.
        ordinals: the same.
    """
    for kind in range(2):
        sample, own = at[kind, other], at[kind, row]
        if sample < 0:
            continue
        figure, best = ranks[3 * kind, other], ranks[3 * kind, row]
        is_before = own < 0 or ordinal_of(sample, first, ordinals) < ordinal_of(
            own, first, ordinals
        )
        if own < 0 or figure > best or (figure == best and is_before):
            at[kind, row] = sample
            for part in range(3):
                ranks[3 * kind + part, row] = ranks[3 * kind + part, other]
