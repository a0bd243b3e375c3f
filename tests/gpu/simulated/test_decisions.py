"""Decisions in Numba's simulator of a GPU."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.gpu.deciding import BANDS, FLOATS, SPECIAL, TOLERANCES, cases, check

from paritygate.comparison.decisions import DecisionComparer
from paritygate.comparison.decisions_on_device import DeviceDecisions
from paritygate.core.bands import parse_bands
from paritygate.core.dtypes import (
    NARROW_FLOATS,
    element_bytes,
    float_format,
    numpy_dtype,
    rounded,
    widened,
)
from paritygate.core.policy import DecisionRule, Tolerance
from paritygate.gpu import convert, decided, kinds, tally
from paritygate.gpu.decided import DecisionsTally
from paritygate.gpu.device import THREADS, cuda

QUICK = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50
)
CUTS = st.lists(st.integers(0, 100), max_size=2)
KINDS = ("bands", "argmax", "topk")
MIXED = (
    *(("float32", "float64"), ("float64", "float32"), ("float16", "bfloat16")),
    *(("bfloat16", "bfloat16"), ("float16", "float8_e5m2"), ("float32", "float16")),
    *(("float16", "float32"), ("bfloat16", "float64"), ("float8_e4m3fn", "float32")),
)
WHOLE = (
    *(("int8", "int8"), ("int4", "uint8"), ("bool", "bool"), ("int32", "uint32")),
    *(("int64", "int64"), ("uint64", "int64"), ("int64", "int16"), ("uint16", "uint16")),
)
ARGMAX = DecisionRule("d", "s", argmax=True)
EXACT = Tolerance()


def ordinals_of(samples: int, seed: int) -> Any:
    if seed % 2 == 0:
        return range(7, 7 + samples)
    return np.random.default_rng(seed).permutation(3 * samples)[:samples]


@pytest.mark.parametrize("kind", KINDS)
@QUICK
@given(st.data(), st.sampled_from(FLOATS), CUTS, st.integers(0, 2**32))
def test_batches_decide_what_the_cpu_decides(
    kind: str, data: st.DataObject, dtype: str, cuts: list[int], seed: int
) -> None:
    case = data.draw(cases(kind, (dtype, dtype)))
    check(case, ordinals_of(len(case["ref"]), seed), cuts)


@pytest.mark.parametrize("tolerance", TOLERANCES)
@pytest.mark.parametrize("kind", KINDS)
def test_pairs_of_special_scores_are_decided_as_on_the_cpu(kind: str, tolerance: Tolerance) -> None:
    pairs = np.array([*product(sorted(set(SPECIAL)), repeat=2)]).astype(np.float32)
    rules = {
        "bands": DecisionRule("d", "s", bands=parse_bands(BANDS[2])),
        "argmax": ARGMAX,
        "topk": DecisionRule("d", "s", topk=2, order="ranked"),
    }
    ref, cand = pairs, np.roll(pairs, 5, axis=0)
    if kind == "bands":
        ref, cand = pairs[:, 0], pairs[:, 1]
    case = {"rule": rules[kind], "tolerance": tolerance, "stats": "full", "labelled": True}
    check({**case, "ref": ref, "cand": cand}, range(len(pairs)), [])


def test_a_band_of_more_scores_than_a_byte_counts_is_counted() -> None:
    ref = np.full(2 * THREADS * 300, 0.9, np.float32)
    rule = DecisionRule("d", "s", bands=parse_bands(BANDS[1]))
    given = {"rule": rule, "tolerance": EXACT, "stats": "gate", "labelled": False}
    check({**given, "ref": ref, "cand": ref}, range(len(ref)), [])


@pytest.mark.parametrize(
    "dtypes", [("float16", "float16"), ("int32", "int64"), ("bfloat16", "float32")]
)
def test_two_threads_convert_scores_in_room_of_their_own(
    dtypes: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    monkeypatch.setattr(DecisionsTally, "add", lambda self, sides, *_: given.append(sides))
    rule = DecisionRule("d", "s", argmax=True, compare_as="float64")
    comparer = DeviceDecisions(rule, EXACT, *dtypes, (3,), "gate")
    ref, cand = (np.ones((2, 3), numpy_dtype(dtype)) for dtype in dtypes)
    for deciding in (comparer.begin(), comparer.begin()):
        deciding.add(ref, cand, range(2))
    for ours, theirs in zip(*(sides[:4] for sides in given), strict=True):
        assert not np.shares_memory(ours._ary, theirs._ary)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int64"])
def test_scores_of_another_byte_order_are_decided(dtype: str) -> None:
    ref = np.array([[1, 2, 0], [5, 3, 4]], dtype)
    given = ARGMAX, EXACT, dtype, dtype, (3,), "full"
    swapped = ref.astype(ref.dtype.newbyteorder(">"))
    found, _ = DeviceDecisions(*given).compare_lazily(swapped, ref[::-1], range(2))
    assert found == DecisionComparer(*given).compare(swapped, ref[::-1], np.arange(2))[0]


@settings(QUICK, max_examples=60)
@given(st.data(), st.sampled_from(KINDS), st.sampled_from(MIXED + WHOLE))
def test_other_dtypes_decide_what_the_cpu_decides(
    data: st.DataObject, kind: str, dtypes: tuple[str, str]
) -> None:
    case = data.draw(cases(kind, dtypes))
    check(case, range(len(case["ref"])), [5])


@settings(QUICK, max_examples=30)
@given(st.data(), st.sampled_from(KINDS), CUTS, st.integers(0, 2**32))
def test_little_room_and_many_blocks_change_nothing(
    monkeypatch: pytest.MonkeyPatch, data: st.DataObject, kind: str, cuts: list[int], seed: int
) -> None:
    case = data.draw(cases(kind, ("float32", "float32")))
    with monkeypatch.context() as changed:
        changed.setattr(decided, "_ROOM", 1)
        changed.setattr(kinds, "_SCRATCH", 1)
        changed.setattr(tally, "_SIMULATED_BLOCKS", 9)
        check(case, ordinals_of(len(case["ref"]), seed), cuts)


@pytest.mark.parametrize(
    ("rule", "dtypes", "message"),
    [
        (DecisionRule("d", "s", equal=True), FLOATS[:1] * 2, "as they are, not equal; decide"),
        (
            DecisionRule("d", "s", argmax=True, transform="softmax"),
            FLOATS[:1] * 2,
            "argmax and topk of scores as they are, not scores after softmax; decide it on the CPU",
        ),
    ],
)
def test_what_a_device_does_not_decide_is_said(
    rule: DecisionRule, dtypes: tuple[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        DeviceDecisions(rule, EXACT, *dtypes, (4,), "gate")


def deciding(shape: tuple[int, ...] = (4,), rule: DecisionRule = ARGMAX) -> Any:
    return DeviceDecisions(rule, EXACT, "float32", "float32", shape, "gate").begin()


def test_arrays_that_were_not_announced_are_refused() -> None:
    good = np.zeros((2, 4), np.float32)
    with pytest.raises(ValueError, match=r"ref is float64\[2, 4\], announced was float32\[2, 4\]"):
        deciding().add(good.astype(np.float64), good, range(2))
    with pytest.raises(ValueError, match=r"cand is float32\[1, 4\], announced was float32\[2, 4\]"):
        deciding().add(good, good[:1], range(2))
    with pytest.raises(ValueError, match="3 labels for 2 samples"):
        deciding().add(good, good, range(2), np.zeros(3, np.int64))
    with pytest.raises(ValueError, match="allowed is a range of step 1"):
        deciding().add(good, good, range(0, 4, 2))


def test_too_many_scores_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from paritygate.comparison import decisions_on_device

    monkeypatch.setattr(decisions_on_device, "MOST", 7)
    good = np.zeros((2, 4), np.float32)
    with pytest.raises(ValueError, match="ref has 8 elements, at most 7 are decided at once"):
        deciding().add(good, good, range(2))


@pytest.mark.parametrize("dtype", NARROW_FLOATS)
def test_values_are_rounded_as_on_the_cpu(dtype: str) -> None:
    size = element_bytes(dtype)
    codes = np.arange(1 << (8 * size), dtype=f"u{size}")
    with np.errstate(invalid="ignore"):  # a signalling NaN
        numbers = widened(codes.view(numpy_dtype(dtype))).astype(np.float64)
    numbers = np.unique(numbers[np.isfinite(numbers)])
    some = np.random.default_rng(1).integers(0, numbers.size - 1, 60)
    near = np.concatenate((some, numbers.size - np.arange(2, 5)))
    ties = (numbers[near] + numbers[near + 1]) / 2
    beyond = 1.5 * numbers[-1] - numbers[-2] / 2  # a tie with what would follow the largest
    ties = np.array([*ties, beyond, -beyond, 5e-324, 0.0, -0.0, 1e300, np.nan, np.inf, -np.inf])
    values = np.concatenate((ties, np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf)))
    form = float_format(dtype)
    past = np.inf if form.has_infinity else np.nan
    out = cuda.to_device(np.empty(values.size, np.float32))
    given = convert.Format(form.mantissa, form.min_exponent, form.largest, past)
    convert.round_off[2, THREADS](cuda.to_device(values), given, out)
    np.testing.assert_array_equal(out.copy_to_host(), rounded(values, dtype))
