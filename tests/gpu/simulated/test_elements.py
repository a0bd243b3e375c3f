"""Comparisons of elements in Numba's simulator of a GPU."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from numba import cuda
from tests.gpu.equality import TOLERANCE as EXACT
from tests.gpu.equality import check, comparers, pairs, planted, tolerances

from paritygate.comparison import on_device
from paritygate.comparison.on_device import DeviceComparer
from paritygate.core.policy import Tolerance
from paritygate.gpu import device, rules, scan, sums, tally
from paritygate.kernels import elements, grids, scalar

QUICK = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60
)
CUTS = st.lists(st.integers(0, 100), max_size=3)
TOLERANCE = Tolerance(1e-3, 1e-3)
DECLARED = "this comparison is of float32[4, 3]; pass arrays as they were declared"


def comparer(**changes: Any) -> DeviceComparer:
    given = {"tolerance": TOLERANCE, "ref_dtype": "float32", "cand_dtype": "float32"}
    return DeviceComparer(**({**given, "sample_shape": (3,), "stats": "gate"} | changes))


@QUICK
@given(pairs(), tolerances(), CUTS, st.integers(0, 50))
def test_batches_in_order_count_what_the_cpu_counts(
    pair: Any, tolerance: Tolerance, cuts: list[int], first: int
) -> None:
    check(*pair, tolerance, range(first, first + len(pair[0])), cuts)


@QUICK
@given(pairs(), tolerances(), CUTS, st.integers(0, 2**32), st.booleans())
def test_batches_of_any_ordinals_count_what_the_cpu_counts(
    pair: Any, tolerance: Tolerance, cuts: list[int], seed: int, is_sorted: bool
) -> None:
    ordinals = np.random.default_rng(seed).permutation(3 * len(pair[0]))[: len(pair[0])]
    check(*pair, tolerance, np.sort(ordinals) if is_sorted else ordinals, cuts)


@settings(QUICK, max_examples=40)
@given(planted(), st.sampled_from([None, 3e-4, 2e-3]), CUTS)
def test_what_fails_beside_something_worse_is_counted(
    pair: Any, cap: float | None, cuts: list[int]
) -> None:
    check(*pair, replace(EXACT, max_abs=cap), range(len(pair[0])), cuts, "gate")


@settings(QUICK, max_examples=20)
@given(pairs(), tolerances(), CUTS)
def test_little_room_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, pair: Any, tolerance: Tolerance, cuts: list[int]
) -> None:
    with monkeypatch.context() as changed:
        changed.setattr(tally, "_ROOM", 1)
        changed.setattr(tally, "_MOST_BYTES", 1)
        changed.setattr(sums, "BETWEEN", 1)
        check(*pair, tolerance, range(len(pair[0])), cuts)


@settings(QUICK, max_examples=15)
@given(planted(), st.integers(0, 2**32), CUTS)
def test_more_blocks_than_a_block_has_threads_change_nothing(
    monkeypatch: pytest.MonkeyPatch, pair: Any, seed: int, cuts: list[int]
) -> None:
    ordinals = np.random.default_rng(seed).permutation(len(pair[0]))
    with monkeypatch.context() as changed:
        changed.setattr(tally, "_SIMULATED_BLOCKS", 3 * device.THREADS)
        check(*pair, EXACT, ordinals, cuts, (seed % 4 and "gate") or "full")


def test_sums_are_exact_whatever_their_size() -> None:
    rng = np.random.default_rng(3)
    size = 2.0 ** rng.integers(-1070, 1000, 300)
    ref, cand = np.zeros((300, 1)), (rng.normal(size=300) * size).reshape(300, 1)
    found, _ = comparers(ref, TOLERANCE)[0].compare(ref, cand, range(300))
    unit = Fraction(2) ** -1074
    exact = [Fraction(value) for value in cand[:, 0].tolist()]
    assert found.errors.units * unit == sum(exact)
    assert found.abs_errors.units * unit == sum(map(abs, exact))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("same", [0, 10])
def test_usual_errors_fit_the_grids_that_a_block_guesses(
    monkeypatch: pytest.MonkeyPatch, dtype: Any, same: int
) -> None:
    rng = np.random.default_rng(2)
    ref = rng.normal(size=(20 * device.TILE, 1)).astype(dtype)
    cand = ref * dtype(1 + 1e-5) + (rng.normal(size=ref.shape) * 1e-6).astype(dtype)
    cand[: same * device.TILE] = ref[: same * device.TILE]

    def refuse(*args: object) -> None:
        raise AssertionError("summed one by one")

    monkeypatch.setattr(scan, "add_each", refuse)
    check(ref, cand, TOLERANCE, range(len(ref)), [])


def test_errors_beyond_float64_are_counted_and_not_summed() -> None:
    ref = np.zeros((5 * device.TILE, 1))
    cand = ref + 0.5
    for at in (0, 7, 30):
        ref[at], cand[at] = -1.7e308, 1.7e308
    check(ref, cand, TOLERANCE, range(len(ref)), [9])
    found, _ = comparers(ref, TOLERANCE)[0].compare(ref, cand, range(len(ref)))
    assert (found.errors.overflowed, found.abs_errors.overflowed) == (3, 3)


def test_chunks_with_carries_passed_on_are_the_same_sum() -> None:
    chunks = cuda.to_device(np.full((2, sums.CHUNKS), -(2**40) - 3))
    before = [int(c) << (32 * k) for k, c in enumerate(chunks.copy_to_host()[0].tolist())]
    sums.carry[1, device.THREADS](chunks)
    after = chunks.copy_to_host()
    assert [sum(int(c) << (32 * k) for k, c in enumerate(row.tolist())) for row in after] == [
        sum(before)
    ] * 2
    assert (after[:, :-1] >> 32 == 0).all()


def test_of_equal_extremes_the_lowest_ordinal_is_kept_over_blocks_and_batches() -> None:
    n = 6 * device.TILE
    ref, cand = np.zeros((n, 1), np.float32), np.full((n, 1), 0.5, np.float32)
    ordinals = np.roll(np.arange(n), 11)[::-1]
    for cut in (0, n // 3):
        check(ref, cand, TOLERANCE, ordinals, [cut])
    found, _ = comparers(ref, TOLERANCE)[0].compare(ref, cand, ordinals)
    assert found.max_abs_error is not None
    assert (found.max_abs_error.ordinal, found.max_abs_error.index) == (0, 0)


def test_an_error_under_an_infinite_bound_is_the_worst() -> None:
    n = 6 * device.TILE
    ref = np.ones((n, 1))
    cand = ref + 1e298
    cand[: 2 * device.TILE] = 1e300  # a first tile of each block, with more than all others
    ref[n - 3], cand[n - 3] = 1.7e308, 1.7e308 - 1e299
    check(ref, cand, Tolerance(1e308, 0.999), range(n), [])
    found, _ = comparers(ref, Tolerance(1e308, 0.999))[0].compare(ref, cand, range(n))
    assert found.max_excess is not None
    assert found.max_excess.value == float("inf")


def test_a_share_of_a_bound_that_is_rounded_up_hides_nothing() -> None:
    unit, n = 5e-324, 6 * device.TILE
    ref, cand = np.full((n, 1), 8 * unit), np.full((n, 1), 11 * unit)
    ref[n - 3], cand[n - 3] = 2 * unit, 3 * unit
    check(ref, cand, Tolerance(0.0, 0.5), range(n), [])
    found, _ = comparers(ref, Tolerance(0.0, 0.5))[0].compare(ref, cand, range(n))
    assert found.max_excess is not None
    assert found.max_excess.keys == (1.0, unit)


@pytest.mark.parametrize(("stream", "is_waited_for"), [(None, False), (1, False), (7, True)])
def test_what_another_stream_makes_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, stream: int | None, is_waited_for: bool
) -> None:
    asked: list[bool] = []
    taker = SimpleNamespace(as_cuda_array=lambda array, sync: asked.append(sync))
    monkeypatch.setattr(on_device, "cuda", taker)
    for described in ({"stream": stream}, {}):
        array = SimpleNamespace(__cuda_array_interface__=described)
        on_device.on_device(array)
    assert asked == [is_waited_for, False]


@pytest.mark.parametrize("step", [1, -1])
def test_of_equal_excesses_the_one_of_the_largest_error_is_kept(step: int) -> None:
    cand = np.arange(6.0 * device.TILE).reshape(-1, 3)[::step].copy()
    check(np.full(cand.shape, -1.0), cand, Tolerance(0.0, 0.0), range(len(cand)), [5])


def test_the_first_of_many_broken_elements_is_the_worst_of_its_sample() -> None:
    ref, cand = np.ones((4, 16), np.float32), np.ones((4, 16), np.float32)
    cand[1], cand[2, 5:], cand[3, 2] = np.nan, np.inf, 3.0
    check(ref, cand, TOLERANCE, range(4), [2])


def test_nothing_is_read_between_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    ref = np.ones((40, 3), np.float32)
    comparison = comparer().begin()

    def refuse(*args: object, **options: object) -> None:
        raise AssertionError("the device was waited for")

    with monkeypatch.context() as changed:
        changed.setattr(type(cuda.to_device(ref)), "copy_to_host", refuse)
        for start in range(0, 40, 10):
            part = slice(start, start + 10)
            comparison.add(ref[part], ref[part] + 1, range(start, start + 10))
    found, detail = comparison.finish()
    assert (found.samples, found.failing_samples, len(detail.rows)) == (40, 40, 40)


def test_nothing_added_is_an_empty_tally() -> None:
    found, detail = comparer().begin().finish()
    assert (found.samples, found.elements, detail.samples) == (0, 0, 0)
    assert found.max_abs_error is None
    assert found.max_excess is None


@pytest.mark.parametrize("name", ["allowed", "class_of", "excess", "is_within", "share_below"])
def test_rules_are_those_of_the_cpu(name: str) -> None:
    assert getattr(rules, name).__code__ is getattr(scalar, name).py_func.__code__


def test_the_rule_of_classes_is_that_of_the_cpu() -> None:
    assert rules.nonfinite_bit.__code__ is elements.nonfinite_bit.py_func.__code__  # type: ignore[attr-defined]


def test_grids_round_to_their_multiples() -> None:
    for grid in range(-1074, 961):
        assert sums.anchor_of.fn(grid) == grids.anchor_of(grid)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sample_shape": (0,)}, "a sample without elements is compared on the CPU"),
    ],
)
def test_what_is_not_compared_on_a_device_is_refused(changes: Any, message: str) -> None:
    with pytest.raises(ValueError, match="^") as raised:
        comparer(**changes)
    assert str(raised.value) == message


ONES = np.ones((4, 3), np.float32)


@pytest.mark.parametrize(
    ("ref", "ordinals", "message"),
    [
        (
            ONES[:, :2],
            range(4),
            f"reference: found float32[4, 2], {DECLARED}",
        ),
        (
            ONES.astype(np.float64),
            range(4),
            f"reference: found float64[4, 3], {DECLARED}",
        ),
        (
            cuda.to_device(np.asfortranarray(ONES)),
            range(4),
            "reference: found an array that isn't C-contiguous; copy it first",
        ),
        (ONES, range(0, 8, 2), "ordinals: found range(0, 8, 2), allowed is a range of step 1"),
    ],
)
def test_arrays_that_were_not_declared_are_refused(ref: Any, ordinals: Any, message: str) -> None:
    with pytest.raises(ValueError, match="^") as raised:
        comparer().compare(ref, ONES, ordinals)
    assert str(raised.value) == message


def test_a_batch_too_large_for_a_sum_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_device, "MOST", 11)
    with pytest.raises(ValueError, match="^reference: found a batch of 12 elements, at most 11"):
        comparer().compare(ONES, ONES, range(4))
