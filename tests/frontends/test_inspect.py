"""`paritygate inspect`: exit codes, JSON on standard output alone, one clear sentence."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper
from tests import models
from tests.frontends.command import execute, invoke

FLOAT = TensorProto.FLOAT


def bad_scale(path: Path) -> Path:
    return models.save_model(
        path,
        [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="quant"),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
        ],
        {"x": (FLOAT, ["batch", 4])},
        {"y": (FLOAT, ["batch", 4])},
        {"z": np.array(0, np.int8), "s": np.array(0, np.float32)},
    )


def test_a_sound_model(tmp_path: Path) -> None:
    result = invoke("inspect", models.linear_softmax(tmp_path / "m.onnx"))
    assert result.exit_code == 0, result.output
    assert "sound; IR version 8, opset ai.onnx 17" in result.stdout
    assert "Gemm 1, Softmax 1\n" in result.stdout
    assert result.stdout.endswith("nothing to mend\n")


def test_what_would_hold_a_run_ends_with_1(tmp_path: Path) -> None:
    result = invoke("inspect", bad_scale(tmp_path / "m.onnx"))
    assert result.exit_code == 1
    assert "admission.quantization" in result.stdout
    assert result.stdout.endswith("1 problem to mend\n")


def test_json_and_nothing_else(tmp_path: Path) -> None:
    done = execute("inspect", bad_scale(tmp_path / "m.onnx"), "--json", cwd=tmp_path)
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert [f["code"] for f in told["findings"]] == ["admission.quantization"]
    assert done.stderr == ""


def test_no_model_ends_with_2(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_text("not a model\n")
    done = execute("inspect", "m.onnx", "--json", cwd=tmp_path)
    assert done.returncode == 2
    assert json.loads(done.stdout)["verdict"] == "unjudged"
    assert "isn't an ONNX model" in done.stderr
    assert list(tmp_path.iterdir()) == [tmp_path / "m.onnx"]


class Opens:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (open, (str(self.path), "w"))


def test_a_hostile_pickle_is_not_unpickled(tmp_path: Path) -> None:
    (tmp_path / "m.pt").write_bytes(pickle.dumps(Opens(tmp_path / "ran")))
    done = execute("inspect", "m.pt", cwd=tmp_path)
    assert done.returncode == 1
    assert "admission.unsafe_model" in done.stdout
    assert "io.open" in done.stdout
    assert not (tmp_path / "ran").exists()


def test_a_target_that_is_older(tmp_path: Path) -> None:
    path = models.scale_model(tmp_path / "m.onnx")
    assert invoke("inspect", path, "--onnxruntime", "1.17").exit_code == 0
    result = invoke("inspect", path, "--max-opset", "16")
    assert result.exit_code == 1
    assert "the model has opset 17, and the target takes up to 16" in result.stdout
    assert invoke("inspect", path, "--onnxruntime", "0.1").exit_code == 2
