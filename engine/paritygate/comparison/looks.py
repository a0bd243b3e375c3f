"""The worst elements of samples that may be wanted: of no others are they looked for."""

from __future__ import annotations

import numpy as np

from paritygate.comparison.details import Worst
from paritygate.comparison.rows import Ints
from paritygate.core.dtypes import widened
from paritygate.core.tensors import Array
from paritygate.kernels.elements import Rule
from paritygate.kernels.worst import find_worst

_TILE = 1 << 13  # elements handled at once, so that they stay in the processor's cache in float64


def worst_floats(rows: Ints, ref: Array, cand: Array, rule: Rule) -> Worst:
    """Worst elements of some samples.

    Args:
        rows: the samples, ascending.
        ref: `(n, *shape)` floats of all samples, of at least one element each.
        cand: the same of the candidate.
        rule: what is tolerated.
    """
    found = Worst(rows, np.empty(len(rows), np.int64), np.empty(len(rows)), np.empty(len(rows)))
    width = ref[:1].size
    step = max(1, _TILE // width)
    wide = np.empty((2, min(step, len(rows)) * width))
    room = np.empty_like(wide)
    is_all = len(rows) == len(ref)
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        which = part if is_all else rows[part]
        index, excess, error = found.index[part], found.excess[part], found.error[part]
        size = index.size * width
        with np.errstate(invalid="ignore"):  # a signalling NaN
            for values, into in ((ref, wide[0]), (cand, wide[1])):
                into[:size] = widened(values[which]).reshape(-1)
        find_worst(
            wide[0][:size], wide[1][:size], width, rule, index, excess, error, (room[0], room[1])
        )
    return found
