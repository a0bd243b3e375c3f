"""Which samples of a stretch fail, where every element is finite: flags first, then samples."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from paritygate.kernels._jit import jit, scalar
from paritygate.kernels.elements import Rule

OUTLYING, CAPPED = 1, 2  # bits of a flag

Counts = npt.NDArray[np.int64]


class Failing(NamedTuple):
    """Samples that have failing elements, in the order in which they were found.

    Attributes:
        total: `(1,)` how many there are.
        rows: their numbers; as large as there are samples, like the next two.
        rules: bits of the rules that they break, 0 where all failing elements are tolerated.
        elements: their failing elements.
        flags: uint8, one an element of a stretch, and zeros up to a whole number of words.
        words: the same memory, eight flags a word.
    """

    total: Counts
    rows: Counts
    rules: Counts
    elements: Counts
    flags: npt.NDArray[np.uint8]
    words: npt.NDArray[np.uint64]


@jit
def keep_failing(size: int, width: int, first: int, rule: Rule, into: Failing) -> None:
    """Keep the samples of a stretch that have a flag.

    Args:
        size: elements of the stretch, of which `into.flags` says what is wrong.
        width: elements a sample.
        first: number of the first sample.
        rule: what is tolerated.
        into: added to.
    """
    n, at = into.total[0], 0
    for word in range((size + 7) >> 3):
        if into.words[word] == 0:
            continue
        end = min(size, 8 * word + 8)
        at = max(at, 8 * word)
        while at < end:
            if into.flags[at] == 0:
                at += 1
                continue
            row = at if width == 1 else at // width
            outlying, capped, failing = _count(into.flags[row * width : row * width + width])
            rules = rule.bits[0] if outlying > rule.outliers else 0
            into.rows[n] = first + row
            into.rules[n] = rules | rule.bits[1] if capped > 0 else rules
            into.elements[n] = failing
            n += 1
            at = row * width + width
    into.total[0] = n


@scalar
def _count(flags: Any) -> Any:
    """Elements of a sample beyond their bound, beyond the cap, beyond either."""
    outlying = capped = failing = np.int64(0)
    for k in range(flags.size):
        flag = flags[k]
        outlying += np.int64(flag & OUTLYING)
        capped += np.int64(flag >> 1)
        failing += np.int64(flag != 0)
    return outlying, capped, failing
