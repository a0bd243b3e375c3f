"""The same equality on a device, where there is one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numba import cuda
from tests.gpu.equality import TOLERANCE, check, pairs, planted, tolerances

from paritygate.core.policy import Tolerance

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not cuda.is_available(), reason="there is no CUDA device"),
]
CUTS = st.lists(st.integers(0, 1000), max_size=3)


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(pairs(), tolerances(), CUTS, st.integers(0, 50))
def test_batches_in_order_count_what_the_cpu_counts(
    pair: Any, tolerance: Tolerance, cuts: list[int], first: int
) -> None:
    check(*pair, tolerance, range(first, first + len(pair[0])), cuts)


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(pairs(), tolerances(), CUTS, st.integers(0, 2**32))
def test_batches_of_any_ordinals_count_what_the_cpu_counts(
    pair: Any, tolerance: Tolerance, cuts: list[int], seed: int
) -> None:
    check(*pair, tolerance, np.random.default_rng(seed).permutation(len(pair[0])), cuts)


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(planted(), CUTS)
def test_what_fails_beside_something_worse_is_counted(pair: Any, cuts: list[int]) -> None:
    check(*pair, TOLERANCE, range(len(pair[0])), cuts)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 10, 1000])
def test_many_blocks_count_what_the_cpu_counts(dtype: Any, width: int) -> None:
    rng = np.random.default_rng(width)
    ref = rng.normal(size=(3_000_000 // width, width)).astype(dtype)
    cand = (ref + rng.normal(size=ref.shape) * 1e-4).astype(dtype)
    check(ref, cand, Tolerance(3e-4, 1e-4), range(len(ref)), [len(ref) // 3])
