"""Outputs of the host under "auto" and "cuda": measured here and there, compared where faster."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.packs import write_pack

import paritygate
from paritygate.comparison import place, speeds
from paritygate.comparison.elements import ElementComparer
from paritygate.comparison.on_device import DeviceComparer
from paritygate.comparison.place import Place
from paritygate.comparison.speeds import Trial, clean_sides
from paritygate.core.policy import Tolerance
from paritygate.gpu import staging
from paritygate.gpu.driver import Chip, NoCudaError
from paritygate.gpu.staging import Lane
from paritygate.pipeline import host_outputs, staying

SAMPLES, TOLERANCE = 12, Tolerance(1e-3, 1e-3)
CHIP = Chip("A", "9.0", 1 << 30, "", "13.0")


@pytest.fixture
def packs(tmp_path: Path) -> tuple[Path, Path]:
    ref = np.random.default_rng(3).normal(size=(SAMPLES, 4)).astype(np.float32)
    cand = ref.copy()
    cand[3, 1] = np.nan
    for name, values in (("ref", ref), ("cand", cand)):
        outputs = {"y": values, "t": np.array(["a"] * SAMPLES)}
        write_pack(tmp_path / f"{name}.arrow", np.arange(SAMPLES), {}, outputs)
    return tmp_path / "ref.arrow", tmp_path / "cand.arrow"


def compare(packs: tuple[Path, Path], on: Any) -> Any:
    given: dict[str, Any] = {"atol": 1e-3, "rtol": 1e-3, "out": None, "threads": 2, "stats": "gate"}
    return paritygate.compare(*packs, compare_on=on, **given)


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What is tried, and how fast it is said to be; all is worth it."""
    found: dict[str, Any] = {"cpu": 100.0, "sent": 300.0, "gpu": 200.0, "tried": []}

    def say(name: str) -> Any:
        def speed(self: Any, *args: Any) -> Any:
            found["tried"].append(name)
            if isinstance(found[name], Exception):
                raise found[name]
            return found[name]

        return speed

    monkeypatch.setattr(host_outputs, "WORTH_BYTES", 0)
    monkeypatch.setattr(staying, "WORTH_BYTES", 0)
    monkeypatch.setattr(host_outputs, "WORTH_S", 0.0)
    for method, name in (("on_cpu", "cpu"), ("sent", "sent"), ("on_gpu", "gpu")):
        monkeypatch.setattr(Trial, method, say(name))
    return found


def test_auto_compares_there_what_is_clearly_faster(packs: Any, tried: dict[str, Any]) -> None:
    run, there = compare(packs, "auto"), compare(packs, "cpu")
    assert run.summary["stages"] == there.summary["stages"]
    found = run.summary["comparison"]
    assert (found["on"], tried["tried"]) == ("cuda", ["cpu", "sent", "gpu"])
    (stage,) = found["samples"]
    assert found["samples"][stage] == {"y": {"cuda": SAMPLES, "cpu": 0}}
    assert found["measured"] == [
        {
            "stage": stage,
            "output": "y",
            "threads": 2,
            "cpu_bytes_per_s": 100,
            "sent_bytes_per_s": 300,
            "cuda_bytes_per_s": 200,
            "on": "cuda",
        }
    ]
    assert found["notes"] == []


@pytest.mark.parametrize(
    ("sent", "gpu", "order", "figures"),
    [
        (119.0, 500.0, ["cpu", "sent"], (119, None)),
        (500.0, 119.0, ["cpu", "sent", "gpu"], (500, 119)),
        (500.0, None, ["cpu", "sent", "gpu"], (500, None)),
    ],
)
def test_auto_leaves_to_the_cpu_what_isnt(
    packs: Any, tried: dict[str, Any], sent: float, gpu: Any, order: list[str], figures: Any
) -> None:
    tried.update(sent=sent, gpu=gpu)
    found = compare(packs, "auto").summary["comparison"]
    assert (found["on"], tried["tried"]) == ("cpu", order)
    assert set(found) == {"on", "measured"}
    (one,) = found["measured"]
    assert (one["cpu_bytes_per_s"], one["on"]) == (100, "cpu")
    assert (one["sent_bytes_per_s"], one["cuda_bytes_per_s"]) == figures


