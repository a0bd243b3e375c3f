import itertools
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paritygate.tally.extremes import Extreme, decode_number, encode_number, worse

numbers = st.sampled_from([0.0, -0.0, 1.0, 1.5, math.inf]) | st.integers(0, 3)
keys = st.sampled_from([0.0, 1.0, 1.5, math.inf])
extremes = st.builds(
    Extreme,
    keys=st.tuples(keys, keys),
    ordinal=st.integers(0, 2),
    index=st.integers(-1, 1),
    ref=numbers,
    cand=numbers,
)


@given(st.lists(st.none() | extremes, min_size=3, max_size=3))
def test_merge_is_associative_commutative_and_idempotent(three):
    found = {repr(worse(worse(a, b), c)) for a, b, c in itertools.permutations(three)} | {
        repr(worse(a, worse(b, c))) for a, b, c in itertools.permutations(three)
    }
    assert len(found) == 1
    assert worse(three[0], three[0]) == three[0]
    assert worse(three[0], None) == worse(None, three[0]) == three[0]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Extreme((2.0, 0.0), 9, 9, 0.0, 0.0), Extreme((1.0, 9.0), 0, 0, 0.0, 0.0)),
        (Extreme((1.0, 2.0), 9, 9, 0.0, 0.0), Extreme((1.0, 1.0), 0, 0, 0.0, 0.0)),
        (Extreme((1.0,), 3, 9, 0.0, 0.0), Extreme((1.0,), 4, 0, 0.0, 0.0)),
        (Extreme((1.0,), 3, 1, 0.0, 0.0), Extreme((1.0,), 3, 2, 0.0, 0.0)),
        (Extreme((2**64 - 1,), 3, 1, 0, 1), Extreme((2**64 - 2,), 0, 0, 0, 1)),
        (Extreme((math.inf,), 3, 1, 0, 1), Extreme((1.7e308,), 0, 0, 0, 1)),
    ],
)
def test_order(first, second):
    assert first.outranks(second)
    assert not second.outranks(first)
    assert worse(first, second) is worse(second, first) is first


@given(extremes)
def test_json_round_trip(extreme):
    back = Extreme.from_json(json.loads(json.dumps(extreme.to_json())))
    assert repr(back) == repr(extreme)


@pytest.mark.parametrize(
    ("value", "written"),
    [(math.inf, "inf"), (-math.inf, "-inf"), (math.nan, "nan"), (1.5, 1.5), (2**64 - 1, 2**64 - 1)],
)
def test_numbers_as_json(value, written):
    assert encode_number(value) == written
    assert repr(decode_number(written)) == repr(value)
