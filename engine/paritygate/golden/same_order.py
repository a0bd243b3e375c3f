"""Whether two packs hold the same ids in the same order, found without looking any of them up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from paritygate.golden.pack import GoldenPack

_STEP = 65_536


def is_same_order(pack: GoldenPack, like: GoldenPack) -> bool:
    """Whether every row of a pack has the id that the same row of the other pack has.

    Args:
        pack: read up to the first row that has another id.
        like: the other pack.

    Raises:
        GoldenError: `golden.null_id` or `golden.unreadable`.
    """
    if pack.samples != like.samples or pack.id_kind != like.id_kind:
        return False
    for start in range(0, pack.samples, _STEP):
        stop = min(start + _STEP, pack.samples)
        is_same = _are_equal(pack, like, start, stop)
        for one in (pack, like):
            one.done_until(stop)
        if not is_same:
            return False
    return True


def _are_equal(pack: GoldenPack, like: GoldenPack, start: int, stop: int) -> bool:
    if pack.id_kind == "int64":
        return np.array_equal(pack.ids(start, stop), like.ids(start, stop))
    return pack.id_texts(start, stop).equals(like.id_texts(start, stop))
