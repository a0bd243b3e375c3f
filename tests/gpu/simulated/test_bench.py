"""What measures on a GPU gives its rows, in Numba's simulator of one; no figure means anything."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from bench import gpu, gpu_cases, gpu_kernels, gpu_libraries, gpu_report, gpu_sides, gpu_start
from bench.gpu_cases import CASES
from bench.gpu_elements import Batched, OnDevice
from bench.gpu_libraries import LackingError
from bench.gpu_report import Equality, Missing, Report
from bench.gpu_sides import DeviceScale, paced
from bench.measure import Row

NAMES = (
    "bytes",
    "on a device, float32 x 10, clean",
    "kernels on a device, float64 x 1000",
    "on a device, bfloat16 x 1, all failing",
    "on a device, int8 x 1000, 1 % failing",
    "on a device, decision 2 edges x 1, gate",
    "on a device, decision top 5 x 1000, full",
    "ResNet-50 by torch, batch 32, comparing",
    "recorded on a device, x 1000",
)


def check(rows: Any, labels: Any) -> None:
    assert [row.label for row in rows] == list(labels)
    for row in rows:
        if isinstance(row, Missing):
            assert "can't be imported: No module named" in row.why, row
            continue
        figures = [f for f in (row.ours, row.base, row.ratio) if f is not None]
        assert all(math.isfinite(f.median) and f.median > 0 for f in figures), row


def test_the_command_prints_each_row_and_leaves_them_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [arg for name in NAMES for arg in ("--only", name)]
    assert gpu.main(["--tiny", "--out", str(tmp_path), *asked]) == 0
    labels = [label for case in CASES if case.name in NAMES for label in case.labels]
    report = Report.read(tmp_path / "gpu.json")
    check(report.rows, labels)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith(f"- {report.date}; Numba's simulator")
    assert [line.split(" | ")[0] for line in printed[5:]] == [f"| {label}" for label in labels]


def test_sides_of_several_batches_and_dtypes_are_measured(tmp_path: Path) -> None:
    scale = DeviceScale(tmp_path, quick=True, is_tiny=True)
    for case in (Batched(), OnDevice("float16", 10, has_others=True)):
        check(case.measure(scale), case.labels)


def test_what_is_tried_at_the_start_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = mock.create_autospec(gpu_start.Trial)
    given = {"on_cpu": 4e9, "sent": 8e9, "on_gpu": 2e9}
    for name, speed in given.items():
        getattr(trial.return_value, name).return_value = speed
    trial.return_value.seconds = 0.1
    monkeypatch.setattr(gpu_start, "Trial", trial)
    case = gpu_start.Tried()
    rows = case.measure(DeviceScale(tmp_path, quick=True, is_tiny=True))
    check(rows, case.labels)
    ratios = [row.ratio.median for row in rows if isinstance(row, Row) and row.ratio is not None]
    assert ratios == [0.5, 2.0] * 2  # ours over the CPU's time
    trial.return_value.on_gpu.return_value = None
    with pytest.raises(LackingError, match="the GPU has no room"):
        case.measure(DeviceScale(tmp_path, quick=True, is_tiny=True))


def test_parts_of_the_start_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(caches: str, code: str, *args: str) -> bytes:
        return b"[1.0, 2.0, 3.0, 4.0]" if code == gpu_start.PARTS else b""

    monkeypatch.setattr(gpu_start, "_python", answer)
    case = gpu_start.Start()
    check(case.measure(DeviceScale(tmp_path, quick=True, is_tiny=True)), case.labels)


def test_kernels_are_timed_by_the_device_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []

    class Event:
        def record(self) -> None:
            done.append("record")

        def synchronize(self) -> None:
            done.append("wait")

        def elapsed_time(self, end: object) -> float:
            assert end is not self
            return 2.0  # milliseconds

    monkeypatch.setattr(gpu_kernels, "SIMULATED", False)
    monkeypatch.setattr(gpu_kernels, "cuda", SimpleNamespace(event=Event))
    assert gpu_kernels.device_seconds(lambda: done.append("work")) == 0.002
    assert done == ["record", "work", "record", "wait"]


@pytest.mark.parametrize(("taken", "rounds"), [(0.1, 9), (1.0, 3), (30.0, 1)])
def test_what_takes_long_is_measured_in_fewer_rounds(
    taken: float, rounds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seconds(work: Any) -> float:
        work()
        return taken

    monkeypatch.setattr(gpu_sides, "seconds", seconds)
    answers = iter([500.0, 400.0, *[0.7] * 9])  # the first one compiles
    found = paced(DeviceScale(tmp_path), {"work": lambda: next(answers)})
    assert found == {"work": [0.7] * rounds}


def test_memory_that_was_kept_for_later_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes = {name: mock.MagicMock() for name in ("cupy", "torch")}
    device = mock.MagicMock()
    monkeypatch.setattr(gpu_libraries, "SIMULATED", False)
    monkeypatch.setattr(gpu_libraries, "cuda", device)
    for name, fake in fakes.items():
        monkeypatch.setitem(sys.modules, name, fake)
    gpu_libraries.give_back()
    fakes["cupy"].get_default_memory_pool().free_all_blocks.assert_called_once_with()
    fakes["torch"].cuda.empty_cache.assert_called_once_with()
    device.current_context().deallocations.clear.assert_called_once_with()


def test_what_fails_leaves_a_row_and_a_new_process_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(gpu.os, "execv", lambda _, command: started.append(command))
    monkeypatch.setattr(gpu, "is_sound", lambda: False)
    monkeypatch.setattr(OnDevice, "measure", lambda *_: 1 / 0)
    given = ["--tiny", "--out", str(tmp_path), "--only", "on a device, int8 x 1000, clean"]
    gpu.main(given)
    (command,) = started
    assert command[2:-1] == [*given, "--resume", "--within"]
    (case,) = [case for case in CASES if case.name == given[-1]]
    rows = Report.read(tmp_path / "gpu.json").rows
    assert rows == [Missing(label, "ZeroDivisionError: division by zero") for label in case.labels]
    assert gpu.main(command[2:]) == 0
    assert Report.read(tmp_path / "gpu.json").rows == rows


def test_a_measurement_goes_on_where_it_ended_with_the_same_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Case:
        def __init__(self, name: str) -> None:
            self.name, self.labels = name, (name,)

        def measure(self, scale: object) -> list[Row]:
            measured.append(self.name)
            if self.name == stop:
                raise KeyboardInterrupt
            return [Row.of(self.name, [1.0], "s")]

    measured: list[str] = []
    monkeypatch.setattr(gpu_cases, "CASES", (Case("a"), Case("b"), Case("c")))
    given, stop = ["--tiny", "--out", str(tmp_path)], "b"
    with pytest.raises(KeyboardInterrupt):
        gpu.main(given)
    cut = Report.read(tmp_path / "gpu.json").rows
    assert cut[1:] == [Missing(label, "the measurement ended before") for label in "bc"]
    stop = ""
    for other in (["--quick"], ["--only", "b"]):
        assert gpu.main([*given, *other, "--resume"]) == 2
        assert "was measured with --tiny: go on with the same options" in capsys.readouterr().err
    machine = gpu_report.describe_machine()
    with monkeypatch.context() as patch:
        patch.setattr(gpu_report, "describe_machine", lambda: {**machine, "chip": "another"})
        assert gpu.main([*given, "--resume"]) == 2
    assert "is of another machine: chip " in capsys.readouterr().err
    assert gpu.main([*given, "--resume"]) == 0
    assert measured == ["a", "b", "b", "c"]
    assert [row.label for row in Report.read(tmp_path / "gpu.json").rows] == ["a", "b", "c"]
    assert gpu.main(["--out", str(tmp_path / "none"), "--tiny", "--resume"]) == 2


def test_tests_that_took_too_long_are_tried_again_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    equal = Equality("equal", "24 tests passed, 0 failed")
    given: list[float] = []

    def equality(_: Any, seconds: float) -> Equality:
        given.append(seconds)
        return Equality("unknown", "stopped") if len(given) == 1 else equal

    monkeypatch.setattr(gpu, "_equality", equality)
    gpu.main(["--tiny", "--out", str(tmp_path), "--within", "100", "--only", "bytes"])
    assert Report.read(tmp_path / "gpu.json").equality == equal
    assert given[0] == gpu.TESTS_S
    assert 60 < given[1] < 100


def test_names_and_labels_are_unique() -> None:
    names = [case.name for case in CASES]
    labels = [label for case in CASES for label in case.labels]
    assert len(set(names)) == len(names)
    assert len(set(labels)) == len(labels)
