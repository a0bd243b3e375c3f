"""`assert_parity`: what it accepts, what it refuses, and what its message says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import paritygate


def message(ref: Any, cand: Any, **rules: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        paritygate.assert_parity(ref, cand, **rules)
    return str(caught.value)


@pytest.mark.parametrize(
    ("ref", "cand", "rules"),
    [
        ([1.0, 2.0], [1.0, 2.0], {}),
        ([1.0, 2.0], [1.0, 2.1], {"atol": 0.2, "rtol": 0.0}),
        ([100.0], [101.0], {"atol": 0.0, "rtol": 0.01}),
        ([np.nan, np.inf, -np.inf, 1], [np.nan, np.inf, -np.inf, 1], {"nonfinite": "match"}),
        ([0.0], [-0.0], {}),
        ([True, False], [True, False], {}),
        (np.float16([1.5]), np.float16([1.5]), {}),
        (np.zeros((2, 3, 4), np.int8), np.zeros((2, 3, 4), np.int8), {}),
        (3.0, 3.0, {}),
        ({"a": [1.0], "b": [2]}, {"b": [2], "a": [1.0]}, {}),
        (np.array([1.0], ">f4"), np.array([1.0], "<f4"), {}),
    ],
)
def test_parity(ref: Any, cand: Any, rules: dict[str, Any]) -> None:
    paritygate.assert_parity(ref, cand, **rules)


@pytest.mark.parametrize(
    ("ref", "cand", "rules", "words"),
    [
        ([1.0, 2.0], [1.0, 2.1], {}, ["1 of 2 elements", "50.000%", "[1]", "ref 2", "cand 2.1"]),
        ([np.nan], [np.nan], {}, ["nonfinite.reference", "ref nan cand nan"]),
        ([np.nan], [1.0], {"nonfinite": "match"}, ["nonfinite.mismatch"]),
        ([1.0], [np.nan], {"atol": 1e300, "rtol": 0.0}, ["nonfinite.candidate"]),
        ([np.inf], [-np.inf], {"nonfinite": "match", "atol": 0.0, "rtol": 0.5}, ["inf"]),
        ([np.inf], [1.0], {"nonfinite": "match", "atol": 0.0, "rtol": 0.5}, ["inf"]),
        (np.int32([2147483647]), np.int32([-1]), {}, ["2147483647", "-1", "2147483648"]),
        (np.uint64([1]), np.uint64([2]), {}, ["ref 1", "cand 2"]),
        (np.int64([200000]), np.int64([200001]), {"atol": 0.0, "rtol": 1e-6}, ["200001"]),
        ([1.0], [[1.0]], {}, ["shapes differ", "nothing is broadcast"]),
        (np.float32([1]), np.float64([1]), {}, ["dtypes differ", "float32", "float64"]),
        ([], [], {}, ["empty"]),
        ({"a": [1.0]}, {"b": [1.0]}, {}, ["lacks ['a']", "unexpected ['b']"]),
        ({}, {}, {}, ["nothing was compared"]),
        ({"a": [1.0]}, [1.0], {}, ["dict", "list"]),
        ({"a": [1.0], "b": [1.0]}, {"a": [2.0], "b": [3.0]}, {}, ["'a'", "'b'"]),
        (np.zeros((2, 3)), np.eye(2, 3), {}, ["[0, 0]"]),
    ],
)
def test_mismatch(ref: Any, cand: Any, rules: dict[str, Any], words: list[str]) -> None:
    text = message(ref, cand, **rules)
    for word in words:
        assert word in text, text


@pytest.mark.parametrize(
    ("rules", "word"),
    [
        ({"atol": 1.0}, "rtol"),
        ({"atol": float("nan"), "rtol": 0.0}, "atol"),
        ({"atol": float("inf"), "rtol": 0.0}, "atol"),
        ({"atol": -1.0, "rtol": 0.0}, "atol"),
        ({"atol": 0.0, "rtol": 1.0}, "rtol"),
        ({"nonfinite": "ignore"}, "nonfinite"),
    ],
)
def test_vacuous_tolerances_are_refused(rules: dict[str, Any], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        paritygate.assert_parity([1.0], [1.0], **rules)


def test_a_dtype_that_cannot_be_judged_is_named() -> None:
    with pytest.raises(TypeError, match="complex128"):
        paritygate.assert_parity([1j], [1j])


@given(
    hnp.arrays(np.float32, hnp.array_shapes(max_dims=3, max_side=4), elements=st.floats(width=32)),
    st.data(),
)
def test_agrees_with_a_scalar_loop(ref: Any, data: Any) -> None:
    cand = data.draw(hnp.arrays(np.float32, ref.shape, elements=st.floats(width=32)))
    atol = data.draw(st.sampled_from([0.0, 1e-3, 1e30]))
    rtol = data.draw(st.sampled_from([0.0, 1e-3, 0.9]))

    def good(r: float, c: float) -> bool:
        if not (np.isfinite(r) and np.isfinite(c)):
            return False
        return abs(c - r) <= atol + rtol * abs(r)

    pairs = zip(ref.reshape(-1).tolist(), cand.reshape(-1).tolist(), strict=True)
    bad = sum(not good(r, c) for r, c in pairs)
    if bad == 0:
        paritygate.assert_parity(ref, cand, atol=atol, rtol=rtol)
    else:
        assert message(ref, cand, atol=atol, rtol=rtol).startswith(f"{bad} of {ref.size} ")


@pytest.mark.parametrize(
    ("ref", "cand", "says"),
    [
        (["1", 1], ["1", "1"], "numbers and texts"),
        ([1, "a"], ["1", "a"], "numbers and texts"),
        ([True, 2], [1, 2], "bools and numbers"),
        ([[True, False], [1, 0]], [[1, 0], [1, 0]], "bools and numbers"),
        ([np.array([1, 2**53 + 1]), [0.5, 1]], [[1, 2**53], [0.5, 1]], "beyond 2"),
        ([np.int64(2**53 + 1), 0.5], [2.0**53, 0.5], "beyond 2"),
    ],
)
def test_a_list_that_numpy_would_cast_is_refused(ref: Any, cand: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        paritygate.assert_parity(ref, cand)


@pytest.mark.parametrize(
    ("ref", "cand"), [(["a\0"], ["a"]), ("a\0", "a"), ([["b", "a\0"]], [["b", "a"]])]
)
def test_a_nul_at_the_end_of_a_text_counts(ref: Any, cand: Any) -> None:
    with pytest.raises(AssertionError, match="1 of . texts differ"):
        paritygate.assert_parity(ref, cand)
    paritygate.assert_parity(ref, ref)


class Labelled:
    """What a Series or a data frame shows of itself."""

    def __init__(self, values: Any, **labels: Any) -> None:
        self.values = values
        self.iloc = self
        self.__dict__.update(labels)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.values)

    def __len__(self) -> int:
        return len(self.values)


def test_labels_of_rows_and_columns_are_not_dropped() -> None:
    frames = Labelled([[1.0, 2.0]], columns=["a", "b"]), Labelled([[1.0, 2.0]], columns=["b", "a"])
    series = Labelled([1.0, 2.0], index=[0, 1]), Labelled([1.0, 2.0], index=[1, 0])
    grids = Labelled([1.0], dims=("x",), coords={}), Labelled([1.0], dims=("y",), coords={})
    for pair in (frames, series, grids):
        with pytest.raises(TypeError, match="is a Labelled, whose labels would be lost"):
            paritygate.assert_parity(*pair)
    paritygate.assert_parity(series[0], [1.0, 2.0])


@pytest.mark.parametrize("values", [[np.nan, np.nan], [np.inf, -np.inf], [np.nan]])
def test_nothing_but_nan_and_infinity_proves_nothing(values: Any) -> None:
    rule = {"atol": 0.0, "rtol": 0.0, "nonfinite": "match"}
    assert "so nothing was compared" in message(values, values, **rule)
    paritygate.assert_parity([*values, 1.0], [*values, 1.0], **rule)


def test_a_decision_that_is_never_defined_proves_nothing() -> None:
    rule = {"atol": 9.0, "rtol": 0.0, "nonfinite": "match", "decisions": {"c": {"argmax": True}}}
    ref, cand = [[np.nan, 1.0]], [[np.nan, 2.0]]
    assert "undefined on both sides for all 1 samples" in message(ref, cand, **rule)
    paritygate.assert_parity([*ref, [1.0, 2.0]], [*cand, [1.0, 2.0]], **rule)
