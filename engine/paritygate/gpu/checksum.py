"""The sum of what lies on a device, as `kernels.checksum` makes it of what the host sends."""

from __future__ import annotations

from typing import Any

import numpy as np

from paritygate.gpu.device import cuda, kernel, unsigned

MODULUS = 1 << 64
_ALL = MODULUS - 1
_LOW, _HALF = (1 << 32) - 1, 32


@kernel
def add_words(words: Any, stamp: int, sums: Any, row: int) -> None:
    """Add to `sums[row]` the stamp, times 1 and the sum of `kernels.checksum` of the words.

    Both halves of what each thread adds are added by themselves, which no sum overflows.
    """
    total = unsigned(0)
    if cuda.grid(1) == 0:
        total = unsigned(1)
    for k in range(cuda.grid(1), words.size, cuda.gridsize(1)):
        total = (total + unsigned(words[unsigned(k)]) * unsigned(2 * k + 1)) & unsigned(_ALL)
    total = (total * unsigned(stamp)) & unsigned(_ALL)
    cuda.atomic.add(sums, (row, 0), np.int64(total & unsigned(_LOW)))
    cuda.atomic.add(sums, (row, 1), np.int64(total >> unsigned(_HALF)))
