"""Narrow floats and half-byte integers: judged as the numbers that they are."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import naive, naive_formats

from paritygate.comparison import elements
from paritygate.comparison.elements import ElementComparer
from paritygate.core.policy import Tolerance
from paritygate.core.verdict import rule_names

DETAIL = ("rules", "failing_elements", "worst_index", "worst_excess", "worst_error")
NARROW = (
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
)
BYTES = {name: 2 if name.endswith("16") else 1 for name in NARROW}


def dtype_of(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def all_codes(name: str) -> np.ndarray:
    return np.arange(1 << 8 * BYTES[name], dtype=f"u{BYTES[name]}").view(dtype_of(name))


def compare(ref, cand, tolerance=None, stats="full", ordinals=None):
    comparer = ElementComparer(
        tolerance or Tolerance(), ref.dtype.name, cand.dtype.name, ref.shape[1:], stats
    )
    ordinals = np.arange(len(ref)) if ordinals is None else np.asarray(ordinals)
    return comparer.compare(ref, cand, ordinals)


def dumped(tally, *without):
    data = tally.to_json()
    return json.dumps({k: v for k, v in data.items() if k not in without}, sort_keys=True)


ULP = ("max_ulp", "max_ulp_above_atol", "ulp_undefined")


@pytest.mark.parametrize("name", NARROW)
def test_every_code_is_judged_as_its_number(name):
    """All codes against a shuffle of them; the same numbers as float64 judge and measure alike."""
    rng = np.random.default_rng(11)
    ref = all_codes(name)
    cand = rng.permutation(ref)
    near = rng.random(ref.size) < 0.5
    cand[near] = np.roll(ref, 1)[near]
    numbers = np.array(naive_formats.codes(name))
    wide = dict(zip(ref.view(f"u{BYTES[name]}").tolist(), numbers.tolist(), strict=True))
    wide_cand = np.array([wide[code] for code in cand.view(f"u{BYTES[name]}").tolist()])
    tolerance = Tolerance(1e-3, 0.05, "match", max_abs=100.0)
    shape = (-1, 32)
    found, detail = compare(ref.reshape(shape), cand.reshape(shape), tolerance)
    wanted, wanted_detail = compare(numbers.reshape(shape), wide_cand.reshape(shape), tolerance)
    assert dumped(found, *ULP) == dumped(wanted, *ULP)
    for field in DETAIL:
        assert np.array_equal(getattr(detail, field), getattr(wanted_detail, field)), field
    assert found.failing_samples > 0
    assert found.agreeing_nonfinite + found.disagreeing_nonfinite > 0


@pytest.mark.parametrize("name", NARROW)
def test_neighbours_are_one_step_apart_over_all_codes(name):
    line = naive_formats.magnitudes(name)
    grid = np.array([-v for v in reversed(line[1:])] + line).astype(dtype_of(name))
    for apart in (1, 3):
        ref, cand = grid[:-apart].reshape(-1, 1), grid[apart:].reshape(-1, 1)
        for start in range(0, len(ref), max(1, len(ref) // 64)):
            tally, _ = compare(ref[start : start + 1], cand[start : start + 1])
            assert tally.max_ulp.value == apart
        whole, _ = compare(ref, cand)
        assert (whole.max_ulp.value, whole.ulp_undefined) == (apart, 0)
    _, twice = compare(grid.reshape(-1, 1), grid.reshape(-1, 1))
    assert not twice.rules.any()


@st.composite
def pairs(draw):
    """Reference of any float dtype, candidate of a narrow one, often the reference rounded."""
    dtypes = draw(st.sampled_from([*NARROW, "float32", "float64"])), draw(st.sampled_from(NARROW))
    shape = draw(st.integers(0, 5)), draw(st.sampled_from([0, 1, 3, 16, 17]))
    count = math.prod(shape)
    values = st.one_of(
        st.floats(-10, 10),
        st.floats(),
        st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan, 65519.0, 65520.0, 1e-8, 464.0]),
    )
    with np.errstate(all="ignore"):
        given = np.array(draw(st.lists(values, min_size=count, max_size=count)), np.float64)
        ref = given.astype(dtype_of(dtypes[0]))
        cand = ref.astype(np.float64).astype(dtype_of(dtypes[1]))
    codes = cand.view(f"u{BYTES[dtypes[1]]}")
    for k in draw(st.lists(st.integers(0, max(0, count - 1)), max_size=6)):
        if count:
            codes[k] = draw(st.integers(0, (1 << 8 * BYTES[dtypes[1]]) - 1))
    return ref.reshape(shape), cand.reshape(shape)


@settings(max_examples=300)
@given(
    pairs(),
    st.builds(
        Tolerance,
        atol=st.sampled_from([0.0, 1e-8, 1e-3, 0.5, 1e300]),
        rtol=st.sampled_from([0.0, 1e-3, 0.1]),
        nonfinite=st.sampled_from(["fail", "match"]),
        max_outlier_fraction=st.sampled_from([0.0, 0.29]),
        max_abs=st.sampled_from([None, 1.0, 1e5]),
    ),
    st.randoms(use_true_random=False),
)
def test_any_pair_is_judged_and_measured_as_the_oracle_does(pair, tolerance, random):
    ref, cand = pair
    ordinals = random.sample(range(100), len(ref))
    tally, detail = compare(ref, cand, tolerance, ordinals=ordinals)
    steps, undefined, beyond = [], 0, 0
    with np.errstate(invalid="ignore"):  # a signalling NaN
        rows = [a.astype(np.float64).tolist() for a in (ref, cand)]
    for i, (r, c) in enumerate(zip(*rows, strict=True)):
        wanted = naive.judge_sample(
            r,
            c,
            atol=tolerance.atol,
            rtol=tolerance.rtol,
            cap=tolerance.max_abs,
            outliers=math.floor(Fraction(repr(tolerance.max_outlier_fraction)) * len(r)),
            match=tolerance.nonfinite == "match",
        )
        assert set(rule_names(int(detail.rules[i]))) == wanted["rules"]
        assert detail.failing_elements[i] == wanted["failing"]
        assert detail.worst_index[i] == wanted["worst_index"]
        assert detail.worst_excess[i] == wanted["worst_excess"]
        for j, (x, y) in enumerate(zip(r, c, strict=True)):
            apart = naive_formats.steps(cand.dtype.name, x, y)
            undefined += apart is None
            if apart is not None:
                steps.append((-apart, ordinals[i], j, x, y))
            rounds_to = naive_formats.round_to(cand.dtype.name, x)
            beyond += math.isfinite(x) and not math.isfinite(rounds_to)
    assert (tally.ulp_undefined, tally.ref_beyond_cand_range) == (undefined, beyond)
    if steps:
        apart, ordinal, index, x, y = min(steps)
        top = tally.max_ulp
        assert (top.value, top.ordinal, top.index) == (-apart, ordinal, index)
        assert (top.ref, top.cand) == (x, y)
    else:
        assert tally.max_ulp is None


def test_tiles_are_invisible(monkeypatch):
    rng = np.random.default_rng(7)
    ref = rng.normal(size=(50, 20)).astype(np.float32)
    cand = (ref + rng.normal(size=ref.shape) * 1e-3).astype(ml_dtypes.bfloat16)
    cand[31, 7] = np.nan
    whole, detail = compare(ref, cand, Tolerance(1e-3, 1e-3))
    monkeypatch.setattr(elements, "_TILE", 70)
    tiled, tiled_detail = compare(ref, cand, Tolerance(1e-3, 1e-3))
    assert dumped(tiled) == dumped(whole)
    for name in DETAIL:
        assert np.array_equal(getattr(detail, name), getattr(tiled_detail, name))


def test_a_mask_value_that_half_precision_cannot_hold_is_told():
    ref = np.full((3, 1), np.finfo(np.float32).min)
    tally, detail = compare(ref, ref.astype(ml_dtypes.bfloat16), Tolerance(0.0, 0.9))
    assert rule_names(int(detail.rules[0])) == ["nonfinite.candidate"]
    assert tally.ref_beyond_cand_range == 3
    half, _ = compare(np.array([[65519.0], [65520.0]]), np.full((2, 1), 65504, np.float16))
    assert half.ref_beyond_cand_range == 1


@pytest.mark.parametrize(("name", "low"), [("int4", -8), ("uint4", 0)])
def test_all_pairs_of_half_byte_integers(name, low):
    numbers = list(range(low, low + 16))
    for ref, cand in itertools.product(numbers, repeat=2):
        left, right = (np.array([[v]]).astype(dtype_of(name)) for v in (ref, cand))
        tally, detail = compare(left, right, Tolerance(1.0, 0.0))
        assert bool(detail.rules[0]) == (abs(ref - cand) > 1)
        worst = tally.max_abs_error
        assert (worst.value, worst.ref, worst.cand) == (abs(ref - cand), ref, cand)
    wide = np.array([[v] for v in numbers])
    tally, detail = compare(wide.astype(dtype_of(name)), wide.astype(name[:-1] + "64"))
    assert not detail.rules.any()
    assert tally.figures()["max_steps"] == 0
