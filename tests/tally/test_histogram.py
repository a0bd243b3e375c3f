import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests import naive

from paritygate.kernels import scalar
from paritygate.tally.histogram import BINS, Histogram, upper_edge

values = st.lists(st.floats(0, allow_nan=False) | st.floats(0, 10), max_size=30)
some = values.filter(bool)
FRACTIONS = (0.0, 0.29, 0.5, 0.9, 0.99, 0.999, 1.0)


@given(values)
@example([0.0, -0.0, 5e-324, 2.0**-1022, 1.7976931348623157e308, math.inf])
def test_bins_are_the_oracles(values):
    expected = {}
    for value in values:
        bin_ = str(naive.histogram_bin(value))
        expected[bin_] = expected.get(bin_, 0) + 1
    found = Histogram.of(values)
    assert found.to_json() == expected
    assert found.total == len(values)


@given(values, st.integers(0, 30))
def test_parts_merge_into_the_whole(values, cut):
    parts = Histogram.of(values[:cut]), Histogram.of(values[cut:])
    assert parts[0].merge(parts[1]) == parts[1].merge(parts[0]) == Histogram.of(values)
    assert Histogram().merge(parts[0]) == parts[0].merge(Histogram()) == parts[0]


@given(values)
def test_json_round_trip(values):
    found = Histogram.of(values)
    assert Histogram.from_json(json.loads(json.dumps(found.to_json()))) == found


@given(some, st.sampled_from(FRACTIONS))
def test_quantile_is_an_upper_bound_at_most_an_eighth_high(values, fraction):
    exact = naive.quantile_rank(values, Fraction(repr(fraction)))
    found = Histogram.of(values).quantile(fraction, max(values))
    assert exact <= found <= max(values)
    if 2.0**-1022 <= exact < math.inf:
        assert found <= exact * 1.125
    if exact == 0:
        assert found == 0


def test_quantile_takes_the_fraction_as_written():
    found = Histogram.of([1.0] * 29 + [2.0] * 71)
    assert found.quantile(0.29, 2.0) == 1.125
    assert found.quantile(0.291, 2.0) == 2.0
    assert Histogram().quantile(0.5, 0.0) is None


@given(some, st.floats(0, allow_nan=False))
def test_count_up_to_is_never_too_low(values, limit):
    found = Histogram.of(values).count_up_to(limit)
    assert sum(v <= limit for v in values) <= found
    bins = [naive.histogram_bin(v) for v in values]
    assert found == sum(b <= naive.histogram_bin(limit) for b in bins)


@given(st.floats(0, allow_nan=False, allow_infinity=False))
def test_upper_edge_is_just_above_the_bin(value):
    bin_ = naive.histogram_bin(value)
    edge = upper_edge(bin_)
    if bin_ == 0:
        assert edge == 0
    else:
        assert value < edge
        assert naive.histogram_bin(edge) == bin_ + 1
        assert naive.histogram_bin(math.nextafter(edge, 0)) == bin_


def test_kernels_and_tallies_agree_on_the_bins():
    assert scalar.BINS == BINS == naive.histogram_bin(math.inf) + 1
    assert upper_edge(BINS - 1) == math.inf


def test_what_cannot_be_counted_is_refused():
    for bad in (-1.0, math.nan):
        with pytest.raises(ValueError, match="values >= 0"):
            Histogram.of([1.0, bad])
    with pytest.raises(ValueError, match=r"needs int64\[16378\]"):
        Histogram.from_counts(np.zeros(5, np.int64))
    with pytest.raises(ValueError, match="read-only"):
        Histogram.of([1.0]).counts[0] = 1


@given(st.lists(st.floats(0, math.inf)), st.lists(st.floats(0, math.inf)))
def test_merging_counts_every_bin_of_both(left, right):
    merged = Histogram.of(left).merge(Histogram.of(right))
    assert merged == Histogram.of(left + right)
    assert np.array_equal(
        merged.all_counts(), Histogram.of(left).all_counts() + Histogram.of(right).all_counts()
    )
    assert not merged.counts.size or (merged.counts[0] and merged.counts[-1])
