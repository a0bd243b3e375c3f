"""Failing samples at the values where a shortcut of their scan would be wrong, in small arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from paritygate.comparison import elements as comparison
from paritygate.comparison import scan
from paritygate.comparison.elements import ElementComparer
from paritygate.core.policy import Tolerance

STRETCH = 24
ROWS = {"all": slice(None), "some": slice(None, None, 5), "last": slice(-1, None)}


@pytest.fixture(autouse=True)
def many_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few elements a stretch that a small array has many of them."""
    monkeypatch.setattr(scan, "STRETCH", STRETCH)
    monkeypatch.setattr(scan, "_PART", 4 * STRETCH)
    monkeypatch.setattr(comparison, "_TILE", 2 * STRETCH)


def both(ref: Any, cand: Any, tolerance: Tolerance) -> Any:
    """The tally of a scan and its failing samples, which have to be those of every element."""
    judge = ElementComparer(tolerance, ref.dtype.name, cand.dtype.name, ref.shape[1:], "gate")
    ordinals = np.arange(len(ref)) + 3
    slow, all_details = judge.compare(ref, cand, ordinals)
    fast, details = judge.compare(ref, cand, ordinals, is_lazy=True)
    assert fast.to_json() == slow.to_json()
    np.testing.assert_array_equal(details.rules, all_details.rules)
    np.testing.assert_array_equal(details.failing_elements, all_details.failing_elements)
    return fast


def halves(width: int, count: int = 12 * STRETCH) -> tuple[Any, Any]:
    """Sides of ones that differ by a quarter, which is half of what is allowed."""
    ref = np.ones((count // width, width))
    return ref, ref + 0.25


HALF = Tolerance(0.25, 0.25)
CAPPED = Tolerance(0.25, 0.25, max_abs=0.375)


@pytest.mark.parametrize("tolerance", [HALF, CAPPED], ids=["bound", "cap"])
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("width", [1, 3, 24, 60])
def test_errors_at_the_bound_are_good_and_one_step_beyond_it_are_not(
    width: int, rows: str, tolerance: Tolerance
) -> None:
    ref, cand = halves(width)
    limit = min(tolerance.max_abs or math.inf, 0.5)
    cand[0, 0] += 2.0  # something that fails comes first
    cand[1:, -1] = 1.0 + limit
    assert both(ref, cand, tolerance).failing_samples == 1
    beyond = cand[1:].copy()
    beyond[ROWS[rows], -1] = np.nextafter(1.0 + limit, 9.0)
    cand[1:] = beyond
    assert both(ref, cand, tolerance).failing_samples == 1 + len(beyond[ROWS[rows]])


@pytest.mark.parametrize("rows", ["all", "some", "few"])
@pytest.mark.parametrize("width", [1, 3, 24])
def test_worse_ones_that_come_later_are_found(width: int, rows: str) -> None:
    """A larger error whose excess is smaller, a larger excess whose error is, and ties of each."""
    ref, cand = halves(width)
    one_a_stretch = np.arange(1, len(ref) - STRETCH // width, STRETCH // width)
    cand[one_a_stretch if rows == "few" else ROWS[rows], 0] += 1.0
    cand[0, 0] = 1.0 + 1.5
    ref[len(ref) // 2], cand[len(ref) // 2] = 100.0, 100.0
    cand[len(ref) // 2, 0] += 2.0
    tally = both(ref, cand, HALF)
    assert tally.max_abs_error.ordinal == len(ref) // 2 + 3
    assert tally.max_excess.ordinal == 3
    last = len(ref) + 2
    ref[-1, -1], cand[-1, -1] = 0.0, 0.8
    assert both(ref, cand, HALF).max_excess.ordinal == last
    ref[-1, -1], cand[-1, -1] = 0.96, 0.96 + 3 * 0.49  # about as far beyond as the first one
    both(ref, cand, HALF)
    ref[-1, -1], cand[-1, -1] = 2.0, 2.0 + 3 * 0.75  # just as far, and larger
    assert both(ref, cand, HALF).max_excess.ordinal == last


def test_a_larger_error_passes_where_another_sample_of_the_stretch_fails() -> None:
    ref, cand = halves(1)
    cand[0] = 1.0 + 1.5
    cand[200] = 1.0 + 0.75
    ref[201], cand[201] = 100.0, 100.0 + 2.0
    tally = both(ref, cand, HALF)
    assert tally.max_abs_error.ordinal == 201 + 3
    assert tally.failing_samples == 2


@pytest.mark.parametrize("step", [STRETCH, 4, 1])
def test_only_the_cap_is_broken_and_a_sample_that_passes_it_is_the_worst(step: int) -> None:
    ref, cand = halves(1)
    ref[:], cand[:] = 1000.0, 1000.0 + 0.25
    cand[1:-1:step] += 0.25
    cand[1] += 0.25
    ref[-1], cand[-1] = 0.0, 0.2
    tally = both(ref, cand, CAPPED)
    assert tally.max_excess.ordinal == len(ref) + 2
    assert tally.max_excess.keys[0] == 0.2 / 0.25


@pytest.mark.parametrize("odd", [math.nan, math.inf, 1e305, -1e300, 2.0**-60, 1e-320])
@pytest.mark.parametrize("width", [1, 7])
def test_an_odd_value_among_samples_that_fail(width: int, odd: float) -> None:
    ref, cand = halves(width)
    cand[::2] += 1.0
    for row in (50 // width, len(cand) - 1):
        ref[row, 0], cand[row, 0] = 0.0, odd
    both(ref, cand, HALF)


def test_the_last_stretch_is_shorter_and_has_no_flags_of_the_one_before() -> None:
    for width in (1, 2, 5):
        ref, cand = halves(width, 8 * STRETCH + 5 * width)
        cand[: 8 * STRETCH // width] += 2.0
        assert both(ref, cand, HALF).failing_samples == 8 * STRETCH // width
        cand[-1, -1] += 2.0
        assert both(ref, cand, HALF).failing_samples == 8 * STRETCH // width + 1


@pytest.mark.parametrize("odd", [4.0, math.nan])
def test_wide_samples_of_several_pieces_fail_in_any_of_them(
    monkeypatch: pytest.MonkeyPatch, odd: float
) -> None:
    monkeypatch.setattr(scan, "_PART", 3 * 4100)
    monkeypatch.setattr(comparison, "_TILE", 1 << 20)
    ref = np.ones((6, 4100), np.float32)
    cand = ref.copy()
    cand[0, 1], cand[1, 7], cand[1, 4099], cand[2, 4097], cand[3, 5] = 3.0, 3.0, 3.0, 4.0, 3.0
    cand[4, 1], cand[4, 4098], cand[5, 4095] = 3.0, odd, 3.0
    tally = both(ref, cand, HALF)
    assert (tally.failing_samples, tally.max_excess.ordinal) == (6, 5)
