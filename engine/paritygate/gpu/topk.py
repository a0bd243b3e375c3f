"""First k classes of rows: a team of threads a row, which finds them one after the other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from paritygate.gpu.argmax import start_of
from paritygate.gpu.decide import (
    AT_RISK,
    DEPENDS,
    TIED_CAND,
    TIED_REF,
    begin,
    finish,
    list_flip,
    note,
    note_code,
    note_label,
    note_margin,
)
from paritygate.gpu.device import THREADS, cuda, device, kernel, sync_team, unsigned, widen
from paritygate.gpu.rules import UNDEFINED, allowed

_NONE = -2  # no class is left for a thread


@device
def following(score: Any, place: int, last: Any, last_at: int, top: Any, code: int) -> Any:
    """The first of scores that follow the last one in order, with one score more, and its index."""
    is_left = last_at == _NONE or score < last or (score == last and place > last_at)
    is_first = is_left and (code == _NONE or score > top)
    return score if is_first else top, place if is_first else code


@device
def find_first(
    scores: Any,
    row: int,
    rows: int,
    width: int,
    stride: int,
    team: int,
    tops: Any,
    places: Any,
    best: Any,
) -> None:
    """Find a row's first places, largest score first, the lowest index of a tie first.

    Args:
        scores: row after row.
        row: number of the team's row.
        rows: how many there are; from here on a row is none.
        width: classes in a row.
        stride: as of `start_of`.
        team: threads that look at a row, a power of two.
        tops: a block's memory, changed.
        places: the same.
        best: of the team, set to as many places as there is room; `UNDEFINED` if there is a NaN.
    """
    thread = cuda.threadIdx.x
    lane = thread % team
    leader = thread - lane
    last, last_at = scores[0], _NONE
    for place in range(best.size):
        if row < rows:
            at = start_of(row, width, stride) + lane * stride
            step = team * stride
            top, code, is_undefined, j = scores[unsigned(at)], _NONE, False, lane
            while j + 3 * team < width:  # so many are read at once
                a, b = scores[unsigned(at)], scores[unsigned(at + step)]
                c, d = scores[unsigned(at + 2 * step)], scores[unsigned(at + 3 * step)]
                is_undefined |= a != a or b != b or c != c or d != d
                top, code = following(a, j, last, last_at, top, code)
                top, code = following(b, j + team, last, last_at, top, code)
                top, code = following(c, j + 2 * team, last, last_at, top, code)
                top, code = following(d, j + 3 * team, last, last_at, top, code)
                j += 4 * team
                at += 4 * step
            while j < width:
                score = scores[unsigned(at)]
                is_undefined |= score != score
                top, code = following(score, j, last, last_at, top, code)
                j += team
                at += step
            tops[thread], places[thread] = top, UNDEFINED if is_undefined else code
        sync_team()
        span = team // 2
        while span > 0:
            if lane < span and row < rows:
                join(tops, places, thread, thread + span)
            sync_team()
            span //= 2
        if row < rows:
            last, last_at = tops[leader], places[leader]
            if lane == 0:
                best[place] = last_at
        sync_team()


@device
def join(tops: Any, places: Any, thread: int, other: int) -> None:
    """Take in what another thread of the team has found."""
    ours, theirs = places[thread], places[other]
    if ours == UNDEFINED or theirs == UNDEFINED:
        places[thread] = UNDEFINED
    elif theirs != _NONE and (
        ours == _NONE
        or tops[other] > tops[thread]
        or (tops[other] == tops[thread] and theirs < ours)
    ):
        tops[thread], places[thread] = tops[other], theirs


@device
def differs(ours: Any, theirs: Any, k: int, is_ranked: int) -> bool:
    """Whether first places aren't the same decision; classes of a row are different ones."""
    for i in range(k):
        if ours[i] == theirs[i]:
            continue
        if is_ranked != 0:
            return True
        is_there = False
        for j in range(k):
            is_there |= ours[i] == theirs[j]
        if not is_there:
            return True
    return False


@device
def is_tied(scores: Any, at: int, stride: int, best: Any, first: int, last: int) -> bool:
    """Whether neighbours of some places have equal scores."""
    if best[0] == UNDEFINED:
        return False
    found = False
    for j in range(first, last):
        found |= scores[at + best[j] * stride] == scores[at + best[j + 1] * stride]
    return found


