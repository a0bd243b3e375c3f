"""Plans with a target: a candidate beyond it holds, whatever its numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import models
from tests.packs import write_pack

import paritygate
from paritygate.core.errors import PlanError


def plan(folder: Path, **target: Any) -> dict[str, Any]:
    """Two equal models of opset 17 and IR version 8, and a function as the reference."""
    write_pack(folder / "g.arrow", [1, 2], {"x": np.ones((2, 4), np.float32)})
    models.scale_model(folder / "a.onnx", 2.0)
    models.scale_model(folder / "b.onnx", 2.0, metadata={"author": "another"})
    (folder / "twice.py").write_text("def call(given):\n    return {'y': 2 * given['x']}\n")
    return {
        "golden": str(folder / "g.arrow"),
        "runners": {
            "source": {"kind": "python", "call": "twice:call", "folder": str(folder)},
            "float": str(folder / "a.onnx"),
            "other": str(folder / "b.onnx"),
        },
        "stages": [
            {"reference": "source", "candidate": "float", "default": {"atol": 0, "rtol": 0}},
            {"reference": "float", "candidate": "other", "default": {"atol": 0, "rtol": 0}},
        ],
        **({"target": target} if target else {}),
    }


def run(table: dict[str, Any]) -> Any:
    return paritygate.run(table, out=None)


@pytest.mark.parametrize("target", [{}, {"onnxruntime": "1.17"}, {"max_opset": 17, "max_ir": 8}])
def test_within(tmp_path: Path, target: dict[str, Any]) -> None:
    assert run(plan(tmp_path, **target)).verdict == "release"


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ({"max_opset": 16}, "opset 17, and the target takes up to 16"),
        ({"onnxruntime": "1.17", "max_ir": 7}, "IR version 8, and onnxruntime 1.17 takes up to 7"),
    ],
)
def test_beyond_holds_every_candidate(tmp_path: Path, target: dict[str, Any], says: str) -> None:
    result = run(plan(tmp_path, **target))
    assert result.verdict == "hold"
    beyond = [r for r in result.reasons if r.code == "admission.target"]
    assert {r.message.partition(":")[0] for r in beyond} == {"runner 'float'", "runner 'other'"}
    assert all(says in r.message for r in beyond)


def test_some_runners_alone(tmp_path: Path) -> None:
    result = run(plan(tmp_path, max_opset=16, runners=["other"]))
    assert [(r.code, r.stage) for r in result.reasons] == [("admission.target", "float-other")]
    assert run(plan(tmp_path, max_opset=16, runners=["source"])).verdict == "release"


def test_a_target_of_no_runner_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"target\.runners: is empty; name runners, or leave"):
        run(plan(tmp_path, max_opset=16, runners=[]))


def test_check_says_it_too(tmp_path: Path) -> None:
    report = paritygate.check(plan(tmp_path, max_opset=16, runners=["other"]))
    assert report.exit_code == 1
    [problem] = report.problems
    assert "runner 'other': admission.target: the model has opset 17" in problem


def test_what_is_no_onnx_file_is_told(tmp_path: Path) -> None:
    result = run(plan(tmp_path, onnxruntime="1.17", runners=["source"]))
    [note] = [n for n in result.summary["not_judged"] if n.startswith("target: ")]
    assert note == (
        "target: source is run from no ONNX file, so nothing is known of it on onnxruntime 1.17"
    )


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ({"onnxruntime": "0.9"}, "1.15 to 1.32"),
        ({"runners": ["float"]}, "say onnxruntime, max_opset or max_ir"),
        ({"max_opset": 0}, "target.max_opset"),
        ({"max_opset": 17, "runners": ["flaot"]}, "did you mean 'float'?"),
        ({"opset": 17}, "target.opset"),
    ],
)
def test_problems(tmp_path: Path, target: dict[str, Any], says: str) -> None:
    with pytest.raises(paritygate.ParityError) as caught:
        run(plan(tmp_path, **target))
    assert caught.value.code == "policy.invalid"
    assert says in str(caught.value)