def test_cuda_compares_there_whatever_is_faster(packs: Any, tried: dict[str, Any]) -> None:
    tried.update(sent=1.0, gpu=1.0)
    found = compare(packs, "cuda").summary["comparison"]
    assert found["on"] == "cuda"
    (one,) = found["measured"]
    assert (one["cpu_bytes_per_s"], one["cuda_bytes_per_s"], one["on"]) == (100, 1, "cuda")
    assert found["samples"][one["stage"]]["y"] == {"cuda": SAMPLES, "cpu": 0}


@pytest.mark.parametrize("on", ["auto", "cuda"])
def test_what_the_gpu_has_no_room_for_is_told_as_compared_on_the_cpu(
    packs: Any, tried: dict[str, Any], on: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(DeviceComparer, "begin", refuse)
    found = compare(packs, on).summary["comparison"]
    (one,) = found["measured"]
    assert one["on"] == "cpu"
    assert found["samples"][one["stage"]]["y"] == {"cuda": 0, "cpu": SAMPLES}


def test_the_cpu_is_asked_for_without_a_measurement(packs: Any, tried: dict[str, Any]) -> None:
    assert compare(packs, "cpu").summary["comparison"] == {"on": "cpu"}
    assert tried["tried"] == []


@pytest.mark.parametrize("on", ["auto", "cuda"])
def test_little_is_compared_before_anything_is_measured(
    packs: Any, tried: dict[str, Any], on: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staying, "WORTH_BYTES", 2 * 4 * 4 * SAMPLES + 1)
    found = compare(packs, on).summary["comparison"]
    assert (tried["tried"], "measured" in found) == ([], False)


def test_what_the_cpu_does_before_a_gpu_is_ready_is_left_to_it(
    packs: Any, tried: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_outputs, "WORTH_S", 4.0)
    tried["cpu"] = 2 * 4 * 4 * SAMPLES / 3.9
    found = compare(packs, "auto").summary["comparison"]
    assert (found["on"], tried["tried"]) == ("cpu", ["cpu"])


def test_without_a_gpu_nothing_is_measured_and_nothing_told(
    packs: Any, tried: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> Any:
        raise NoCudaError("no driver")

    monkeypatch.setattr(place, "is_simulated", lambda: False)
    monkeypatch.setattr(place, "find_chips", none)
    assert compare(packs, "auto").summary["comparison"] == {"on": "cpu"}
    assert tried["tried"] == []


def test_what_fails_while_it_is_tried_is_told_and_left_to_the_cpu(
    packs: Any, tried: dict[str, Any]
) -> None:
    tried["sent"] = RuntimeError("a bus\nwas lost")
    found = compare(packs, "auto").summary["comparison"]
    told = (
        "stage 'comparison', output 'y': compared on the CPU, since it couldn't be tried on the "
        "GPU: a bus was lost"
    )
    assert found == {"on": "cpu", "notes": [told]}


def test_a_trial_compares_here_and_there_and_gives_all_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    where = Place(CHIP)
    lanes: list[Lane] = []
    real = Lane.send
    monkeypatch.setattr(Lane, "send", lambda self, arrays: lanes.append(self) or real(self, arrays))
    trial = Trial(TOLERANCE, ("float32", "float32"), (3,), "gate", 1)
    with where.for_trials() as tried:
        assert trial.on_cpu() > 0
        assert trial.sent(tried) > 0
        assert (trial.on_gpu(tried) or 0) > 0
    assert trial.seconds > 0
    assert (where.samples, where.notes) == ({}, [])
    with where.lane() as lane:
        assert lane in lanes  # the run has what was made for the trial
    assert where.peak_pinned_bytes > 0
    where.close()
    assert (where._held, where._pinned) == (0, 0)


def test_memory_that_a_trial_counts_in_is_told_and_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    where, begin = Place(CHIP), DeviceComparer.begin
    made: list[Callable[[], object]] = []
    freed: list[int] = []

    def watched(self: DeviceComparer) -> Any:
        counts = begin(self)
        made.append(weakref.ref(counts))
        return counts

    def give_back() -> None:
        freed.append(sum(one() is not None for one in made))

    monkeypatch.setattr(DeviceComparer, "begin", watched)
    monkeypatch.setattr(staging, "give_back_freed", give_back)
    one = host_outputs.HostOutput("s", "y", TOLERANCE, ("float32", "float32"), (4,), 1 << 40)
    gc.disable()  # as between two collections
    try:
        (found,) = host_outputs.measure_outputs(where, [one], "full", 1, is_asked=True)
    finally:
        gc.enable()
    assert found.cuda_bytes_per_s
    assert made
    assert freed[-1] == 0
    with where.lane() as lane:
        assert where._held == lane._held[0]
    assert where.peak_bytes > where._held
    where.close()
    assert (where._held, where._pinned) == (0, 0)


def test_a_trial_without_room_on_the_gpu_has_no_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any, arrays: Any) -> Any:
        raise MemoryError

    trial = Trial(TOLERANCE, ("float32", "float32"), (3,), "gate", 1)
    monkeypatch.setattr(Lane, "send", refuse)
    assert trial.on_gpu(Place(CHIP)) is None


def test_samples_that_are_too_large_are_no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speeds, "BLOCK_BYTES", 999)
    with pytest.raises(ValueError, match="samples of 4,000 bytes are too large to try"):
        Trial(TOLERANCE, ("float32", "float32"), (1000,), "gate", 1)


