"""Values at which a rule changes, in Numba's simulator of a GPU."""

from __future__ import annotations

import numpy as np
import pytest
from tests.gpu.equality import check, comparers_of

from paritygate.core.policy import Tolerance

TOLERANCE = Tolerance(1e-3, 1e-3)


def test_references_that_round_past_the_largest_number_have_no_steps() -> None:
    ref = np.array([[1.0], [65504.0], [65519.996], [65520.0], [-1e6], [np.inf]], np.float32)
    cand = np.array([[1.0], [65472.0], [65472.0], [65504.0], [-65504.0], [1.0]], np.float16)
    names = ("float32", "float16")
    for rows in (6, 4, 2):
        check(ref[:rows], cand[:rows], TOLERANCE, range(rows), [1], "full", names)
    device, _ = comparers_of(names, TOLERANCE, (1,), "full")
    found, _ = device.compare(ref, cand, range(6))
    assert (found.ulp_undefined, found.ref_beyond_cand_range) == (3, 2)
    assert found.max_ulp is not None
    assert (found.max_ulp.value, found.max_ulp.ordinal) == (1, 1)


def test_samples_without_energy_or_with_too_much_are_counted_and_not_ranked() -> None:
    ref = np.ones((6, 16))
    ref[1], ref[2], ref[4] = 0.0, 1e200, 1e-150
    cand = ref * 1.5
    cand[2], cand[3], cand[4] = ref[2], 1e200, 1e150
    check(ref, cand, TOLERANCE, range(6), [2])
    device, _ = comparers_of(("float64", "float64"), TOLERANCE, (16,), "full")
    found, _ = device.compare(ref, cand, range(6))
    assert (found.sqnr_undefined, found.cosine_undefined) == (3, 4)
    assert found.worst_sqnr is not None
    assert (found.worst_sqnr.value, found.worst_sqnr.ordinal) == (float("inf"), 4)
    for row in (1, 2, 3):  # none is left that could be the worst
        alone, _ = device.compare(ref[row : row + 1], cand[row : row + 1], range(1))
        assert (alone.worst_sqnr, alone.worst_cosine) == (None, None)


@pytest.mark.parametrize("seed", [1, 2])
def test_samples_that_tie_are_told_by_the_lowest_ordinal(seed: int) -> None:
    ref = np.resize(np.arange(1.0, 17.0), (24, 16))
    cand = ref * np.array([1.0, 1.5, 1.25])[np.arange(24) % 3][:, None]
    ordinals = np.random.default_rng(seed).permutation(24)
    for cuts in ([], [7, 13]):
        check(ref, cand, TOLERANCE, ordinals, cuts)
    check(ref, cand, TOLERANCE, range(24), [5])


@pytest.mark.parametrize("name", ["int64", "uint64"])
def test_a_difference_that_float64_rounds_to_its_bound_is_beyond_it(name: str) -> None:
    ref, cand = np.zeros((3, 1), name), np.array([[0], [2**53 + 1], [2**53]], name)
    for tolerance in (Tolerance(2.0**53, 0.0), Tolerance(2.0**60, 0.0, max_abs=2.0**53)):
        check(ref, cand, tolerance, range(3), [], "gate", (name, name))
        device, _ = comparers_of((name, name), tolerance, (1,), "gate")
        assert device.compare(ref, cand, range(3))[1].rows.tolist() == [1]


def test_integers_that_tie_are_told_by_the_lowest_ordinal() -> None:
    ref = np.arange(60, dtype=np.int64).reshape(30, 2)
    ordinals = np.roll(np.arange(30), 11)[::-1]
    for tolerance in (Tolerance(2.0, 0.0), Tolerance(0.0, 0.0)):
        for cuts in ([], [9, 20]):
            check(ref, ref + 3, tolerance, ordinals, cuts, "full", ("int64", "int64"))
