"""Pairs of any dtypes, in Numba's simulator of a GPU."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numba import cuda
from tests.gpu.dtypes import FLOAT_PAIRS, LONG_PAIRS, SMALL_PAIRS, a_pair
from tests.gpu.equality import check, comparers_of

from paritygate.comparison.device_sides import form_of, side_of, wide_of
from paritygate.core.dtypes import (
    NARROW_FLOATS,
    limits_of,
    numpy_dtype,
    widened,
)
from paritygate.core.policy import Tolerance
from paritygate.gpu import sides, widen

QUICK = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40
)


@QUICK
@given(
    FLOAT_PAIRS,
    st.sampled_from([1, 5, 16]),
    st.integers(0, 2**32),
    st.sampled_from(["fail", "match"]),
    st.sampled_from(["gate", "full"]),
)
def test_floats_of_any_two_dtypes_are_compared_as_on_the_cpu(
    monkeypatch: pytest.MonkeyPatch,
    names: tuple[str, str],
    width: int,
    seed: int,
    nonfinite: Any,
    stats: str,
) -> None:
    rng = np.random.default_rng(seed)
    ref, cand, tolerance = a_pair(rng, names, (64 // width, width), nonfinite)
    with monkeypatch.context() as changed:
        changed.setattr(sides, "PIECE", int(rng.choice([24, 1 << 24])))
        check(ref, cand, tolerance, range(3, 3 + len(ref)), [seed % 9], stats, names)


@QUICK
@given(
    SMALL_PAIRS,
    st.sampled_from([1, 5, 16]),
    st.integers(0, 2**32),
    st.sampled_from(["gate", "full"]),
)
def test_integers_of_up_to_32_bits_are_compared_as_on_the_cpu(
    names: tuple[str, str], width: int, seed: int, stats: str
) -> None:
    rng = np.random.default_rng(seed)
    ref, cand, tolerance = a_pair(rng, names, (64 // width, width))
    ordinals = rng.permutation(len(ref))
    check(ref, cand, tolerance, ordinals, [seed % 9], stats, names)


def test_bools_are_equal_or_not() -> None:
    rng = np.random.default_rng(4)
    ref = rng.integers(0, 3, (40, 3), dtype=np.uint8).view(np.bool_)
    cand = rng.integers(0, 2, (40, 3), dtype=np.uint8).view(np.bool_)
    for stats in ("gate", "full"):
        check(ref, cand, Tolerance(0.0, 0.0), range(40), [7], stats, ("bool", "bool"))


@pytest.mark.parametrize("name", NARROW_FLOATS)
def test_every_number_of_a_narrow_float_is_read(name: str) -> None:
    dtype = numpy_dtype(name)
    bits = np.arange(1 << (8 * dtype.itemsize), dtype=f"u{dtype.itemsize}")
    bits = bits[:: 7 if len(bits) > 256 else 1]
    form, read = form_of(name), widen.number_of.fn  # type: ignore[attr-defined]
    found = [read(k, form) for k in bits.tolist()]
    with np.errstate(invalid="ignore"):  # a signalling NaN
        wanted = bits.view(dtype).astype(np.float64)
    np.testing.assert_array_equal(found, wanted)
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(np.signbit(found)[finite], np.signbit(wanted)[finite])


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float8_e5m2", "int4", "bool"])
def test_arrays_of_a_device_hold_the_bits_of_what_it_has_no_name_for(name: str) -> None:
    rng = np.random.default_rng(5)
    ref = np.abs(rng.normal(size=(9, 4)) * 3).astype(np.int8).astype(numpy_dtype(name))
    cand = ref.copy()
    cand[4, 1] = 1 if cand[4, 1] == 0 else 0
    device, host = comparers_of((name, name), Tolerance(0.0, 0.0), (4,), "full")
    kept = side_of(name).stored
    left, right = (
        cuda.to_device(widened(side) if name == "int4" else side.view(kept)) for side in (ref, cand)
    )
    found, detail = device.compare(left, right, range(9))
    assert found == host.compare(ref, cand, np.arange(9))[0]
    device.look_at(detail, np.arange(9), left, right)
    assert detail.worst.of(np.array([4])).index.tolist() == [1]


def test_widened_pieces_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    real = sides.cuda.device_array
    monkeypatch.setattr(sides, "PIECE", 10)
    monkeypatch.setattr(
        sides.cuda, "device_array", lambda size, dtype: made.append(size) or real(size, dtype)
    )
    ref = np.ones((30, 3), ml_dtypes.bfloat16)
    device, _ = comparers_of(("bfloat16", "bfloat16"), Tolerance(0.0, 0.0), (3,), "gate")
    assert device.compare(ref, ref, range(30))[0].samples == 30
    assert [size for size in made if size == 9] == [9, 9]
    assert 90 not in made


@pytest.mark.parametrize(
    ("pair", "wide"),
    [
        (("float16", "float8_e5m2"), "float32"),
        (("float32", "bfloat16"), "float32"),
        (("float16", "float64"), "float64"),
        (("int8", "int16"), "float32"),
        (("uint32", "uint4"), "float64"),
        (("bool", "bool"), "float32"),
        (("int8", "int64"), "int64"),
        (("uint64", "uint8"), "uint64"),
    ],
)
def test_both_sides_are_compared_in_what_holds_them(pair: tuple[str, str], wide: str) -> None:
    assert wide_of(*pair).name == wide


@QUICK
@given(
    LONG_PAIRS,
    st.sampled_from([1, 5]),
    st.integers(0, 2**32),
    st.sampled_from(["gate", "full"]),
)
def test_integers_of_64_bits_are_compared_as_on_the_cpu(
    names: tuple[str, str], width: int, seed: int, stats: str
) -> None:
    rng = np.random.default_rng(seed)
    ref, cand, tolerance = a_pair(rng, names, (60 // width, width))
    ordinals = rng.permutation(len(ref)) if rng.random() < 0.5 else range(9, 9 + len(ref))
    check(ref, cand, tolerance, ordinals, [seed % 9], stats, names)


@pytest.mark.parametrize("name", ["int64", "uint64"])
def test_differences_that_float64_can_not_tell_apart_are_exact(name: str) -> None:
    low, high = limits_of(name)
    ref = np.array([[low], [low], [0], [0]], name)
    cand = np.array([[high - 1], [high], [2**53], [2**53 + 1]], name)
    for atol in (0.0, 2.0**53):
        check(ref, cand, Tolerance(atol, 0.0), range(4), [1], "full", (name, name))
    device, _ = comparers_of((name, name), Tolerance(2.0**53, 0.0), (1,), "gate")
    found, detail = device.compare(ref, cand, range(4))
    assert found.max_abs_error is not None
    assert (found.max_abs_error.value, found.max_abs_error.ordinal) == (high - low, 1)
    assert detail.rows.tolist() == [0, 1, 3]


@pytest.mark.parametrize("step", [1, -1])
def test_of_equal_excesses_of_a_sample_the_exactly_largest_difference_is_kept(step: int) -> None:
    cand = (np.array([[2**60 + k for k in range(16)]], np.int64))[:, ::step].copy()
    for tolerance in (Tolerance(0.0, 0.0), Tolerance(1.0, 0.0)):
        check(np.zeros_like(cand), cand, tolerance, range(1), [], "gate", ("int64", "int64"))
