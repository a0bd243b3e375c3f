"""Every benchmark gives its rows; no time is judged."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest
from bench.cases import CASES
from bench.measure import Case, Figure, Row, Scale
from bench.run import measure, merged

ROOT = Path(__file__).resolve().parents[2]
# They start processes, and differ from cases that are run in numbers only; "same order" has its
# verdict in common with "shuffled", and its ids with "all failing".
ALIKE = {
    "kernels, float32, full",
    "memory, same order",
    "recorded, 20000000 x 1",
    "two sessions, MLP of 1 ms for half a second",
    "two sessions, MLP of about 3 ms",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [case for case in CASES if case.name not in ALIKE], ids=lambda case: case.name
)
def test_case_gives_its_rows(case: Case, tmp_path: Path) -> None:
    rows = case.measure(Scale(tmp_path, quick=True))
    assert [row.label for row in rows] == list(case.labels)
    for row in rows:
        figures = [f for f in (row.ours, row.base, row.ratio) if f is not None]
        assert all(math.isfinite(f.median) and f.median > 0 for f in figures), row
        assert row.unit


def test_names_and_labels_are_unique() -> None:
    names = [case.name for case in CASES]
    labels = [label for case in CASES for label in case.labels]
    assert len(set(names)) == len(names)
    assert len(set(labels)) == len(labels)
    assert set(names) > ALIKE


def test_ratio_is_taken_round_by_round() -> None:
    row = Row.against("x", [2.0, 9.0, 4.0], "s", [1.0, 3.0, 4.0], "y", limit=2.0)
    assert row.ratio == Figure(2.0, 1.0, 3.0)
    assert row.is_met
    assert not Row.against("x", [3.0], "s", [1.0], "y", limit=2.0).is_met
    assert Row.against("x", [3.0], "s", [1.0], "y", limit=4.0, limited="ours").is_met
    assert not Row.of("x", [5.0, 1.0, 6.0], "s", limit=4.0).is_met


def test_rows_that_were_not_measured_stay() -> None:
    before = "| what |\n| --- |\n| a | 1 | old |\n| b | 2 | old |\n| gone | 3 | old |\n"
    lines = merged(before, [Row.of("b", [5.0], "s"), Row.of("c", [6.0], "s")], ["a", "b", "c"])
    assert lines[0] == "| a | 1 | old |"
    assert [text.split(" | ")[:2] for text in lines[1:]] == [["| b", "5 (5–5)"], ["| c", "6 (6–6)"]]


def test_command_prints_a_table_and_writes_nothing() -> None:
    before = {path: path.stat().st_mtime_ns for path in (ROOT / "bench").glob("*.*")}
    done = subprocess.run(
        [sys.executable, "bench/run.py", "--quick", "--only", "join, ascending"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line.split(" | ")[0] for line in done.stdout.splitlines()[2:]] == [
        "| join, ascending ints, dict",
        "| join, ascending ints, NumPy",
    ]
    assert {path: path.stat().st_mtime_ns for path in (ROOT / "bench").glob("*.*")} == before


def test_command_names_the_cases_for_an_unknown_name() -> None:
    done = subprocess.run(
        [sys.executable, "bench/run.py", "--only", "nonesuch"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert all(case.name in done.stderr for case in CASES)


def test_what_is_measured_again_has_the_rounds_of_all_turns(tmp_path: Path) -> None:
    scales = []

    class Counted:
        name, labels = "a case", ("a case",)

        def measure(self, scale: Scale) -> list[Row]:
            scales.append(scale)
            turn = float(len(scales))
            return [Row.against("a case", [turn, turn + 10], "s", [1.0, 2.0], "what")]

    case = Counted()
    (row,) = measure([case], [case], Scale(tmp_path))
    assert [scale.rounds for scale in scales] == [3, 3, 3]
    assert row.ours == Figure(7.0, 1.0, 13.0)
    assert row.ratio == Figure(4.25, 1.0, 6.5)
    (row,) = measure([case], [], Scale(tmp_path))
    assert scales[-1].rounds == 9
