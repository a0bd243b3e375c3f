"""Element by element: which samples fail and why, and what their errors are.

A call handles the samples `[start, stop)`: values are flat, C-contiguous, and of these samples
alone. Per-sample results are written to arrays over these samples; what is counted over samples is
added to the array given, so that calls over parts add up to one over the whole.

A sample's worst element has the largest excess, then the largest error, then the lowest index; one
that fails for a non-finite value goes before all finite ones. Over samples, ties go to the lowest
ordinal.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from paritygate.kernels._jit import brief, jit, scalar
from paritygate.kernels.scalar import (
    FINITE,
    allowed,
    bin_of,
    class_of,
    excess,
    integer_bound,
    integer_error,
    integer_excess,
    is_within,
    ulp_distance_32,
    ulp_distance_64,
)

Numbers = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


class Rule(NamedTuple):
    """What is tolerated in one sample.

    Attributes:
        atol: absolute tolerance.
        rtol: tolerance relative to |ref|.
        cap: largest error of any element, inf for none.
        outliers: elements whose error may be above what is allowed.
        match: whether equal classes of non-finite values agree.
        beyond: smallest |ref| that the candidate's dtype can't hold, inf for none.
        bits: masks of (tolerance exceeded, hard cap, only the candidate non-finite, both alike,
            reference non-finite and the candidate of another class).
    """

    atol: float
    rtol: float
    cap: float
    outliers: int
    match: bool
    beyond: float
    bits: tuple[int, int, int, int, int]


class Detail(NamedTuple):
    """Per sample, `(samples,)` each; `worst_at` is -1 where no element was comparable."""

    rules: Counts
    failing: Counts
    worst_at: Counts
    worst_excess: Doubles
    worst_error: Doubles


class Found(NamedTuple):
    """Over samples. Row 0 of `best_at` and `best_error`: largest error, row 1: largest excess.

    Attributes:
        classes: `(4, 4)` elements, class of the reference by class of the candidate.
        beyond: `(1,)` finite reference elements that the candidate's dtype can't hold.
        best_at: `(2, 2)` sample and element, -1 before there is one.
        best_error: `(2,)` float64, or uint64 for integers.
        best_excess: `(1,)`.
    """

    classes: Counts
    beyond: Counts
    best_at: Counts
    best_error: Numbers
    best_excess: Doubles


@jit
def judge_floats(
    ref: Numbers,
    cand: Numbers,
    width: int,
    start: int,
    stop: int,
    ordinals: Counts,
    rule: Rule,
    detail: Detail,
    found: Found,
    errors: Doubles,
) -> None:
    """Judge float pairs by tolerance, hard cap and class.

    `errors` gets `cand - ref` of this call's elements, NaN where not both are finite.
    """
    for i in range(start, stop):
        sample = _judge_float_sample(ref, cand, (i - start) * width, width, rule, found, errors)
        _keep(i, i - start, sample, detail, found, ordinals)


@jit
def judge_integers(
    ref: Numbers,
    cand: Numbers,
    width: int,
    start: int,
    stop: int,
    ordinals: Counts,
    rule: Rule,
    detail: Detail,
    found: Found,
    errors: Doubles,
) -> None:
    """Judge integer pairs of one signedness by their exact differences.

    `errors` gets the signed differences of this call's elements, rounded to float64.
    """
    for i in range(start, stop):
        sample = _judge_integer_sample(ref, cand, (i - start) * width, width, rule, found, errors)
        _keep(i, i - start, sample, detail, found, ordinals)


@scalar
def _judge_float_sample(
    ref: Any, cand: Any, base: int, width: int, rule: Any, found: Any, errors: Any
) -> Any:
    rules = failing = outlying = 0
    broken = at_error = at_excess = -1
    top_error = top_excess = top_excess_error = -1.0
    for j in range(width):
        r = np.float64(ref[base + j])
        c = np.float64(cand[base + j])
        ref_class = class_of(r)
        cand_class = class_of(c)
        found.classes[ref_class, cand_class] += 1
        if ref_class == FINITE and abs(r) >= rule.beyond:
            found.beyond[0] += 1
        if ref_class != FINITE or cand_class != FINITE:
            errors[base + j] = math.nan
            bit = nonfinite_bit(ref_class, cand_class, rule)
            rules |= bit
            if bit != 0:
                failing += 1
                broken = j if broken < 0 else broken
            continue
        signed = c - r
        errors[base + j] = signed
        error = abs(signed)
        bound = allowed(r, rule.atol, rule.rtol)
        good = is_within(error, bound)
        if not good:
            outlying += 1
        if not error <= rule.cap:
            rules |= rule.bits[1]
            good = False
        if not good:
            failing += 1
        if error > top_error:
            top_error, at_error = error, j
        ratio = excess(error, bound)
        if ratio > top_excess or (ratio == top_excess and error > top_excess_error):
            top_excess, top_excess_error, at_excess = ratio, error, j
    if outlying > rule.outliers:
        rules |= rule.bits[0]
    return rules, failing, broken, at_error, top_error, at_excess, top_excess, top_excess_error


@scalar
def _judge_integer_sample(
    ref: Any, cand: Any, base: int, width: int, rule: Any, found: Any, errors: Any
) -> Any:
    rules = failing = outlying = 0
    at_error = at_excess = -1
    top_error = top_excess_error = np.uint64(0)
    top_excess = -1.0
    cap = integer_bound(rule.cap)
    found.classes[FINITE, FINITE] += width
    for j in range(width):
        r = ref[base + j]
        c = cand[base + j]
        error = integer_error(r, c)
        widened = np.float64(error)
        errors[base + j] = widened if c >= r else -widened
        bound = allowed(np.float64(r), rule.atol, rule.rtol)
        good = bool(error <= integer_bound(bound))
        if not good:
            outlying += 1
        if error > cap:
            rules |= rule.bits[1]
            good = False
        if not good:
            failing += 1
        if error > top_error or at_error < 0:
            top_error, at_error = error, j
        ratio = integer_excess(error, bound)
        if ratio > top_excess or (ratio == top_excess and error > top_excess_error):
            top_excess, top_excess_error, at_excess = ratio, error, j
    if outlying > rule.outliers:
        rules |= rule.bits[0]
    return rules, failing, -1, at_error, top_error, at_excess, top_excess, top_excess_error


@scalar
def nonfinite_bit(ref_class: int, cand_class: int, rule: Any) -> int:
    """The rule that a pair of classes, not both finite, breaks; 0: none."""
    if ref_class == FINITE:
        return int(rule.bits[2])
    if ref_class != cand_class:
        return int(rule.bits[4])
    return 0 if rule.match else int(rule.bits[3])


@scalar
def _keep(i: int, row: int, sample: Any, detail: Any, found: Any, ordinals: Any) -> None:
    """Write down a sample's result, and its extremes if they outrank the best so far."""
    rules, failing, broken, at_error, error, at_excess, ratio, ratio_error = sample
    detail.rules[row] = rules
    detail.failing[row] = failing
    detail.worst_at[row] = at_excess if broken < 0 else broken
    if broken >= 0:
        detail.worst_excess[row] = detail.worst_error[row] = math.inf
    elif at_excess >= 0:
        detail.worst_excess[row] = ratio
        detail.worst_error[row] = np.float64(ratio_error)
    else:
        detail.worst_excess[row] = detail.worst_error[row] = 0.0
    if at_error < 0:
        return
    at, best, top = found.best_at, found.best_error, found.best_excess
    if error > best[0] or (error == best[0] and precedes(i, at[0, 0], ordinals)):
        best[0] = error
        at[0, 0], at[0, 1] = i, at_error
    ties = ratio == top[0]
    if (
        ratio > top[0]
        or (ties and ratio_error > best[1])
        or (ties and ratio_error == best[1] and precedes(i, at[1, 0], ordinals))
    ):
        top[0], best[1] = ratio, ratio_error
        at[1, 0], at[1, 1] = i, at_excess


