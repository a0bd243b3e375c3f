"""Clean stretches of every dtype and pair: the same bits as element by element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paritygate.comparison import elements as comparison
from paritygate.comparison import scan
from paritygate.comparison.elements import ElementComparer
from paritygate.core.dtypes import NARROW_FLOATS, limits_of, numpy_dtype
from paritygate.core.policy import Tolerance

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
INTEGER_PAIRS = (
    *((name, name) for name in (*INTEGERS, "int4", "uint4", "bool")),
    *(("int8", "int32"), ("uint64", "uint8"), ("int4", "int8"), ("uint16", "uint32")),
)
FLOAT_PAIRS = (
    *((name, name) for name in NARROW_FLOATS),
    *(("float32", "float16"), ("float64", "float32"), ("float16", "float32")),
    *(("float8_e5m2", "float8_e4m3fn"), ("float64", "bfloat16")),
)
SPECIAL = (0.0, -0.0, 1.0, -1.0, 1e-40, 6e-8, 65504.0, 448.0, -57344.0, 3.3e38, 2.0**-9)
BROKEN = (float("nan"), float("inf"), float("-inf"))
TIERS: Any = ["gate", "full"]
ATOLS = (0.0, 1.0, 2.5, 300.0, 2.0**30, 2.0**50, 1e300)


@pytest.fixture(autouse=True)
def many_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few elements a stretch that a small array has many of them."""
    monkeypatch.setattr(scan, "STRETCH", 8)
    monkeypatch.setattr(comparison, "_TILE", 40)


def assert_same(judge: ElementComparer, ref: Any, cand: Any, ordinals: Any) -> None:
    """Both ways count and find the same, sample by sample."""
    slow, all_details = judge.compare(ref, cand, ordinals)
    fast, details = judge.compare(ref, cand, ordinals, is_lazy=True)
    assert fast.to_json() == slow.to_json()
    np.testing.assert_array_equal(details.rules, all_details.rules)
    np.testing.assert_array_equal(details.failing_elements, all_details.failing_elements)


def integers(draw: st.DrawFn, name: str, other: str, count: int) -> tuple[Any, Any]:
    """Values of both sides in Python's integers, alike in most places."""
    lows, highs = zip(
        *(limits_of(n) if n != "bool" else (0, 1) for n in (name, other)), strict=True
    )
    low, high = max(lows), min(highs)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    reach = draw(st.sampled_from([3, 100, 10**6, 2**40, 2**64]))
    middle = draw(st.sampled_from([0, low, high]))
    values = [middle + int((rng.random() - 0.5) * 2 * reach) for _ in range(count)]
    spread = draw(st.sampled_from([0, 1, 2, 20, 5000, 2**27, 2**40, 2**60]))
    near = [
        v + int(n) for v, n in zip(values, rng.integers(-spread, spread + 1, count), strict=True)
    ]
    for at in draw(st.lists(st.integers(0, count - 1), max_size=3)):
        values[at] = draw(st.sampled_from([low, high, 0, low + 1]))
        near[at] = draw(st.sampled_from([low, high, values[at]]))
    sides = [[min(max(v, low), high) for v in side] for side in (values, near)]
    return tuple(
        np.array(side, object).astype(np.int64 if low < 0 else np.uint64).astype(numpy_dtype(n))
        for side, n in zip(sides, (name, other), strict=True)
    )


