"""The worst of all blocks of a batch, and of all batches."""

from __future__ import annotations

from typing import Any

from paritygate.gpu.device import THREADS, cuda, kernel, widen
from paritygate.gpu.extremes import keep_worse, ordinal_of


@kernel
def fold(
    ref: Any,
    cand: Any,
    ordinals: Any,
    batch: Any,
    tops: Any,
    at: Any,
    blocks: int,
    best: Any,
    places: Any,
    values: Any,
) -> None:
    """Keep the worst of all blocks of a batch, and of all batches: one block of `THREADS` threads.

    Args:
        ref: as of `scan`.
        cand: the same.
        ordinals: the same.
        batch: the same.
        tops: as `scan` set them.
        at: the same.
        blocks: how many there were.
        best: `(3,)` largest error, worst excess and the error there, so far.
        places: `(2, 2)` ordinal and index of both, -1 before there is one.
        values: `(2, 2)` float64 of the reference and the candidate there.
    """
    thread = cuda.threadIdx.x
    width, first = batch.width, batch.first
    for block in range(thread + THREADS, blocks, THREADS):
        keep_worse(tops, at, thread, block, width, first, ordinals)
    cuda.syncthreads()
    span = THREADS // 2
    while span > 0:
        if thread < span and thread + span < blocks:
            keep_worse(tops, at, thread, thread + span, width, first, ordinals)
        cuda.syncthreads()
        span //= 2
    if thread < 2 and at[thread, 0] >= 0:
        place = at[thread, 0]
        ordinal, index = ordinal_of(place // width, first, ordinals), place % width
        value, tie = tops[thread, 0], tops[2, 0] if thread == 1 else 0.0
        old_tie = best[2] if thread == 1 else 0.0
        is_before = ordinal < places[thread, 0]
        is_same = value == best[thread] and tie == old_tie
        is_larger = value > best[thread] or (value == best[thread] and tie > old_tie)
        if places[thread, 0] < 0 or is_larger or (is_same and is_before):
            best[thread] = value
            if thread == 1:
                best[2] = tie
            places[thread, 0], places[thread, 1] = ordinal, index
            values[thread, 0], values[thread, 1] = widen(ref[place]), widen(cand[place])
