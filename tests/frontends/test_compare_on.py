"""`--compare-on`: where outputs are compared, and what is said of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.frontends.command import environment, invoke
from tests.frontends.plans import make_plan

import paritygate
from paritygate.comparison import place
from paritygate.comparison.comparers import make_placed
from paritygate.comparison.elements import ElementComparer
from paritygate.comparison.place import open_place
from paritygate.core.errors import DeviceError
from paritygate.core.policy import Tolerance
from paritygate.gpu.driver import Chip, NoCudaError
from paritygate.pipeline import execute
from paritygate_frontends.report.runtime import render_comparison

REASON = "no NVIDIA driver is installed"
SENTENCE = (
    f"--compare-on cuda: there is no GPU to compare on: {REASON}; use --compare-on cpu "
    '(compare_on = "cpu" in the plan), or auto'
)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def find() -> list[Chip]:
        raise NoCudaError(REASON)

    monkeypatch.delenv("NUMBA_ENABLE_CUDASIM", raising=False)
    monkeypatch.setattr(place, "find_chips", find)


@pytest.mark.usefixtures("no_gpu")
@pytest.mark.parametrize("says", ["option", "plan"])
def test_without_a_gpu_nothing_is_run(tmp_path: Path, says: str) -> None:
    plan = make_plan(tmp_path)
    (tmp_path / "ref.onnx").unlink()  # it would be told, were it looked for
    text = plan.read_text()
    if says == "plan":
        plan.write_text(f'compare_on = "cuda"\n{text}')
    asked = ("--compare-on", "cuda") if says == "option" else ()
    result = invoke("run", plan, "--out", tmp_path / "runs", "--json", *asked)
    assert result.exit_code == 2
    told = json.loads(result.stdout)
    assert told["verdict"] == "unjudged"
    assert [(r["code"], r["message"]) for r in told["reasons"]] == [("comparison.device", SENTENCE)]
    assert not (tmp_path / "runs").exists()


@pytest.mark.usefixtures("no_gpu")
def test_the_option_has_precedence_over_the_plan(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, 1.0 + 1e-6)
    plan.write_text(f'compare_on = "cuda"\n{plan.read_text()}')
    asked = ("--compare-on", "cpu", "--set", "stages.only.flips.gate=1")
    result = invoke("run", plan, "--out", tmp_path / "runs", "--json", *asked)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["comparison"] == {"on": "cpu"}
    assert invoke("check", plan).exit_code == 2


def test_a_place_that_is_unknown_is_a_problem_of_the_plan(tmp_path: Path) -> None:
    plan = make_plan(tmp_path)
    plan.write_text(f'compare_on = "gpu"\n{plan.read_text()}')
    result = invoke("check", plan)
    assert result.exit_code == 2
    assert "compare_on: " in result.output


def test_a_place_that_is_unknown_is_refused_in_python(tmp_path: Path) -> None:
    wrong: Any = "cuda:0"
    with pytest.raises(ValueError, match="compare_on: found 'cuda:0', allowed are 'cpu', 'cuda'"):
        paritygate.run(make_plan(tmp_path), out=None, compare_on=wrong)


@pytest.mark.parametrize("has_compiler", [False, True])
def test_a_gpu_needs_what_compiles_for_it(
    monkeypatch: pytest.MonkeyPatch, has_compiler: bool
) -> None:
    chip = Chip("A", "9.0", 1 << 30, "", "13.0")
    monkeypatch.delenv("NUMBA_ENABLE_CUDASIM", raising=False)
    monkeypatch.setattr(place, "find_chips", lambda: [chip, chip])
    found = object() if has_compiler else None
    monkeypatch.setattr(place.importlib.util, "find_spec", lambda name: found)
    if has_compiler:
        opened = open_place("cuda")
        assert opened is not None
        assert opened.chip is chip
        return
    with pytest.raises(DeviceError, match="numba-cuda, which compiles for a GPU, isn't installed"):
        open_place("cuda")


@pytest.mark.parametrize("is_asked", [True, False])
def test_a_compiler_that_cant_be_loaded_is_told(
    monkeypatch: pytest.MonkeyPatch, is_asked: bool
) -> None:
    where = place.Place(Chip("A", "9.0", 1 << 30, "", "13.0"))
    where.wanted = None if is_asked else frozenset({("s", "y")})
    monkeypatch.setitem(sys.modules, "paritygate.comparison.placed", None)
    given = ("s", "y"), Tolerance(0.1, 0.1), ("float32", "float32"), (3,), "gate"
    told = "stage 's', output 'y': numba-cuda, which compiles for a GPU, can't be loaded: import"
    if is_asked:
        with pytest.raises(DeviceError, match=told):
            make_placed(where, *given)
        return
    assert type(make_placed(where, *given)) is ElementComparer
    assert "compared on the CPU" in where.notes[0]
    assert told in where.notes[0]


@pytest.mark.parametrize(("asked", "planned", "found"), [
    (None, "", "cpu"), (None, "auto", "auto"), ("auto", "cpu", "auto"), ("cpu", "auto", "cpu"),
])  # fmt: skip
def test_the_cpu_compares_unless_a_plan_or_a_caller_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: Any, planned: str, found: str
) -> None:
    seen = []
    kept = execute.prepare_plan

    def prepared(*args: Any, compare_on: str, **options: Any) -> Any:
        seen.append(compare_on)
        return kept(*args, **options)

    monkeypatch.setattr(execute, "prepare_plan", prepared)
    plan = make_plan(tmp_path, 1.0 + 1e-6)
    if planned:
        plan.write_text(f'compare_on = "{planned}"\n{plan.read_text()}')
    paritygate.run(plan, out=None, compare_on=asked)
    assert seen == [found]


@pytest.mark.slow
def test_auto_looks_for_no_gpu_and_loads_nothing_for_one(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, 1.0 + 1e-6)
    code = (
        "import sys, paritygate\n"
        f"found = paritygate.run({str(plan)!r}, out=None, compare_on='auto')\n"
        "assert found.summary['comparison'] == {'on': 'cpu'}\n"
        "bad = [m for m in sys.modules if m.split('.')[0] in ('cupy', 'numba_cuda')]\n"
        "assert not bad and 'numba.cuda' not in sys.modules, bad\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def lines(comparison: dict[str, Any]) -> list[str]:
    return [
        str(getattr(part, "renderable", part))
        for part in render_comparison(comparison)
        if str(part)
    ]


def test_the_report_names_the_gpu_and_what_was_compared_there() -> None:
    assert lines({"on": "cpu"}) == []
    found = {
        "device": {
            "name": "A",
            "compute_capability": "9.0",
            "driver": "580.65.06",
            "cuda": "13.0",
            "memory_bytes": 80 << 30,
        },
        "memory": {"peak_bytes": 37 << 20, "peak_pinned_bytes": 0, "piece_bytes": 1 << 26},
        "samples": {"s": {"y": {"cuda": 20, "cpu": 0}, "z": {"cuda": 1, "cpu": 1900}}},
        "decisions": {"s": {"d": {"cuda": 19, "cpu": 0}, "e": {"cuda": 0, "cpu": 1900}}},
        "notes": ["the GPU had no room"],
    }
    held = "at most 37.0 MiB were held for comparisons"
    assert lines(found) == [
        "Compared on a GPU",
        f"A, compute capability 9.0, driver 580.65.06, CUDA 13.0, 80.0 GiB; {held}",
        "s, y: 20 samples",
        "s, z: 1 sample, and 1,900 on the CPU",
        "s, decision d: 19 samples",
        "s, decision e: 0 samples, and 1,900 on the CPU",
        "the GPU had no room",
    ]
    found["memory"]["peak_pinned_bytes"] = 3 << 20
    assert lines(found)[1].endswith(f"{held}, and 3.0 MiB of pinned memory")


def test_the_report_says_what_was_measured() -> None:
    one = {"stage": "s", "output": "y", "threads": 2, "cpu_bytes_per_s": 21_040_000_000}
    none = one | {"sent_bytes_per_s": None, "cuda_bytes_per_s": None, "on": "cpu"}
    some = none | {"sent_bytes_per_s": 9_000_000_000, "threads": 1}
    both = some | {"cuda_bytes_per_s": 8_960_000_000}
    found = {"on": "cpu", "measured": [none, some, both], "notes": ["no room"]}
    assert lines(found) == [
        "Compared on the CPU, as measured",
        "s, y: 21.0 GB/s by 2 threads on the CPU",
        "s, y: 21.0 GB/s by 1 thread on the CPU; 9.0 GB/s reach the GPU",
        "s, y: 21.0 GB/s by 1 thread on the CPU; 9.0 GB/s are sent to the GPU and compared there",
        "no room",
    ]
