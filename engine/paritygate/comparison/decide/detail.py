"""Decisions sample by sample: all of them as arrays, or only those that are asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from msgspec import Struct

from paritygate.comparison.decide.base import Codes, Flags, Floats
from paritygate.comparison.decide.scanned import AT_ONCE

Tell = Callable[[int], tuple[str, str]]


class Told(Struct, frozen=True):
    """Some samples' decisions as text, of each the one with the margin; and the margins."""

    ref: list[str]
    cand: list[str]
    margin: Floats


class DecisionDetail(Struct, frozen=True, dict=True):
    """Decisions of `n` samples.

    Attributes:
        ref: code of the reference's decision, -1 where undefined: `(n,)`; `(n, k)` of top-k;
            `(n, each)` or `(n, each, k)` where a sample has several. Codes of free values mean
            something in their block only.
        cand: the same for the candidate.
        margin: `(n,)` absolute margin of the reference; NaN where it is undefined or a free value,
            inf where nothing finite lies between the score and another decision. Of several
            decisions the largest of those that flipped, or the smallest of all.
        flipped: `(n,)` whether any decision of the sample differs under the policy.
        tell: index of a sample -> both sides' decision as text, of several the one with `margin`.
    """

    ref: Codes
    cand: Codes
    margin: Floats
    flipped: Flags
    tell: Tell

    @cached_property
    def flipped_rows(self) -> Codes:
        """Samples that flipped, ascending."""
        return np.flatnonzero(self.flipped)

    @property
    def flip_margins(self) -> Floats:
        """Margin of each of these."""
        return self.margin[self.flipped_rows]

    def told(self, rows: Codes) -> Told:
        """What was decided of some samples."""
        pairs = [self.tell(at) for at in rows.tolist()]
        return Told([ref for ref, _ in pairs], [cand for _, cand in pairs], self.margin[rows])


class LazyDetail(Struct, frozen=True):
    """The same of samples that were counted and not kept.

    Attributes:
        flipped_rows: samples that flipped, ascending.
        flip_margins: margin of each of these.
        look: samples -> their decisions.
    """

    flipped_rows: Codes
    flip_margins: Floats
    look: Callable[[Codes], DecisionDetail]

    def told(self, rows: Codes) -> Told:
        """What was decided of some samples."""
        found = Told([], [], np.empty(rows.size))
        for at in range(0, rows.size, AT_ONCE):
            some = rows[at : at + AT_ONCE]
            part = self.look(some).told(np.arange(some.size))
            found.ref.extend(part.ref)
            found.cand.extend(part.cand)
            found.margin[at : at + AT_ONCE] = part.margin
        return found


AnyDetail = DecisionDetail | LazyDetail