@st.composite
def integer_cases(draw: st.DrawFn, name: str, other: str) -> tuple[Any, ...]:
    width = draw(st.sampled_from([1, 2, 3, 16, 45]))
    count = draw(st.integers(1, 180 // width + 1))
    ref, cand = integers(draw, name, other, count * width)
    is_exact = name == "bool"
    tolerance = Tolerance(
        atol=0.0 if is_exact else draw(st.sampled_from(ATOLS)),
        rtol=0.0 if is_exact else draw(st.sampled_from([0.0, 0.0, 1e-6, 0.01, 0.5])),
        max_abs=draw(st.sampled_from([None, None, 3.0, 1e6])),
        max_outlier_fraction=draw(st.sampled_from([0.0, 0.3])),
    )
    judge = ElementComparer(tolerance, name, other, (width,), draw(st.sampled_from(TIERS)))
    return judge, ref.reshape(count, width), cand.reshape(count, width)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "other"), INTEGER_PAIRS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_scan_of_integers_counts_what_a_look_at_each_counts(
    name: str, other: str, data: st.DataObject
) -> None:
    judge, ref, cand = data.draw(integer_cases(name, other))
    assert_same(judge, ref, cand, np.arange(len(ref)) * 3 + 5)


@st.composite
def float_cases(draw: st.DrawFn, name: str, other: str) -> tuple[Any, ...]:
    width = draw(st.sampled_from([1, 2, 3, 19, 45]))
    count = draw(st.integers(1, 180 // width + 1))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    scale = draw(st.sampled_from([1.0, 1.0, 2.0**-9, 100.0, 1e-20, 1e30]))
    spread = draw(st.sampled_from([0.0, 0.0, 3.0, 12.0]))
    steps = 2.0 ** -draw(st.sampled_from([2, 3, 7, 9, 10, 11]))
    with np.errstate(all="ignore"):
        ref = (
            rng.normal(size=count * width) * scale * np.exp(rng.normal(size=count * width) * spread)
        )
        if draw(st.booleans()):
            ref = rng.choice(ref[:5], ref.size)  # so that extremes tie
        ref = ref.astype(numpy_dtype(name))
        noise = rng.integers(-2, 3, ref.size) * draw(st.sampled_from([0.0, 1.0])) * steps
        cand = (ref.astype(np.float64) * (1 + noise)).astype(numpy_dtype(other))
        for _ in range(draw(st.integers(0, 6))):
            at = draw(st.integers(0, ref.size - 1))
            pool = SPECIAL + BROKEN if draw(st.booleans()) else SPECIAL
            ref[at] = draw(st.sampled_from(pool))
            cand[at] = ref[at] if draw(st.booleans()) else draw(st.sampled_from(pool))
    tolerance = Tolerance(
        atol=draw(st.sampled_from([0.0, 1e-6, 0.01, 1.0, 1e300])),
        rtol=draw(st.sampled_from([0.0, 1e-6, 1e-2, 0.3, 0.999])),
        nonfinite=draw(st.sampled_from(["fail", "match"])),
        max_abs=draw(st.sampled_from([None, None, 1e-3, 5.0])),
        max_outlier_fraction=draw(st.sampled_from([0.0, 0.3])),
    )
    judge = ElementComparer(tolerance, name, other, (width,), draw(st.sampled_from(TIERS)))
    return judge, ref.reshape(count, width), cand.reshape(count, width)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "other"), FLOAT_PAIRS)
@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_a_scan_of_floats_counts_what_a_look_at_each_counts(
    name: str, other: str, data: st.DataObject
) -> None:
    judge, ref, cand = data.draw(float_cases(name, other))
    assert_same(judge, ref, cand, np.arange(len(ref)) * 3 + 5)


@pytest.mark.parametrize("name", ["int8", "int16"])
@pytest.mark.parametrize("stats", TIERS)
def test_stretches_of_many_elements_and_of_the_largest_errors_are_summed(
    name: str, stats: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than narrow sums hold, in each direction."""
    monkeypatch.setattr(scan, "STRETCH", 10_000)
    monkeypatch.setattr(comparison, "_TILE", 10_000)
    low, high = limits_of(name)
    for error in (0, 7, 15, 16, high, high - low):
        ref = np.full((3, 10_000), low, np.int64)
        cand = ref + error
        cand[1], ref[1] = ref[1].copy(), cand[1].copy()
        cand[2, ::7], ref[2, 3] = high, high
        sides = ref.astype(name), cand.astype(name)
        judge = ElementComparer(Tolerance(2.0**17, 0.0), name, name, (10_000,), stats)
        assert_same(judge, *sides, np.arange(3))
        tally, _ = judge.compare(*sides, np.arange(3), is_lazy=True)
        assert tally.errors.units >> 1074 == int((cand - ref).sum())
        assert tally.abs_errors.units >> 1074 == int(np.abs(cand - ref).sum())
        assert tally.at_limits == tuple(
            int((side == limit).sum()) for side in sides for limit in (low, high)
        )


def stretches(name: str, tolerance: Tolerance, *pairs: tuple[float, float]) -> None:
    """One pair a stretch of equal elements; both ways must find the same."""
    ref, cand = (np.repeat(np.array(side), 8).reshape(-1, 8) for side in zip(*pairs, strict=True))
    judge = ElementComparer(tolerance, name, name, (8,), "gate")
    dtype = numpy_dtype(name)
    assert_same(judge, ref.astype(dtype), cand.astype(dtype), np.arange(len(pairs)))


@pytest.mark.parametrize("name", ["float16", "int16"])
def test_what_outranks_the_worst_so_far_is_noticed(name: str) -> None:
    """A larger error of a smaller excess; the same error at a smaller reference; a failing one."""
    both = Tolerance(1.0, 0.5)
    stretches(name, both, (8, 12), (1000, 1100), (6, 10))
    stretches(name, both, (8, 12), (4, 7), (100, 155), (100, 152), (100, 151))


def test_errors_of_too_many_units_are_left_to_others() -> None:
    tiny = 2.0**-30
    stretches("bfloat16", Tolerance(2.0, 0.0), (1.0, 1.5), (tiny, 1.0), (-tiny, 1.0), (1.0, tiny))


def test_errors_that_float64_rounds_are_left_to_others() -> None:
    wide = np.array([[0] * 8, [1] * 8]), np.array([[2**55 + 1] * 8, [2**54 + 4] * 8])
    judge = ElementComparer(Tolerance(1e300, 0.0), "int64", "int64", (8,), "full")
    assert_same(judge, *wide, np.arange(2))


@pytest.mark.parametrize("cut", [None, 5_000])
def test_excesses_that_round_to_one_denormal_are_told_apart_by_their_errors(
    cut: int | None,
) -> None:
    dtype = numpy_dtype("bfloat16")
    ref = np.full((3 * 4096, 1), 2.0**-72, dtype)
    cand = ref.copy()
    for row, error in ((10, 2.0**-78), (9_000, 1.25 * 2.0**-78)):
        ref[row], cand[row] = 0, error
    judge = ElementComparer(Tolerance(1e300, 0.0), "bfloat16", "bfloat16", (1,), "gate")
    parts = [slice(None)] if cut is None else [slice(cut), slice(cut, None)]
    rows = np.arange(len(ref))
    first, *others = (judge.compare(ref[p], cand[p], rows[p], is_lazy=True)[0] for p in parts)
    for tally in others:
        first = first.merge(tally)
    assert first.max_excess is not None
    assert first.max_excess.ordinal == 9_000
    assert first.max_excess.keys == (1.25 * 2.0**-78 / 1e300, 1.25 * 2.0**-78)
