"""Kernels of decisions against the brute-force oracle, and no fused multiply-add in them."""

from __future__ import annotations

import math
from fractions import Fraction

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import naive_decisions as naive
from tests.kernels.assembly import assembly_of

from paritygate.kernels import decisions as kernels

FLOATS = ("float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
SPECIALS = (math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1e-45, -1e-45, 3.4e38, -1.7e308)


def read_only(values, dtype) -> np.ndarray:
    with np.errstate(over="ignore", under="ignore"):
        array = np.array(values, np.float64 if dtype in FLOATS else dtype).astype(dtype)
    array.flags.writeable = False
    return array


def ints_of(dtype):
    info = np.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    near = sorted({low, low + 1, high - 1, high, max(low, -1), 0, 1, 2, 3})
    return st.sampled_from(near) | st.integers(low, high)


def scores_near(edges, dtype):
    """Scores of all kinds, most of them on an edge or one step beside it."""
    if dtype not in FLOATS:
        around = [int(e) + step for e in edges for step in (-1, 0, 1)]
        info = np.iinfo(dtype)
        inside = [x for x in around if info.min <= x <= info.max]
        return ints_of(dtype) | st.sampled_from(inside or [0])
    exact = [np.dtype(dtype).type(e) for e in edges]
    steps = [np.nextafter(e, way, dtype=dtype) for e in exact for way in (-np.inf, np.inf)]
    return (
        st.sampled_from([float(x) for x in (*exact, *steps)])
        | st.sampled_from(SPECIALS)
        | st.floats(-2, 2, allow_nan=False)
    )


@st.composite
def banded(draw):
    dtype = draw(st.sampled_from((*FLOATS, *INTEGERS)))
    if dtype in FLOATS:
        value = st.sampled_from((0.2, 0.8, -0.2, 0.0, 1.0)) | st.floats(-1, 1)
        value = value.map(naive.to_float32) if dtype == "float32" else value
    else:
        info = np.iinfo(dtype)
        value = st.integers(max(info.min, -(2**53) + 1), min(info.max, 2**53 - 1)).map(float)
    edges = sorted(
        draw(st.lists(value.map(lambda x: x + 0.0), min_size=1, max_size=4, unique=True))
    )
    ties = draw(st.lists(st.booleans(), min_size=len(edges), max_size=len(edges)))
    scores = draw(st.lists(scores_near(edges, dtype), max_size=12))
    return read_only(scores, dtype), edges, ties


tolerances = st.sampled_from((0.0, 1e-7, 1e-6, 0.1, 1e300)), st.sampled_from((0.0, 1e-5, 0.5))


@settings(deadline=None, max_examples=200)
@given(case=banded(), atol=tolerances[0], rtol=tolerances[1])
def test_bands_equal_the_oracle(case, atol, rtol):
    scores, edges, ties = case
    n = scores.size
    codes, margins, at_risk = np.full(n, 99), np.empty(n), np.empty(n, np.bool_)
    sides = np.zeros(3 * len(edges), np.int64)
    edge_array, tie_array = np.array(edges, np.float64), np.array(ties, np.bool_)
    kernels.band_codes(scores, edge_array, tie_array, codes)
    kernels.band_margins(scores, edge_array, atol, rtol, margins, at_risk)
    nearest = np.full(2 * len(edges), np.inf)
    kernels.edge_sides(scores, edge_array, sides, nearest)

    plain = scores.tolist()
    assert codes.tolist() == [naive.band(x, edges, ties) for x in plain]
    np.testing.assert_array_equal(margins, [naive.band_margin(x, edges) for x in plain])
    assert at_risk.tolist() == [naive.band_at_risk(x, edges, atol, rtol) for x in plain]
    assert sides.tolist() == [
        count
        for edge in edges
        for count in (sum(x < edge for x in plain), plain.count(edge), sum(x > edge for x in plain))
    ]
    assert nearest.tolist() == [
        min((abs(edge - float(x)) for x in side), default=np.inf)
        for edge in edges
        for side in ([x for x in plain if x < edge], [x for x in plain if x > edge])
    ]


@st.composite
def rows(draw):
    dtype = draw(st.sampled_from((*FLOATS, *INTEGERS)))
    width = draw(st.integers(1, 6))
    if dtype in FLOATS:
        few = st.sampled_from((0.5, 0.5000001, 1.0, -1.0, *SPECIALS[1:]))
        element = few | st.sampled_from(SPECIALS) if draw(st.booleans()) else few
    else:
        element = ints_of(dtype)
    count = draw(st.integers(0, 5))
    values = draw(st.lists(element, min_size=count * width, max_size=count * width))
    return read_only(values, dtype), width


@settings(deadline=None, max_examples=200)
@given(case=rows(), atol=tolerances[0], rtol=tolerances[1])
def test_argmax_equals_the_oracle(case, atol, rtol):
    scores, width = case
    n = scores.size // width
    codes, tied = np.full(n, 99), np.empty(n, np.bool_)
    margins, at_risk = np.empty(n), np.empty(n, np.bool_)
    kernels.argmax_codes(scores, width, codes, tied)
    kernels.argmax_margins(scores, width, codes, atol, rtol, margins, at_risk)

    plain = scores.reshape(n, width).tolist()
    assert codes.tolist() == [naive.argmax(row) for row in plain]
    assert tied.tolist() == [naive.tied(row) for row in plain]
    np.testing.assert_array_equal(margins, [naive.argmax_margin(row) for row in plain])
    assert at_risk.tolist() == [naive.argmax_at_risk(row, atol, rtol) for row in plain]


@settings(deadline=None, max_examples=200)
@given(case=rows(), atol=tolerances[0], rtol=tolerances[1], data=st.data())
def test_topk_equals_the_oracle(case, atol, rtol, data):
    scores, width = case
    n, k = scores.size // width, data.draw(st.integers(1, width))
    ranked = data.draw(st.booleans())
    best, tied = np.full(n * min(k + 1, width), 99), np.empty(n, np.bool_)
    margins, at_risk = np.empty(n), np.empty(n, np.bool_)
    kernels.topk_codes(scores, width, best, n)
    kernels.topk_margins(scores, width, best, k, ranked, atol, rtol, margins, at_risk)
    kernels.topk_ties(scores, width, best, k, ranked, tied)

    plain = scores.reshape(n, width).tolist()
    codes = best.reshape(n, -1)[:, :k].tolist() if n else []
    assert codes == [naive.topk(row, k) for row in plain]
    np.testing.assert_array_equal(margins, [naive.topk_margin(row, k, ranked) for row in plain])
    assert at_risk.tolist() == [naive.topk_at_risk(row, k, ranked, atol, rtol) for row in plain]
    assert tied.tolist() == [naive.topk_tied(row, k, ranked) for row in plain]


def codes_of(scores, width):
    codes, tied = np.empty(scores.size // width, np.int64), np.empty(scores.size // width, np.bool_)
    kernels.argmax_codes(scores, width, codes, tied)
    return codes.tolist(), tied.tolist()


def test_wide_rows_find_the_maximum_at_every_place():
    width = 301
    scores = read_only(np.eye(width).ravel(), "float32")
    assert codes_of(scores, width) == (list(range(width)), [False] * width)


def test_argmax_of_integers_does_not_pass_through_floats():
    big = 2**63 - 1
    assert codes_of(read_only([big - 1, big, big - 1], "int64"), 3) == ([1], [False])
    assert codes_of(read_only([2**64 - 2, 2**64 - 1], "uint64"), 2) == ([1], [False])
    assert codes_of(read_only([0, 255, 1], "uint8"), 3) == ([1], [False])


def test_zeros_of_both_signs_tie():
    assert codes_of(read_only([-0.0, 0.0], "float32"), 2) == ([0], [True])
    assert codes_of(read_only([0.0, -0.0], "float64"), 2) == ([0], [True])


@pytest.mark.parametrize("place", [0, 1, 4])
def test_one_nan_anywhere_makes_a_row_undefined(place):
    row = [1.0, 5.0, 5.0, 2.0, 3.0]
    row[place] = math.nan
    assert codes_of(read_only(row, "float32"), 5) == ([-1], [False])


@pytest.mark.parametrize(("atol", "at_risk"), [(0.25, True), (0.2499, False)])
def test_a_lead_that_tolerance_just_spans_is_at_risk(atol, at_risk):
    row, codes = read_only([1.0, 0.5], "float32"), np.zeros(1, np.int64)
    margins, found = np.empty(1), np.empty(1, np.bool_)
    kernels.argmax_margins(row, 2, codes, atol, 0.0, margins, found)
    assert found.tolist() == [at_risk]


def test_at_risk_rounds_product_and_sum_apart():
    """With a fused multiply-add the allowed error is one step smaller and spans no longer."""
    atol, rtol, ref = fused_differs()
    bound = naive.allowed(ref, atol, rtol)
    edge = ref + bound
    assert edge - ref == bound
    margins, at_risk = np.empty(1), np.empty(1, np.bool_)
    kernels.band_margins(
        read_only([ref], "float64"), np.array([edge]), atol, rtol, margins, at_risk
    )
    assert at_risk.tolist() == [True]


def fused_differs() -> tuple[float, float, float]:
    generator = np.random.default_rng(7)
    for _ in range(10_000):
        atol, rtol = (float(x) for x in generator.uniform(0.1, 0.9, 2))
        ref = float(generator.uniform(1, 2))
        fused = float(Fraction(atol) + Fraction(rtol) * Fraction(ref))
        bound = naive.allowed(ref, atol, rtol)
        if fused < bound and (ref + bound) - ref == bound:
            return atol, rtol, ref
    raise AssertionError("no such numbers")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_no_fused_multiply_add(dtype):
    scores, flags = read_only([1, 2, 3, 4], dtype), np.empty(4, np.bool_)
    codes, reals, edges = np.zeros(4, np.int64), np.empty(4), np.array([0.5, 1.5])
    calls = {
        kernels.band_codes: (scores, edges, np.array([True, False]), codes),
        kernels.band_margins: (scores, edges, 0.1, 0.1, reals, flags),
        kernels.edge_sides: (scores, edges, np.zeros(6, np.int64), np.full(4, np.inf)),
        kernels.argmax_codes: (scores, 1, codes, flags),
        kernels.argmax_margins: (scores, 1, codes, 0.1, 0.1, reals, flags),
        kernels.topk_codes: (scores, 2, codes, 2),
        kernels.topk_margins: (scores, 2, codes, 1, False, 0.1, 0.1, reals[:2], flags[:2]),
        kernels.topk_ties: (scores, 2, codes, 1, False, flags[:2]),
    }
    for kernel, arguments in calls.items():
        kernel(*arguments)
        types = tuple(numba.typeof(argument) for argument in arguments)
        assembly = assembly_of(kernel.overloads[types])
        assert "ret" in assembly
        assert kernel.__name__ in assembly
        for fused in ("vfmadd", "vfmsub", "vfnmadd", "vfnmsub", "fmadd", "fmla"):
            assert fused not in assembly, f"{kernel.__name__}: {fused}"