@pytest.mark.parametrize(
    "dtypes",
    [
        ("float32", "float32"),
        ("float32", "float16"),
        ("float16", "float32"),
        ("bfloat16", "bfloat16"),
        ("float8_e5m2", "float8_e5m2"),
        ("int4", "int4"),
        ("uint64", "uint64"),
        ("bool", "bool"),
    ],
)
@pytest.mark.parametrize("scale", [0.0, 1e-3, 1e300])
def test_what_is_tried_is_clean(dtypes: tuple[str, str], scale: float) -> None:
    other = None if dtypes[0] == dtypes[1] else dtypes[1]
    tolerance = Tolerance(0.0 if dtypes[0] == "bool" else scale, 0.0, candidate_dtype=other)
    ref, cand = clean_sides(tolerance, dtypes, 2000)
    comparer = ElementComparer(tolerance, *dtypes, (10,), "gate")
    found, _ = comparer.compare(
        ref.reshape(200, 10), cand.reshape(200, 10), np.arange(200), is_lazy=False
    )
    assert (found.failing_elements, found.finite_pairs) == (0, 2000)


@pytest.mark.parametrize("given", [(0.1, 0.0), (0.0, 0.01)])
@pytest.mark.parametrize("cap", [0.0, 2e-3])
def test_what_is_tried_is_clean_below_a_hard_cap(given: tuple[float, float], cap: float) -> None:
    tolerance = Tolerance(*given, max_outlier_fraction=0.1, max_abs=cap)
    ref, cand = clean_sides(tolerance, ("float32", "float32"), 2000)
    comparer = ElementComparer(tolerance, "float32", "float32", (10,), "gate")
    sides = ref.reshape(200, 10), cand.reshape(200, 10)
    found, _ = comparer.compare(*sides, np.arange(200), is_lazy=False)
    assert (found.failing_elements, found.finite_pairs) == (0, 2000)
    assert bool((ref != cand).any()) == (cap > 0)


def test_threads_try_a_large_block_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speeds, "is_simulated", lambda: False)
    trial = Trial(TOLERANCE, ("float32", "float32"), (1000,), "gate", 3)
    assert [part.ref.nbytes // 4000 for part in trial._parts] == 3 * [speeds.BLOCK_BYTES // 4000]
