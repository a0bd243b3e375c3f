"""Steps of the search: places of numbers in their dtype, and where a decision changes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paritygate.pipeline.boundary_search import (
    _blend,
    _first_change,
    _spread,
    from_ordinal,
    ordinals,
)

DTYPES = [
    np.dtype(d)
    for d in (
        np.float16,
        np.float32,
        np.float64,
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e5m2,
    )
]


@given(st.sampled_from(DTYPES), st.floats(-100, 100))
def test_neighbours_are_one_apart(dtype: np.dtype, value: float) -> None:
    here = np.array([value]).astype(dtype) + np.zeros(1, dtype)
    up = np.nextafter(here, np.asarray(200).astype(dtype))
    (at,), (above,) = ordinals(here), ordinals(up)
    assert above == at + 1
    assert from_ordinal(above, dtype) == up[0]
    assert from_ordinal(at, dtype) == here[0]


def test_both_zeros_are_one_place_and_whole_numbers_are_their_own() -> None:
    assert ordinals(np.float32([0.0, -0.0])) == [0, 0]
    assert ordinals(np.int64([-(2**62), 2**62])) == [-(2**62), 2**62]
    assert from_ordinal(-(2**62), np.dtype(np.int64)) == -(2**62)
    assert from_ordinal(1, np.dtype(np.bool_)) == np.True_


@given(st.lists(st.sampled_from((True, False, None)), max_size=8))
def test_the_ends_of_a_change_are_decided_otherwise(told: list[bool | None]) -> None:
    found = _first_change(told)
    if all(side is None for side in told):
        assert found is None
        return
    assert found is not None
    before, after = found
    assert before == -1 or told[before] is True
    assert after == len(told) or told[after] is False
    assert all(side is None for side in told[before + 1 : after])


@given(st.integers(-5, 5), st.integers(0, 40), st.integers(1, 9))
def test_numbers_between_are_strictly_between(start: int, gap: int, most: int) -> None:
    found = _spread(start, start + gap, most)
    assert len(found) == min(most, max(0, gap - 1))
    assert all(start < n < start + gap for n in found)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool", "object"])
@given(data=st.data())
def test_a_point_of_a_segment_lies_within_its_box(dtype: str, data: st.DataObject) -> None:
    values = {
        "int64": st.integers(-(2**50), 2**50),
        "bool": st.booleans(),
        "object": st.sampled_from(("a", "b")),
    }.get(dtype, st.floats(-1e6, 1e6, width=32))
    both = [
        np.array(data.draw(st.lists(values, min_size=3, max_size=3)), dtype=dtype) for _ in "ab"
    ]
    t = data.draw(st.floats(0, 1))
    found = _blend({"x": both[0]}, {"x": both[1]}, t)["x"]
    assert found.dtype == both[0].dtype
    for low, high, at in zip(*both, found, strict=True):
        assert min(low, high) <= at <= max(low, high)
