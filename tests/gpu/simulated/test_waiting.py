"""What a block on a GPU waits for: one copy of all that was counted, and none where nothing is."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import cuda
from tests.gpu.simulated import test_staying
from tests.gpu.simulated.test_placed_decisions import decider, place, sides, there

from paritygate.comparison import ahead, canary
from paritygate.comparison.decisions_on_device import Deciding
from paritygate.comparison.elements import ElementComparer
from paritygate.comparison.on_device import Comparison
from paritygate.comparison.placed import PlacedComparer
from paritygate.core.errors import DeviceError
from paritygate.core.policy import Tolerance
from paritygate.gpu import slab, tally
from paritygate.gpu.decided import DecisionsTally
from paritygate.gpu.tally import DeviceTally

SAMPLES, WIDTH = 14, 17
TOLERANCE = Tolerance(1e-2, 1e-2)
plan = test_staying.plan


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was copied between the device and the host, and which memory was taken."""
    seen: list[str] = []
    array = type(cuda.to_device(np.zeros(1)))

    def watch(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def call(*args: Any, **given: Any) -> Any:
            seen.append(name)
            return real(*args, **given)

        monkeypatch.setattr(owner, name, call)

    for name in ("to_device", "device_array"):
        watch(cuda, name)
    watch(array, "copy_to_host")
    return seen


def block(seed: int, dtype: str, *, fails: bool) -> tuple[Any, Any]:
    ref = np.random.default_rng(seed).normal(size=(SAMPLES, WIDTH)) * 9
    cand = ref.copy() if np.dtype(dtype).kind == "i" else ref * (1 + 1e-4)
    if fails:
        cand[seed :: seed + 3, seed] += 7
    return ref.astype(dtype), cand.astype(dtype)


@pytest.mark.parametrize("stats", ["gate", "full"])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_a_clean_block_waits_once_and_blocks_share_no_counts(
    dtype: str, stats: Any, waits: list[str]
) -> None:
    given = TOLERANCE if dtype == "float32" else Tolerance(), dtype, dtype, (WIDTH,), stats
    ours = PlacedComparer(place(), "s", "y", *given)
    host = ElementComparer(*given)
    for seed, fails in enumerate((False, False, True, False)):
        arrays = block(seed, dtype, fails=fails)
        rows = np.arange(SAMPLES * seed, SAMPLES * (seed + 1))
        tensors = [there(side, 11) for side in arrays]
        waits.clear()
        found = ours.compare(*tensors, rows, is_lazy=True)
        copies = ["copy_to_host"] * (1 + fails)
        assert waits == copies or not seed
        assert canary.difference(found, host.compare(*arrays, rows)) == ""
        assert (found[0].failing_samples > 0) == fails


def test_pieces_of_a_block_have_room_for_all_that_may_fail(
    monkeypatch: pytest.MonkeyPatch, waits: list[str]
) -> None:
    monkeypatch.setattr(tally, "_ROOM", 2)
    where, given = place(), (TOLERANCE, "float32", "float32", (WIDTH,), "gate")
    where.piece_bytes = 4 * WIDTH * 4  # four samples: four pieces
    found = []
    for most in (1 << 26, 4 * 6 * 8):  # the second: room for the samples of one piece
        monkeypatch.setattr(tally, "_MOST_BYTES", most)
        ours = PlacedComparer(where, "s", "y", *given)
        for seed, fails in enumerate((False, False, True)):
            arrays = block(seed, "float32", fails=fails)
            tensors = [there(side) for side in arrays]
            waits.clear()
            counted = ours.compare(*tensors, np.arange(SAMPLES), is_lazy=True)
            expected = ElementComparer(*given).compare(*arrays, np.arange(SAMPLES))
            assert canary.difference(counted, expected) == ""
            found.append(waits.count("copy_to_host"))
    assert found[:3] == [2, 1, 2]  # room is made once; what failed comes back
    assert found[4] == 4


@pytest.mark.parametrize("kind", ["bands", "argmax", "topk"])
def test_decisions_that_stay_wait_once(kind: str, waits: list[str]) -> None:
    made = decider(kind, place())
    ref, cand = sides(kind)
    for seed, other in enumerate((ref, ref, cand, ref)):
        rows = np.arange(len(ref)) + 100 * seed
        tensors = there(ref, 7), there(other, 11)
        waits.clear()
        found = made.compare_lazily(*tensors, rows, None)
        assert found is not None
        assert waits == ["copy_to_host"] * (4 if other is cand else 1) or not seed
        assert (found[0].flips > 0) == (other is cand)
        assert found[0].samples == len(ref)


def test_all_that_a_gpu_is_to_do_of_a_block_is_begun_before_it_is_waited_for(
    plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def watch(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def call(self: Any, *args: Any) -> Any:
            seen.append(f"{owner.__name__}.{name}")
            return real(self, *args)

        monkeypatch.setattr(owner, name, call)

    for owner, name in ((DeviceTally, "add"), (DecisionsTally, "add"), (slab.Slab, "read")):
        watch(owner, name)
    ours, _ = test_staying.run(plan, monkeypatch, "auto", test_staying.BOTH, 64)
    begun = ["DeviceTally.add", "DecisionsTally.add"] * 2
    assert seen[-16:] == [*begun, *["Slab.read"] * 4] * 2
    theirs, _ = test_staying.run(plan, monkeypatch, "cpu", {}, 64)
    test_staying.same(ours, theirs)


@pytest.mark.parametrize("step", ["add", "finish"])
@pytest.mark.parametrize("kind", [Comparison, Deciding])
def test_what_was_begun_without_room_is_done_otherwise(
    plan: Path, monkeypatch: pytest.MonkeyPatch, kind: Any, step: str
) -> None:
    real, callers = getattr(kind, step), []

    def refuse(self: Any, *args: Any) -> Any:
        callers.append(sys._getframe(1).f_code.co_name)
        if callers[-1] in ("begin", "_launched", "_finish") and refused not in callers:
            callers.append(refused)
            raise MemoryError
        return real(self, *args)

    refused = "refused"
    monkeypatch.setattr(kind, step, refuse)
    ours, _ = test_staying.run(plan, monkeypatch, "auto", test_staying.BOTH, 64)
    theirs, _ = test_staying.run(plan, monkeypatch, "cpu", {}, 64)
    test_staying.same(ours, theirs)
    assert len(callers) > callers.index(refused) + 2
    is_told = kind is Deciding and step == "finish"  # before that idle memory is given back
    assert len(ours.summary["comparison"]["notes"]) == is_told


def test_arrays_side_by_side_begin_anew() -> None:
    begin = {
        "flags": np.array([1, 0, 1], np.uint8),
        "counts": np.arange(6).reshape(2, 3),
        "least": np.full(1, np.inf),
        "far": np.array([2**63 + 5], np.uint64),
    }
    found = slab.Slab(begin)
    for _ in range(2):
        read = found.read()
        for name, array in begin.items():
            np.testing.assert_array_equal(read[name], array)
            assert read[name].dtype == array.dtype
        found["counts"][1, 2] = 9
        found["least"][0] = 0.5
        assert (found.read()["counts"][1, 2], found.read()["least"][0]) == (9, 0.5)
        found.clear()


class Silent:
    def __getitem__(self, shape: Any) -> Any:
        return lambda *args: None


def test_a_device_that_does_nothing_any_more_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    given = TOLERANCE, "float32", "float32", (WIDTH,), "gate"
    ours = PlacedComparer(place(), "s", "y", *given)
    tensors = [there(side) for side in block(0, "float32", fails=False)]
    rows = np.arange(SAMPLES)
    ours.compare(*tensors, rows, is_lazy=True)
    array = type(cuda.to_device(np.zeros(1)))
    for owner, name, nothing in (
        (slab, "write_number", Silent()),
        (array, "copy_to_device", lambda *args, **given: None),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, nothing)
            for module, kernel in (("scan", "scan"), ("fold", "fold"), ("failing", "keep_failing")):
                patch.setattr(f"paritygate.gpu.{module}.{kernel}", Silent())
            with pytest.raises(DeviceError, match="it gave back what it had counted before"):
                ours.compare(*tensors, rows, is_lazy=True)
        ours.compare(*tensors, rows, is_lazy=True)


def test_what_counts_is_used_again_unless_it_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    where = place()
    ours = PlacedComparer(where, "s", "y", TOLERANCE, "float32", "float32", (WIDTH,), "gate")
    tensors = [there(side) for side in block(0, "float32", fails=True)]
    rows = np.arange(SAMPLES)
    for _ in range(3):
        ours.compare(*tensors, rows, is_lazy=True)
    (own,) = ours._pool._spare
    assert where._held == where.peak_bytes == own.bytes_told == own.counts.bytes_held > 0

    def refuse(*args: Any) -> Any:
        raise RuntimeError("[700] lost")

    monkeypatch.setattr(type(own.counts), "finish", refuse)
    with pytest.raises(DeviceError, match="lost"):
        ours.compare(*tensors, rows, is_lazy=True)
    assert (len(ours._pool._spare), where._held) == (0, 0)


def test_no_other_process_compiles_for_what_a_gpu_compares() -> None:
    given = TOLERANCE, "float32", "float32", (WIDTH,), "full"
    assert ahead.second_process([ElementComparer(*given)], 8)._calls
    assert not ahead.second_process([PlacedComparer(place(), "s", "y", *given)], 8)._calls
