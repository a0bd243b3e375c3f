"""Samples ranked by noise over signal, and by cosine; their energies."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from paritygate.kernels._jit import jit, scalar
from paritygate.kernels.elements import precedes
from paritygate.kernels.lanes import lane_sums
from paritygate.kernels.scalar import one_minus_cosine
from paritygate.kernels.typed import larger, smaller
from paritygate.kernels.vectors import LANES

_SMALL = 0.5  # noise over signal below which a cosine is defined
_ABOVE = 1.0 + 1e-9
_NORMAL = 1e-290

Doubles = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


@jit
def sum_samples(ref: Doubles, errors: Doubles, width: int, energies: Doubles) -> None:
    """Sums of e^2, r^2 and r*e of each sample, over its finite pairs.

    Element k is added to lane k mod 8, as far as there are eight; the lanes are added in pairs, and
    what is beyond the last whole eight after them.

    Args:
        ref: values of these samples.
        errors: the same, NaN where not both sides are finite.
        width: elements a sample.
        energies: written over, `(3, samples)` or wider.
    """
    for i in range(errors.size // width):
        part = slice(i * width, (i + 1) * width)
        rr, ee, re = _energies(ref[part], errors[part])
        energies[0, i], energies[1, i], energies[2, i] = ee, rr, re


@scalar
def sum_finite(
    ref: Doubles, errors: Doubles, at: int, width: int, energies: Doubles, lanes: Doubles
) -> None:
    """As `sum_samples`, of a piece of some samples; all of its pairs are finite.

    Args:
        ref: of the piece.
        errors: the same.
        at: place of the piece among the elements of these samples; pieces of a sample follow each
            other and begin at a multiple of eight in it.
        width: elements a sample.
        energies: of the samples that end here.
        lanes: `(24,)` of the sample that goes on.
    """
    stop = at + errors.size
    for i in range(at // width, (stop - 1) // width + 1):
        base = i * width
        if base >= at:
            for k in range(lanes.size):
                lanes[k] = 0.0
        first, last = larger(base, at), smaller(base + width, stop)
        whole = base + ((last - base) & ~(LANES - 1))
        lane_sums(ref, errors, first - at, whole - at, lanes)
        if last == base + width:
            rr, ee, re = _paired(lanes[:8]), _paired(lanes[8:16]), _paired(lanes[16:])
            r, e = ref[whole - at : last - at], errors[whole - at : last - at]
            for k in range(r.size):
                rr, ee, re = rr + r[k] * r[k], ee + e[k] * e[k], re + r[k] * e[k]
            energies[0, i], energies[1, i], energies[2, i] = ee, rr, re


@jit
def rank_samples(
    energies: Doubles,
    first: int,
    samples: int,
    start: int,
    ordinals: Counts,
    undefined: Counts,
    best_at: Counts,
    best: Doubles,
) -> None:
    """Worst sample by noise over signal, and by 1 - cosine.

    Args:
        energies: `(3, samples)` or wider, of `sum_samples`.
        first: which of these is the first to be ranked.
        samples: how many are.
        start: number of the sample that `energies` begins with.
        ordinals: of all samples.
        undefined: `(2,)` samples that have no figure, added to; rows are (noise over signal,
            1 - cosine).
        best_at: `(2,)` a sample or -1.
        best: `(2, 3)` its figure and its sums of r^2 and e^2.
    """
    for i in range(first, first + samples):
        ee, rr, re = energies[0, i], energies[1, i], energies[2, i]
        if not (0.0 < rr < math.inf and ee < math.inf):
            undefined[0] += 1
            undefined[1] += 1
            continue
        noise = ee / rr
        _keep(0, noise, start + i, rr, ee, ordinals, undefined, best_at, best)
        # The sine of the angle is at most the root of the noise, so that 1 - cos <= x/(2 - x); not
        # so where sums are denormal.
        is_small = noise < _SMALL and _ABOVE * noise / (2.0 - noise) < best[1, 0]
        if is_small and best[1, 0] > _NORMAL and rr > _NORMAL:
            continue
        figure = one_minus_cosine(rr, ee, re)
        _keep(1, figure, start + i, rr, ee, ordinals, undefined, best_at, best)


@scalar
def _keep(
    row: int,
    figure: float,
    sample: int,
    rr: float,
    ee: float,
    ordinals: Any,
    undefined: Any,
    best_at: Any,
    best: Any,
) -> None:
    if figure != figure:
        undefined[row] += 1
    elif figure > best[row, 0] or (
        figure == best[row, 0] and precedes(sample, best_at[row], ordinals)
    ):
        best_at[row] = sample
        best[row, 0], best[row, 1], best[row, 2] = figure, rr, ee


@scalar
def _paired(lanes: Any) -> float:
    return float(
        ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6]))
        + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]))
    )


@scalar
def _energies(ref: Any, errors: Any) -> tuple[float, float, float]:
    whole = ref.size & ~7
    rr0 = rr1 = rr2 = rr3 = rr4 = rr5 = rr6 = rr7 = 0.0
    ee0 = ee1 = ee2 = ee3 = ee4 = ee5 = ee6 = ee7 = 0.0
    re0 = re1 = re2 = re3 = re4 = re5 = re6 = re7 = 0.0
    for k in range(0, whole, 8):
        r, e = ref[k : k + 8], errors[k : k + 8]
        a, b, c = _products(r[0], e[0])
        rr0, ee0, re0 = rr0 + a, ee0 + b, re0 + c
        a, b, c = _products(r[1], e[1])
        rr1, ee1, re1 = rr1 + a, ee1 + b, re1 + c
        a, b, c = _products(r[2], e[2])
        rr2, ee2, re2 = rr2 + a, ee2 + b, re2 + c
        a, b, c = _products(r[3], e[3])
        rr3, ee3, re3 = rr3 + a, ee3 + b, re3 + c
        a, b, c = _products(r[4], e[4])
        rr4, ee4, re4 = rr4 + a, ee4 + b, re4 + c
        a, b, c = _products(r[5], e[5])
        rr5, ee5, re5 = rr5 + a, ee5 + b, re5 + c
        a, b, c = _products(r[6], e[6])
        rr6, ee6, re6 = rr6 + a, ee6 + b, re6 + c
        a, b, c = _products(r[7], e[7])
        rr7, ee7, re7 = rr7 + a, ee7 + b, re7 + c
    rr = ((rr0 + rr4) + (rr2 + rr6)) + ((rr1 + rr5) + (rr3 + rr7))
    ee = ((ee0 + ee4) + (ee2 + ee6)) + ((ee1 + ee5) + (ee3 + ee7))
    re = ((re0 + re4) + (re2 + re6)) + ((re1 + re5) + (re3 + re7))
    for k in range(whole, ref.size):
        a, b, c = _products(ref[k], errors[k])
        rr, ee, re = rr + a, ee + b, re + c
    return rr, ee, re


@scalar
def _products(ref: float, error: float) -> tuple[float, float, float]:
    if error == error:
        return ref * ref, error * error, ref * error
    return 0.0, 0.0, 0.0
