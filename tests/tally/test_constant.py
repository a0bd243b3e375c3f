"""What all samples have in common: against plain Python, and merged in any split and order."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from paritygate.tally.constant import Constancy

dtypes = st.sampled_from(["<f4", "<f8", "<i2", "?", "U2"])
arrays = dtypes.flatmap(
    lambda dtype: hnp.arrays(
        dtype,
        st.tuples(st.integers(0, 5), st.integers(0, 2)),
        elements=None if dtype in ("?", "U2") else st.sampled_from([0, 1]),
    )
)


def is_one(array: np.ndarray) -> bool:
    rows = {array[i].tobytes() for i in range(len(array))}
    return len(rows) == 1


@given(arrays, st.booleans())
def test_constant_is_one_row_of_bytes(array: np.ndarray, as_objects: bool) -> None:
    given = array.astype(object) if as_objects else array
    found = Constancy.of(given, given)
    assert found.is_constant == (len(array) > 1 and is_one(array))
    assert found.samples == len(array)


@given(arrays, st.data())
def test_any_split_and_order_gives_the_same(array: np.ndarray, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(array)))
    parts = [array[:cut], array[cut:]]
    first, second = (Constancy.of(part, part[:, ::-1]) for part in parts)
    whole = Constancy.of(array, array[:, ::-1])
    assert first.merge(second) == whole == second.merge(first)
    assert Constancy().merge(whole) == whole == whole.merge(Constancy())
    assert Constancy.from_json(whole.to_json()) == whole


def test_a_nan_is_itself_and_minus_zero_is_not_zero() -> None:
    nan = np.full((3, 2), np.nan, np.float32)
    assert Constancy.of(nan, nan).is_constant
    zeros = np.array([[0.0], [-0.0]])
    assert not Constancy.of(zeros, zeros).is_constant


def test_the_last_of_many_rows_counts() -> None:
    rows = np.zeros((20_000, 3))
    assert Constancy.of(rows, rows).is_constant
    other = rows.copy()
    other[-1, -1] = 1
    assert not Constancy.of(other, rows).is_constant
    assert not Constancy.of(rows, other).is_constant


def test_parts_that_are_constant_each_are_not_constant_together() -> None:
    zeros, ones = np.zeros((4, 1)), np.ones((4, 1))
    both = Constancy.of(zeros, zeros).merge(Constancy.of(ones, ones))
    assert (both.samples, both.is_constant) == (8, False)
