"""The same equality on a device, where there is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numba import cuda
from tests.gpu import blocks
from tests.gpu.deciding import FLOATS, cases
from tests.gpu.deciding import check as check_decisions
from tests.gpu.dtypes import FLOAT_PAIRS, LONG_PAIRS, SMALL_PAIRS, a_pair
from tests.gpu.equality import TOLERANCE, check, pairs, planted, tolerances

from paritygate.core.policy import DecisionRule, Tolerance
from paritygate.gpu import kept, widen
from paritygate.gpu.device import THREADS, kernel

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not cuda.is_available(), reason="there is no CUDA device"),
]
CUTS = st.lists(st.integers(0, 1000), max_size=3)


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(pairs(), tolerances(), CUTS, st.integers(0, 50))
def test_batches_in_order_count_what_the_cpu_counts(
    pair: Any, tolerance: Tolerance, cuts: list[int], first: int
) -> None:
    check(*pair, tolerance, range(first, first + len(pair[0])), cuts)


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(pairs(), tolerances(), CUTS, st.integers(0, 2**32))
def test_batches_of_any_ordinals_count_what_the_cpu_counts(
    pair: Any, tolerance: Tolerance, cuts: list[int], seed: int
) -> None:
    check(*pair, tolerance, np.random.default_rng(seed).permutation(len(pair[0])), cuts)


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(planted(), CUTS)
def test_what_fails_beside_something_worse_is_counted(pair: Any, cuts: list[int]) -> None:
    check(*pair, TOLERANCE, range(len(pair[0])), cuts)


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.one_of(FLOAT_PAIRS, SMALL_PAIRS, LONG_PAIRS),
    st.sampled_from([1, 10, 16, 1001]),
    st.integers(0, 2**32),
    st.sampled_from(["gate", "full"]),
)
def test_pairs_of_any_dtypes_count_what_the_cpu_counts(
    names: tuple[str, str], width: int, seed: int, stats: str
) -> None:
    rng = np.random.default_rng(seed)
    ref, cand, tolerance = a_pair(rng, names, (20_000 // width, width))
    check(ref, cand, tolerance, range(len(ref)), [seed % 999], stats, names)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 10, 1000])
def test_many_blocks_count_what_the_cpu_counts(dtype: Any, width: int) -> None:
    rng = np.random.default_rng(width)
    ref = rng.normal(size=(3_000_000 // width, width)).astype(dtype)
    cand = (ref + rng.normal(size=ref.shape) * 1e-4).astype(dtype)
    check(ref, cand, Tolerance(3e-4, 1e-4), range(len(ref)), [len(ref) // 3])


def test_a_kernel_that_was_kept_does_what_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "kept_folder", lambda: tmp_path)
    flags = np.arange(1000, dtype=np.uint8) % 3
    kernels = [kernel(widen.widen_flags.py_func) for _ in range(2)]
    for made in kernels:
        into = cuda.device_array(flags.size, np.float32)
        made[2, THREADS](cuda.to_device(flags), into)
        assert np.array_equal(into.copy_to_host(), flags != 0)
    assert [sum(made.stats.cache_hits.values()) for made in kernels] == [0, 1]
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("kind", ["bands", "argmax", "topk"])
@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.sampled_from(FLOATS), CUTS, st.integers(0, 2**32))
def test_batches_decide_what_the_cpu_decides(
    kind: str, data: st.DataObject, dtype: str, cuts: list[int], seed: int
) -> None:
    case = data.draw(cases(kind, (dtype, dtype)))
    samples = len(case["ref"])
    in_order = range(7, 7 + samples)
    shuffled = np.random.default_rng(seed).permutation(3 * samples)[:samples]
    check_decisions(case, shuffled if seed % 2 else in_order, cuts)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("width", [2, 10, 1000])
@pytest.mark.parametrize("kind", ["argmax", "topk"])
def test_many_rows_decide_what_the_cpu_decides(kind: str, width: int, dtype: str) -> None:
    rng = np.random.default_rng(width)
    ref = rng.normal(size=(300_000 // width, width)).astype(dtype)
    cand = (ref + rng.normal(size=ref.shape) * 1e-3).astype(dtype)
    rule = DecisionRule("d", "s", argmax=kind == "argmax", topk=None if kind == "argmax" else 1)
    given = {"rule": rule, "tolerance": Tolerance(1e-3, 1e-4), "stats": "full", "labelled": True}
    check_decisions({**given, "ref": ref, "cand": cand}, range(len(ref)), [len(ref) // 3])


@pytest.mark.parametrize("dtype", ["?", "i1", "f2", "f4", "f8"])
@pytest.mark.parametrize("shape", [(), (3,), (20, 31)])
def test_samples_that_are_asked_for_are_gathered(dtype: str, shape: tuple[int, ...]) -> None:
    array = (np.random.default_rng(2).normal(size=(5000, *shape)) * 9).astype(dtype)
    blocks.check_gathered(array, [7, 2600], np.arange(1, 4999, 7))
    blocks.check_gathered(array, [7, 2600], [6, 7, 4999])


@pytest.mark.parametrize("stats", ["gate", "full"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int8", "int64"])
def test_blocks_share_no_counts_and_their_samples_confirm_them(dtype: str, stats: Any) -> None:
    ours = blocks.comparer(dtype, 10, stats)
    for number, fails in enumerate((True, False, True, False)):
        sides = blocks.block(number, dtype, 70_000, 10, fails=fails)
        blocks.check_block(ours, sides, 70_000 * number)


@pytest.mark.parametrize("kind", ["argmax", "topk"])
@pytest.mark.parametrize("width", [3, 500])
def test_blocks_that_are_decided_share_no_counts(kind: str, width: int) -> None:
    blocks.check_decided(kind, 50_000 // width, width)