@scalar
def precedes(i: int, best: int, ordinals: Any) -> bool:
    """Whether a sample goes before the best one so far, if there is one."""
    return best < 0 or ordinals[i] < ordinals[best]


@jit
def count_errors(errors: Doubles, histogram: Counts) -> None:
    """Count |error| in `histogram`, `(BINS,)`; a NaN is no finite pair and is left out."""
    for k in range(errors.size):
        if errors[k] == errors[k]:
            histogram[bin_of(abs(errors[k]))] += 1


@jit
def measure_ulp(
    ref: Numbers,
    cand: Numbers,
    width: int,
    start: int,
    stop: int,
    ordinals: Counts,
    single: bool,
    floor: float,
    best_at: Counts,
    best_steps: npt.NDArray[np.uint64],
) -> int:
    """Largest distance in steps of the candidate's dtype, float32 if `single`, else float64.

    Row 0 of `best_at` `(2, 2)` and `best_steps` `(2,)` is over all pairs, row 1 over those with
    |ref| >= floor.

    Returns:
        Pairs without a distance: one is not finite, or the reference rounds to infinity.
    """
    undefined = 0
    for i in range(start, stop):
        for j in range(width):
            exact = np.float64(ref[(i - start) * width + j])
            c = np.float64(cand[(i - start) * width + j])
            r = np.float64(np.float32(exact)) if single else exact
            if not (abs(r) < math.inf and abs(c) < math.inf):
                undefined += 1
                continue
            steps = ulp_distance_32(r, c) if single else ulp_distance_64(r, c)
            for row in range(2):
                if row == 1 and not abs(exact) >= floor:
                    continue
                if steps > best_steps[row] or (
                    steps == best_steps[row] and precedes(i, best_at[row, 0], ordinals)
                ):
                    best_steps[row] = steps
                    best_at[row, 0], best_at[row, 1] = i, j
    return undefined


@brief
def denormals_survive(single: npt.NDArray[np.float32], double: Doubles) -> bool:
    """Whether the calling thread keeps the denormals in both arrays, `(1,)` each."""
    return bool(np.float64(single[0]) > 0.0 and double[0] > 0.0 and double[0] * 0.5 > 0.0)
