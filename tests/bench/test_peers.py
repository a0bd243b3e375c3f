"""Other tools are measured on what all of them agree about; no time is judged."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from bench.measure import Figure, Scale
from bench.peers import measure, tools
from bench.peers.given import Answer, Given
from bench.peers.table import document, duration, targets
from tests import naive

ROOT = Path(__file__).resolve().parents[2]
OWN = ROOT / ".venv-bench" / "bin" / "python"
MODULES = ("datacompy", "duckdb", "matplotlib", "polars", "polygraphy", "torch")
ARE_HERE = all(importlib.util.find_spec(name) for name in MODULES)
PLAIN = [tool for tool in tools.TOOLS if tool.module == "numpy"]


@pytest.mark.slow
@pytest.mark.skipif(
    not (OWN.exists() or ARE_HERE), reason="there is no .venv-bench; `make peers` makes it"
)
def test_every_tool_says_the_same_and_gets_its_row() -> None:
    python = str(OWN) if OWN.exists() else sys.executable
    chosen = ["float16", "int8", "all failing", "recorded, 1 M elements, float32 x 1,"]
    only = [word for name in chosen for word in ("--only", name)]
    before = {path: path.stat().st_mtime_ns for path in (ROOT / "bench").glob("*.*")}
    done = subprocess.run(
        [python, "bench/peers/run.py", "--quick", *only],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    parts = done.stdout.split("### ")[1:]
    assert len(parts) == 4
    for part in parts:
        first = len(part.splitlines()[4:-1])
        assert first == (7 if part.startswith("recorded") else len(tools.TOOLS) + 1)
    assert {path: path.stat().st_mtime_ns for path in (ROOT / "bench").glob("*.*")} == before


@pytest.mark.parametrize(
    "given",
    [Given(3_000, "float32", 10, 0.01), Given(500, "float16", 1), Given(400, "int8", 4, 1.0)],
    ids=lambda given: given.name,
)
def test_what_is_given_is_what_its_name_says(given: Given) -> None:
    pair = given.make()
    assert pair.ref.shape == (given.samples, given.width)
    assert pair.ref.dtype == pair.cand.dtype == given.dtype
    judged = [
        naive.judge_sample(ref, cand, atol=pair.atol, rtol=pair.rtol)
        for ref, cand in zip(pair.ref.tolist(), pair.cand.tolist(), strict=True)
    ]
    failing = sum(one["failing"] for one in judged)
    assert failing == (given.samples * given.width if given.failing == 1 else failing)
    assert (failing > 0) == (given.failing > 0)
    for tool in PLAIN:
        answer = tool.read(tool.prepare(pair)())
        assert answer.failing == failing
        assert answer.passes == (failing == 0)


def test_a_tool_that_says_otherwise_is_not_timed(tmp_path: Path) -> None:
    liar = tools.Tool("liar", "", lambda pair: lambda: 7, lambda found: Answer(failing=found))
    given = Given(1_000)
    with pytest.raises(measure.DisagreeError, match=r"1 K elements.*liar says.*failing=7"):
        measure.measure(given, given.make(), [*PLAIN, liar], Scale(tmp_path, quick=True))


def test_answers_agree_where_both_say_something() -> None:
    ours = Answer(False, 3, 0.5, 1.0)
    assert Answer().agrees(ours)
    assert Answer(False, 3, 0.5, 1.0001).agrees(ours)
    assert Answer(max_error=0.50001).agrees(ours, is_rounded=True)
    for other in (Answer(True), Answer(failing=4), Answer(max_error=0.50001), Answer(total=1.1)):
        assert not other.agrees(ours)


def test_targets_say_whether_they_are_met() -> None:
    given, one = Given(64_000_000), Figure(1, 1, 1)
    rows = {
        given.name: [
            measure.Timed(tools.NUMPY, "", one, one, Figure(13, 12, 14)),
            measure.Timed(tools.TORCH, "", one, one, Figure(19, 18, 25)),
        ]
    }
    numpy, torch = targets(rows).splitlines()[2:]
    assert numpy.endswith("| 12 times | 13 (12–14) | met |")
    assert torch.endswith("| 20 times | 19 (18–25) | missed |")
    assert numpy in document(rows, [], 0.0)


def test_durations_have_the_unit_that_suits_them() -> None:
    assert duration(Figure(0.0025, 0.002, 0.003)) == "2.5 ms (2–3)"
    assert duration(Figure(2.5e-6, 2e-6, 3e-6)) == "2.5 µs (2–3)"
    assert duration(Figure(2.5, 2, 30)) == "2.5 s (2–30)"
