"""Bytes copied, and summed up on the way: whoever has them later must come to the same sum.

Every word of 8 bytes is multiplied by an odd number of its place, and all are added modulo 2^64: no
word can change, and no two be exchanged, without another sum but by chance.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from paritygate.kernels._jit import jit

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

WORD = 8
_PART = 1 << 15  # words that are still in the cache when they are added


@jit
def copy_summed(source: Bytes, into: Bytes, words: Words, first: int) -> int:
    """Copy bytes, and add up the words that they then are.

    Args:
        source: `(n,)`, C-contiguous.
        into: `(m,)` with m the next multiple of 8; what is left of it becomes 0.
        words: `(m / 8,)` the same memory as `into`.
        first: place of its first word.
    """
    total = np.uint64(0)
    for k in range(source.size, into.size):
        into[k] = 0
    at = 0
    while at < words.size:
        part = words[at : at + _PART]
        low, high = WORD * at, min(WORD * (at + part.size), source.size)
        ours, theirs = into[low:high], source[low:high]
        for k in range(ours.size):
            ours[k] = theirs[k]
        weight = np.uint64(2 * (first + at) + 1)
        for k in range(part.size):
            total += part[k] * (weight + np.uint64(2 * k))
        at += part.size
    return total  # type: ignore[return-value]
