"""The precision that a model's operators and tensors tell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.models import DOUBLE, FLOAT, save_model, scale_model

from paritygate.admission.precision import describe_precision


def described(path: Path) -> tuple[object, object]:
    found = describe_precision(onnx.load(path))
    return found["arithmetic"], found["dynamic_quantization"]


@pytest.mark.parametrize(
    ("dtype", "name"),
    [(FLOAT, "float32"), (DOUBLE, "float64"), (TensorProto.FLOAT16, "float16")],
)
def test_tensors_tell(tmp_path: Path, dtype: int, name: str) -> None:
    assert described(scale_model(tmp_path / "m.onnx", dtype=dtype)) == (name, False)


def test_a_cast_in_the_middle_tells(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
        helper.make_node("Cast", ["h"], ["y"], to=FLOAT),
    ]
    shape = {"x": (FLOAT, ["batch", 4])}, {"y": (FLOAT, ["batch", 4])}
    assert described(save_model(tmp_path / "m.onnx", nodes, *shape)) == ("float16", False)


@pytest.mark.parametrize("dynamic", [False, True])
def test_operators_tell(tmp_path: Path, dynamic: bool) -> None:
    if dynamic:
        quantize = helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"])
        constants = {}
    else:
        quantize = helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"])
        constants = {"scale": np.array(0.1, np.float32), "zero": np.array(0, np.uint8)}
    back = helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"])
    shape = {"x": (FLOAT, ["batch", 4])}, {"y": (FLOAT, ["batch", 4])}
    model = save_model(tmp_path / "m.onnx", [quantize, back], *shape, constants)
    assert described(model) == ("int8", dynamic)
