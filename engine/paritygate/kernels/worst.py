"""The worst element of each of some samples: excesses of all first, then the largest of each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from paritygate.kernels._jit import jit, scalar
from paritygate.kernels.elements import Rule, nonfinite_bit
from paritygate.kernels.scalar import FINITE, allowed, class_of, excess

_WIDE = 16  # elements of a sample from which it pays to go through them three times, eight at once
_INFINITE = 0x7FF0000000000000
_NOWHERE = 0x7FFFFFFFFFFFFFFF

Numbers = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


@jit
def find_worst(
    ref: Numbers,
    cand: Numbers,
    width: int,
    rule: Rule,
    at: Counts,
    excesses: Doubles,
    errors: Doubles,
    ratios: Doubles,
    sizes: Doubles,
) -> None:
    """Find the worst element of each sample, as `elements` defines it.

    Args:
        ref: `(samples * width,)` floats.
        cand: the same of the candidate.
        width: elements a sample, at least 1.
        rule: what is tolerated.
        at: `(samples,)` set to the worst element, -1 where no pair is comparable.
        excesses: `(samples,)` set to its excess.
        errors: `(samples,)` set to its error.
        ratios: of at least one sample; written over.
        sizes: as large; written over.
    """
    step = ratios.size // width
    for first in range(0, at.size, step):
        last = min(first + step, at.size)
        r, c = ref[first * width : last * width], cand[first * width : last * width]
        top = _measure(r, c, rule.atol, rule.rtol, ratios, sizes)
        _pick(
            ratios[: r.size], sizes[: r.size], at[first:last],
            excesses[first:last], errors[first:last], width,
        )  # fmt: skip
        if top < _INFINITE:
            continue
        for i in range(first, last):
            low = (i - first) * width
            own, other = r[low : low + width], c[low : low + width]
            if _top(own, other) >= _INFINITE:
                part = slice(low, low + width)
                at[i], excesses[i], errors[i] = _look(own, other, ratios[part], sizes[part], rule)


@jit
def _pick(
    ratios: Doubles, sizes: Doubles, at: Counts, excesses: Doubles, errors: Doubles, width: int
) -> None:
    """Pick the worst element of each sample, all of whose values are finite."""
    if width == 1:
        for i in range(at.size):
            at[i] = 0
            excesses[i] = ratios[i]
        for i in range(at.size):
            errors[i] = sizes[i]
        return
    for i in range(at.size):
        low, high = i * width, i * width + width
        if width < _WIDE:
            j = _largest(ratios[low:high], sizes[low:high])
        else:
            j = _largest_of_many(ratios[low:high], sizes[low:high])
        at[i] = j
        if j >= 0:
            excesses[i], errors[i] = ratios[low + j], sizes[low + j]


@scalar
def _measure(ref: Any, cand: Any, atol: float, rtol: float, ratios: Any, sizes: Any) -> int:
    """Excess and |e| of each pair; bits of the largest |value| of both sides."""
    top = np.int64(0)
    for k in range(ref.size):
        r, c = np.float64(ref[k]), np.float64(cand[k])
        top = max(top, max(_bits(r), _bits(c)))
        error = abs(c - r)
        sizes[k] = error
        ratios[k] = excess(error, allowed(r, atol, rtol))
    return int(top)


@scalar
def _bits(value: float) -> np.int64:
    return np.int64(np.float64(abs(value)).view(np.int64))


@scalar
def _top(ref: Any, cand: Any) -> int:
    top = np.int64(0)
    for k in range(ref.size):
        top = max(top, max(_bits(np.float64(ref[k])), _bits(np.float64(cand[k]))))
    return int(top)


@scalar
def _largest(ratios: Any, sizes: Any) -> int:
    """The first one of the largest errors that have the largest excess."""
    ratio, size, at = -1.0, -1.0, -1
    for j in range(ratios.size):
        if ratios[j] > ratio or (ratios[j] == ratio and sizes[j] > size):
            ratio, size, at = ratios[j], sizes[j], j
    return at


@scalar
def _largest_of_many(ratios: Any, sizes: Any) -> int:
    """The same of many, by bits: maxima of magnitudes are then found eight at once."""
    ratio, ties, first = np.int64(-1), np.int64(0), np.int64(_NOWHERE)
    for j in range(ratios.size):
        ratio = max(ratio, _bits(ratios[j]))
    for j in range(ratios.size):
        is_top = _bits(ratios[j]) == ratio
        ties += np.int64(is_top)
        first = min(first, np.int64(j) if is_top else np.int64(_NOWHERE))
    if ties > 1:
        size = sizes[first]
        for j in range(first + 1, ratios.size):
            if _bits(ratios[j]) == ratio and sizes[j] > size:
                size, first = sizes[j], np.int64(j)
    return int(first)


@scalar
def _look(ref: Any, cand: Any, ratios: Any, sizes: Any, rule: Any) -> tuple[int, float, float]:
    """Of a sample with values that are not finite: a failing one goes before all others."""
    ratio, size, at = -1.0, -1.0, -1
    for j in range(ref.size):
        ref_class, cand_class = class_of(np.float64(ref[j])), class_of(np.float64(cand[j]))
        if ref_class != FINITE or cand_class != FINITE:
            if nonfinite_bit(ref_class, cand_class, rule) != 0:
                return j, math.inf, math.inf
        elif ratios[j] > ratio or (ratios[j] == ratio and sizes[j] > size):
            ratio, size, at = ratios[j], sizes[j], j
    return at, max(ratio, 0.0), max(size, 0.0)
