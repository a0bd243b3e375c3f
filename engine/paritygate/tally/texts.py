"""The first difference of an output of texts, whose only figures are counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

SHOWN = 200


class Difference(Struct, frozen=True):
    """Two unequal texts, cut to `SHOWN` characters, and where they were found.

    Attributes:
        ordinal: the sample's row over all golden files.
        index: flat index of the element in its sample.
        ref: reference's text.
        cand: candidate's text.
    """

    ordinal: int
    index: int
    ref: str
    cand: str

    @staticmethod
    def of(ordinal: int, index: int, ref: str, cand: str) -> Difference:
        """A difference of texts of any length."""
        return Difference(ordinal, index, _cut(ref), _cut(cand))

    def to_json(self) -> dict[str, Any]:
        """JSON types; `from_json` gives the same back."""
        return {"ordinal": self.ordinal, "index": self.index, "ref": self.ref, "cand": self.cand}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Difference:
        """The difference that `to_json` wrote."""
        return cls(data["ordinal"], data["index"], data["ref"], data["cand"])


def first_of(left: Difference | None, right: Difference | None) -> Difference | None:
    """The one of the earlier sample, of the lower index in it; None comes after all."""
    if left is None or right is None:
        return left or right
    key = (left.ordinal, left.index, left.ref, left.cand)
    return left if key <= (right.ordinal, right.index, right.ref, right.cand) else right


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}... ({len(text)} characters)"
