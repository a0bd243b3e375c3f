"""What the values of inputs exercise: extremes of each channel, zeros, channels that don't vary."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from paritygate.kernels._jit import jit

Values = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]


@jit
def channel_spans(
    values: Values,
    outer: int,
    inner: int,
    lows: Values,
    highs: Values,
    counts: Ints,
    zeros: Ints,
) -> None:
    """Find the extremes of each channel, the samples that have them, and samples without variety.

    Args:
        values: `(n * outer * channels * inner,)` of any float or integer dtype, at least one
            element a sample; NaN is neither an extreme nor zero nor the same as anything.
        outer: elements of a sample before its channel axis.
        inner: those after it.
        lows: `(channels,)` lowered; in the values' dtype.
        highs: `(channels,)` raised; likewise.
        counts: `(3 * channels,)`: samples with the low, with the high, and those whose elements in
            the channel are all the same, of each channel in turn.
        zeros: `(1,)` added to: samples whose elements are all zero.
    """
    channels = lows.size
    each = outer * channels * inner
    for sample in range(values.size // each):
        base = sample * each
        is_zero = True
        for c in range(channels):
            first = values[base + c * inner]
            low = first
            high = first
            is_constant = True
            for o in range(outer):
                at = base + (o * channels + c) * inner
                for i in range(inner):
                    value = values[at + i]
                    if value < low or low != low:
                        low = value
                    if value > high or high != high:
                        high = value
                    if value != first:
                        is_constant = False
                    if value != 0:
                        is_zero = False
            if low < lows[c]:
                lows[c] = low
                counts[3 * c] = 1
            elif low == lows[c]:
                counts[3 * c] += 1
            if high > highs[c]:
                highs[c] = high
                counts[3 * c + 1] = 1
            elif high == highs[c]:
                counts[3 * c + 1] += 1
            if is_constant:
                counts[3 * c + 2] += 1
        if is_zero:
            zeros[0] += 1
