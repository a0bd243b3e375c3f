"""What breaks the contract of an input, and the sentence on it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct


class Violation(Struct, frozen=True):
    """Why a sample was rejected.

    Attributes:
        code: `contract.range`, `contract.missing` or `contract.shape`; `contract.not_rejected` of a
            sample that satisfies a contract which it was expected to break.
        input: its name.
        index: flat index of the first element that breaks it; of shapes, the dim of a sample.
        value: what is there, exactly.
        low, high: what is allowed, both inclusive, as the plan writes it.
        failing_elements: how many elements of the sample break it.
        channel: name of the element's channel, where it has one.
        unit: of the value.
        place: the element by its index on every axis of the sample.
        text: the value in its own dtype.
    """

    code: str
    input: str
    index: int
    value: int | float
    low: int | float
    high: int | float
    failing_elements: int = 1
    channel: str | None = None
    unit: str | None = None
    place: Sequence[int] = ()
    text: str = ""

    def __str__(self) -> str:
        """Input, channel, value and limit, as a clause."""
        if self.code == "contract.not_rejected":
            return "it satisfies the contract, but the pack expects it to be rejected"
        if self.code == "contract.shape":
            return self._of_shape()
        where = f"input {self.input!r}"
        if self.channel is not None:
            where += f", channel {self.channel!r}"
        if self.unit:
            where += f" ({self.unit})"
        if self.place and (self.channel is None or len(self.place) > 1):
            where += f", element {self.index}"
            where += f" at {list(self.place)}" if len(self.place) > 1 else ""
        others = self.failing_elements - 1
        more = f", and {others} more" if others else ""
        return f"{where}: {self._of_value()}{more}"

    def _of_value(self) -> str:
        told = self.text or number(self.value)
        if self.code == "contract.missing":
            return f"{told}, where a finite number is demanded"
        side, limit = ("below", self.low) if self.value < self.low else ("above", self.high)
        if told == number(limit):
            told = repr(self.value)
        return f"{told} is {side} {number(limit)}"

    def _of_shape(self) -> str:
        allowed = f"{number(self.low)} to {number(self.high)}"
        if self.low == self.high:
            allowed = f"{number(self.low)}, by the plan or another input"
        where = f"dim {self.index} of a sample of input {self.input!r}"
        return f"{where} is {number(self.value)}; allowed is {allowed}"


NOT_REJECTED = Violation("contract.not_rejected", "", -1, math.nan, -math.inf, math.inf, 0)


def number(value: int | float) -> str:
    """A number without a point that says nothing."""
    is_short = isinstance(value, float) and value.is_integer() and abs(value) <= 2**53
    return str(int(value)) if is_short else repr(value)
