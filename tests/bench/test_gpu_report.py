"""What a measurement on a GPU leaves, and what stands beside it: on the CPU, of small arrays."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from bench import gpu, gpu_libraries
from bench.gpu_libraries import LackingError, check_same, library, statistics, steps
from bench.gpu_model import Size, resnet
from bench.gpu_report import HEADING, UNKNOWN, Equality, Missing, Report, told, with_report
from bench.measure import Row
from bench.run import NOTES, cells

from paritygate.comparison.elements import ElementComparer
from paritygate.core.policy import Tolerance

ROWS = [
    Row.against("a", [2.0, 9.0, 4.0], "s", [1.0, 3.0, 4.0], "y", limit=2.0),
    Row.against("b", [3.0], "s", [1.0], "y", limit=2.0),
    Row.of("c", [5.0], "ms"),
    Missing("d", "no CuPy"),
]
MACHINE = {"chip": "A", "cpu": "B", "cores": 16, "python": "3.12", "versions": {"numba": "1"}}
RESULTS = "# Results\n\n| what |\n| --- |\n| x |\n\n## Notes\n\n- A note.\n"


def a_report(state: Any = "equal") -> Report:
    return Report(Equality(state, "24 tests passed, 0 failed"), MACHINE, "2026-12-01", list(ROWS))


def test_what_was_written_is_read(tmp_path: Path) -> None:
    a_report().write(tmp_path / "gpu.json")
    found = Report.read(tmp_path / "gpu.json")
    assert found == a_report()
    assert found.missed == ["b"]
    assert [p.name for p in tmp_path.iterdir()] == ["gpu.json"]
    a_report().write(tmp_path / "gpu.json", ["e"])
    found = Report.read(tmp_path / "gpu.json")
    assert found.rows[-1] == Missing("e", "the measurement ended before")
    found.drop_cut()
    assert found == a_report()
    assert told(found.rows[0], "") == told(ROWS[0])


def test_results_keep_all_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    once = with_report(RESULTS, a_report())
    before, _, after = once.partition(HEADING)
    assert before == RESULTS.partition("\n## Notes")[0]
    assert after.endswith("\n## Notes\n\n- A note.\n")
    assert "| d | not measured: no CuPy |" in after
    assert f"| {' | '.join(cells(ROWS[1])[:-1])} | 2026-12-01 |" in after
    assert with_report(once, a_report()) == once
    assert once.partition(NOTES)[0] == before  # what bench/run.py writes anew

    monkeypatch.setattr(gpu, "RESULTS", tmp_path / "RESULTS.md")
    gpu.RESULTS.write_text(RESULTS)
    path = tmp_path / "gpu.json"
    for state in ("unknown", "differ"):
        a_report(state).write(path)
        assert gpu.main(["--from", str(path), "--record"]) == 1
        assert gpu.RESULTS.read_text() == RESULTS
    a_report().write(path)
    assert gpu.main(["--from", str(path), "--record"]) == 1  # "b" takes more than is allowed
    assert gpu.RESULTS.read_text() == once
    assert gpu.main(["--from", str(path), "--record", "--quick"]) == 2


@pytest.mark.parametrize("options", [("--quick",), ("--tiny",), ("--only 'bytes'",), UNKNOWN])
def test_a_part_of_a_measurement_isnt_recorded_as_the_whole(
    options: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(gpu, "RESULTS", tmp_path / "RESULTS.md")
    gpu.RESULTS.write_text(RESULTS)
    path = tmp_path / "gpu.json"
    replace(a_report(), options=options).write(path)
    if options == UNKNOWN:
        told = json.loads(path.read_text())
        del told["options"]
        path.write_text(json.dumps(told))
    assert gpu.main(["--from", str(path), "--record"]) == 2
    assert capsys.readouterr().err == f"not recorded: measured with {options[0]}\n"
    assert gpu.RESULTS.read_text() == RESULTS
    judged = gpu.main(["--from", str(path)])
    assert judged == int(options[0] not in ("--quick", "--tiny"))  # others judge "b"


SAID = (
    ("print('t::a PASSED'); print('t::b PASSED')", "equal", "2 tests passed, 0 failed"),
    ("print('0 tests')", "unknown", "0 tests passed, 0 failed, ended with 0"),
    (
        "print('t::a PASSED\\nt::b FAILED\\nFAILED t::b'); raise SystemExit(1)",
        "differ",
        "1 tests passed, 1 failed, ended with 1",
    ),
)


@pytest.mark.parametrize(("code", "state", "text"), SAID)
def test_only_tests_that_all_passed_say_that_a_device_counts_right(
    code: str, state: str, text: str
) -> None:
    assert gpu.check_equality([sys.executable, "-c", code], 60) == Equality(state, text)


def test_tests_that_take_too_long_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tests = mock.create_autospec(subprocess.Popen, instance=True)
    late = subprocess.TimeoutExpired("pytest", 150)
    tests.communicate.side_effect = [late, ("t::a PASSED\n", None)]
    tests.__enter__.return_value, tests.pid = tests, 7
    killed: list[int] = []
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: tests)
    monkeypatch.setattr(gpu.os, "killpg", lambda group, _: killed.append(group))
    told = "1 tests passed, 0 failed, stopped after 150 s"
    assert gpu.check_equality(["pytest"], 150) == Equality("unknown", told)
    assert killed == [7]


def test_no_case_starts_too_late() -> None:
    class Case:
        labels = ("x", "y")

        def measure(self, _: Any) -> list[Row]:
            raise LackingError("there is no torch")

    case: Any = Case()
    scale: Any = None
    late = gpu.measure(case, scale, time.monotonic() - 1)
    assert late == [Missing(label, "no time was left") for label in ("x", "y")]
    soon = gpu.measure(case, scale, time.monotonic() + 60)
    assert [row.why for row in soon if isinstance(row, Missing)] == ["there is no torch"] * 2


class Lying:
    """An array as one of a device is asked for it."""

    def __init__(self, array: Any) -> None:
        self.copy_to_host = array.copy


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("name", gpu_libraries.NAMES)
@pytest.mark.parametrize(("dtype", "width"), [("float32", 3), ("float16", 16)])
def test_plain_expressions_find_what_is_compared(
    name: Any, dtype: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(gpu_libraries, "SIMULATED", True)
    rng = np.random.default_rng(width)
    ref = rng.normal(size=(40, width)).astype(dtype)
    cand = (ref * (1 + 1e-3 * rng.normal(size=ref.shape))).astype(dtype)
    ref[3, 1], cand[5, 2], ref[7, 0] = np.inf, np.nan, cand[7, 0]
    tolerance = Tolerance(1e-3, 1e-3)
    given = tolerance, dtype, dtype, (width,), "full"
    tally, detail = ElementComparer(*given).compare(ref, cand, np.arange(40))
    lib = library(name)
    own = [lib.taken(Lying(side), dtype) for side in (ref, cand)]
    found = statistics(lib, *own, tolerance, "full")
    check_same(tally, lib, found)
    assert tally.max_abs_error is not None
    place = divmod(int(lib.host(found["max_error_at"])), width)
    assert place == (tally.max_abs_error.ordinal, tally.max_abs_error.index)
    assert np.array_equal(lib.host(found["failing"]), detail.failing_elements)
    assert int(lib.host(found["nonfinite"])) == 2
    finite = [lib.taken(Lying(side[8:]), dtype) for side in (ref, cand)]
    later, _ = ElementComparer(*given).compare(ref[8:], cand[8:], np.arange(32))
    check_same(later, lib, statistics(lib, *finite, tolerance, "full") | steps(lib, *finite))


@pytest.mark.slow
def test_the_model_is_of_the_size_of_resnet_50() -> None:
    torch = pytest.importorskip("torch")
    with torch.device("meta"), torch.inference_mode():
        module = resnet(torch, Size())
        assert sum(weights.numel() for weights in module.parameters()) == 25_557_032
        assert module(torch.zeros(1, 3, 224, 224)).shape == (1, 1000)
