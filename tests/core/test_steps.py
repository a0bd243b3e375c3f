"""Neighbours among the numbers of a dtype, against all numbers that it has."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paritygate.core.steps import least_at, step

NARROW = {
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e4m3fnuz": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
}


def numbers(name: str) -> np.ndarray:
    """Every finite number of a dtype, ascending."""
    dtype = NARROW[name]
    codes = np.arange(2 ** (8 * dtype.itemsize), dtype=np.uint64).astype(f"u{dtype.itemsize}")
    with np.errstate(invalid="ignore"):
        wide = codes.view(dtype).astype(np.float64)
    return np.unique(wide[np.isfinite(wide)] + 0.0)


@pytest.mark.parametrize("name", NARROW)
def test_a_step_is_to_the_next_number(name: str) -> None:
    every = numbers(name)
    held = every.astype(np.float32).astype(NARROW[name])
    up, down = step(held, up=True).astype(np.float64), step(held, up=False).astype(np.float64)
    assert up[:-1].tolist() == every[1:].tolist()
    assert down[1:].tolist() == every[:-1].tolist()
    assert (up[-1], down[0]) == (every[-1], every[0])


@given(st.sampled_from(sorted(NARROW)), st.floats(-1e6, 1e6) | st.floats(allow_infinity=False))
def test_the_nearest_within_a_bound(name: str, bound: float) -> None:
    if bound != bound:
        return
    every = numbers(name)
    above, below = every[every >= bound], every[every <= bound]
    assert least_at(bound, name, up=True) == (above[0] if above.size else every[-1])
    assert least_at(bound, name, up=False) == (below[-1] if below.size else every[0])


@pytest.mark.parametrize(
    ("bound", "dtype", "up", "found"),
    [
        (0.1, "float32", True, float(np.float32(0.1))),
        (0.1, "float32", False, float(np.nextafter(np.float32(0.1), np.float32(0)))),
        (0.1, "float64", True, 0.1),
        (0.5, "int8", True, 1),
        (-0.5, "int8", True, 0),
        (1e300, "int8", False, 127),
        (2**63 - 1, "int64", False, 2**63 - 1),
        (0.5, "bool", True, 1),
        (0.5, "bool", False, 0),
    ],
)
def test_other_dtypes(bound: float, dtype: str, up: bool, found: float) -> None:
    assert least_at(bound, dtype, up=up) == found
