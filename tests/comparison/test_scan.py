"""Clean stretches counted as a whole: the same bits as element by element, whatever the values."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paritygate.comparison import elements as comparison
from paritygate.comparison import scan
from paritygate.comparison.details import NOT_LOOKED, SampleDetail
from paritygate.comparison.elements import ElementComparer
from paritygate.core.policy import Tolerance
from paritygate.kernels import grids, sums
from paritygate.tally.exact import ExactSum

PIECE, TILE = 8, 40
SPECIAL = (0.0, -0.0, 1.0, -1.0, 1e-40, -3e-45, 5e-324, 3.4e38, -1.7e308, 1e-300, 2.0**-50)
BROKEN = (float("nan"), float("inf"), float("-inf"))
DETAIL = ("rules", "failing_elements", "worst_index", "worst_excess", "worst_error")


@pytest.fixture(autouse=True)
def many_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few elements a stretch that a small array has many of them."""
    monkeypatch.setattr(scan, "STRETCH", PIECE)
    monkeypatch.setattr(scan, "_PART", 3 * PIECE)
    monkeypatch.setattr(comparison, "_TILE", TILE)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Any, Any, Tolerance, str]:
    """Values of both sides that are alike in most places, a tolerance and a tier."""
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    width = draw(st.sampled_from([1, 2, 3, 7, 16, 19, 45]))
    count = draw(st.integers(1, 180 // width + 1))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    scale = draw(st.sampled_from([1.0, 1e-3, 1e30, 1e-38, 2.0**-60]))
    spread = draw(st.sampled_from([0.0, 3.0, 12.0]))
    with np.errstate(over="ignore", under="ignore"):
        size = np.exp(rng.normal(size=count * width) * spread) * scale
        ref = (rng.normal(size=count * width) * size).astype(dtype)
        noise = draw(st.sampled_from([0.0, 1e-7, 1e-5, 1e-2]))
        steps = np.round(rng.normal(size=ref.size) * 2) if draw(st.booleans()) else 1.0
        cand = (ref * (1 + noise * steps)).astype(dtype)
        for _ in range(draw(st.integers(0, 6))):
            at = draw(st.integers(0, ref.size - 1))
            pool = SPECIAL + BROKEN if draw(st.booleans()) else SPECIAL
            ref[at] = draw(st.sampled_from(pool))
            cand[at] = ref[at] if draw(st.booleans()) else draw(st.sampled_from(pool))
    tolerance = Tolerance(
        atol=draw(st.sampled_from([0.0, 1e-6, 1.0, 1e300, 1.7e308])),
        rtol=draw(st.sampled_from([0.0, 1e-6, 1e-2, 0.999])),
        nonfinite=draw(st.sampled_from(["fail", "match"])),
        max_abs=draw(st.sampled_from([None, 1e-3, 5.0])),
        max_outlier_fraction=draw(st.sampled_from([0.0, 0.3])),
    )
    shape = (count, width)
    return (
        ref.reshape(shape),
        cand.reshape(shape),
        tolerance,
        draw(st.sampled_from(["gate", "full"])),
    )


def comparer(ref: Any, cand: Any, tolerance: Tolerance, stats: Any) -> ElementComparer:
    return ElementComparer(tolerance, ref.dtype.name, cand.dtype.name, ref.shape[1:], stats)


def assert_same(left: SampleDetail, right: SampleDetail) -> None:
    for name in DETAIL:
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name), err_msg=name)


@settings(max_examples=400, deadline=None)
@given(cases())
def test_a_scan_counts_what_a_look_at_each_element_counts(case: Any) -> None:
    ref, cand, *_ = case
    judge, ordinals = comparer(*case), np.arange(len(ref)) * 3 + 5
    slow, all_details = judge.compare(ref, cand, ordinals)
    fast, details = judge.compare(ref, cand, ordinals, is_lazy=True)
    assert fast.to_json() == slow.to_json()
    np.testing.assert_array_equal(details.rules, all_details.rules)
    np.testing.assert_array_equal(details.failing_elements, all_details.failing_elements)
    judge.look_at(details, np.arange(len(ref)), ref, cand)
    assert_same(details, all_details)


@settings(max_examples=50, deadline=None)
@given(cases(), st.integers(0, 2**32))
def test_samples_out_of_order_are_counted_the_same(case: Any, seed: int) -> None:
    ref, cand, *_ = case
    judge, ordinals = comparer(*case), np.random.default_rng(seed).permutation(len(ref))
    slow, _ = judge.compare(ref, cand, ordinals)
    fast, _ = judge.compare(ref, cand, ordinals, is_lazy=True)
    assert fast.to_json() == slow.to_json()


