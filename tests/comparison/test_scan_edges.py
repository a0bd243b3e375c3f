"""Each shortcut of the scan at the values where it would be wrong if it were a little bolder."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from paritygate.comparison import elements as comparison
from paritygate.comparison import scan
from paritygate.comparison.elements import ElementComparer
from paritygate.core.policy import Tolerance

PIECE = 8
UNIT = Fraction(2) ** 1074
FLOATS = ("float32", "float64")


@pytest.fixture(autouse=True)
def many_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few elements a stretch that a small array has many of them."""
    monkeypatch.setattr(scan, "STRETCH", PIECE)
    monkeypatch.setattr(scan, "_PART", 3 * PIECE)
    monkeypatch.setattr(comparison, "_TILE", 5 * PIECE)


def both(ref: Any, cand: Any, tolerance: Tolerance, stats: Any = "full") -> Any:
    """The tally of a scan, which has to be the one of a look at each element."""
    judge = ElementComparer(tolerance, ref.dtype.name, cand.dtype.name, ref.shape[1:], stats)
    slow, all_details = judge.compare(ref, cand, np.arange(len(ref)))
    fast, details = judge.compare(ref, cand, np.arange(len(ref)), is_lazy=True)
    assert fast.to_json() == slow.to_json()
    np.testing.assert_array_equal(details.rules, all_details.rules)
    np.testing.assert_array_equal(details.failing_elements, all_details.failing_elements)
    return fast


def assert_sums(tally: Any, ref: Any, cand: Any) -> None:
    """Sums of errors, of float64 that are exactly representable."""
    pairs = zip(ref.reshape(-1).tolist(), cand.reshape(-1).tolist(), strict=True)
    errors = [Fraction(c - r) for r, c in pairs]
    assert tally.errors.units == sum(errors) * UNIT
    assert tally.abs_errors.units == sum(map(abs, errors)) * UNIT


