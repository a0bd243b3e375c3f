"""Which samples break the contract of an input: bounds that prove an element good, or it is bad.

Bounds are finite and of the elements' own dtype, both inclusive, so that a NaN or an infinity is
within none. `low > high` is within reach of nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from paritygate.kernels._jit import jit

Numbers = npt.NDArray[Any]
Counts = npt.NDArray[np.int64]


@jit
def first_bad_tile(values: Numbers, low: Numbers, high: Numbers) -> int:
    """Start of the first tile with an element out of bounds; -1: there is none.

    Args:
        values: flat, C-contiguous.
        low: `(tile,)` of each element of a tile, which repeats over all values; the last one may be
            cut.
        high: as `low`.
    """
    total, size, at = len(values), len(low), 0
    while at + size <= total:
        good = np.int32(0)
        for j in range(size):
            value = values[at + j]
            good += np.int32((low[j] <= value) & (value <= high[j]))
        if good != size:
            return at
        at += size
    for j in range(total - at):
        value = values[at + j]
        if not ((low[j] <= value) & (value <= high[j])):
            return at
    return -1


@jit
def count_violations(
    values: Numbers,
    width: int,
    inner: int,
    low: Numbers,
    high: Numbers,
    first: Counts,
    count: Counts,
) -> None:
    """Per sample the first element that is out of bounds, and how many are.

    Args:
        values: flat, C-contiguous: `(samples, width)`.
        width: elements of a sample.
        inner: elements behind the channel axis: consecutive ones are of one channel.
        low: `(channels,)`.
        high: as `low`.
        first: `(samples,)`, filled with the index in the sample, -1 where all are good.
        count: `(samples,)`, filled with the number of bad elements.
    """
    channels = len(low)
    for i in range(len(first)):
        at, bad, channel, run = -1, 0, 0, 0
        for j in range(width):
            value = values[i * width + j]
            if not ((low[channel] <= value) & (value <= high[channel])):
                if bad == 0:
                    at = j
                bad += 1
            run += 1
            if run == inner:
                run = 0
                channel += 1
                if channel == channels:
                    channel = 0
        first[i], count[i] = at, bad
