"""Quantised models: formats told apart, scales and zero points that can't be right found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    quantize_dynamic,
    quantize_static,
)
from tests import models

from paritygate import inspect_model

FLOAT, INT8 = TensorProto.FLOAT, TensorProto.INT8


class Some(CalibrationDataReader):
    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.left = [{"x": rng.normal(size=(8, 4)).astype(np.float32)} for _ in range(3)]

    def get_next(self) -> dict[str, Any] | None:
        return self.left.pop() if self.left else None


def qdq(
    path: Path,
    scale: np.ndarray[Any, Any],
    zero: onnx.TensorProto | None = None,
    *,
    axis: int = 0,
    activation: float = 0.1,
    external: bool = False,
) -> Path:
    """`y = QDQ(x) @ DQ(w)`, w int8 `[4, 4]` with the scale given."""
    zero = zero or numpy_helper.from_array(np.zeros(scale.shape, np.int8), "wz")
    models.save_model(
        path,
        [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="quant"),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["xd"]),
            helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], name="deq", axis=axis),
            helper.make_node("MatMul", ["xd", "wd"], ["y"]),
        ],
        {"x": (FLOAT, ["n", 4])},
        {"y": (FLOAT, ["n", 4])},
        {
            "s": np.array(activation, np.float32),
            "z": np.array(0, np.int8),
            "w": np.ones((4, 4), np.int8),
            "ws": scale,
        },
    )
    model = onnx.load(path)
    zero.name = "wz"
    model.graph.initializer.append(zero)
    if external:
        onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    else:
        onnx.save(model, path)
    return path


def findings(path: Path) -> list[str]:
    found = inspect_model(path)["findings"]
    assert {f["code"] for f in found} <= {"admission.quantization"}
    return [f["message"] for f in found]


class TestFormats:
    def float_model(self, folder: Path) -> Path:
        return models.linear_softmax(folder / "float.onnx")

    @pytest.mark.parametrize("form", ["QDQ", "QOperator"])
    @pytest.mark.parametrize("per_channel", [False, True])
    def test_static(self, tmp_path: Path, form: str, per_channel: bool) -> None:
        path = tmp_path / "q.onnx"
        quantize_static(
            self.float_model(tmp_path),
            path,
            Some(),
            quant_format=getattr(QuantFormat, form),
            per_channel=per_channel,
        )
        told = inspect_model(path)["quantization"]
        assert form in told["formats"]
        kind = "per_channel" if per_channel else "per_tensor"
        assert told["weights"] == {kind: 1}
        assert told["weight_dtypes"] == {"int8": 1}

    def test_dynamic(self, tmp_path: Path) -> None:
        path = tmp_path / "q.onnx"
        quantize_dynamic(self.float_model(tmp_path), path)
        found = inspect_model(path)
        assert found["quantization"]["formats"] == ["QOperator", "dynamic"]
        assert found["findings"] == []

    def test_a_float_model_has_none(self, tmp_path: Path) -> None:
        assert inspect_model(self.float_model(tmp_path))["quantization"] == {}


class TestScales:
    def test_good_ones(self, tmp_path: Path) -> None:
        path = qdq(tmp_path / "m.onnx", np.full(4, 0.1, np.float32))
        assert findings(path) == []
        assert inspect_model(path)["quantization"]["weights"] == {"per_channel": 1}

    @pytest.mark.parametrize("external", [False, True])
    @pytest.mark.parametrize("bad", [0.0, -0.0, np.nan, np.inf, -np.inf])
    def test_one_bad_channel(self, tmp_path: Path, bad: float, external: bool) -> None:
        scale = np.array([0.1, 0.1, bad, 0.1], np.float32)
        [told] = findings(qdq(tmp_path / "m.onnx", scale, external=external))
        assert "1 scale can't be right" in told
        assert "'ws' of DequantizeLinear 'deq'" in told

    def test_of_an_activation(self, tmp_path: Path) -> None:
        [told] = findings(qdq(tmp_path / "m.onnx", np.full(4, 0.1, np.float32), activation=0.0))
        assert "'s' of QuantizeLinear 'quant'" in told

    def test_a_negative_one_is_told_alone(self, tmp_path: Path) -> None:
        path = qdq(tmp_path / "m.onnx", np.full(4, -0.1, np.float32))
        assert findings(path) == []
        assert "scales below 0" in inspect_model(path)["notes"][0]

    def test_one_that_a_constant_node_holds(self, tmp_path: Path) -> None:
        path = models.save_model(
            tmp_path / "m.onnx",
            [
                helper.make_node("Constant", [], ["s"], value_float=0.0),
                helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
                helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
            ],
            {"x": (FLOAT, ["n", 4])},
            {"y": (FLOAT, ["n", 4])},
            {"z": np.array(0, np.int8)},
        )
        assert len(findings(path)) == 1

    def test_one_within_a_body(self, tmp_path: Path) -> None:
        out = helper.make_tensor_value_info("t", FLOAT, None)
        quantised = helper.make_graph(
            [
                helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
                helper.make_node("DequantizeLinear", ["q", "s", "z"], ["t"]),
            ],
            "body",
            [],
            [out],
        )
        plain = helper.make_graph([helper.make_node("Relu", ["x"], ["t"])], "other", [], [out])
        path = models.save_model(
            tmp_path / "m.onnx",
            [
                helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
                helper.make_node("Cast", ["most"], ["flag"], to=TensorProto.BOOL),
                helper.make_node("If", ["flag"], ["y"], then_branch=quantised, else_branch=plain),
            ],
            {"x": (FLOAT, ["n", 4])},
            {"y": (FLOAT, ["n", 4])},
            {"z": np.array(0, np.int8), "s": np.array(np.nan, np.float32)},
        )
        assert "'s' of QuantizeLinear" in findings(path)[0]

    def test_a_run_holds_by_it(self, tmp_path: Path) -> None:
        import paritygate

        path = qdq(tmp_path / "m.onnx", np.array([0.1, 0.1, 0.0, 0.1], np.float32))
        result = paritygate.verify(
            lambda given: {"y": given["x"]},
            path,
            {"x": np.ones((4, 4), np.float32)},
            atol=1e9,
            rtol=0,
        )
        assert [r.code for r in result.reasons] == ["admission.quantization"]

    def test_blocks_of_zeros_are_told_alone(self, tmp_path: Path) -> None:
        x = helper.make_tensor_value_info("x", FLOAT, ["n", 4])
        y = helper.make_tensor_value_info("y", FLOAT, ["n", 2])
        graph = helper.make_graph(
            [
                helper.make_node("DequantizeLinear", ["w", "s"], ["wd"], axis=0, block_size=2),
                helper.make_node("MatMul", ["x", "wd"], ["y"]),
            ],
            "g",
            [x],
            [y],
            [
                numpy_helper.from_array(np.ones((4, 2), ml_dtypes.int4), "w"),
                numpy_helper.from_array(np.array([[0.1, 0], [0.1, 0.2]], np.float32), "s"),
            ],
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        onnx.save(made, tmp_path / "m.onnx")
        found = inspect_model(tmp_path / "m.onnx")
        assert found["findings"] == []
        assert "1 block has the scale 0" in found["notes"][0]
        told = found["quantization"]
        assert told["formats"] == ["QDQ", "block-wise"]
        assert (told["weights"], told["weight_dtypes"]) == ({"block_wise": 1}, {"int4": 1})


class TestZeroPoints:
    def test_one_beyond_its_dtype(self, tmp_path: Path) -> None:
        zero = helper.make_tensor("wz", INT8, [4], [0, 0, 0, 0])
        zero.int32_data[2] = 300
        [told] = findings(qdq(tmp_path / "m.onnx", np.full(4, 0.1, np.float32), zero))
        assert "300 is beyond int8" in told

    def test_one_of_another_shape(self, tmp_path: Path) -> None:
        from paritygate.admission.quantization import _wrong_zero_point
        from paritygate.admission.roles import Role

        made = helper.make_node("DequantizeLinear", ["w", "s", "z"], ["y"], name="d")
        zero = numpy_helper.from_array(np.zeros(3, np.int8), "z")
        scale = numpy_helper.from_array(np.ones(4, np.float32), "s")
        data = numpy_helper.from_array(np.ones((4, 4), np.uint8), "w")
        told = list(_wrong_zero_point(made, Role(1, 2, 0), scale, zero, data))
        assert len(told) == 2
        assert "is int8, what it belongs to is uint8" in told[0]
        assert "has the shape [3], its scale [4]" in told[1]
        alike = numpy_helper.from_array(np.zeros(4, np.uint8), "z")
        assert list(_wrong_zero_point(made, Role(1, 2, 0), scale, alike, data)) == []
