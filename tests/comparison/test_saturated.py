"""Elements at the limits of a quantised output's dtype: counted on both sides, in any split."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from paritygate.comparison.elements import ElementComparer
from paritygate.core.dtypes import numpy_dtype
from paritygate.core.policy import Tolerance
from paritygate.tally.output import OutputTally

LIMITS = {
    "int4": (-8, 7),
    "uint4": (0, 15),
    "int8": (-128, 127),
    "uint8": (0, 255),
    "int16": (-32768, 32767),
    "uint16": (0, 65535),
}


def tally(ref: np.ndarray, cand: np.ndarray, dtype: str) -> OutputTally:
    comparer = ElementComparer(Tolerance(), dtype, dtype, ref.shape[1:], "full")
    return comparer.compare(ref, cand, np.arange(len(ref), dtype=np.int64))[0]


def count(values: np.ndarray, limit: int) -> int:
    return sum(1 for value in values.astype(np.int64).reshape(-1).tolist() if value == limit)


@given(data=st.data(), dtype=st.sampled_from(sorted(LIMITS)))
def test_counted_as_one_by_one_and_in_any_split(data: st.DataObject, dtype: str) -> None:
    low, high = LIMITS[dtype]
    values = st.sampled_from([low, low + 1, 0, 1, high - 1, high])
    shape = data.draw(st.tuples(st.integers(1, 5), st.integers(0, 4)))
    ref, cand = (
        data.draw(hnp.arrays(np.int64, shape, elements=values)).astype(numpy_dtype(dtype))
        for _ in range(2)
    )
    wanted = tuple(count(side, limit) for side in (ref, cand) for limit in (low, high))
    whole = tally(ref, cand, dtype)
    assert whole.at_limits == wanted
    cut = data.draw(st.integers(0, len(ref)))
    parts = [tally(r, c, dtype) for r, c in ((ref[:cut], cand[:cut]), (ref[cut:], cand[cut:]))]
    assert parts[0].merge(parts[1]).at_limits == parts[1].merge(parts[0]).at_limits == wanted
    assert OutputTally.from_json(whole.to_json()).at_limits == wanted


def test_the_figures_name_both_sides() -> None:
    ref, cand = np.array([[-128, 3, 0]], np.int8), np.array([[-128, 127, 127]], np.int8)
    assert tally(ref, cand, "int8").figures()["saturated"] == {
        "ref": {"low": 1, "high": 0},
        "cand": {"low": 1, "high": 2},
    }
    assert "saturated" not in tally(ref[:, 1:], ref[:, 1:], "int8").figures()


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint64", "float32", "bool"])
def test_other_dtypes_are_not_counted(dtype: str) -> None:
    values = np.array([[0, 1]], dtype)
    assert tally(values, values, dtype).at_limits == (0, 0, 0, 0)
