"""Every kind of runner keeps the contract."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from tests import models
from tests.packs import write_pack
from tests.runners.contract import SAMPLES, WIDTH, Outputs, RunnerContract, golden_inputs

PYTHON = """
import numpy as np
buffer = {}
def double(inputs):
    x = inputs["x"]
    out = buffer.setdefault(x.shape, np.empty_like(x))   # used again in every call
    np.multiply(x, 2, out=out)
    return {"y": out}
"""


class TestOnnxRuntime(RunnerContract):
    def table(self, folder: Path) -> object:
        return str(models.scale_model(folder / "m.onnx", 2.0))

    def other_table(self, folder: Path) -> object:
        return str(models.scale_model(folder / "other.onnx", 3.0))

    def answers(self, x: npt.NDArray[np.float32]) -> Outputs:
        return {"y": 2 * x}


class TestOnnxRuntimeManyOutputs(RunnerContract):
    def table(self, folder: Path) -> object:
        return {
            "model": str(models.multi_output(folder / "m.onnx")),
            "outputs": {"twice": "double"},
            "graph_optimization_level": "disable",
        }

    def answers(self, x: npt.NDArray[np.float32]) -> Outputs:
        return {
            "twice": x + x,
            "rank": x.astype(np.int64),
            "positive": x > 0,
            "wide": x.astype(np.float64),
        }


class TestGoldenRecording(RunnerContract):
    needs_input = False

    def table(self, folder: Path) -> object:
        return "recorded"

    def answers(self, x: npt.NDArray[np.float32]) -> Outputs:
        return {"y": 2 * x}


class TestRecordingInAnotherOrder(RunnerContract):
    needs_input = False

    def table(self, folder: Path) -> object:
        order = np.random.default_rng(1).permutation(SAMPLES)
        write_pack(
            folder / "recorded" / "b.arrow",
            order,
            outputs={"theirs": (2 * golden_inputs())[order]},
            rows_per_batch=7,
        )
        return {"path": "recorded/*.arrow", "outputs": {"y": "theirs"}}

    def answers(self, x: npt.NDArray[np.float32]) -> Outputs:
        return {"y": 2 * x}


class TestPython(RunnerContract):
    def table(self, folder: Path) -> object:
        (folder / "side.py").write_text(PYTHON)
        return "side:double"

    def answers(self, x: npt.NDArray[np.float32]) -> Outputs:
        return {"y": 2 * x}


class TestNullZeros(RunnerContract):
    needs_input = False

    def table(self, folder: Path) -> object:
        return {
            "kind": "null",
            "outputs": {"z": {"dtype": "int64", "shape": [2, 3]}, "b": {"dtype": "bool"}},
        }

    def answers(self, x: npt.NDArray[np.float32]) -> Outputs:
        return {"z": np.zeros((len(x), 2, 3), np.int64), "b": np.zeros(len(x), bool)}


class TestNullEcho(RunnerContract):
    def table(self, folder: Path) -> object:
        return {"kind": "null", "echo": {"y": "x"}}

    def other_table(self, folder: Path) -> object:
        return {"kind": "null", "echo": {"z": "x"}}

    def answers(self, x: npt.NDArray[np.float32]) -> Outputs:
        assert x.shape[1:] == (WIDTH,)
        return {"y": x}
