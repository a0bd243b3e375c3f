"""Models that a look into them holds, whatever their numbers; and what is only told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from tests import models
from tests.conformance.case import RELEASE, Call, Case, hold
from tests.packs import write_pack

import paritygate

F32 = np.float32
X = np.linspace(-2, 2, 48, dtype=F32).reshape(12, 4)


def against_itself(path: Path, **more: Any) -> Any:
    """A function that answers as the model does, so that numbers hold nothing."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def ref(given: dict[str, Any]) -> dict[str, Any]:
        return {"y": session.run(["y"], {"x": given["x"]})[0]}

    return paritygate.verify(ref, path, {"x": X}, atol=1e-6, rtol=0, **more)


def quantised(folder: Path, scale: float) -> Any:
    """One channel of the weights has another scale; it is the same on both sides."""
    scales = np.array([0.1, 0.1, scale, 0.1], F32)
    path = models.save_model(
        folder / "m.onnx",
        [
            helper.make_node("DequantizeLinear", ["w", "s", "z"], ["wd"], axis=0),
            helper.make_node("MatMul", ["x", "wd"], ["y"]),
        ],
        {"x": (models.FLOAT, ["n", 4])},
        {"y": (models.FLOAT, ["n", 4])},
        {"w": np.eye(4, dtype=np.int8), "s": scales, "z": np.zeros(4, np.int8)},
    )
    return against_itself(path)


def handed(folder: Path, scale: float) -> Any:
    """The scale goes through a copy and a call into a function of the model, which quantises."""
    body = [
        helper.make_node("QuantizeLinear", ["a", "t", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "t", "zero"], ["b"]),
    ]
    function = helper.make_function(
        "own", "Fake", ["a", "t", "zero"], ["b"], body, [helper.make_opsetid("", models.OPSET)]
    )
    path = models.save_model(
        folder / "m.onnx",
        [
            helper.make_node("Identity", ["s"], ["copy"]),
            helper.make_node("Fake", ["x", "copy", "z"], ["y"], domain="own"),
        ],
        {"x": (models.FLOAT, ["n", 4])},
        {"y": (models.FLOAT, ["n", 4])},
        {"s": np.array(scale, F32), "z": np.array(0, np.int8)},
        opsets={"own": 1},
        functions=[function],
    )
    return against_itself(path)


def training(folder: Path, *, is_on: bool) -> Any:
    """A dropout of all but nothing, so that both sides may well agree."""
    path = models.save_model(
        folder / "m.onnx",
        [helper.make_node("Dropout", ["x", "ratio", "on"], ["y"], name="drop")],
        {"x": (models.FLOAT, ["n", 4])},
        {"y": (models.FLOAT, ["n", 4])},
        {"ratio": np.array(1e-9, F32), "on": np.array(is_on)},
    )
    return against_itself(path)


def with_settings(folder: Path) -> Any:
    """Metadata that ask for another optimisation level and ten threads."""
    config = '{"session_options": {"intra_op_num_threads": 10, "graph_optimization_level": 0}}'
    path = models.scale_model(folder / "m.onnx", 2.0, metadata={"ort_config": config})
    result = against_itself(path)
    assert result.summary["runners"]["candidate"]["intra_op_num_threads"] == 1
    return result


def repackaged(folder: Path, by: float = 0.0) -> Any:
    """The same weights in the file and beside it."""
    weight = np.eye(4, dtype=F32)
    models.external_data_model(folder / "a.onnx", weight)
    model = onnx.load(folder / "a.onnx")
    if by:
        values = onnx.numpy_helper.from_array(weight + F32(by), "weight")
        model.graph.initializer[0].CopyFrom(values)
    onnx.save(model, folder / "b.onnx")
    result = paritygate.verify(folder / "a.onnx", folder / "b.onnx", {"x": X}, atol=1e-4, rtol=0)
    told = [n for n in result.summary["not_judged"] if "same graph with the same weights" in n]
    assert len(told) == (0 if by else 1)
    return result


