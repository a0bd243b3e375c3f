"""What the tier "full" measures, in Numba's simulator of a GPU."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gpu.equality import check, comparers

from paritygate.core.policy import Tolerance
from paritygate.gpu import device, measures, rules, sums
from paritygate.kernels import scalar
from paritygate.tally.exact import ExactSum

TOLERANCE = Tolerance(1e-3, 1e-3)
UNIT = Fraction(2) ** -1074
SPECIAL = (0.0, -0.0, 5e-324, -1e-310, 1e-40, 1.5, -(2.0**-149), 3.4e38, -1.7e308, 1e155, 1e-160)


def measured(ref: Any, cand: Any, ordinals: Any = None) -> Any:
    ordinals = range(len(ref)) if ordinals is None else ordinals
    return comparers(ref, TOLERANCE, "full")[0].compare(ref, cand, ordinals)[0]


def exact(terms: list[float]) -> Fraction:
    return sum((Fraction(term) for term in terms), Fraction(0))


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([2, 16, 23, 40]),
    st.lists(st.tuples(*[st.sampled_from((*SPECIAL, math.nan, -math.inf))] * 2), max_size=8),
    st.integers(0, 2**32),
    st.booleans(),
)
def test_any_values_are_measured_as_on_the_cpu(
    dtype: Any, width: int, planted: list[tuple[float, float]], seed: int, in_order: bool
) -> None:
    rng = np.random.default_rng(seed)
    ref = rng.normal(size=(120 // width, width)) * 2.0 ** rng.integers(-8, 8)
    cand = ref + rng.normal(size=ref.shape) * 2.0 ** rng.integers(-40, 2)
    with np.errstate(over="ignore"):
        for r, c in planted:
            at = rng.integers(len(ref)), rng.integers(width)
            ref[at], cand[at] = r, c
        ref, cand = ref.astype(dtype), cand.astype(dtype)
    ordinals = range(7, 7 + len(ref)) if in_order else rng.permutation(len(ref))
    check(ref, cand, Tolerance(float(2.0 ** rng.integers(-9, 9)), 0.1), ordinals, [seed % 7])


def test_products_are_summed_exactly_whatever_their_size() -> None:
    rng = np.random.default_rng(5)
    ref = rng.normal(size=(200, 1)) * 2.0 ** rng.integers(-300, 300, (200, 1))
    cand = ref + rng.normal(size=(200, 1)) * 2.0 ** rng.integers(-300, 300, (200, 1))
    found, r = measured(ref, cand), ref[:, 0]
    e = cand[:, 0] - r
    assert found.squared_errors.units * UNIT == exact((e * e).tolist())
    assert found.squared_refs.units * UNIT == exact((r * r).tolist())
    assert found.ref_errors.units * UNIT == exact((r * e).tolist())


def test_energies_of_a_sample_are_summed_in_eight_lanes() -> None:
    rng = np.random.default_rng(6)
    ref, error = rng.normal(size=(2, 1, 27))
    cand = ref + error * 2.0**-20
    r, e = ref[0], cand[0] - ref[0]
    wanted = []
    for products in (e * e, r * r, r * e):
        lanes = [0.0] * 8
        for k in range(24):
            lanes[k % 8] += products[k]
        total = ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + (
            (lanes[1] + lanes[5]) + (lanes[3] + lanes[7])
        )
        for k in range(24, 27):
            total += products[k]
        wanted.append(ExactSum.from_floats([total]))
    found = measured(ref, cand)
    assert [found.squared_errors, found.squared_refs, found.ref_errors] == wanted
    assert (found.worst_sqnr.ref, found.worst_sqnr.cand) == (wanted[1].value(), wanted[0].value())


@pytest.mark.parametrize("width", [1, 16])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_usual_products_fit_the_grids_that_a_block_guesses(
    monkeypatch: pytest.MonkeyPatch, dtype: Any, width: int
) -> None:
    rng = np.random.default_rng(7)
    ref = rng.choice([-1, 1], (160 // width, width)) * rng.uniform(0.8, 1.2, (160 // width, width))
    ref = ref.astype(dtype)
    cand = (ref * rng.uniform(1.0001, 1.00012, ref.shape)).astype(dtype)

    def refuse(*args: object) -> None:
        raise AssertionError("summed one by one")

    monkeypatch.setattr(measures, "add_one", refuse)
    check(ref, cand, TOLERANCE, range(len(ref)), [])


def test_steps_that_tie_are_kept_of_the_lowest_ordinal() -> None:
    n = 6 * device.TILE
    ref, cand = np.ones((n, 2), np.float32), np.ones((n, 2), np.float32)
    cand[:, 1] += np.float32(2.0**-20)
    ordinals = np.roll(np.arange(n), 11)[::-1]
    check(ref, cand, TOLERANCE, ordinals, [n // 3])
    found = measured(ref, cand, ordinals)
    assert (found.max_ulp.value, found.max_ulp.ordinal, found.max_ulp.index) == (8, 0, 1)


def test_steps_above_atol_are_told_apart_at_it() -> None:
    ref = np.array([[1e-3], [np.nextafter(1e-3, 0)], [-1e-3], [5.0]])
    cand = np.nextafter(ref, np.array([[9.0], [-9.0], [-9.0], [9.0]]))
    cand[1] = -ref[1]
    found = measured(ref, cand)
    assert found.max_ulp.ordinal == 1
    assert (found.max_ulp_above_atol.ordinal, found.max_ulp_above_atol.value) == (0, 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_zeros_are_no_step_apart_and_their_neighbours_one(dtype: Any) -> None:
    least = np.finfo(dtype).smallest_subnormal
    ref = np.array([[0.0], [-0.0], [0.0], [-least], [least]], dtype)
    cand = np.array([[-0.0], [0.0], [0.0], [-0.0], [0.0]], dtype)
    check(ref[:3], cand[:3], TOLERANCE, range(3), [])
    assert measured(ref[:3], cand[:3]).max_ulp.value == 0
    found = measured(ref, cand).max_ulp
    assert (found.value, found.ordinal) == (1, 3)


def test_opposite_ends_of_float64_are_more_than_2_63_steps_apart() -> None:
    ref = np.array([[-1.7976931348623157e308], [0.0]])
    found = measured(ref, -ref)
    assert found.max_ulp.value == 2 * 0x7FEFFFFFFFFFFFFF


@pytest.mark.parametrize("name", ["bin_of", "one_minus_cosine", "place_on_grid"])
def test_rules_are_those_of_the_cpu(name: str) -> None:
    assert getattr(rules, name).__code__ is getattr(scalar, name).py_func.__code__


def test_a_term_is_its_units_and_what_is_left() -> None:
    rng = np.random.default_rng(9)
    exponent = 3
    grids = [sums.grid_of.fn(exponent, bits) for bits in (sums.COARSE, sums.DEEP)]  # type: ignore[attr-defined]
    for term in (rng.normal(size=200) * 2.0 ** rng.integers(-90, 8, 200)).tolist():
        units, deep, left = sums.split.fn(term, exponent)  # type: ignore[attr-defined]
        whole = units * Fraction(2) ** grids[0] + deep * Fraction(2) ** grids[1]
        assert whole + Fraction(left) == Fraction(term)
        assert abs(units) <= 1 << sums.COARSE
