"""Softmax and sigmoid in float64, stable for any finite input, the same bits for any split of rows.

Source: the usual forms that never take the exponential of a positive number (N. Higham, Accuracy
and Stability of Numerical Algorithms, section 1.18, for why). What isn't a number stays none: NaN
and +inf give NaN in the whole row of a softmax, and so does a row of -inf alone.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from paritygate.kernels._jit import jit

Floats = npt.NDArray[np.float64]
Transform = Literal["softmax", "sigmoid"]


@jit
def sigmoid(values: Floats, out: Floats) -> None:
    """`1 / (1 + exp(-x))` of each value.

    Args:
        values: `(n,)`.
        out: `(n,)` written.
    """
    for i in range(values.size):
        x = values[i]
        e = math.exp(-abs(x))
        out[i] = 1.0 / (1.0 + e) if x >= 0.0 else e / (1.0 + e)


@jit
def softmax(values: Floats, width: int, out: Floats) -> None:
    """`exp(x - max) / sum(exp(x - max))` of each row, the sum taken from left to right.

    Args:
        values: `(n * width,)`, row after row.
        width: values in a row, >= 1.
        out: `(n * width,)` written.
    """
    for row in range(0, values.size, width):
        top = values[row]
        for j in range(1, width):
            if values[row + j] > top:
                top = values[row + j]
        total = 0.0
        for j in range(width):
            e = math.exp(values[row + j] - top)
            out[row + j] = e
            total += e
        for j in range(width):
            out[row + j] /= total


def transform_scores(transform: Transform, values: npt.NDArray[Any], axis: int = -1) -> Floats:
    """Transform scores that are widened to float64.

    Args:
        transform: "softmax", over an axis, or "sigmoid", of each element.
        values: any shape, any dtype of numbers.
        axis: of a softmax.

    Returns:
        The same shape.
    """
    moved = np.moveaxis(values, axis, -1) if transform == "softmax" else values
    wide = np.ascontiguousarray(moved, np.float64)
    out = np.empty(wide.shape, np.float64)
    if transform == "sigmoid":
        sigmoid(wide.reshape(-1), out.reshape(-1))
        return out
    if out.size:
        softmax(wide.reshape(-1), wide.shape[-1], out.reshape(-1))
    return np.moveaxis(out, -1, axis)
