"""One pass for all that the tier "full" asks: at the ends of what its sums can hold."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paritygate.comparison.elements import ElementComparer
from paritygate.core.policy import Tolerance
from paritygate.kernels import one_pass
from paritygate.kernels._jit import jit

WHOLE = 4096  # elements of a piece
UNIT = 2**1074
SPECIAL = (0.0, -0.0, 1.0, -1.5, 1e-40, -1e-45, 3.4e38, -3.4e38, float("nan"), float("-inf"))


@jit
def passed(ref: Any, cand: Any, bounds: Any, grids: Any, counts: Any) -> Any:
    return one_pass.one_pass(ref, cand, bounds, grids, counts)


def judged(ref: Any, cand: Any, *, is_lazy: bool = True) -> Any:
    judge = ElementComparer(
        Tolerance(1.0, 1e-3), ref.dtype.name, ref.dtype.name, ref.shape[1:], "full"
    )
    return judge.compare(ref, cand, np.arange(len(ref)), is_lazy=is_lazy)[0]


def assert_exact(ref: Any, cand: Any) -> None:
    """Sums are those of fractions, each term rounded to a float64; all else as one by one."""
    r, c = (np.asarray(side, np.float32).reshape(-1, 1) for side in (ref, cand))
    tally = judged(r, c)
    wide = r.astype(np.float64)
    errors = c.astype(np.float64) - wide
    terms = {
        "errors": errors,
        "abs_errors": abs(errors),
        "squared_errors": errors * errors,
        "squared_refs": wide * wide,
        "ref_errors": wide * errors,
    }
    for name, values in terms.items():
        expected = sum(map(Fraction, values.reshape(-1).tolist())) * UNIT
        assert getattr(tally, name).units == expected, name
    assert tally.to_json() == judged(r, c, is_lazy=False).to_json()


def with_large_rests(depth: int) -> Any:
    """float32 below 2 whose squares lie almost half a grid of 49 bits above a multiple of it.

    All are multiples of 2^(1 - depth), one of them an odd one.
    """
    grid, values = 2.0**-47, np.random.default_rng(depth).integers(1 << 23, 1 << 24, 400_000)
    small = np.ldexp(values, -35).astype(np.float32)
    rest = small.astype(np.float64) ** 2 % grid
    kept = small[(rest > 0.47 * grid) & (rest < 0.5 * grid)][:WHOLE]
    kept[3], kept[7] = 1.5, np.ldexp(np.float32(1 + 2.0**-23), 24 - depth)
    assert len(kept) == WHOLE
    return kept


@pytest.mark.parametrize("depth", [44, 45, 46, 47])
def test_products_whose_rests_fill_a_sum(depth: int) -> None:
    """Of 2^12 terms of one sign what is left of a grid takes two digits for each of depth."""
    ref = with_large_rests(depth)
    assert_exact(ref, np.zeros(WHOLE))
    assert_exact(np.zeros(WHOLE), ref)
    assert_exact(ref, 2 * ref)
    assert_exact(ref, ref + np.float32(2.0**-20))


@pytest.mark.parametrize("depth", [40, 41, 42, 43])
def test_errors_that_fill_a_sum(depth: int) -> None:
    cand = np.full(WHOLE, 1 - 2.0**-24, np.float32)
    cand[100] = np.ldexp(np.float32(1 + 2.0**-23), 23 - depth)
    assert_exact(np.zeros(WHOLE), cand)
    assert_exact(np.zeros(WHOLE), -cand)


def test_pieces_that_grow_and_shrink() -> None:
    """Each time what was guessed of a piece is too small or too coarse."""
    scales = np.ldexp(1.0, [0, 30, -40, 60, -90, -149, 100, 0, -149, 127, -20]).repeat(WHOLE // 8)
    ref = (np.random.default_rng(3).normal(size=scales.size) * 0.1 * scales).astype(np.float32)
    assert_exact(ref, ref * np.float32(1 + 2.0**-22))


def test_a_piece_of_a_block_that_is_not_finite_is_not_counted() -> None:
    ref = np.random.default_rng(4).normal(size=5 * WHOLE).astype(np.float32)
    cand = ref * np.float32(1 + 1e-6)
    for at, value in ((10, np.nan), (2 * WHOLE + 5, np.inf), (5 * WHOLE - 1, -np.inf)):
        cand[at] = value
    r, c = ref[:, None], cand[:, None]
    assert judged(r, c).to_json() == judged(r, c, is_lazy=False).to_json()


def test_an_error_just_above_a_flat_bound_fails_after_a_larger_one() -> None:
    ref, cand = np.zeros((2, 4 * WHOLE, 1), np.float32)
    cand[5] = 2.0
    ref[3 * WHOLE], cand[3 * WHOLE] = -(2.0**-52), 1.0
    judge = ElementComparer(Tolerance(1.0, 0.0), "float32", "float32", (1,), "full")
    _, detail = judge.compare(ref, cand, np.arange(len(ref)), is_lazy=True)
    assert np.flatnonzero(detail.rules).tolist() == [5, 3 * WHOLE]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [16, 19, 300])
def test_ranked_samples_of_several_stretches(width: int, dtype: str) -> None:
    rng = np.random.default_rng(width)
    ref = rng.normal(size=(5 * WHOLE // width + 3, width)).astype(dtype)
    cand = (ref * (1 + 1e-7 * rng.normal(size=ref.shape))).astype(dtype)
    cand[-2] *= -1
    cand[9, 3] = np.nan
    tally = judged(ref, cand)
    assert tally.to_json() == judged(ref, cand, is_lazy=False).to_json()
    assert tally.worst_sqnr.ordinal == tally.worst_cosine.ordinal == len(ref) - 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_first_element_that_is_as_large_as_the_tolerance_has_its_steps(dtype: str) -> None:
    ref = np.full((WHOLE + 9, 1), 0.5, dtype)
    ref[WHOLE] = 1.0
    tally = judged(ref, ref)
    assert (tally.max_ulp_above_atol.ordinal, int(tally.max_ulp_above_atol.value)) == (WHOLE, 0)


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 20), st.integers(0, 2**32), st.booleans(), st.booleans())
def test_compiled_and_plain_passes_agree(size: int, seed: int, is_finite: bool, wide: bool) -> None:
    rng, dtype = np.random.default_rng(seed), np.float64 if wide else np.float32
    ref = (rng.normal(size=size) * np.exp(rng.normal(size=size) * 3)).astype(dtype)
    cand = (ref * (1 + 1e-6 * rng.normal(size=size))).astype(dtype)
    pool = np.array(SPECIAL[:6] if is_finite else SPECIAL, dtype)
    for side in (ref, cand):
        at = rng.random(size) < 0.3
        side[at] = rng.choice(pool, at.sum())
        side.flags.writeable = False
    grids = one_pass.Grids(3.0 * 2.0**30, 3.0 * 2.0**31, 3.0 * 2.0**20)
    floor = int(np.array(1, dtype).view(np.int64 if wide else np.int32))
    bounds = one_pass.Bounds(1e-6, 1e-6, floor, 3.0 * 2.0**25)
    counts = [np.zeros(1 << 16, np.int64) for _ in range(2)]
    found = passed(ref, cand, bounds, grids, counts[0])
    expected = one_pass._plain(ref, cand, bounds, grids, counts[1])
    np.testing.assert_array_equal(counts[0], counts[1])
    assert found.top == expected.top or not is_finite
    for name in ("flagged", "ref", "low", "steps", "above"):
        assert (getattr(found, name) - getattr(expected, name)) % 2**64 == 0, name
    if is_finite:
        for name in ("units", "size_units", "ee", "rr", "re"):
            assert getattr(found, name) == getattr(expected, name), name
        for name in ("errors", "magnitudes", "ee_rest", "rr_rest", "re_rest"):
            assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-12)
