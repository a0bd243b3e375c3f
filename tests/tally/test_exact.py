import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests import naive

from paritygate.tally.exact import ExactSum

finite = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(finite, max_size=20), st.integers(1, 1000))
@example([1.7976931348623157e308] * 2, 1)
@example([-1.7976931348623157e308] * 2, 1)
@example([5e-324], 2)
@example([5e-324] * 3, 2)
@example([2.0**53, 1.0], 1)
@example([2.0**53, 1.0, 5e-324], 1)
def test_value_and_mean_are_rounded_once(terms, count):
    total = naive.exact_sum(terms)
    found = ExactSum.from_floats(terms)
    assert found.value() == naive.to_float(total)
    assert found.mean(count) == naive.to_float(total / count)


@given(st.lists(finite, max_size=20), st.integers(0, 20))
def test_parts_add_up_to_the_whole(terms, cut):
    parts = ExactSum.from_floats(terms[:cut]), ExactSum.from_floats(terms[cut:])
    assert parts[0] + parts[1] == parts[1] + parts[0] == ExactSum.from_floats(terms)
    assert ExactSum.from_floats([-t for t in terms]) == -ExactSum.from_floats(terms)


@given(st.lists(st.floats(), max_size=10))
def test_json_round_trip(terms):
    found = ExactSum.from_floats(terms)
    assert ExactSum.from_json(json.loads(json.dumps(found.to_json()))) == found


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_term_that_is_not_finite_takes_the_value_away(bad):
    found = ExactSum.from_floats([1.0, bad, 2.0])
    assert (found.value(), found.mean(3), found.overflowed) == (None, None, 1)
    assert (found + found).overflowed == 2
    assert (-found).overflowed == 1


def test_mean_of_nothing_is_none():
    assert ExactSum().mean(0) is None
    assert ExactSum().value() == 0.0


@given(st.lists(st.integers(-(2**62), 2**62), max_size=67))
def test_chunks_count_powers_of_two_to_the_32(chunks):
    found = ExactSum.from_chunks(np.array(chunks, np.int64), overflowed=0)
    assert found.units == sum(Fraction(c) * 2 ** (32 * k) for k, c in enumerate(chunks))
