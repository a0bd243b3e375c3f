"""Of a block on a GPU only its failing samples come back, and what was listed of them is held."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.gpu import blocks
from tests.gpu.blocks import there
from tests.gpu.simulated import test_staying
from tests.gpu.simulated.test_placed_decisions import ROWS, decider
from tests.gpu.simulated.test_placed_decisions import place as gpu
from tests.gpu.simulated.test_placed_decisions import sides as scores
from tests.gpu.simulated.test_placed_decisions import there as lying

from paritygate.comparison import judged, placed
from paritygate.comparison.groups import Group
from paritygate.core.errors import DeviceError
from paritygate.gpu import decide, failing, gather, scan, slab, tensor, whole
from paritygate.gpu.tensor import DeviceTensor
from paritygate.tally.constant import Constancy

SAMPLES, WIDTH = 40, 5
plan = test_staying.plan


@pytest.mark.parametrize("dtype", ["?", "i1", "f2", "f4", "f8"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
def test_samples_that_are_asked_for_are_gathered(dtype: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(2)
    array = (rng.normal(size=(SAMPLES, *shape)) * 9).astype(dtype)
    for rows in ([0, 2, 3, 4, 5, 7, 24, 25, 39], [8, 39]):
        blocks.check_gathered(array, [3, 4, 25], rows)
    found = there(array, 3, 4, 25)
    for held in ([1, 9], [0, 9, 11], [2]):
        np.testing.assert_array_equal(found.picked(np.array(held)), array[held])
    assert found._host is None
    np.testing.assert_array_equal(found.picked(np.arange(22)), array[:22])
    assert found._host is not None


@pytest.mark.parametrize("shape", [(0,), (2, 0)])
def test_samples_without_elements_are_gathered(shape: tuple[int, ...]) -> None:
    found = there(np.empty((SAMPLES, *shape), np.float32), 3)
    assert found.picked(np.arange(0, SAMPLES, 4)).shape == (10, *shape)
    assert found.picked(np.arange(0)).shape == (0, *shape)


def test_rows_that_nobody_wrote_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent:
        def __getitem__(self, shape: Any) -> Any:
            return lambda *args: None

    monkeypatch.setattr(gather, "gather_rows", Silent())
    with pytest.raises(DeviceError, match="gave back other samples than it was asked for"):
        there(np.ones((SAMPLES, 3), "f4")).picked(np.arange(9))


def test_only_failing_samples_come_back(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: DeviceTensor) -> Any:
        raise AssertionError(f"all {len(self)} samples were copied")

    theirs, _ = test_staying.run(plan, monkeypatch, "cpu", {}, 64)
    monkeypatch.setattr(DeviceTensor, "host", refuse)
    monkeypatch.setattr(tensor, "_FEW", 1)
    ours, _ = test_staying.run(plan, monkeypatch, "auto", test_staying.BOTH, 64)
    test_staying.same(ours, theirs)


@pytest.mark.parametrize("first", [1, 15, 16, SAMPLES])
def test_the_first_samples_tell_that_an_output_varies(first: int) -> None:
    ref = np.ones((SAMPLES, 2), np.float32)
    ref[first:] = 2
    group = Group(None, there(ref, 3), there(ref + 1))
    assert judged._constancy_of(group) == Constancy.of(ref, ref + 1)
    assert (group.ref._host is None) == (first < 16)


def test_a_run_whose_samples_come_back_as_others_has_no_verdict(
    plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = DeviceTensor._fetched
    monkeypatch.setattr(DeviceTensor, "_fetched", lambda self, rows: real(self, rows - 1))
    with pytest.raises(DeviceError, match=r"output '.': .* lists \d failing elements of sample"):
        test_staying.run(plan, monkeypatch, "auto", test_staying.BOTH, 64)


def sides(dtype: str) -> tuple[Any, Any]:
    return blocks.block(4, dtype, SAMPLES, WIDTH, fails=True)


ALL = np.arange(SAMPLES)


@pytest.mark.parametrize(
    ("dtype", "small"), [("float32", 99), ("float32", 0), ("float16", 0), ("int64", 0)]
)
def test_samples_that_come_back_confirm_what_was_listed(
    dtype: str, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placed, "_SMALL", small)
    ours = blocks.comparer(dtype, WIDTH, "full" if small else "gate")
    for number, fails in enumerate((True, False, True)):
        sides = blocks.block(number, dtype, SAMPLES, WIDTH, fails=fails)
        blocks.check_block(ours, sides, SAMPLES * number)


@pytest.mark.parametrize("kind", ["argmax", "topk"])
def test_blocks_that_are_decided_share_no_counts(kind: str) -> None:
    blocks.check_decided(kind, SAMPLES, WIDTH)


@pytest.mark.parametrize("small", [0, 99])
@pytest.mark.parametrize(("dtype", "few"), [("float32", 0), ("float16", 99), ("int64", 0)])
def test_a_sample_that_comes_back_instead_of_another_is_noticed(
    dtype: str, few: int, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placed, "_SMALL", small)
    ref, cand = sides(dtype)
    ours, own, other = blocks.comparer(dtype, WIDTH), there(ref, 7), there(cand)
    _, detail = ours.compare(own, other, ALL, is_lazy=True)
    real = DeviceTensor._fetched
    monkeypatch.setattr(tensor, "_FEW", few)
    monkeypatch.setattr(DeviceTensor, "_fetched", lambda self, rows: real(self, rows + 1))
    with pytest.raises(DeviceError, match=r"lists \d+ failing elements of sample 3 of a block, "):
        ours.confirm(detail, np.array([3, 5, 11]), own, other)
    ours, own, other = blocks.comparer(dtype, WIDTH), there(ref, 7), there(cand)
    with pytest.raises(DeviceError, match="lists 0 failing elements of sample 10 of a block, "):
        ours.confirm(detail, np.array([10]), own, other)


@pytest.mark.parametrize("small", [0, 99])
@pytest.mark.parametrize("name", ["index", "excess"])
def test_another_worst_element_than_was_listed_is_noticed(
    name: str, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placed, "_SMALL", small)
    ref, cand = sides("float32")
    ours, rows = blocks.comparer("float32", WIDTH), np.array([3, 5])
    _, detail = ours.compare(ref, cand, ALL, is_lazy=True)
    ours.confirm(detail, rows, ref, cand)
    getattr(detail.worst, name)[np.searchsorted(detail.worst.rows, 5)] += 1
    with pytest.raises(DeviceError, match="lists 1 failing elements of sample 5 of a block, "):
        ours.confirm(detail, rows, ref, cand)


class After:
    """A kernel, after which something is changed."""

    def __init__(self, real: Any, change: Callable[..., None]) -> None:
        self._real, self._change = real, change

    def __getitem__(self, shape: Any) -> Any:
        def launch(*args: Any) -> None:
            self._real[shape](*args)
            self._change(*args)

        return launch


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_a_flag_that_is_lost_is_noticed(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(*args: Any) -> None:
        dirty = args[-1]
        flags = dirty.copy_to_host()
        flags[np.flatnonzero(flags)[2]] = 0
        dirty.copy_to_device(flags)

    ours = blocks.comparer(dtype, WIDTH)
    module, name = (whole, "scan_whole") if dtype == "int64" else (scan, "scan")
    monkeypatch.setattr(module, name, After(getattr(module, name), lose))
    if dtype == "int64":
        monkeypatch.setattr("paritygate.gpu.whole_tally.scan_whole", whole.scan_whole)
    with pytest.raises(DeviceError, match=r"it found \d+ failing elements, and lists samples with"):
        ours.compare(*sides(dtype), ALL, is_lazy=True)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("by", [-1, 1])
def test_a_count_that_is_off_by_one_is_noticed(
    dtype: str, by: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(*args: Any) -> None:
        kept = args[-1]
        kept[0, failing.ELEMENTS] = int(kept[0, failing.ELEMENTS]) + by

    ours = blocks.comparer(dtype, WIDTH)
    name = "keep_failing_whole" if dtype == "int64" else "keep_failing"
    monkeypatch.setattr(failing, name, After(getattr(failing, name), change))
    with pytest.raises(DeviceError, match=r"it found \d+ failing elements, and lists samples with"):
        ours.compare(*sides(dtype), ALL, is_lazy=True)


def test_counts_of_a_known_batch_that_contradict_each_other_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def change(*args: Any) -> None:
        args[-1][0, failing.ELEMENTS] = 2

    with monkeypatch.context() as patch:
        patch.setattr(failing, "keep_failing", After(failing.keep_failing, change))
        with pytest.raises(DeviceError, match="wrong: of a batch that is known it found 5 failing"):
            blocks.comparer("float32", WIDTH)
    real = slab.Slab.read

    def read(self: Any) -> Any:
        found = real(self)
        found["counts"][decide.FLIPS] = 99
        return found

    monkeypatch.setattr(slab.Slab, "read", read)
    told = "decides 'd' of a batch that is known wrong .it counted 99 flips of 40 decisions"
    with pytest.raises(DeviceError, match=told):
        decider("argmax", gpu())


@pytest.mark.parametrize("kind", ["bands", "argmax", "topk"])
def test_a_sample_that_was_decided_as_another_is_noticed(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref, cand = (lying(side, 7, 20) for side in scores(kind))
    found = decider(kind, gpu()).compare_lazily(ref, cand, ROWS, None)
    assert found is not None
    flipped = found[1].flipped_rows
    found[1].told(flipped)
    behind = np.setdiff1d(flipped[flipped < len(ref) - 1] + 1, flipped)  # each after one that is
    real = DeviceTensor._fetched
    monkeypatch.setattr(DeviceTensor, "_fetched", lambda self, rows: real(self, rows - 1))
    for rows, said in ((flipped, ""), (behind, "not ")):
        ref, cand = (lying(side, 7, 20) for side in scores(kind))
        found = decider(kind, gpu()).compare_lazily(ref, cand, ROWS, None)
        assert found is not None
        with pytest.raises(DeviceError, match=rf"lists sample \d+ of a block as {said}flipped"):
            found[1].told(rows[:5])
