"""Samples that can be counted as a whole: all values are finite and of an ordinary size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from paritygate.kernels._jit import jit, scalar
from paritygate.kernels.elements import Rule
from paritygate.kernels.scalar import allowed, integer_bound, integer_error

Doubles = npt.NDArray[np.float64]
Numbers = npt.NDArray[Any]


@jit
def find_uncountable(
    ref: Doubles, cand: Doubles, width: int, rule: Rule, into: npt.NDArray[np.bool_]
) -> None:
    """Say of each sample of floats whether a value isn't finite, or isn't of an ordinary size.

    Args:
        ref: `(samples * width,)`.
        cand: the same of the candidate.
        width: elements a sample, at least 1.
        rule: what is tolerated.
        into: `(samples,)` set.
    """
    if width == 1:
        for i in range(into.size):
            into[i] = not _is_countable(_bits(ref[i]), _bits(cand[i]), rule)
        return
    for i in range(into.size):
        r, c = ref[i * width : i * width + width], cand[i * width : i * width + width]
        top_ref = top_cand = np.int64(0)
        for k in range(width):
            top_ref = max(top_ref, _bits(r[k]))
            top_cand = max(top_cand, _bits(c[k]))
        into[i] = not _is_countable(top_ref, top_cand, rule)


@jit
def find_failing(
    ref: Numbers, cand: Numbers, width: int, rule: Rule, into: npt.NDArray[np.bool_]
) -> None:
    """Say of each sample of integers whether an element is beyond its bound or beyond the cap.

    Args:
        ref: `(samples * width,)` int64 or uint64.
        cand: the same of the candidate.
        width: elements a sample, at least 1.
        rule: what is tolerated.
        into: `(samples,)` set.
    """
    cap = integer_bound(rule.cap)
    if width == 1:
        for i in range(into.size):
            into[i] = _is_beyond(ref[i], cand[i], rule, cap)
        return
    for i in range(into.size):
        r, c = ref[i * width : i * width + width], cand[i * width : i * width + width]
        beyond = np.int64(0)
        for k in range(width):
            beyond += np.int64(_is_beyond(r[k], c[k], rule, cap))
        into[i] = beyond != 0


@scalar
def _is_beyond(ref: Any, cand: Any, rule: Any, cap: Any) -> bool:
    error = integer_error(ref, cand)
    bound = integer_bound(allowed(np.float64(ref), rule.atol, rule.rtol))
    return not error <= min(bound, cap)


@scalar
def _bits(value: Any) -> Any:
    return np.float64(abs(value)).view(np.int64)


@scalar
def _is_countable(ref_bits: Any, cand_bits: Any, rule: Any) -> Any:
    ref, cand = np.int64(ref_bits).view(np.float64), np.int64(cand_bits).view(np.float64)
    bound = allowed(ref, rule.atol, rule.rtol)
    return (ref < rule.beyond) & (ref < math.inf) & (cand < math.inf) & (bound < math.inf)
