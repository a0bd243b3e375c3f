"""Bands of scores: one thread a score."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from paritygate.gpu.decide import (
    AT_RISK,
    CODES,
    COUNTS,
    DEPENDS,
    WINDOW,
    Own,
    begin,
    finish,
    list_flip,
    note,
    note_code,
    note_label,
    note_margin,
)
from paritygate.gpu.device import SIMULATED, THREADS, bits_of, cuda, device, kernel, widen
from paritygate.gpu.rules import UNDEFINED, allowed, band_of

BANDS = 2 if SIMULATED else 64  # of which a block keeps the ends in memory of its own
LOWEST, HIGHEST = -0x8000000000000000, 0x7FFFFFFFFFFFFFFF


@device
def key_of(score: float) -> int:
    """An integer that is in order as float64 are; of these it has the bits, turned if negative."""
    bits = bits_of(score)
    return bits if bits >= 0 else bits ^ HIGHEST


@device
def note_end(ends: Any, band: int, key: int) -> None:
    """Keep the lowest and the highest score of a band; one that isn't is asked about no atomic."""
    if key < ends[0, band]:
        cuda.atomic.min(ends, (0, band), key)
    if key > ends[1, band]:
        cuda.atomic.max(ends, (1, band), key)


@kernel
def decide_bands(
    ref: Any,
    cand: Any,
    other: Any,
    edges: Any,
    tie_up: Any,
    has_other: int,
    ordinals: Any,
    truth: Any,
    batch: Any,
    found: Any,
    on: Any,
    ends: Any,
) -> None:
    """Decide both sides of a batch of scores.

    Args:
        ref: `(rows,)` float32 or float64.
        cand: `(rows,)` float32 or float64, as they are compared.
        other: the same as the other `compare_as` has them.
        edges: `(2, k)` float64 as they are compared, and as the other `compare_as` has them.
        tie_up: `(k,)` whether a score equal to the edge falls into the upper band.
        has_other: whether that may decide otherwise.
        ordinals: of the samples, where they don't follow each other.
        truth: `(samples,)` codes of labels, where there are some.
        batch: a `decide.Batch`.
        found: a `decide.Found`.
        on: `(k,)` int64 reference scores that equal the edge, added to.
        ends: `(2, k + 1)` int64 keys of each band's lowest and highest score that is on no edge;
            lowered and raised.
    """
    thread = cuda.threadIdx.x
    own = Own(
        cuda.shared.array(COUNTS, np.int64),
        cuda.shared.array(CODES, np.uint32),
        cuda.shared.array(WINDOW, np.uint32),
        cuda.shared.array(THREADS, np.float64),
        cuda.shared.array(THREADS, np.int64),
    )
    own_ends = cuda.shared.array((2, BANDS), np.int64)
    for band in range(thread, BANDS, THREADS):
        own_ends[0, band], own_ends[1, band] = HIGHEST, LOWEST
    begin(own, thread)
    main, second = edges[0], edges[1]
    for row in range(cuda.blockIdx.x * THREADS + thread, batch.rows, cuda.gridDim.x * THREADS):
        r, c = widen(ref[row]), widen(cand[row])
        code, cand_code = band_of(r, main, tie_up), band_of(c, main, tie_up)
        margin = abs(r - main[0])
        for k in range(1, main.size):
            distance = abs(r - main[k])
            if distance < margin:
                margin = distance
        note(own, AT_RISK, margin < math.inf and margin <= allowed(r, batch.atol, batch.rtol))
        if margin == 0.0:
            for k in range(main.size):
                if r == main[k]:
                    cuda.atomic.add(on, k, 1)
        elif code != UNDEFINED:
            if code < BANDS:
                note_end(own_ends, code, key_of(r))
            else:
                note_end(ends, code, key_of(r))
        if has_other != 0:
            ref_differs = band_of(r, second, tie_up) != code
            cand_differs = band_of(widen(other[row]), second, tie_up) != cand_code
            note(own, DEPENDS, ref_differs or cand_differs)
        if batch.has_truth != 0:
            label = truth[row]
            note_label(code == label, cand_code == label, label, own)
        if code != cand_code or (code == UNDEFINED and batch.match == 0):
            slot = list_flip(row, margin, found, batch)
            found.pairs[slot, 0], found.pairs[slot, 1] = code, cand_code
        else:
            note_code(code, own, found)
            note_margin(margin, row, own, found, batch, ordinals)
    finish(own, found, batch, ordinals)
    for band in range(thread, min(BANDS, main.size + 1), THREADS):
        cuda.atomic.min(ends, (0, band), own_ends[0, band])
        cuda.atomic.max(ends, (1, band), own_ends[1, band])