def targeted(folder: Path, release: str, ir_version: int = 8) -> Any:
    """Two models that agree, and a target that may be too old for the candidate."""
    write_pack(folder / "g.arrow", list(range(len(X))), {"x": X})
    models.scale_model(folder / "a.onnx", 2.0)
    models.scale_model(folder / "b.onnx", 2.0, metadata={"author": "another"})
    model = onnx.load(folder / "b.onnx")
    model.ir_version = ir_version
    onnx.save(model, folder / "b.onnx")
    plan = {
        "golden": str(folder / "g.arrow"),
        "runners": {"a": str(folder / "a.onnx"), "b": str(folder / "b.onnx")},
        "stages": [{"reference": "a", "candidate": "b", "default": {"atol": 0, "rtol": 0}}],
        "target": {"onnxruntime": release},
    }
    return paritygate.run(plan, out=None)


def saturated(folder: Path, scale: float) -> Any:
    """int8 answers of which many are cut off, beside a reference that isn't."""

    def save(name: str, factor: float) -> Path:
        return models.save_model(
            folder / name,
            [
                helper.make_node("Mul", ["x", "f"], ["t"]),
                helper.make_node("QuantizeLinear", ["t", "s", "z"], ["y"]),
            ],
            {"x": (models.FLOAT, ["n", 4])},
            {"y": (TensorProto.INT8, ["n", 4])},
            {
                "f": np.array(factor, F32),
                "s": np.array(0.05, F32),
                "z": np.array(0, np.int8),
            },
        )

    result = paritygate.verify(save("a.onnx", 1.0), save("b.onnx", scale), {"x": X}, atol=1, rtol=0)
    figures = result.summary["stages"][0]["outputs"]["y"]
    assert ("saturated" in figures) == (scale > 4)
    return result


def foreign(folder: Path) -> Any:
    """An operator that nobody brings."""
    path = models.save_model(
        folder / "m.onnx",
        [helper.make_node("Odd", ["x"], ["y"], domain="acme")],
        {"x": (models.FLOAT, ["n", 4])},
        {"y": (models.FLOAT, ["n", 4])},
        opsets={"acme": 1},
    )
    return paritygate.verify(lambda given: {"y": given["x"]}, path, {"x": X}, atol=9, rtol=0)


BAD_SCALE = hold("admission.quantization")

ROWS = [
    Case(
        "inside",
        "scales that are finite and above 0",
        Call("verify", lambda f: quantised(f, 0.1)),
        RELEASE,
    ),
    Case(
        "inside",
        "a scale of 0 on both sides",
        Call("verify", lambda f: quantised(f, 0.0)),
        BAD_SCALE,
        says=("1 zero",),
    ),
    Case(
        "inside",
        "a good scale that a call gives to a function of the model",
        Call("verify", lambda f: handed(f, 0.1)),
        RELEASE,
    ),
    Case(
        "inside",
        "a scale of 0 that a call gives to a function of the model",
        Call("verify", lambda f: handed(f, 0.0)),
        BAD_SCALE,
        says=("'t' of QuantizeLinear: 1 zero",),
    ),
    Case(
        "inside",
        "a dropout that is on",
        Call("verify", lambda f: training(f, is_on=True)),
        hold("admission.training_mode"),
        says=("Dropout 'drop'",),
    ),
    Case(
        "inside",
        "a dropout that is off",
        Call("verify", lambda f: training(f, is_on=False)),
        RELEASE,
    ),
    Case(
        "inside",
        "operators that neither the runtime nor the model brings",
        Call("verify", foreign),
        hold("runner.load_failed", "stage.not_run"),
        says=("'acme'", "custom_op_libraries"),
    ),
    Case(
        "inside",
        "metadata that ask for session options are not obeyed",
        Call("verify", with_settings),
        RELEASE,
    ),
    Case(
        "inside",
        "the same graph packaged otherwise is told",
        Call("verify", repackaged),
        RELEASE,
    ),
    Case(
        "inside",
        "other weights packaged otherwise are not",
        Call("verify", lambda f: repackaged(f, 1e-5)),
        RELEASE,
    ),
    Case(
        "inside",
        "a model within the target's versions",
        Call("run", lambda f: targeted(f, "1.17")),
        RELEASE,
    ),
    Case(
        "inside",
        "a model that the target is too old for",
        Call("run", lambda f: targeted(f, "1.17", ir_version=10)),
        hold("admission.target"),
        says=("IR version 10", "takes up to 9"),
    ),
    Case(
        "inside",
        "int8 answers within their range",
        Call("verify", lambda f: saturated(f, 1.0001)),
        RELEASE,
    ),
    Case(
        "inside",
        "int8 answers that are cut off",
        Call("verify", lambda f: saturated(f, 9.0)),
        hold("tolerance.exceeded"),
    ),
]
