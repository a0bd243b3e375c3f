"""Dtypes: every number of every narrow format, widened and rounded, against a decoder of bits."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import naive_formats

from paritygate.core import dtypes

NARROW = dtypes.NARROW_FLOATS


def all_codes(name: str) -> np.ndarray:
    dtype = dtypes.numpy_dtype(name)
    count = 1 << (8 * dtype.itemsize)
    return np.arange(count, dtype=f"u{dtype.itemsize}").view(dtype)


def same(found: np.ndarray, wanted: np.ndarray) -> bool:
    return bool(((found == wanted) | (np.isnan(found) & np.isnan(wanted))).all())


@pytest.mark.parametrize("name", NARROW)
def test_every_code_is_widened_exactly(name: str) -> None:
    found = dtypes.widened(all_codes(name))
    assert found.dtype == np.float32
    with np.errstate(invalid="ignore"):  # a signalling NaN
        assert same(found.astype(np.float64), np.array(naive_formats.codes(name)))
    signs = [math.copysign(1.0, v) for v in naive_formats.codes(name) if v == 0]
    assert np.signbit(found[found == 0]).tolist() == [s < 0 for s in signs]


@pytest.mark.parametrize("name", NARROW)
def test_every_number_and_everything_between_two_is_rounded_once(name: str) -> None:
    grid = np.array(naive_formats.magnitudes(name))
    middle = (grid[:-1] + grid[1:]) / 2  # exact: one more bit than the format has
    even = np.where(np.arange(1, len(grid)) % 2 == 0, grid[1:], grid[:-1])
    for sign in (1.0, -1.0):
        assert same(dtypes.rounded(sign * grid, name), sign * grid)
        assert same(dtypes.rounded(sign * middle, name), sign * even)
        single = (sign * middle).astype(np.float32)
        assert same(single.astype(np.float64), sign * middle)
        assert same(dtypes.rounded(single, name), sign * even)
        assert same(dtypes.rounded(sign * np.nextafter(middle, 0), name), sign * grid[:-1])
        assert same(dtypes.rounded(sign * np.nextafter(middle, np.inf), name), sign * grid[1:])


@pytest.mark.parametrize("name", NARROW)
@given(value=st.floats(), scale=st.sampled_from([1.0, 2.0**-1000, 2.0**-40]))
def test_any_float64_is_rounded_as_the_oracle_does(name: str, value: float, scale: float) -> None:
    value *= scale
    found = dtypes.rounded(np.array([value]), name)
    assert same(found, np.array([naive_formats.round_to(name, value)])), (name, value)


@pytest.mark.parametrize("name", NARROW)
@given(value=st.floats(width=32), scale=st.sampled_from([1.0, 2.0**-40, 2.0**-140]))
def test_any_float32_is_rounded_as_the_oracle_does(name: str, value: float, scale: float) -> None:
    single = np.array([value], np.float32) * np.float32(scale)
    found = dtypes.rounded(single, name)
    assert same(found, np.array([naive_formats.round_to(name, float(single[0]))])), (name, value)


def test_a_float64_is_not_rounded_twice_on_its_way_to_bfloat16() -> None:
    value = np.array([1 + 2.0**-8 + 2.0**-40])
    assert value.astype(ml_dtypes.bfloat16).astype(float)[0] == 1.0, "no longer by way of float32"
    assert dtypes.rounded(value, "bfloat16")[0] == 1 + 2.0**-7


@pytest.mark.parametrize("name", [*NARROW, "float32"])
def test_overflow_is_the_first_number_that_does_not_fit(name: str) -> None:
    form = dtypes.float_format(name)
    if name != "float32":
        assert form.largest == naive_formats.magnitudes(name)[-1]
    assert not math.isfinite(naive_round(name, form.overflow))
    assert naive_round(name, math.nextafter(form.overflow, 0)) == form.largest


def naive_round(name: str, value: float) -> float:
    if name == "float32":
        with np.errstate(over="ignore"):
            return float(np.float32(value))
    return naive_formats.round_to(name, value)


@pytest.mark.parametrize("outer", NARROW)
@pytest.mark.parametrize("inner", NARROW)
def test_a_format_holds_another_exactly_if_it_has_each_of_its_values(
    outer: str, inner: str
) -> None:
    have = set(map(repr, naive_formats.codes(outer)))
    want = {repr(0.0 if v == 0 else v) for v in naive_formats.codes(inner)}
    holds = dtypes.float_format(outer).holds(dtypes.float_format(inner))
    assert holds == (want <= have | {"nan"})


@pytest.mark.parametrize("name", dtypes.DTYPES)
def test_names_and_dtypes_are_one_to_one(name: str) -> None:
    dtype = dtypes.numpy_dtype(name)
    assert dtypes.dtype_name(dtype) == name
    assert dtypes.zeros((2, 3), name).dtype == dtype
    assert dtypes.zeros((2, 3), name).shape == (2, 3)
    assert dtypes.dtype_name(np.dtype("complex64")) == "complex64"


@pytest.mark.parametrize("name", dtypes.INTEGERS)
def test_integers_are_widened_with_their_sign(name: str) -> None:
    low, high = dtypes.limits_of(name)
    bits = {"int4": 4, "uint4": 4}.get(name) or 8 * np.dtype(name).itemsize
    assert (low, high) == ((0, 2**bits - 1) if name[0] == "u" else (-(2 ** (bits - 1)), -low - 1))
    values = [low, high, 0, 1]
    array = np.array(values, dtypes.worked_in(name)).astype(dtypes.numpy_dtype(name))
    assert dtypes.widened(array).tolist() == values


def test_texts_start_empty() -> None:
    assert dtypes.zeros((2,), "string").tolist() == ["", ""]
