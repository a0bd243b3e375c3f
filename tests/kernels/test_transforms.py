"""Softmax and sigmoid against 60 digits, at the ends of the range, and for any split of rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import naive_decisions as naive

from paritygate.kernels.transforms import transform_scores

finite = st.floats(-800, 800) | st.sampled_from(
    (0.0, -0.0, 5e-324, 65504.0, 88.8, -745.0, -65504.0)
)


def close(found: float, exact: float) -> bool:
    return abs(found - exact) <= 1e-13 * abs(exact) + 1e-300


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 6).flatmap(lambda n: st.lists(finite, min_size=n, max_size=n)))
def test_softmax_equals_the_oracle(row):
    (found,) = transform_scores("softmax", np.array([row])).tolist()
    for ours, exact in zip(found, naive.softmax(row), strict=True):
        # exp(x - max) has a relative error of about |x - max| rounded.
        reach = 1e-13 * (1 + max(row) - min(row))
        assert abs(ours - float(exact)) <= reach * float(exact) + 1e-300
    assert sum(found) == pytest.approx(1, abs=1e-12)


@settings(deadline=None, max_examples=200)
@given(finite)
def test_sigmoid_equals_the_oracle(x):
    (found,) = transform_scores("sigmoid", np.array([x])).tolist()
    assert close(found, float(naive.sigmoid(x)))


def test_logits_that_overflow_float16_and_float32():
    row = np.array([[65504.0, 65504.0, 0.0]], np.float32)
    assert transform_scores("softmax", row * np.float32(1e30)).tolist() == [[0.5, 0.5, 0.0]]
    assert transform_scores("sigmoid", np.array([-1e30, 1e30], np.float32)).tolist() == [0.0, 1.0]


def test_what_is_no_number_stays_none():
    inf, nan = math.inf, math.nan
    rows = np.array([[nan, 1, 2], [inf, 0, 0], [-inf, -inf, -inf], [-inf, 0, -inf]])
    found = transform_scores("softmax", rows)
    assert np.isnan(found[:3]).all()
    assert found[3].tolist() == [0.0, 1.0, 0.0]
    assert transform_scores("sigmoid", np.array([inf, -inf])).tolist() == [1.0, 0.0]
    assert np.isnan(transform_scores("sigmoid", np.array([nan]))).all()


@pytest.mark.parametrize("axis", [1, 2, -1])
def test_any_split_of_rows_gives_the_same_bits(axis):
    values = np.random.default_rng(5).normal(scale=9, size=(33, 7, 5))
    for name in ("softmax", "sigmoid"):
        whole = transform_scores(name, values, axis)
        parts = [transform_scores(name, values[a : a + 4], axis) for a in range(0, 33, 4)]
        assert np.concatenate(parts).tobytes() == np.ascontiguousarray(whole).tobytes()


def test_softmax_over_any_axis_sums_to_one_there():
    values = np.random.default_rng(1).normal(size=(2, 3, 4))
    for axis in (1, 2):
        np.testing.assert_allclose(transform_scores("softmax", values, axis).sum(axis), 1)
