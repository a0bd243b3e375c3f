"""In what two sides differ, what the report says of it, and what stays unjudged of placement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import models
from tests.packs import write_pack
from tests.pipeline.test_record import plan_of as record_plan

import paritygate
from paritygate_frontends.report.screen import plain
from paritygate_frontends.report.verdict import render_report

X = np.linspace(-1, 1, 40, dtype=np.float32).reshape(10, 4)
EXACT = {"atol": 0.0, "rtol": 0.0}


def run(folder: Path, ref: Any, cand: Any) -> paritygate.RunResult:
    models.scale_model(folder / "m.onnx", 1.0)
    models.scale_model(folder / "half.onnx", 1.0, dtype=models.DOUBLE)
    (folder / "sides.py").write_text("def same(given):\n    return {'y': given['x']}\n")
    write_pack(folder / "g.arrow", np.arange(10), {"x": X, "x64": X.astype(np.float64)})
    plan = {
        "golden": "g.arrow",
        "runners": {"a": ref, "b": cand},
        "stages": [{"reference": "a", "candidate": "b", "default": EXACT}],
    }
    return paritygate.run(paritygate.load_plan(plan, folder=folder), out=None)


def differences(result: paritygate.RunResult) -> dict[str, tuple[str, str]]:
    found = result.summary["stages"][0]["differences"]
    return {one["what"]: (one["reference"], one["candidate"]) for one in found}


def test_settings_that_differ_are_listed_and_others_are_not(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        {"model": "m.onnx"},
        {
            "model": "m.onnx",
            "graph_optimization_level": "disable",
            "intra_op_num_threads": 2,
            "batch_size": 5,
            "session_options": {"session.disable_prepacking": True},
        },
    )
    assert result.verdict == "release"
    found = differences(result)
    assert found.pop("session options")[1].endswith("session.disable_prepacking 1")
    assert found == {
        "graph optimization level": ("all", "disable"),
        "intra-op threads": ("1", "2"),
        "batch size": ("256", "5"),
    }
    lines = [line.strip() for line in plain(render_report(result.summary)).splitlines()]
    at = next(i for i, line in enumerate(lines) if line.startswith("Stage "))
    assert lines[at + 1].startswith(
        "the sides differ in: graph optimization level all -> disable; intra-op threads 1 -> 2"
    )


def test_the_arithmetic_of_the_models_is_listed(tmp_path: Path) -> None:
    other = {"model": "half.onnx", "inputs": {"x64": "x"}}
    found = differences(run(tmp_path, {"model": "m.onnx"}, other))
    assert found == {"arithmetic": ("float32", "float64")}


@pytest.mark.slow
def test_a_process_of_its_own_is_listed(tmp_path: Path) -> None:
    apart = {"model": "m.onnx", "isolate": "process", "graph_optimization_level": "disable"}
    result = run(tmp_path, {"model": "m.onnx"}, apart)
    assert result.verdict == "release"
    assert differences(result) == {
        "graph optimization level": ("all", "disable"),
        "process of its own": ("no", "yes"),
    }
    for side in ("a", "b"):
        placed = result.summary["runners"][side]["placement"]
        assert placed["executed"]["CPUExecutionProvider"]["nodes"] == 1, placed


def test_of_two_kinds_what_both_have_is_compared(tmp_path: Path) -> None:
    import onnxruntime

    result = run(tmp_path, {"call": "sides:same"}, {"model": "m.onnx"})
    found = differences(result)
    assert found["runtime"] == ("python", f"onnxruntime {onnxruntime.__version__}")
    assert not set(found) & {"providers", "graph optimization level", "arithmetic"}


def test_a_release_says_what_was_not_observed(tmp_path: Path) -> None:
    quiet = {"model": "m.onnx", "placement": "assigned", "graph_optimization_level": "disable"}
    result = run(tmp_path, {"model": "m.onnx"}, quiet)
    told = [line for line in result.summary["not_judged"] if line.startswith("placement")]
    assert len(told) == 2
    assert told[0].startswith("placement: a: observed over one batch in a second session")
    assert told[1] == (
        "placement: b: which operators ran was not observed; what ran: the plan says "
        'placement = "assigned"'
    )


def test_runners_without_nodes_have_no_placement(tmp_path: Path) -> None:
    other = {"call": "sides:same", "batch_size": 3}
    (told,) = [
        line
        for line in run(tmp_path, {"call": "sides:same"}, other).summary["not_judged"]
        if line.startswith("placement")
    ]
    assert told == "placement: which operators ran on which provider was not observed"


@pytest.mark.slow
def test_what_an_isolated_runner_prints_is_among_its_warnings(tmp_path: Path) -> None:
    code = (
        "import sys\n\n\ndef loud(given):\n"
        "    print('2026-01-02 03:04:05 odd at 0x7fdeadbeef00', file=sys.stderr, flush=True)\n"
        "    return {'y': given['x']}\n"
    )
    (tmp_path / "noise.py").write_text(code)
    other = {"call": "noise:loud", "batch_size": 5, "isolate": "process"}
    result = run(tmp_path, {"model": "m.onnx"}, other)
    assert result.verdict == "release"
    (told,) = result.summary["runners"]["b"]["warnings"]
    assert told["text"] == "odd at 0x.."
    assert told["count"] >= 2


@pytest.mark.parametrize("recorded", [("ref",), ("cand",), ("ref", "cand")])
def test_recorded_sides_differ_as_what_was_recorded(
    tmp_path: Path, recorded: tuple[str, ...]
) -> None:
    plan = record_plan(tmp_path, n=30)
    plan["runners"]["cand"]["graph_optimization_level"] = "disable"
    for name in recorded:
        paritygate.record(plan, name, out=tmp_path / f"{name}.arrow")
        plan["runners"][name] = str(tmp_path / f"{name}.arrow")
    (stage,) = paritygate.run(plan, out=None).summary["stages"]
    (found,) = stage["differences"]
    assert (found["what"], found["candidate"]) == ("graph optimization level", "disable")
