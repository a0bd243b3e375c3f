"""The worst elements of samples that may be wanted: of no others are they looked for."""

from __future__ import annotations

import numpy as np

from paritygate.comparison.arrays import frozen
from paritygate.comparison.details import Worst
from paritygate.comparison.rows import Ints
from paritygate.core.dtypes import widened
from paritygate.core.tensors import Array
from paritygate.kernels.elements import Rule
from paritygate.kernels.worst import find_worst

_TILE = 1 << 11  # elements handled at once, so that their excesses stay in the processor's cache


def worst_floats(rows: Ints, ref: Array, cand: Array, rule: Rule) -> Worst:
    """Worst elements of some samples.

    Args:
        rows: the samples, ascending.
        ref: `(n, *shape)` floats of all samples, of at least one element each.
        cand: the same of the candidate.
        rule: what is tolerated.
    """
    n, width = len(rows), ref[:1].size
    found = Worst(rows, np.empty(n, np.int64), np.empty(n), np.empty(n))
    is_all = n == len(ref)
    ratios, sizes = np.empty((2, max(1, min(n, _TILE // width)) * width))
    left, right = (frozen(_native(widened(side if is_all else side[rows]))) for side in (ref, cand))
    find_worst(left, right, width, rule, found.index, found.excess, found.error, ratios, sizes)
    return found


def _native(values: Array) -> Array:
    return values.astype(values.dtype.newbyteorder("="), copy=False)
