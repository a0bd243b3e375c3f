"""What is found out about decisions: counted block by block, and listed where they flip."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from paritygate.gpu.device import SIMULATED, THREADS, cuda, device, kernel
from paritygate.gpu.extremes import ordinal_of, precedes
from paritygate.gpu.rules import UNDEFINED, bin_of

AT_RISK, DEPENDS, TIED_REF, TIED_CAND = 0, 1, 2, 3
LABELLED, UNKNOWN, RIGHT_REF, RIGHT_CAND, TO_WRONG, TO_RIGHT = 4, 5, 6, 7, 8, 9
FLIPS, COUNTS = 10, 11
NO_LABEL = -3  # of `comparison.decide.counts`

CODES = 4 if SIMULATED else 1024  # of which a block counts in memory of its own, undefined first
WINDOW = 64 if SIMULATED else 2048  # bins likewise, eight for each power of two
_FIRST_BIN = 1 + 8 * (1023 - WINDOW // 8 + 8)


class Batch(NamedTuple):
    """What is the same for all decisions of a batch.

    Attributes:
        rows: decisions.
        each: decisions of a sample.
        first: ordinal of the first sample, if they follow each other; else -1.
        before: number of the first row.
        match: 1 if undefined on both sides agrees, else 0.
        is_full: 1 if margins are counted by size, else 0.
        has_truth: 1 if there are labels, else 0.
        atol: absolute tolerance.
        rtol: tolerance relative to |ref|.
    """

    rows: int
    each: int
    first: int
    before: int
    match: int
    is_full: int
    has_truth: int
    atol: float
    rtol: float


class Found(NamedTuple):
    """Memory of the device for what is found.

    Attributes:
        counts: `(COUNTS,)` int64, added to.
        codes: `(codes + 1,)` int64 rows that didn't flip by their decision, undefined first; added
            to.
        bins: `(BINS,)` int64 margins of these by size, added to.
        tops: `(blocks,)` set to the smallest of their margins.
        at: `(blocks,)` set to its row, -1 where there is none.
        rows: int64, set to the numbers of rows that flipped, in any order.
        margins: set to their margins.
        pairs: `(n, 2 * places)` int32 set to their codes, those of the reference first.
    """

    counts: Any
    codes: Any
    bins: Any
    tops: Any
    at: Any
    rows: Any
    margins: Any
    pairs: Any


class Own(NamedTuple):
    """Memory of a block: counts, codes and bins that are met often, and each thread's least."""

    counts: Any
    codes: Any
    bins: Any
    least: Any
    least_at: Any


@device
def begin(thread: int) -> Any:
    """A block's memory, an `Own` that holds nothing yet; all of its threads come here once."""
    own = Own(
        cuda.shared.array(COUNTS, np.uint32),
        cuda.shared.array(CODES, np.uint32),
        cuda.shared.array(WINDOW, np.uint32),
        cuda.shared.array(THREADS, np.float64),
        cuda.shared.array(THREADS, np.int64),
    )
    for k in range(thread, COUNTS, THREADS):
        own.counts[k] = 0
    for k in range(thread, CODES, THREADS):
        own.codes[k] = 0
    for k in range(thread, WINDOW, THREADS):
        own.bins[k] = 0
    own.least[thread], own.least_at[thread] = math.inf, -1
    cuda.syncthreads()
    return own


@device
def note(own: Any, which: int, is_so: bool) -> None:
    """Count a row of which something holds that seldom does."""
    if is_so:
        cuda.atomic.add(own.counts, which, 1)


@device
def note_code(code: int, own: Any, found: Any) -> None:
    """Count what both sides of a row decided."""
    if code + 1 < CODES:
        cuda.atomic.add(own.codes, code + 1, 1)
    else:
        cuda.atomic.add(found.codes, code + 1, 1)


@device
def note_margin(margin: float, row: int, own: Any, found: Any, batch: Any, ordinals: Any) -> None:
    """Count the margin of a row that didn't flip; a NaN counts nowhere."""
    if margin != margin:
        return
    thread = cuda.threadIdx.x
    if batch.is_full != 0:
        k = bin_of(margin)
        if _FIRST_BIN <= k < _FIRST_BIN + WINDOW:
            cuda.atomic.add(own.bins, k - _FIRST_BIN, 1)
        else:
            cuda.atomic.add(found.bins, k, 1)
    least, at = own.least[thread], own.least_at[thread]
    if comes_first(margin, row, least, at, batch, ordinals):
        own.least[thread], own.least_at[thread] = margin, row


