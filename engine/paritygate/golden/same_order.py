"""Whether two packs hold the same ids in the same order, found without looking any of them up."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from paritygate.golden.pack import GoldenPack

_STEP = 65_536
_DROPPED_AT_ONCE = 16 * _STEP
_SHARED = 4 * _DROPPED_AT_ONCE  # rows that two threads share


def is_same_order(pack: GoldenPack, like: GoldenPack) -> bool:
    """Whether every row of a pack has the id that the same row of the other pack has.

    Args:
        pack: read up to a row that has another id; of a large one that is mapped both halves at
            once.
        like: the other pack.

    Raises:
        GoldenError: `golden.null_id` or `golden.unreadable`.
    """
    if pack.samples != like.samples or pack.id_kind != like.id_kind:
        return False
    if pack.samples < _SHARED or not (pack.is_mapped and like.is_mapped):
        return _is_same(pack, like, 0, pack.samples, threading.Event())
    middle, differ = pack.samples // 2 // _STEP * _STEP, threading.Event()
    with ThreadPoolExecutor(1, "paritygate-ids") as beside:
        rest = beside.submit(_is_same, pack, like, middle, pack.samples, differ)
        is_same = _is_same(pack, like, 0, middle, differ)
        return rest.result() and is_same


def _is_same(
    pack: GoldenPack, like: GoldenPack, first: int, last: int, differ: threading.Event
) -> bool:
    """Whether some rows are alike; where they aren't, or can't be read, nobody reads on."""
    done = first
    try:
        while done < last and not differ.is_set():
            start, end = done, min(done + _DROPPED_AT_ONCE, last)
            steps = ((low, min(low + _STEP, end)) for low in range(start, end, _STEP))
            if not all(_are_equal(pack, like, *step) for step in steps):
                break
            done = end
            for one in (pack, like):
                one.done_with(start, end)
    finally:
        if done < last:
            differ.set()
    return done == last


def _are_equal(pack: GoldenPack, like: GoldenPack, start: int, stop: int) -> bool:
    if pack.id_kind == "int64":
        return np.array_equal(pack.ids(start, stop), like.ids(start, stop))
    return pack.id_texts(start, stop).equals(like.id_texts(start, stop))
