"""Which samples of a stretch fail, where every element is finite: flags first, then samples."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from paritygate.kernels._jit import scalar
from paritygate.kernels.elements import Rule
from paritygate.kernels.typed import trailing_zeros, whole

OUTLYING, CAPPED = 1, 2  # bits of a flag

_ALL_OUTLYING = np.uint64(0x0101010101010101)

Counts = npt.NDArray[np.int64]


class Failing(NamedTuple):
    """Samples that have failing elements, in the order in which they were found.

    Attributes:
        total: `(1,)` how many there are.
        rows: their numbers; larger by 8 than there are samples, like the next two.
        rules: uint8, bits of the rules that they break, 0 where all failing elements are tolerated.
        elements: uint32, their failing elements.
        flags: uint8, one an element of a stretch, and zeros up to a whole number of words.
        words: the same memory, eight flags a word.
        listed: as many and one; written over.
    """

    total: Counts
    rows: Counts
    rules: npt.NDArray[np.uint8]
    elements: npt.NDArray[np.uint32]
    flags: npt.NDArray[np.uint8]
    words: npt.NDArray[np.uint64]
    listed: npt.NDArray[np.uint32]


@scalar
def keep_failing(size: int, width: int, first: int, rule: Rule, into: Failing) -> None:
    """Keep the samples of a stretch that have a flag.

    Args:
        size: elements of the stretch, of which `into.flags` says what is wrong.
        width: elements a sample.
        first: number of the first sample.
        rule: what is tolerated.
        into: added to.
    """
    if width == 1:
        _keep_singles((size + 7) >> 3, first, rule, into)
        return
    n, at, row, end = into.total[0], 0, -1, 0  # sample `row` ends at `end`
    for word in range((size + 7) >> 3):
        if into.words[word] == 0:
            continue
        stop = min(size, 8 * word + 8)
        at = max(at, 8 * word)
        while at < stop:
            if into.flags[at] == 0:
                at += 1
                continue
            row = row + 1 if at < end + width else at // width
            end = row * width + width
            outlying, capped, failing = _count(into.flags[end - width : end])
            into.rows[n] = first + row
            into.rules[n] = _rules(outlying, capped, rule)
            into.elements[n] = failing
            n += 1
            at = end
    into.total[0] = n


@scalar
def _keep_singles(words: int, first: int, rule: Any, into: Any) -> None:
    """Of samples of one element: words that have a flag are listed without a branch, then read."""
    listed = into.listed
    found = 0
    for word in range(words):
        listed[found] = word
        found += whole(into.words[word] != 0)
    n, exceeded = into.total[0], _rules(OUTLYING, 0, rule)
    for place in range(found):
        word = whole(listed[place])
        if into.words[word] == _ALL_OUTLYING:
            rows, rules = into.rows[n : n + 8], into.rules[n : n + 8]
            elements = into.elements[n : n + 8]
            for j in range(8):
                rows[j], rules[j], elements[j] = first + 8 * word + j, exceeded, 1
            n += 8
            continue
        left = into.words[word]
        while left != 0:
            j = trailing_zeros(left) >> 3
            flag = np.int64(into.flags[8 * word + j])
            into.rows[n] = first + 8 * word + j
            into.rules[n] = _rules(flag & OUTLYING, flag >> 1, rule)
            into.elements[n] = 1
            n += 1
            left &= ~(np.uint64(0xFF) << np.uint64(8 * j))
    into.total[0] = n


@scalar
def _rules(outlying: Any, capped: Any, rule: Any) -> Any:
    exceeded = rule.bits[0] if outlying > rule.outliers else 0
    return exceeded | (rule.bits[1] if capped > 0 else 0)


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
