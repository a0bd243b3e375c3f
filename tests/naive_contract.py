"""The contract of an input with whole arrays of Python's own numbers; imports nothing of ours."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def violations(
    array: np.ndarray, pairs: list[tuple[Any, Any]], axis: int | None
) -> list[tuple[int, int, int]]:
    """Row, first bad element and number of bad ones, of each sample of `(n, *shape)` with some.

    Args:
        array: numbers of any dtype that `tolist` knows, or float32 of narrower ones.
        pairs: bounds of every channel, one for all, or none.
        axis: of a sample, where the channels are.
    """
    found = []
    for row, sample in enumerate(array):
        bad = []
        for at, place in enumerate(np.ndindex(sample.shape)):
            value = sample[place].item() if hasattr(sample[place], "item") else sample[place]
            channel = place[axis] if axis is not None and len(pairs) > 1 else 0
            good = not isinstance(value, float) or math.isfinite(value)
            if good and pairs:
                low, high = pairs[channel]
                good = low <= value <= high
            if not good:
                bad.append(at)
        if bad:
            found.append((row, bad[0], len(bad)))
    return found
