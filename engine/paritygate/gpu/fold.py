"""The worst of all blocks of a batch, and of all batches."""

from __future__ import annotations

from typing import Any

from paritygate.gpu.device import THREADS, cuda, kernel, widen
from paritygate.gpu.extremes import keep_further, keep_noisier, keep_worse, ordinal_of


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
        values: `(2, 2)` of the reference and the candidate there, float64 or of their dtype.
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
        value, tie, old_tie = tops[thread, 0], tops[2 * thread, 0], best[2 * thread]
        is_before = ordinal < places[thread, 0]
        is_same = value == best[thread] and tie == old_tie
        is_larger = value > best[thread] or (value == best[thread] and tie > old_tie)
        if places[thread, 0] < 0 or is_larger or (is_same and is_before):
            best[thread] = value
            if thread == 1:
                best[2] = tie
            places[thread, 0], places[thread, 1] = ordinal, index
            values[thread, 0], values[thread, 1] = ref[place], cand[place]


@kernel
def fold_full(
    ref: Any,
    cand: Any,
    ordinals: Any,
    batch: Any,
    steps: Any,
    steps_at: Any,
    ranks: Any,
    ranks_at: Any,
    blocks: int,
    furthest: Any,
    places: Any,
    values: Any,
    noisiest: Any,
    samples: Any,
) -> None:
    """The same of what the tier "full" measures.

    Args:
        ref: as of `scan`.
        cand: the same.
        ordinals: the same.
        batch: the same.
        steps: as `measures` set them; written over.
        steps_at: the same.
        ranks: as `ranks` set them; written over.
        ranks_at: the same.
        blocks: how many there were.
        furthest: `(2,)` uint64 largest distances so far.
        places: `(2, 2)` ordinal and index of both, -1 before there is one.
        values: `(2, 2)` float64 of the reference and the candidate there.
        noisiest: `(6,)` the worst samples so far, as of `extremes.keep_noisier`.
        samples: `(2,)` ordinals of both, -1 before there is one.
    """
    thread = cuda.threadIdx.x
    width, first = batch.width, batch.first
    for block in range(thread + THREADS, blocks, THREADS):
        keep_further(steps, steps_at, thread, block, width, first, ordinals)
        keep_noisier(ranks, ranks_at, thread, block, first, ordinals)
    cuda.syncthreads()
    span = THREADS // 2
    while span > 0:
        if thread < span and thread + span < blocks:
            keep_further(steps, steps_at, thread, thread + span, width, first, ordinals)
            keep_noisier(ranks, ranks_at, thread, thread + span, first, ordinals)
        cuda.syncthreads()
        span //= 2
    if thread >= 2:
        return
    place = steps_at[thread, 0]
    if place >= 0:
        ordinal, apart, known = (
            ordinal_of(place // width, first, ordinals),
            steps[thread, 0],
            places[thread, 0],
        )
        is_tie = apart == furthest[thread] and ordinal < known
        if known < 0 or apart > furthest[thread] or is_tie:
            furthest[thread] = apart
            places[thread, 0], places[thread, 1] = ordinal, place % width
            values[thread, 0], values[thread, 1] = widen(ref[place]), widen(cand[place])
    sample = ranks_at[thread, 0]
    if sample >= 0:
        ordinal, known = ordinal_of(sample, first, ordinals), samples[thread]
        figure, best = ranks[3 * thread, 0], noisiest[3 * thread]
        if known < 0 or figure > best or (figure == best and ordinal < known):
            samples[thread] = ordinal
            for part in range(3):
                noisiest[3 * thread + part] = ranks[3 * thread + part, 0]