@device
def has_label(best: Any, k: int, label: int) -> bool:
    """Whether one of the first places is a class."""
    found = False
    for j in range(k):
        found |= best[j] == label
    return found


@kernel
def decide_topk(
    ref: Any,
    cand: Any,
    other_ref: Any,
    other_cand: Any,
    width: int,
    stride: int,
    team: int,
    k: int,
    is_ranked: int,
    renamed: Any,
    has_other: int,
    ordinals: Any,
    truth: Any,
    batch: Any,
    found: Any,
    best: Any,
) -> None:
    """Decide both sides of a batch of rows.

    Args:
        ref: as of `decide_argmax`, like all that isn't told here.
        cand: the same.
        other_ref: the same.
        other_cand: the same.
        width: the same.
        stride: the same.
        team: the same.
        k: places that count.
        is_ranked: whether their order counts.
        renamed: the same.
        has_other: the same.
        ordinals: the same.
        truth: the same.
        batch: the same.
        found: the same.
        best: `(teams, 4, m)` int32 written over, m = min(k + 1, width).
    """
    thread = cuda.threadIdx.x
    tops = cuda.shared.array(THREADS, ref.dtype)
    cand_tops = cuda.shared.array(THREADS, cand.dtype)
    other_tops = cuda.shared.array(THREADS, other_ref.dtype)
    last_tops = cuda.shared.array(THREADS, other_cand.dtype)
    places = cuda.shared.array(THREADS, np.int32)
    own = begin(thread)
    teams = THREADS // team
    mine = best[cuda.blockIdx.x * teams + thread // team]
    ours, theirs, others, lasts = mine[0], mine[1], mine[2], mine[3]
    rows = batch.rows
    first, last = 0 if is_ranked != 0 else k - 1, min(k, ours.size - 1)
    for group in range(cuda.blockIdx.x * teams, rows, cuda.gridDim.x * teams):
        row = group + thread // team
        find_first(ref, row, rows, width, stride, team, tops, places, ours)
        find_first(cand, row, rows, width, stride, team, cand_tops, places, theirs)
        if has_other != 0:
            find_first(other_ref, row, rows, width, stride, team, other_tops, places, others)
            find_first(other_cand, row, rows, width, stride, team, last_tops, places, lasts)
        if thread % team != 0 or row >= rows:
            continue
        if has_other != 0:
            ref_differs = differs(ours, others, k, is_ranked)
            note(own, DEPENDS, ref_differs or differs(theirs, lasts, k, is_ranked))
        at = start_of(row, width, stride)
        note(own, TIED_REF, is_tied(ref, at, stride, ours, first, last))
        note(own, TIED_CAND, is_tied(cand, at, stride, theirs, first, last))
        is_defined = ours[0] != UNDEFINED
        margin, is_risk = math.inf if is_defined else math.nan, False
        if is_defined:
            for j in range(first, last):
                high = widen(ref[at + ours[j] * stride])
                low = widen(ref[at + ours[j + 1] * stride])
                gap = 0.0 if high == low else high - low
                bound = allowed(high, batch.atol, batch.rtol) + allowed(low, batch.atol, batch.rtol)
                is_risk |= gap == 0.0 or (gap < math.inf and gap <= bound)
                margin = gap if gap < margin else margin
        note(own, AT_RISK, is_risk)
        if renamed.size > 1 and theirs[0] != UNDEFINED:
            for j in range(k):
                theirs[j] = renamed[theirs[j]]
        if batch.has_truth != 0:
            label = truth[row]
            note_label(has_label(ours, k, label), has_label(theirs, k, label), label, own)
        if differs(ours, theirs, k, is_ranked) or (not is_defined and batch.match == 0):
            slot = list_flip(row, margin, found, batch)
            for j in range(k):
                found.pairs[slot, j], found.pairs[slot, k + j] = ours[j], theirs[j]
        else:
            for j in range(k):
                note_code(ours[j], own, found)
            note_margin(margin, row, own, found, batch, ordinals)
    finish(own, found, batch, ordinals)