def noisy(seed: int, shape: tuple[int, int], dtype: str, noise: float = 1e-6) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    ref = rng.normal(size=shape)
    cand = ref * (1 + noise * rng.uniform(-1, 1, size=shape))
    return ref.astype(dtype), cand.astype(dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("width", [1, 3, 16])
def test_magnitudes_from_the_smallest_to_the_largest(dtype: str, width: int) -> None:
    form = np.finfo(dtype)
    scales = [float(form.smallest_subnormal) * 5, float(form.tiny), 2.0**-60, float(form.max) / 9]
    scales += [2.0**-1000, 2.0**500, 2.0**1000] if dtype == "float64" else [2.0**60]
    for scale, tolerance in itertools.product(scales, ((0.0, 1e-3), (1e-3, 0.0), (1e-30, 0.5))):
        ref, cand = noisy(1, (96 // width, width), "float64", 1e-2)
        with np.errstate(under="ignore"):
            ref, cand = (np.asarray(x * scale, dtype) for x in (ref, cand))
        assert_sums(both(ref, cand, Tolerance(*tolerance)), ref, cand)


@pytest.mark.parametrize("tolerance", [(0.0, 0.0), (1e-6, 0.0), (0.0, 1e-6), (1e-6, 1e-6)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_equal_values(dtype: str, tolerance: tuple[float, float]) -> None:
    ref = np.zeros((40, 2), dtype)
    ref[20:] = np.arange(40).reshape(20, 2)
    cand = np.where(ref == 0, dtype == "float32" and -ref, ref).astype(dtype)
    tally = both(ref, cand, Tolerance(*tolerance))
    assert (tally.failing_samples, tally.max_abs_error.keys) == (0, (0.0,))
    cand[33, 1] = np.nextafter(cand[33, 1], cand.dtype.type(0))
    assert both(ref, cand, Tolerance(*tolerance)).max_abs_error.ordinal == 33


def test_errors_that_grow_and_shrink_faster_than_any_guess() -> None:
    for powers in (
        [-60, 30, -60, 30],
        [0, 6, 12, 18],
        [30, 29, 28, -500],
        [-900, 900, 0, -1074 + 60],
    ):
        ref = np.zeros((4, PIECE))
        cand = np.ldexp(np.random.default_rng(2).integers(-7, 8, size=ref.shape), 0) * 1.0
        for row, power in enumerate(powers):
            cand[row] = np.ldexp(cand[row], power)
        for stats, guess in (("gate", 0), ("full", -400), ("gate", 999)):
            scan._room.guess[0] = guess
            assert_sums(both(ref, cand, Tolerance(1e300, 0.0), stats), ref, cand)


def test_what_is_left_of_a_grid_has_the_sign_of_its_error() -> None:
    for sign, part, depth in itertools.product((1, -1), (0.25, 0.75, 1.5), (46, 47, 48, 96, 98)):
        ref = np.zeros((2, PIECE))
        cand = ref.copy()
        cand[1, :3] = [3.0, sign * (2.0**-3), sign * part * 2.0**-depth]
        cand[1, 3] = sign * (1 + part * 2.0**-48)
        assert_sums(both(ref, cand, Tolerance(9.0, 0.0), "gate"), ref, cand)


def test_many_large_errors_do_not_overflow_a_piece() -> None:
    ref = np.zeros((1, 9000))
    cand = np.full_like(ref, math.nextafter(1.0, 0.0))
    cand[0, ::7] *= -1
    assert_sums(both(ref, cand, Tolerance(9.0, 0.0), "gate"), ref, cand)


@pytest.mark.parametrize("tolerance", [(4.0, 0.0), (0.0, 0.5), (1.0, 0.25)])
def test_of_equal_excesses_the_larger_error_counts_and_then_the_first(
    tolerance: tuple[float, float],
) -> None:
    atol, rtol = tolerance
    ref = np.full((6, PIECE), 4.0)
    cand = ref.copy()
    cand[1, 2] += (atol + rtol * 4.0) / 2
    cand[3, 5] = cand[1, 2]
    tally = both(ref, cand, Tolerance(*tolerance), "gate")
    assert (tally.max_excess.keys[0], tally.max_excess.ordinal) == (0.5, 1)
    if rtol > 0:
        ref[0, 0], cand[0, 0] = 800.0, 800.0 + (atol + rtol * 800.0) / 4
        ref[4, 6] = 12.0
        cand[4, 6] = 12.0 - (atol + rtol * 12.0) / 2
        tally = both(ref, cand, Tolerance(*tolerance), "gate")
        assert (tally.max_excess.keys[0], tally.max_excess.ordinal) == (0.5, 4)
    ref[5, 7], cand[5, 7] = 4.0, math.nextafter(4.0 + (atol + rtol * 4.0) / 2, 9.0)
    assert both(ref, cand, Tolerance(*tolerance), "gate").max_excess.ordinal == 5


def test_ratios_so_small_that_they_are_rounded_coarsely() -> None:
    ref = np.full((5, PIECE), 1.0)
    ref[:, 0] = 0.0
    cand = ref.copy()
    cand[1, 0], cand[2, 0], cand[3, 0] = 2.6e-310, 2.5e-310, 3.4e-310
    for atol in (1e10, 1e13, 3e14):
        both(ref, cand, Tolerance(atol, 1e-3), "gate")


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_cap_is_kept_to_the_last_step(dtype: str) -> None:
    ref = np.zeros((4, PIECE), dtype)
    cand = ref.copy()
    cand[2, 3] = 0.5
    for atol in (8.0, 0.5):
        assert both(ref, cand, Tolerance(atol, 0.0, max_abs=0.5), "gate").failing_samples == 0
        above = cand.copy()
        above[2, 3] = np.nextafter(cand[2, 3], cand.dtype.type(1))
        tally = both(ref, above, Tolerance(atol, 0.0, max_abs=0.5), "gate")
        assert tally.failing_samples == 1
        above[0, 1] = 0.75
        tally = both(ref, above, Tolerance(atol, 0.0, max_abs=0.5), "gate")
        assert tally.failing_samples == 2


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("rtol", [0.0, 0.25])
def test_one_step_beyond_the_bound_fails_after_worse_was_seen(dtype: str, rtol: float) -> None:
    ref = np.full((6, PIECE), 8 * rtol, dtype)
    cand = ref.copy()
    bound = 0.5 + rtol * 8 * rtol
    cand[0, 0] += 9.0
    cand[3, 3] += bound
    cand[4, 4] = np.nextafter(cand[3, 3], cand.dtype.type(9))
    assert both(ref, cand, Tolerance(0.5, rtol), "gate").failing_samples == 2


@pytest.mark.parametrize("dtype", FLOATS)
def test_steps_from_one_end_to_the_other_and_over_both_zeros(dtype: str) -> None:
    largest = np.finfo(dtype).max
    ref = np.array([[0.0, -0.0], [1.0, 1.0], [-1e30, 0.1], [-largest, 0.1], [-0.0, 0.1]], dtype)
    cand = np.array([[-0.0, 0.0], [-1.0, 1.5], [1e30, 0.1], [largest, 0.1], [0.0, 0.3]], dtype)
    for rows in (slice(0, 1), slice(0, 2), slice(0, 3), slice(0, 5), slice(4, 5)):
        for atol in (0.0, 0.1, float(np.float32(0.1)), 1e-46, 1e300):
            both(ref[rows], cand[rows], Tolerance(atol, 0.0))


def test_the_smallest_errors_are_not_zero() -> None:
    ref = np.zeros((3, PIECE))
    cand = ref.copy()
    cand[1] = [0.0, 5e-324, -1e-323, 2.0**-1025, 2.0**-1024, -0.0, 1e-300, 1.0]
    counts = both(ref, cand, Tolerance(2.0, 0.0)).histogram.all_counts()
    assert tuple(counts[:4]) == (18, 2, 1, 1)


@pytest.mark.parametrize("stats", ["gate", "full"])
def test_a_wide_sample_that_ends_in_nan_leaves_nothing_behind(stats: str) -> None:
    ref, cand = noisy(3, (4, 9000), "float32")
    cand[1, 8999] = math.nan
    cand[2, 4099] += 1
    tally = both(ref, cand, Tolerance(1e-6, 1e-6), stats)
    assert (tally.failing_samples, tally.failing_elements) == (2, 2)


def test_samples_of_falling_and_rising_noise_are_ranked() -> None:
    rng = np.random.default_rng(4)
    for order in (1, -1):
        ref = rng.normal(size=(40, 17))
        noise = np.geomspace(1e-8, 2.0, 40)[::order, None]
        both(ref, ref + noise * rng.normal(size=ref.shape), Tolerance(9.0, 0.0))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("low", [-1070, -600, -200, -47, -24, -23, -22, -13])
def test_products_of_numbers_far_apart_are_summed_exactly(dtype: str, low: int) -> None:
    """Whether anything can be left of two grids is proved by the smallest of the numbers."""
    rng = np.random.default_rng(5)
    info = np.finfo(dtype)
    low = max(low, int(info.minexp) + 3)
    ref = rng.uniform(1, 2, size=(4, PIECE))
    ref[:, ::3] = np.ldexp(ref[:, ::3], low)
    ref[1, 4] = 0.0
    ref = ref.astype(dtype)
    cand = (ref * (1 + 2.0**-20 * rng.uniform(-1, 1, size=ref.shape))).astype(dtype)
    cand[2, 5] = np.nextafter(ref[2, 5], ref.dtype.type(9))
    tally = both(ref, cand, Tolerance(1e300, 0.0) if dtype == "float64" else Tolerance(9.0, 0.0))
    pairs = [(float(r), float(c)) for r, c in zip(ref.flat, cand.flat, strict=True)]
    for found, terms in (
        (tally.squared_refs, [r * r for r, _ in pairs]),
        (tally.squared_errors, [(c - r) * (c - r) for r, c in pairs]),
        (tally.ref_errors, [r * (c - r) for r, c in pairs]),
    ):
        assert found.units == sum(map(Fraction, terms)) * UNIT


def test_products_of_the_smallest_numbers_are_summed_exactly() -> None:
    rng = np.random.default_rng(6)
    ref = np.ldexp(rng.uniform(1, 2, size=(4, PIECE)), -1010)
    ref[0, ::2] = 5e-324 * rng.integers(1, 9, size=PIECE // 2)
    cand = np.ldexp(rng.uniform(1, 2, size=ref.shape), 500)
    tally = both(ref, cand, Tolerance(1e300, 0.0))
    terms = [r * (c - r) for r, c in zip(ref.flat, cand.flat, strict=True)]
    assert tally.ref_errors.units == sum(map(Fraction, map(float, terms))) * UNIT
