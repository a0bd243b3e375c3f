"""Rules for one element at their edges: what the mutants of `tests/mutants` would change."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests import naive, naive_decisions

from paritygate.kernels import decisions, elements, scalar

quick = settings(deadline=None)
finite = st.floats(allow_nan=False, allow_infinity=False)
small = st.floats(0, 1e300)


@quick
@given(finite, small, st.floats(0, 0.999))
@example(-2.0, 0.25, 0.5)
def test_allowed(ref, atol, rtol):
    assert scalar.allowed(ref, atol, rtol) == naive_decisions.allowed(ref, atol, rtol)


SHRUNK = 1.0 - 2.0**-50


@pytest.mark.parametrize("ratio", [5e-324, 1e-300, 0.0])
def test_a_ratio_that_rounding_may_hide_much_of_proves_nothing(ratio):
    assert scalar.share_below(ratio, SHRUNK) == 0.0


@quick
@given(st.floats(1e-280, 1e300), st.floats(1e-20, 1e4))
@example(1.0, 1.0)
def test_what_is_below_the_share_of_its_bound_has_a_smaller_excess(ratio, bound):
    share = scalar.share_below(ratio, SHRUNK)
    assert 0.0 < share < ratio
    below = np.nextafter(share * bound, 0.0)
    assert scalar.excess(below, bound) < ratio


# A format by (bits after the leading one, exponent of the smallest normal number).
FORMATS = {"float16": (10, -14), "bfloat16": (7, -126), "e4m3": (3, -6), "e5m2": (2, -14)}


def number_at(place, mantissa, min_exponent):
    """The number at a place, from the definition of a float: subnormals, then binades."""
    step = Fraction(2) ** (min_exponent - mantissa)
    binade, part = divmod(abs(place), 2**mantissa)
    size = part * step if binade == 0 else (2**mantissa + part) * step * 2 ** (binade - 1)
    return size if place >= 0 else -size


@quick
@given(st.sampled_from(sorted(FORMATS)), st.floats(-1e4, 1e4))
@example("e4m3", 1.0625)  # a tie, whose even neighbour is below
@example("e4m3", -1.1875)  # a tie, whose even neighbour is above in size
@example("e5m2", 3 * 2.0**-17)  # a tie of subnormals
@example("float16", -5e-324)
@example("float16", 2.0**-14)
@example("bfloat16", 1.9999999)  # rounds into the next binade
def test_a_place_on_a_grid_is_that_of_the_nearest_number(name, value):
    place = int(scalar.place_on_grid(value, *FORMATS[name]))
    apart = {near: abs(number_at(near, *FORMATS[name]) - Fraction(value)) for near in (
        place - 1, place, place + 1
    )}  # fmt: skip
    least = min(apart.values())
    assert apart[place] == least
    ties = [near for near in apart if apart[near] == least]
    assert len(ties) == 1 or place % 2 == 0


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_both_zeros_have_the_place_zero(zero):
    assert all(scalar.place_on_grid(zero, *form) == 0 for form in FORMATS.values())


@pytest.mark.parametrize(
    "sums",
    [
        (1.0, 1.0, -1.0),  # the candidate is zero
        (0.0, 1.0, 0.0),  # the reference is
        (0.0, 0.0, 0.0),
        (1.0, math.inf, 1.0),
        (1.0, math.nan, 0.0),
        (1e-300, 1e300, 0.0),  # the noise overflows
        (1e-300, 1.0, 1e300),  # the cross term does
    ],
)
def test_no_cosine_without_two_energies(sums):
    assert math.isnan(scalar.one_minus_cosine(*(np.float64(x) for x in sums)))


@quick
@given(st.integers(1, 100), st.integers(1, 100))
@example(1, 3)
@example(49, 10)
def test_a_cosine_stays_between_its_bounds_for_scaled_vectors(numerator, denominator):
    """Energies of r and of e = x r, each rounded: rounding alone would leave the bounds."""
    energy = 3.0
    x = numerator / denominator
    same = scalar.one_minus_cosine(energy, energy * x * x, energy * x)
    opposed = scalar.one_minus_cosine(energy, energy * (1 + x) ** 2, -energy * (1 + x))
    assert same == pytest.approx(0, abs=1e-14)
    assert opposed == pytest.approx(2, rel=1e-7)
    assert same >= 0
    assert opposed <= 2


@pytest.mark.parametrize("tie_up", list(itertools.product((False, True), repeat=3)))
def test_the_band_of_scores_on_beside_and_far_from_edges(tie_up):
    edges = [-0.5, 0.0, 0.25]
    near = [math.nextafter(edge, way) for edge in edges for way in (-math.inf, math.inf)]
    for score in (*edges, *near, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan):
        found = decisions.band_of(score, np.array(edges), np.array(tie_up))
        assert found == naive_decisions.band(score, edges, tie_up), score


def test_the_margin_of_a_band_rule_and_what_tolerance_spans():
    edges = [-0.5, 0.25]
    scores = [-0.75, -0.5, 0.0, 0.5, 1.0, math.inf, -math.inf, math.nan]
    for atol, rtol in ((0.0, 0.0), (0.25, 0.0), (0.0, 0.5), (math.nextafter(0.25, 0), 0.0)):
        margins, at_risk = np.empty(len(scores)), np.empty(len(scores), np.bool_)
        decisions.band_margins(np.array(scores), np.array(edges), atol, rtol, margins, at_risk)
        expected = [naive_decisions.band_margin(score, edges) for score in scores]
        np.testing.assert_array_equal(margins, expected)
        assert at_risk.tolist() == [
            naive_decisions.band_at_risk(score, edges, atol, rtol) for score in scores
        ]


def test_the_sample_that_lies_first_in_the_pack_goes_first():
    ordinals = np.array([5, 3, 9])
    expected = {(0, 1): False, (1, 0): True, (1, 2): True, (2, 1): False, (1, 1): False}
    for (sample, best), goes_first in expected.items():
        assert bool(elements.precedes(sample, best, ordinals)) == goes_first
    assert elements.precedes(2, -1, ordinals)  # there is none yet


def test_excess_is_a_ratio_of_error_to_bound():
    assert scalar.excess(3.0, 2.0) == 1.5
    assert scalar.excess(2.0, 3.0) == 2 / 3


def test_a_float_is_binned_by_its_top_bits():
    for error in (1.0, 1.124, 1.125, 2.0, 5e-324, 2.0**-1022):
        assert scalar.bin_of(error) == naive.histogram_bin(error)
