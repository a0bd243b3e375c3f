"""Decisions that are values of any number: coded for one block, counted by their text."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from paritygate.comparison.decide.base import Codes
from paritygate.tally.pairs import shorten

Values = npt.NDArray[Any]


class Keyed(Struct, frozen=True):
    """One side's values: which are equal, and how they are told.

    Attributes:
        keys: of each distinct value; values are the same decision where their keys are equal.
        texts: of each distinct value.
        places: `(rows,)` which distinct value each row has.
    """

    keys: Sequence[Hashable]
    texts: Sequence[str]
    places: Codes


def distinct(values: Values, key: Callable[[Any], Hashable], text: Callable[[Any], str]) -> Keyed:
    """The distinct values of a side, each keyed and told once."""
    found, places = np.unique(values, return_inverse=True)
    plain = found.tolist()
    return Keyed([key(v) for v in plain], [text(v) for v in plain], places.reshape(-1))


def code_sides(
    ref: Keyed, cand: Keyed
) -> tuple[Codes, Codes, dict[Hashable, int], tuple[str, ...]]:
    """Codes of both sides, equal exactly where the keys are; the code of each key; texts."""
    codes: dict[Hashable, int] = {}
    texts: list[str] = []
    sides = []
    for side in (ref, cand):
        for key, text in zip(side.keys, side.texts, strict=True):
            if key not in codes:
                codes[key] = len(texts)
                texts.append(text)
        table = np.array([codes[key] for key in side.keys], np.int64)
        sides.append(table[side.places])
    return sides[0], sides[1], codes, tuple(texts)


def tell(value: Any) -> str:
    """A value as text: numbers and truth values as written in TOML, a long text shortened."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return shorten(str(value))
