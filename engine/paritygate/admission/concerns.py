"""What a look into a model finds: what holds a run, and what is worth telling."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import asdict

from paritygate.core.text import clean

TOLD = 5
_LONGEST = 120


class Concern(Struct, frozen=True):
    """Something in a model that holds every run of it.

    Attributes:
        code: stable dotted code, as in the verdict's reasons.
        message: one sentence.
        next: how to mend it.
    """

    code: str
    message: str
    next: str = ""

    def to_json(self) -> dict[str, str]:
        """The same, of JSON types."""
        return asdict(self)


def short(text: object, longest: int = _LONGEST) -> str:
    """Text of a model on one line, cut where it is too long to be told."""
    told = str(text)
    if len(told) > longest:
        told = f"{told[:longest]}... ({len(told):,} characters)"
    return clean(told)


def counted(count: int, noun: str, one: str, many: str) -> str:
    """`1 node is`, `2 nodes are`: a count with its noun and its verb."""
    return f"{count:,} {noun}{'' if count == 1 else 's'} {one if count == 1 else many}"


def some(names: Sequence[object], most: int = TOLD) -> str:
    """The first of several, and how many there are in all."""
    told = ", ".join(short(name) for name in names[:most])
    return told if len(names) <= most else f"{told}, first {most} of {len(names):,}"
