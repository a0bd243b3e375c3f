"""What samples exercise: merge algebra, exact JSON, values of inputs against brute force."""

from __future__ import annotations

import json
from functools import reduce

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paritygate.core.tables import BatchDim
from paritygate.pipeline.batches import Cut
from paritygate.pipeline.coverage import cover_batches, cover_input
from paritygate.tally.coverage import Batches, CoverageTally, InputCover, Span

counts = st.integers(0, 2**40)
numbers = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False).map(lambda x: x + 0.0)


@st.composite
def spans(draw, kind=numbers):
    low, high = sorted((draw(kind), draw(kind)))
    return Span(low, high, draw(st.integers(1, 9)), draw(st.integers(1, 9)))


floats = st.floats(allow_nan=False).map(lambda x: x + 0.0)
covers = st.builds(
    InputCover,
    counts,
    counts,
    st.tuples(*[st.none() | spans(floats)] * 2),
    counts,
    st.tuples(counts, counts),
)
tallies = st.builds(
    CoverageTally,
    st.dictionaries(st.sampled_from("ab"), covers),
    st.dictionaries(st.sampled_from(("seq", "wide")), spans(st.integers(0, 9))),
    st.dictionaries(
        st.tuples(st.sampled_from("ab"), st.integers(1, 3)), st.builds(Batches, counts, counts)
    ),
    counts,
)


@given(st.lists(tallies, min_size=1, max_size=4), st.randoms())
def test_any_order_of_merging_gives_the_same_bits(parts, random):
    whole = reduce(CoverageTally.merge, parts)
    shuffled = parts.copy()
    random.shuffle(shuffled)
    again = reduce(CoverageTally.merge, shuffled)
    nested = reduce(lambda x, y: y.merge(x), reversed(parts))
    texts = {json.dumps(t.to_json()) for t in (whole, again, nested)}
    assert len(texts) == 1
    assert CoverageTally.from_json(json.loads(texts.pop())) == whole


DTYPES = ("float32", "float64", "float16", "int8", "uint8", "int64", "uint64", "bool", "bfloat16")


def naive(values, axis):
    """By plain loops over one sample after another."""
    wide = values.astype(np.float64) if values.dtype.kind not in "iu" else values
    zeros = sum(all(v == 0 for v in sample.reshape(-1).tolist()) for sample in wide)
    channels, constant, several = [], [], 0
    for c in range(1 if axis is None else wide.shape[axis + 1]):
        parts = [(s if axis is None else np.take(s, c, axis)).reshape(-1).tolist() for s in wide]
        several = len(parts) if len(parts[0]) > 1 else 0
        constant.append(sum(len(set(p)) == 1 and p[0] == p[0] for p in parts) if several else 0)
        real = [[v for v in p if v == v] for p in parts]
        all_values = [v for p in real for v in p]
        if not all_values:
            channels.append(None)
            continue
        low, high = min(all_values), max(all_values)
        channels.append(Span(low, high, sum(low in p for p in real), sum(high in p for p in real)))
    return InputCover(len(wide), zeros, tuple(channels), several, tuple(constant))


@st.composite
def inputs(draw):
    dtype = draw(st.sampled_from(DTYPES))
    shape = tuple(draw(st.lists(st.integers(1, 3), max_size=3)))
    n = draw(st.integers(1, 5))
    of = {
        "f": st.sampled_from((0.0, -0.0, 1.0, -1.5, float("nan"), float("inf"), -float("inf"))),
        "i": st.sampled_from((0, 1, -1, -128, 127)),
        "u": st.sampled_from((0, 1, 255)),
        "b": st.booleans(),
    }[np.dtype(dtype).kind if dtype != "bfloat16" else "f"]
    size = n * int(np.prod(shape, dtype=int))
    values = np.array(draw(st.lists(of, min_size=size, max_size=size)))
    if dtype == "int64" and draw(st.booleans()):
        values = values + 2**60
    array = values.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    axis = draw(st.none() | st.integers(0, len(shape) - 1)) if shape else None
    return array.reshape(n, *shape), axis


@settings(deadline=None)
@given(inputs())
def test_values_of_an_input_equal_brute_force(case):
    array, axis = case
    found = cover_input(array, axis)
    assert found == naive(array, axis)
    for at in range(1, len(array)):
        assert cover_input(array[:at], axis).merge(cover_input(array[at:], axis)) == found


def test_an_input_without_elements_covers_nothing():
    assert cover_input(np.zeros((3, 0), np.float32), None) is None


@pytest.mark.parametrize(
    ("samples", "cut", "wanted"),
    [
        (40, BatchDim(sizes=[1, 16]), {16: Batches(2, 1)}),
        (33, BatchDim(sizes=[1, 16]), {16: Batches(2), 1: Batches(1)}),
        (33, BatchDim(sizes=[4, 16]), {16: Batches(2), 4: Batches(0, 1)}),
        (3, BatchDim(min=1, max=16), {3: Batches(1)}),
        (16, BatchDim(sizes=[16]), {16: Batches(1)}),
        (0, BatchDim(sizes=[16]), {}),
    ],
)
def test_batches_are_counted_as_they_are_cut(samples, cut, wanted):
    assert cover_batches(Cut(None, 16, cut), samples) == wanted


def test_recorded_answers_are_in_no_batches():
    assert cover_batches(Cut(None, None, None), 5) == {}
