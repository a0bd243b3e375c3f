"""Largest classes of rows: a team of threads a row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

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


@device
def start_of(row: int, width: int, stride: int) -> int:
    """Place of a row's first score; its others follow it at a stride, between them other rows'."""
    return row // stride * (width * stride) + row % stride


@device
def raised(score: Any, place: int, top: Any, second: Any, code: int) -> Any:
    """The maximum of scores, the runner-up and the index of the maximum, with one score more."""
    is_above = score > top
    lower = top if is_above else score
    return (
        score if is_above else top,
        lower if lower > second else second,
        place if is_above else code,
    )


@device
def rank(
    scores: Any,
    row: int,
    rows: int,
    width: int,
    stride: int,
    team: int,
    tops: Any,
    seconds: Any,
    places: Any,
) -> None:
    """Find a row's maximum, the lowest index of a tie, and the runner-up; `rows` is none.

    Args:
        scores: row after row.
        row: number of the team's row.
        rows: how many there are.
        width: classes in a row, at least 2.
        stride: as of `start_of`.
        team: threads that look at a row, a power of two, at most half the width.
        tops: a block's memory, of the first thread of a team set to the maximum.
        seconds: likewise to the runner-up.
        places: likewise to the index, `UNDEFINED` if there is a NaN in the row.
    """
    thread = cuda.threadIdx.x
    lane = thread % team
    if row < rows:
        at = start_of(row, width, stride) + lane * stride
        step = team * stride
        top, second, code = scores[unsigned(at)], scores[unsigned(at + step)], lane
        is_undefined = top != top or second != second
        if second > top:
            top, second, code = second, top, lane + team
        j = lane + 2 * team
        at += 2 * step
        while j + 3 * team < width:  # so many are read at once
            a, b = scores[unsigned(at)], scores[unsigned(at + step)]
            c, d = scores[unsigned(at + 2 * step)], scores[unsigned(at + 3 * step)]
            is_undefined |= a != a or b != b or c != c or d != d
            top, second, code = raised(a, j, top, second, code)
            top, second, code = raised(b, j + team, top, second, code)
            top, second, code = raised(c, j + 2 * team, top, second, code)
            top, second, code = raised(d, j + 3 * team, top, second, code)
            j += 4 * team
            at += 4 * step
        while j < width:
            score = scores[unsigned(at)]
            is_undefined |= score != score
            top, second, code = raised(score, j, top, second, code)
            j += team
            at += step
        tops[thread], seconds[thread] = top, second
        places[thread] = UNDEFINED if is_undefined else code
    sync_team()
    span = team // 2
    while span > 0:
        if lane < span and row < rows:
            join(tops, seconds, places, thread, thread + span)
        sync_team()
        span //= 2


@device
def join(tops: Any, seconds: Any, places: Any, thread: int, other: int) -> None:
    """Take in what another thread of the team has found."""
    if places[thread] < 0 or places[other] < 0:
        places[thread] = UNDEFINED
        return
    top, theirs = tops[thread], tops[other]
    if theirs > top or (theirs == top and places[other] < places[thread]):
        tops[thread], places[thread] = theirs, places[other]
        seconds[thread] = top if top > seconds[other] else seconds[other]
    elif theirs > seconds[thread]:
        seconds[thread] = theirs


@kernel
def decide_argmax(
    ref: Any,
    cand: Any,
    other_ref: Any,
    other_cand: Any,
    width: int,
    stride: int,
    team: int,
    renamed: Any,
    has_other: int,
    ordinals: Any,
    truth: Any,
    batch: Any,
    found: Any,
) -> None:
    """Decide both sides of a batch of rows.

    Args:
        ref: `(rows * width,)` floats or 64-bit integers, as they are put in order.
        cand: the same.
        other_ref: the same as the other `compare_as` has them.
        other_cand: the same.
        width: as of `rank`.
        stride: the same.
        team: the same, at most a warp.
        renamed: the reference's code of each class of the candidate; one number for no change.
        has_other: whether the other `compare_as` may decide otherwise.
        ordinals: of the samples, where they don't follow each other.
        truth: `(samples,)` codes of labels, where there are some.
        batch: a `decide.Batch`.
        found: a `decide.Found`.
    """
    thread = cuda.threadIdx.x
    tops = cuda.shared.array(THREADS, ref.dtype)
    seconds = cuda.shared.array(THREADS, ref.dtype)
    cand_tops = cuda.shared.array(THREADS, cand.dtype)
    cand_seconds = cuda.shared.array(THREADS, cand.dtype)
    other_tops = cuda.shared.array(THREADS, other_ref.dtype)
    other_seconds = cuda.shared.array(THREADS, other_ref.dtype)
    last_tops = cuda.shared.array(THREADS, other_cand.dtype)
    last_seconds = cuda.shared.array(THREADS, other_cand.dtype)
    places = cuda.shared.array((4, THREADS), np.int32)
    own = begin(thread)
    teams = THREADS // team
    for group in range(cuda.blockIdx.x * teams, batch.rows, cuda.gridDim.x * teams):
        row = group + thread // team
        rank(ref, row, batch.rows, width, stride, team, tops, seconds, places[0])
        rank(cand, row, batch.rows, width, stride, team, cand_tops, cand_seconds, places[1])
        if has_other != 0:
            rank(
                other_ref, row, batch.rows, width, stride, team,
                other_tops, other_seconds, places[2],
            )  # fmt: skip
            rank(
                other_cand, row, batch.rows, width, stride, team,
                last_tops, last_seconds, places[3],
            )  # fmt: skip
        if thread % team != 0 or row >= batch.rows:
            continue
        code, cand_code = places[0, thread], places[1, thread]
        if has_other != 0:
            is_other = places[2, thread] != code or places[3, thread] != cand_code
            note(own, DEPENDS, is_other)
        is_defined = code != UNDEFINED
        note(own, TIED_REF, is_defined and tops[thread] == seconds[thread])
        is_tied = cand_code != UNDEFINED and cand_tops[thread] == cand_seconds[thread]
        note(own, TIED_CAND, is_tied)
        if cand_code >= 0 and renamed.size > 1:
            cand_code = renamed[cand_code]
        margin = math.nan
        if is_defined:
            top, second = widen(tops[thread]), widen(seconds[thread])
            margin = 0.0 if top == second else top - second
            bound = allowed(top, batch.atol, batch.rtol) + allowed(second, batch.atol, batch.rtol)
            note(own, AT_RISK, margin == 0.0 or (margin < math.inf and margin <= bound))
        if batch.has_truth != 0:
            label = truth[row]
            note_label(code == label, cand_code == label, label, own)
        if code != cand_code or (not is_defined and batch.match == 0):
            slot = list_flip(row, margin, found, batch)
            found.pairs[slot, 0], found.pairs[slot, 1] = code, cand_code
        else:
            note_code(code, own, found)
            note_margin(margin, row, own, found, batch, ordinals)
    finish(own, found, batch, ordinals)