@settings(max_examples=50, deadline=None)
@given(cases(), st.integers(0, 200))
def test_parts_merge_to_the_whole(case: Any, cut: int) -> None:
    ref, cand, *_ = case
    judge, ordinals = comparer(*case), np.arange(len(ref))
    whole, _ = judge.compare(ref, cand, ordinals, is_lazy=True)
    cut = min(cut, len(ref))
    parts = [
        judge.compare(ref[part], cand[part], ordinals[part], is_lazy=True)[0]
        for part in (slice(cut, None), slice(0, cut))
    ]
    assert parts[0].merge(parts[1]).to_json() == whole.to_json()


def test_clean_samples_are_left_without_a_look_until_they_are_wanted() -> None:
    ref = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    cand = ref + np.float32(1e-7)
    cand[33, 2] += 1
    judge = comparer(ref, cand, Tolerance(1e-3, 0.0), "full")
    _, details = judge.compare(ref, cand, np.arange(50), is_lazy=True)
    assert details.rules[33] != 0
    assert details.rows.tolist() == [33]
    assert (details.worst_index == NOT_LOOKED).all()
    judge.look_at(details, np.array([3, 33]), ref, cand)
    assert details.worst_index[3] != NOT_LOOKED
    assert (details.worst_index == NOT_LOOKED).sum() == 48


@settings(max_examples=200, deadline=None)
@given(st.integers(-(2**63) + 1, 2**63 - 1), st.integers(-1074, 951))
def test_units_are_added_exactly(units: int, exponent: int) -> None:
    chunks = np.zeros(sums.CHUNKS, np.int64)
    add = getattr(grids.add_units, "py_func", grids.add_units)
    add(chunks, np.int64(units), exponent)
    expected = Fraction(units) * Fraction(2) ** (exponent + 1074)
    assert ExactSum.from_chunks(chunks).units == expected


def test_errors_of_every_depth_are_summed_exactly() -> None:
    """Terms on one grid, on two, on four, and beyond all of them."""
    for depth in (0, 30, 60, 140, 400):
        small = np.ldexp(np.array([1.0, 3.0, -5.0, 7.0]), -depth)
        ref = np.array([[1.0, 0.0, 0.0, 0.0, 0.0]])
        cand = np.array([[3.0, *small.tolist()]])
        tally, _ = comparer(ref, cand, Tolerance(100.0, 0.0), "full").compare(
            ref, cand, np.arange(1), is_lazy=True
        )
        errors = [Fraction(c) - Fraction(r) for r, c in zip(ref[0], cand[0], strict=True)]
        unit = Fraction(2) ** 1074
        assert tally.errors.units == sum(errors) * unit
        assert tally.abs_errors.units == sum(map(abs, errors)) * unit
        assert tally.squared_errors.units == sum(e * e for e in errors) * unit


def test_an_excess_that_ties_where_products_underflow_is_noticed() -> None:
    """The later one has the larger error; the worst excess times its bound rounds to that error."""
    unit = 5e-324
    ref = np.full((4, PIECE), 1.0)
    cand = ref.copy()
    ref[0, 0], cand[0, 0] = 4 * unit, 5 * unit
    ref[2, 1], cand[2, 1] = 8 * unit, 10 * unit
    judge = comparer(ref, cand, Tolerance(0.0, 0.5), "gate")
    tally, _ = judge.compare(ref, cand, np.arange(4), is_lazy=True)
    assert tally.max_excess is not None
    assert tally.max_excess.keys == (0.5, 2 * unit)
    assert (tally.max_excess.ordinal, tally.max_excess.index) == (2, 1)


def test_a_bound_that_overflows_proves_nothing() -> None:
    ref = np.full((3, PIECE), 1.7e308)
    cand = np.nextafter(ref, 0.0)
    judge = comparer(ref, cand, Tolerance(1.7e308, 0.9), "gate")
    tally, _ = judge.compare(ref, cand, np.arange(3), is_lazy=True)
    assert tally.failing_samples == 3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sign", [1, -1])
def test_an_error_at_the_bound_is_good_and_one_step_beyond_it_is_not(dtype: Any, sign: int) -> None:
    ref = np.full((3, PIECE), sign, dtype)
    cand = ref.copy()
    cand[1, 3] = sign * 1.75
    judge = comparer(ref, cand, Tolerance(0.25, 0.5), "gate")
    at_it, _ = judge.compare(ref, cand, np.arange(3), is_lazy=True)
    cand[1, 3] = np.nextafter(cand[1, 3], dtype(sign * 2))
    beyond, details = judge.compare(ref, cand, np.arange(3), is_lazy=True)
    assert (at_it.failing_samples, beyond.failing_samples) == (0, 1)
    assert details.rules[1] != 0
