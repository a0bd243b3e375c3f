"""Bands of scores: one thread a score."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from paritygate.gpu.decide import (
    AT_RISK,
    CODES,
    DEPENDS,
    begin,
    finish,
    list_flip,
    note,
    note_code,
    note_label,
    note_margin,
)
from paritygate.gpu.device import SIMULATED, THREADS, bits_of, cuda, device, kernel, unsigned, widen
from paritygate.gpu.rules import UNDEFINED, allowed, band_of

BANDS = 2 if SIMULATED else 64  # of which a block keeps the ends in memory of its own
_AT_ONCE = 4  # scores that a thread reads before it looks at one
# Codes that a thread counts in bytes of a number, and how many before these are full.
_PACKED, _MOST = min(8, CODES), 7 if SIMULATED else 255
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


@device
def unpack(packed: int, own: Any) -> None:
    """Add the counts of a thread's most frequent codes, a byte each."""
    for k in range(_PACKED):
        times = (packed >> (8 * k)) & 255
        if times > 0:
            cuda.atomic.add(own.codes, k, times)


@device
def read_ahead(scores: Any, start: int, step: int, last: int, held: Any, thread: int) -> None:
    """Read a thread's next scores before any of them is looked at, so that none waits alone."""
    first = scores[unsigned(start)]
    second = scores[unsigned(min(start + step, last))]
    third = scores[unsigned(min(start + 2 * step, last))]
    fourth = scores[unsigned(min(start + 3 * step, last))]
    held[0, thread], held[1, thread] = first, second
    held[2, thread], held[3, thread] = third, fourth


@device
def margin_of(score: float, code: int, edges: Any, own_ends: Any, on: Any, ends: Any) -> float:
    """Distance of a reference score to the nearest edge; on which side of them it is, is noted."""
    margin = abs(score - edges[0])
    for k in range(1, edges.size):
        distance = abs(score - edges[k])
        if distance < margin:
            margin = distance
    if margin == 0.0:
        for k in range(edges.size):
            if score == edges[k]:
                cuda.atomic.add(on, k, 1)
    elif code != UNDEFINED:
        if code < BANDS:
            note_end(own_ends, code, key_of(score))
        else:
            note_end(ends, code, key_of(score))
    return margin


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
    own_ends = cuda.shared.array((2, BANDS), np.int64)
    held = cuda.shared.array((_AT_ONCE, THREADS), ref.dtype)
    cand_held = cuda.shared.array((_AT_ONCE, THREADS), cand.dtype)
    for band in range(thread, BANDS, THREADS):
        own_ends[0, band], own_ends[1, band] = HIGHEST, LOWEST
    own = begin(thread)
    main, second = edges[0], edges[1]
    packed, taken, step = 0, 0, cuda.gridDim.x * THREADS
    for start in range(cuda.blockIdx.x * THREADS + thread, batch.rows, _AT_ONCE * step):
        read_ahead(ref, start, step, batch.rows - 1, held, thread)
        read_ahead(cand, start, step, batch.rows - 1, cand_held, thread)
        for ahead in range(_AT_ONCE):
            row = start + ahead * step
            if row >= batch.rows:
                continue
            r, c = widen(held[ahead, thread]), widen(cand_held[ahead, thread])
            code, cand_code = band_of(r, main, tie_up), band_of(c, main, tie_up)
            margin = margin_of(r, code, main, own_ends, on, ends)
            note(own, AT_RISK, margin < math.inf and margin <= allowed(r, batch.atol, batch.rtol))
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
                continue
            note_margin(margin, row, own, found, batch, ordinals)
            if code + 1 >= _PACKED:
                note_code(code, own, found)
                continue
            packed, taken = packed + (1 << (8 * (code + 1))), taken + 1
            if taken == _MOST:
                unpack(packed, own)
                packed, taken = 0, 0
    unpack(packed, own)
    finish(own, found, batch, ordinals)
    for band in range(thread, min(BANDS, main.size + 1), THREADS):
        cuda.atomic.min(ends, (0, band), own_ends[0, band])
        cuda.atomic.max(ends, (1, band), own_ends[1, band])
