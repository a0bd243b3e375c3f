"""The ranges that a plan gives: one pair of ends, or one for each channel."""

from __future__ import annotations

import math
from typing import Any

_FORM = "write [minimum, maximum], or one such pair per channel"


def check_range(value: Any) -> Any:
    """The value itself, where it is a range.

    Raises:
        ValueError: it is no pair and no list of them, or an end isn't finite or on the wrong side.
    """
    if value is None:
        return None
    is_each = isinstance(value, list | tuple) and any(isinstance(v, list | tuple) for v in value)
    for number, pair in enumerate(value if is_each else [value]):
        where = f"pair {number}: " if is_each else ""
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(map(_is_number, pair)):
            raise ValueError(f"{where}{_FORM}")
        if any(isinstance(end, float) and not math.isfinite(end) for end in pair):
            raise ValueError(
                f"{where}both ends are finite: for an end that is open write a number that none is "
                "beyond, such as 3.4e38 for float32 (NaN and infinities are in no range)"
            )
        if pair[0] > pair[1]:
            raise ValueError(
                f"{where}the minimum {pair[0]} is above the maximum {pair[1]}; exchange them"
            )
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
