"""The worst of something, with its place: a total order, so that merging can't depend on order."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

Number = int | float


class Extreme(Struct, frozen=True):
    """A value and where it was found.

    Attributes:
        keys: the value, then what breaks ties; larger is worse. Never NaN.
        ordinal: the sample's row over all golden files.
        index: flat index of the element in its sample, -1 for a value of the whole sample.
        ref: reference's value there (or the sum of r^2 of a sample).
        cand: candidate's value there (or the sum of e^2 of a sample).
    """

    keys: tuple[Number, ...]
    ordinal: int
    index: int
    ref: Number
    cand: Number

    @property
    def value(self) -> Number:
        """What is largest here."""
        return self.keys[0]

    def outranks(self, other: Extreme) -> bool:
        """Whether this is worse: larger keys, then the earlier ordinal, then the lower index."""
        if self.keys != other.keys:
            return self.keys > other.keys
        return self._place() < other._place()

    def _place(self) -> tuple[int, int, str, str]:
        return self.ordinal, self.index, repr(self.ref), repr(self.cand)

    def to_json(self) -> dict[str, Any]:
        """JSON types; `from_json` gives the same back."""
        return {
            "keys": [encode_number(key) for key in self.keys],
            "ordinal": self.ordinal,
            "index": self.index,
            "ref": encode_number(self.ref),
            "cand": encode_number(self.cand),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Extreme:
        """The extreme that `to_json` wrote."""
        return cls(
            tuple(decode_number(key) for key in data["keys"]),
            data["ordinal"],
            data["index"],
            decode_number(data["ref"]),
            decode_number(data["cand"]),
        )


def worse(left: Extreme | None, right: Extreme | None) -> Extreme | None:
    """The one that outranks the other; None is outranked by all."""
    if left is None or (right is not None and right.outranks(left)):
        return right
    return left


def encode_number(value: Number) -> Number | str:
    """A number as JSON: ints and finite floats as they are, else "nan", "inf" or "-inf"."""
    return value if isinstance(value, int) or math.isfinite(value) else repr(value)


def decode_number(value: Number | str) -> Number:
    """The number that `encode_number` wrote."""
    return float(value) if isinstance(value, str) else value
