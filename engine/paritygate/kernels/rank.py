"""Samples ranked by noise over signal, and by cosine."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from paritygate.kernels._jit import jit, scalar
from paritygate.kernels.elements import precedes
from paritygate.kernels.scalar import one_minus_cosine

Doubles = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


@jit
def rank_samples(
    ref: Doubles,
    errors: Doubles,
    width: int,
    start: int,
    ordinals: Counts,
    undefined: Counts,
    best_at: Counts,
    best: Doubles,
) -> None:
    """Worst sample by noise over signal, and by 1 - cosine.

    Sums of a sample are over its finite pairs, in eight lanes: see `_energies`. `ref` and `errors`
    hold the samples of this call, the first of which is number `start`. Rows are (noise over
    signal, 1 - cosine): `undefined` `(2,)` counts samples, `best_at` `(2,)` is a sample or -1,
    `best` `(2, 3)` its figure and its sums of r^2 and e^2.
    """
    for i in range(errors.size // width):
        part = slice(i * width, (i + 1) * width)
        ref_energy, error_energy, cross = _energies(ref[part], errors[part])
        measurable = 0.0 < ref_energy < math.inf and error_energy < math.inf
        for row in range(2):
            figure = math.nan
            if measurable and row == 0:
                figure = error_energy / ref_energy
            elif measurable:
                figure = one_minus_cosine(ref_energy, error_energy, cross)
            if figure != figure:
                undefined[row] += 1
            elif figure > best[row, 0] or (
                figure == best[row, 0] and precedes(start + i, best_at[row], ordinals)
            ):
                best_at[row] = start + i
                best[row, 0], best[row, 1], best[row, 2] = figure, ref_energy, error_energy


@scalar
def _energies(ref: Any, errors: Any) -> tuple[float, float, float]:
    """Sums of r^2, e^2 and r*e over finite pairs.

    Element k is added to lane k mod 8, so that eight go at once; the lanes are added in pairs, and
    what is beyond the last whole eight after them.
    """
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
