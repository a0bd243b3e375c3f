"""What ONNX Runtime says: the sentence that matters in the message, all of it in the summary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from tests import models
from tests.packs import write_pack

import paritygate
from paritygate.core.errors import RunnerLoadError
from paritygate.runners.ort_text import shorten

X = np.arange(24, dtype=np.float32).reshape(-1, 4)


def plan(folder: Path, ref: Path, cand: Path) -> dict[str, Any]:
    write_pack(folder / "g.arrow", np.arange(len(X)), {"x": X})
    return {
        "golden": str(folder / "g.arrow"),
        "runners": {"a": str(ref), "b": str(cand)},
        "stages": [{"reference": "a", "candidate": "b", "default": {"atol": 0.0, "rtol": 0.0}}],
    }


def unknown_operator(path: Path) -> Path:
    """A model with an operator that no runtime knows."""
    return models.save_model(
        path,
        [helper.make_node("Foo", ["x"], ["y"], domain="my")],
        {"x": (models.FLOAT, ["batch", 4])},
        {"y": (models.FLOAT, ["batch", 4])},
        opsets={"my": 1},
    )


def breaks_when_run(path: Path) -> Path:
    return models.save_model(
        path,
        [helper.make_node("Reshape", ["x", "to"], ["y"], name="flat")],
        {"x": (models.FLOAT, ["batch", 4])},
        {"y": (models.FLOAT, ["batch", 7])},
        {"to": np.array([-1, 7], np.int64)},
    )


def test_a_candidate_that_does_not_load(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    cand = unknown_operator(tmp_path / "b.onnx")
    given = plan(tmp_path, models.scale_model(tmp_path / "a.onnx"), cand)
    result = paritygate.run(given, out=None)
    reason = result.summary["reasons"][0]
    assert reason["code"] == "runner.load_failed"
    said = (
        "b.onnx: Fail: Fatal error: my:Foo(-1) is not a registered function/op; operators of 'my'"
    )
    assert said in reason["message"]
    assert "[ONNXRuntimeError] : 1 : FAIL : Load model from" in reason["detail"]
    assert capfd.readouterr() == ("", "")


def test_a_reference_that_does_not_load(tmp_path: Path) -> None:
    ref = unknown_operator(tmp_path / "a.onnx")
    given = plan(tmp_path, ref, models.scale_model(tmp_path / "b.onnx"))
    with pytest.raises(RunnerLoadError) as caught:
        paritygate.run(given, out=None)
    assert "[ONNXRuntimeError]" not in str(caught.value)
    (reason,) = paritygate.api.unjudged_summary(caught.value)["reasons"]
    assert "[ONNXRuntimeError]" in reason["detail"]


def test_a_model_that_breaks_when_it_runs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    given = plan(
        tmp_path, models.scale_model(tmp_path / "a.onnx"), breaks_when_run(tmp_path / "b.onnx")
    )
    result = paritygate.run(given, out=None)
    (reason,) = [r for r in result.reasons if r.code == "runner.disagreement"]
    assert "Reshape node 'flat': The input tensor cannot be reshaped" in reason.message
    assert "/onnxruntime_src/" not in reason.message
    whole = result.summary["stages"][0]["errors"]["candidate"]["first"]
    assert "reshape_helper.h" in whole
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("text", "short"),
    [
        (
            "Fail: [ONNXRuntimeError] : 1 : FAIL : Load model from a b.onnx failed:Fatal error: x",
            "Fail: Fatal error: x",
        ),
        (
            "/src/x.cc:12 n::X::operator()(const Y&, int (*)(int)) const [with T = float] it broke",
            "it broke",
        ),
        ("/src/core/x.cc:12 f(int) a == b was false. ", "a == b was false."),
        ("/src/core/x.cc:12 void f(int)", "/src/core/x.cc:12 void f(int)"),
        ("plain words (of no runtime)", "plain words (of no runtime)"),
        ("", ""),
    ],
)
def test_short_texts(text: str, short: str) -> None:
    assert shorten(text) == short


def test_a_long_text_is_cut_between_words() -> None:
    short = shorten("word " * 200)
    assert len(short) <= 304
    assert short.endswith("word ...")
