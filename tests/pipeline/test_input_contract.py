"""Compiled contracts against brute force: every dtype, any channel axis, any layout of bounds."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import naive_contract as naive

from paritygate.core.tables import InputTable
from paritygate.core.tensors import ColumnSpec
from paritygate.pipeline import input_contract
from paritygate.pipeline.contract import make_contract
from paritygate.pipeline.input_contract import InputContract

FLOATS = ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float32", "float64"]
INTEGERS = ["int4", "uint4", "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"]
ODD = [
    math.nan,
    math.inf,
    -math.inf,
    0.0,
    -0.0,
    1.0,
    -1.0,
    3.4028234663852886e38,
    1e-45,
    0.1,
    57344,
]
BOUND = st.one_of(
    st.integers(-5, 5),
    st.floats(-3, 3),
    st.sampled_from([0.1, 1e300, -1e300, 2**70, -(2**70), 2**63 - 1, 2**53 + 1, 10**400, 65504]),
)


def dtype_of(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def exact(array: np.ndarray) -> np.ndarray:
    """Numbers that `item` turns into Python's, without rounding."""
    if array.dtype.name in ("int4", "uint4"):
        return array.astype(np.int64)
    is_narrow = array.dtype.name == "bfloat16" or array.dtype.name.startswith("float8")
    return array.astype(np.float32) if is_narrow else array


def contract_of(
    dtype: str, shape: tuple[int, ...], pairs: list[Any], axis: int | None
) -> InputContract:
    table: dict[str, Any] = {}
    if pairs:
        table["range"] = pairs if len(pairs) > 1 else pairs[0]
    if axis is not None:
        names = [f"a{i}" for i in range(len(shape))]
        names[axis] = "channel"
        table["axes"] = ["sample", *names]
    return make_contract("x", InputTable.model_validate(table), ColumnSpec("x", dtype, shape))


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, np.ndarray, list[Any], int | None]:
    dtype = draw(st.sampled_from([*FLOATS, *INTEGERS, "bool"]))
    shape = tuple(draw(st.lists(st.integers(1, 4), max_size=3)))
    rows = draw(st.integers(1, 5))
    size = rows * math.prod(shape)
    if dtype in FLOATS:
        some = st.one_of(st.floats(-4, 4, width=16), st.sampled_from(ODD))
    elif dtype == "bool":
        some = st.booleans()
    else:
        info = ml_dtypes.iinfo(dtype_of(dtype))
        some = st.one_of(
            st.integers(max(-6, int(info.min)), 6), st.integers(int(info.min), int(info.max))
        )
    values = draw(st.lists(some, min_size=size, max_size=size))
    with np.errstate(all="ignore"):
        array = np.array(values, None if dtype in FLOATS else dtype_of(dtype)).astype(
            dtype_of(dtype)
        )
    axis = draw(st.one_of(st.none(), st.integers(0, len(shape) - 1))) if shape else None
    channels = shape[axis] if axis is not None else 1
    count = draw(st.sampled_from(sorted({0, 1, channels})))
    pairs = [sorted(draw(st.tuples(BOUND, BOUND))) for _ in range(count)]
    if channels == 1 and count:
        pairs = pairs[:1]
    return dtype, array.reshape(rows, *shape), pairs, axis


@settings(deadline=None, max_examples=400)
@given(cases(), st.sampled_from([(8_192, 1_024, 8_192), (4, 3, 2), (1, 1, 1)]))
def test_equals_brute_force(case: Any, sizes: tuple[int, int, int]) -> None:
    dtype, array, pairs, axis = case
    before = input_contract._TILE, input_contract._LEAST_TILE, input_contract._RUN
    input_contract._TILE, input_contract._LEAST_TILE, input_contract._RUN = sizes
    try:
        found = contract_of(dtype, array.shape[1:], pairs, axis).check(array)
    finally:
        input_contract._TILE, input_contract._LEAST_TILE, input_contract._RUN = before
    expected = naive.violations(exact(array), pairs, axis)
    assert (found is None) is (not expected)
    assert (list(found.each()) if found is not None else []) == expected


@pytest.mark.parametrize("width", [1, 2, 3, 1000, 1025, 20_000])
@pytest.mark.parametrize("at", [0, 1, 1023, 1024, 5000, -1])
def test_one_bad_element_anywhere_is_found(width: int, at: int) -> None:
    array = np.zeros((max(2, 20_000 // width), width), np.float32)
    contract = contract_of("float32", (width,), [[-1, 1]] * width, 0)
    assert contract.check(array) is None
    place = at % array.size
    array.reshape(-1)[place] = np.nan
    assert list(contract.check(array).each()) == [(place // width, place % width, 1)]


@pytest.mark.parametrize("axis", [0, 1])
def test_long_runs_of_a_channel(axis: int) -> None:
    shape = (3, 9000) if axis == 0 else (9000, 3)
    pairs = [[0, 1], [10, 11], [20, 21]]
    array = np.empty((2, *shape), np.float64)
    for channel, (low, _) in enumerate(pairs):
        np.moveaxis(array, axis + 1, 0)[channel] = low
    contract = contract_of("float64", shape, pairs, axis)
    assert contract.check(array) is None
    np.moveaxis(array, axis + 1, 1)[1, 2, 8999] = 10
    index = 2 * 9000 + 8999 if axis == 0 else 8999 * 3 + 2
    assert list(contract.check(array).each()) == [(1, index, 1)]
    told = contract.describe(array[1], index, 1)
    assert (told.low, told.high, told.value) == (20, 21, 10.0)


@pytest.mark.parametrize(
    ("table", "dtype", "value", "told"),
    [
        (
            {"range": [[0, 50], [-40, 200]], "channels": ["vibration", "temperature"],
             "units": ["mm/s", "degC"]},
            "float32", [1, 512.3],
            "input 'x', channel 'temperature' (degC): 512.3 is above 200",
        ),
        ({"range": [0, 0.1], "units": "m"}, "float32", [0.1, 0],
         "input 'x' (m), element 0: 0.10000000149011612 is above 0.1"),
        ({}, "float16", [np.nan, np.inf],
         "input 'x', element 0: nan, where a finite number is demanded, and 1 more"),
        ({"range": [-(2**53), 0]}, "int64", [0, -(2**53) - 1],
         "input 'x', element 1: -9007199254740993 is below -9007199254740992"),
    ],
)  # fmt: skip
def test_in_words(table: dict[str, Any], dtype: str, value: list[Any], told: str) -> None:
    contract = make_contract("x", InputTable.model_validate(table), ColumnSpec("x", dtype, (2,)))
    array = np.array([value], dtype)
    ((_, first, count),) = contract.check(array).each()
    assert str(contract.describe(array[0], first, count)) == told


def test_bounds_laid_out_for_many_lengths_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_contract, "_MOST_TILES", 3)
    table = InputTable.model_validate(
        {"range": [[0, 1], [2, 3]], "axes": ["sample", "channel", "time"]}
    )
    contract = make_contract("x", table, ColumnSpec("x", "float32", (2, None)))
    for length in range(1, 40):
        array = np.stack([np.zeros(length, np.float32), np.full(length, 2, np.float32)])[None]
        assert contract.check(array) is None
        array[0, 1, -1] = 1
        assert list(contract.check(array).each()) == [(0, 2 * length - 1, 1)]
        assert len(contract._tiles) <= 3
