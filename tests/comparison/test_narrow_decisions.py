"""Decisions on narrow floats: few numbers, so that scores fall on edges and on one another."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import naive_decisions, naive_formats

from paritygate.comparison.decisions import DecisionComparer
from paritygate.core.bands import parse_bands
from paritygate.core.policy import DecisionRule, Tolerance

NARROW = (
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
)
ZERO = Tolerance()


def dtype_of(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def all_codes(name: str) -> np.ndarray:
    dtype = dtype_of(name)
    return np.arange(1 << 8 * dtype.itemsize, dtype=f"u{dtype.itemsize}").view(dtype)


def decide(rule, ref, cand):
    names = [a.dtype.name for a in (ref, cand)]
    comparer = DecisionComparer(rule, ZERO, *names, ref.shape[1:], "full")
    return comparer.compare(ref, cand, np.arange(len(ref)))


def bands(text, compare_as=None):
    return DecisionRule("d", "y", bands=parse_bands(text), compare_as=compare_as)


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("text", ["a < 0.2 <= b <= 0.8 < c", "a <= 0.1 < b < 0.6 <= c"])
@pytest.mark.parametrize("compare_as", ["output", "float64"])
def test_the_band_of_every_code(name, text, compare_as):
    rule = parse_bands(text)
    edges = list(rule.edges)
    if compare_as == "output":
        edges = [naive_formats.round_to(name, edge) for edge in edges]
        assert edges != list(rule.edges)
    numbers = naive_formats.codes(name)
    wanted = [naive_decisions.band(v, edges, rule.tie_up) for v in numbers]
    codes = all_codes(name)
    tally, detail = decide(bands(text, compare_as), codes, codes)
    assert detail.ref.tolist() == detail.cand.tolist() == wanted
    on_edge = sum(v == e for v in numbers for e in edges)
    assert sum(side.on for side in tally.edges) == on_edge == (2 if compare_as == "output" else 0)
    margins = [naive_decisions.band_margin(v, edges) for v in numbers]
    np.testing.assert_array_equal(detail.margin, margins)


@pytest.mark.parametrize("name", NARROW)
def test_a_wider_candidate_is_decided_in_the_dtype_of_the_reference(name):
    """0.2 is no number of the format: scores around it go where they are rounded to."""
    edge = naive_formats.round_to(name, 0.2)
    grid = naive_formats.magnitudes(name)
    below = grid[grid.index(edge) - 1]
    middle = (edge + below) / 2
    cand = np.array([edge, middle, math.nextafter(middle, 1), below, 0.0, math.nan])
    ref = np.full(cand.size, edge).astype(dtype_of(name))
    text = "a < 0.2 <= b"
    rounded = [naive_formats.round_to(name, v) for v in cand.tolist()]
    _, detail = decide(bands(text, "output"), ref, cand)
    assert detail.cand.tolist() == [naive_decisions.band(v, [edge], [True]) for v in rounded]
    tally, detail = decide(bands(text, "float64"), ref, cand)
    assert detail.cand.tolist() == [naive_decisions.band(v, [0.2], [True]) for v in cand.tolist()]
    assert tally.depends_on_compare_as > 0


def test_a_score_beyond_the_range_of_the_reference_dtype():
    """With infinities it is above every edge; without them it is no number, and no decision."""
    cand = np.array([1e30, -1e30], np.float32)
    for name, wanted in (("float16", [1, 0]), ("float8_e4m3fn", [-1, -1])):
        ref = np.ones(2).astype(dtype_of(name))
        _, detail = decide(bands("a < 0.5 <= b", "output"), ref, cand)
        assert detail.cand.tolist() == wanted


@given(
    st.sampled_from(NARROW),
    st.sampled_from([*NARROW, "float32", "float64"]),
    st.integers(1, 5),
    st.integers(2, 5),
    st.data(),
)
def test_argmax_of_rows_with_many_ties(ref_name, cand_name, samples, classes, data):
    values = st.sampled_from([0.0, 0.1, 0.1001, 0.11, 1.0, 1.01, 500.0, 1e5, -1.0, math.nan])
    rows = [
        data.draw(st.lists(values, min_size=samples * classes, max_size=samples * classes))
        for _ in range(2)
    ]
    with np.errstate(all="ignore"):
        ref, cand = (
            np.array(row).astype(dtype_of(name)).reshape(samples, classes)
            for row, name in zip(rows, (ref_name, cand_name), strict=True)
        )
    rule = DecisionRule("d", "y", argmax=True, compare_as="output")
    tally, detail = decide(rule, ref, cand)
    exact = [a.astype(np.float64).tolist() for a in (ref, cand)]
    compared = [[naive_formats.round_to(ref_name, v) for v in row] for row in exact[1]]
    assert detail.ref.tolist() == [naive_decisions.argmax(row) for row in exact[0]]
    assert detail.cand.tolist() == [naive_decisions.argmax(row) for row in compared]
    assert tally.tied_ref == sum(map(naive_decisions.tied, exact[0]))
    assert tally.tied_cand == sum(map(naive_decisions.tied, compared))
    _, wide = decide(DecisionRule("d", "y", argmax=True, compare_as="float64"), ref, cand)
    assert wide.cand.tolist() == [naive_decisions.argmax(row) for row in exact[1]]
    assert tally.depends_on_compare_as == sum(
        a != b for a, b in zip(detail.cand.tolist(), wide.cand.tolist(), strict=True)
    )


@pytest.mark.parametrize(
    ("text", "dtype", "words"),
    [
        ("a < 0.2 <= b < 0.2001 <= c", "bfloat16", "the same number in bfloat16"),
        ("a < 0.2 <= b < 500 <= c", "float8_e4m3fn", "500.0 is beyond the range of float8_e4m3fn"),
        ("a < 0.2 <= b < 70000 <= c", "float16", "70000.0 is beyond the range of float16"),
        ("a < 0.5 <= b", "int4", "0.5 is fractional"),
        ("a < 8 <= b", "int4", "not in -8 to 7"),
        ("a < -1 <= b", "uint4", "not in 0 to 15"),
    ],
)
def test_edges_that_the_dtype_cannot_tell_apart_are_refused(text, dtype, words):
    with pytest.raises(ValueError, match=words):
        DecisionComparer(bands(text), ZERO, dtype, dtype, (), "full")


@pytest.mark.parametrize("name", ["int4", "uint4"])
def test_bands_and_argmax_of_half_byte_integers(name):
    low = -8 if name == "int4" else 0
    numbers = list(range(low, low + 16))
    scores = np.array(numbers).astype(dtype_of(name))
    _, detail = decide(bands("a < 3 <= b"), scores, scores)
    assert detail.ref.tolist() == [int(v >= 3) for v in numbers]
    rows = scores.reshape(4, 4)
    _, detail = decide(DecisionRule("d", "y", argmax=True), rows, rows[:, ::-1].copy())
    assert (detail.ref.tolist(), detail.cand.tolist()) == ([3] * 4, [0] * 4)