@device
def comes_first(margin: float, row: int, least: float, at: int, batch: Any, ordinals: Any) -> bool:
    """Whether a margin is below another one, or equal and earlier in the pack; none is last."""
    if row < 0 or at < 0:
        return bool(row >= 0)
    if margin != least:
        return bool(margin < least)
    return precedes(row, at, batch.each, batch.first, ordinals)


@device
def list_flip(row: int, margin: float, found: Any, batch: Any) -> int:
    """List a row that flipped; its place there, for its codes."""
    slot = cuda.atomic.add(found.counts, FLIPS, 1)
    found.rows[slot], found.margins[slot] = batch.before + row, margin
    return int(slot)


@device
def note_label(ref: bool, cand: bool, truth: int, own: Any) -> None:
    """Count a row against its label, by which sides are right if it is known."""
    is_known = truth not in (UNDEFINED, NO_LABEL)
    note(own, LABELLED, is_known)
    note(own, UNKNOWN, not is_known)
    note(own, RIGHT_REF, is_known and ref)
    note(own, RIGHT_CAND, is_known and cand)
    note(own, TO_WRONG, is_known and ref and not cand)
    note(own, TO_RIGHT, is_known and cand and not ref)


@device
def finish(own: Any, found: Any, batch: Any, ordinals: Any) -> None:
    """Add a block's memory to that of the device."""
    thread = cuda.threadIdx.x
    cuda.syncthreads()
    span = THREADS // 2
    while span > 0:
        if thread < span:
            keep_first(own.least, own.least_at, thread, thread + span, batch, ordinals)
        cuda.syncthreads()
        span //= 2
    for k in range(thread, COUNTS, THREADS):
        if own.counts[k] > 0:
            cuda.atomic.add(found.counts, k, own.counts[k])
    for k in range(thread, min(CODES, found.codes.size), THREADS):
        if own.codes[k] > 0:
            cuda.atomic.add(found.codes, k, own.codes[k])
    for k in range(thread, WINDOW, THREADS):
        if own.bins[k] > 0:
            cuda.atomic.add(found.bins, _FIRST_BIN + k, own.bins[k])
    if thread == 0:
        found.tops[cuda.blockIdx.x], found.at[cuda.blockIdx.x] = own.least[0], own.least_at[0]


@device
def keep_first(tops: Any, at: Any, place: int, other: int, batch: Any, ordinals: Any) -> None:
    """Replace a margin by another one where that comes first."""
    if comes_first(tops[other], at[other], tops[place], at[place], batch, ordinals):
        tops[place], at[place] = tops[other], at[other]


@kernel
def fold_least(found: Any, blocks: int, batch: Any, ordinals: Any, least: Any, place: Any) -> None:
    """Keep the smallest margin of all blocks, and of all batches: one block of `THREADS` threads.

    Args:
        found: as a kernel of decisions left it.
        blocks: how many it had.
        batch: as of that.
        ordinals: the same.
        least: `(1,)` the smallest margin so far.
        place: `(2,)` ordinal and decision of its sample, -1 before there is one.
    """
    thread = cuda.threadIdx.x
    for block in range(thread + THREADS, blocks, THREADS):
        keep_first(found.tops, found.at, thread, block, batch, ordinals)
    cuda.syncthreads()
    span = THREADS // 2
    while span > 0:
        if thread < span and thread + span < blocks:
            keep_first(found.tops, found.at, thread, thread + span, batch, ordinals)
        cuda.syncthreads()
        span //= 2
    if thread == 0 and found.at[0] >= 0:
        margin, row = found.tops[0], found.at[0]
        ordinal = ordinal_of(row // batch.each, batch.first, ordinals)
        is_first = margin < least[0] or (margin == least[0] and ordinal < place[0])
        if place[0] < 0 or is_first:
            least[0], place[0], place[1] = margin, ordinal, row % batch.each
