"""Small ONNX models for tests, each with opset and IR version written down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
IR_VERSION = 8
FLOAT, DOUBLE = TensorProto.FLOAT, TensorProto.DOUBLE


def save_model(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[int, Sequence[int | str | None]]],
    outputs: Mapping[str, tuple[int, Sequence[int | str | None]]],
    initializers: Mapping[str, np.ndarray] | None = None,
    metadata: Mapping[str, str] | None = None,
    opsets: Mapping[str, int] | None = None,
    functions: Sequence[onnx.FunctionProto] = (),
) -> Path:
    """Save a model of `nodes`; inputs and outputs are name -> (element type, dims)."""
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info(n, t, list(s)) for n, (t, s) in inputs.items()],
        [helper.make_tensor_value_info(n, t, list(s)) for n, (t, s) in outputs.items()],
        [numpy_helper.from_array(v, n) for n, v in (initializers or {}).items()],
    )
    imports = {"": OPSET, **(opsets or {})}
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid(d, v) for d, v in imports.items()],
        ir_version=IR_VERSION,
        producer_name="paritygate-tests",
        functions=list(functions),
    )
    helper.set_model_props(model, dict(metadata or {}))
    onnx.save(model, path)
    return path


def scale_model(
    path: Path,
    factor: float = 1.0,
    width: int = 4,
    dtype: int = FLOAT,
    in_name: str = "x",
    out_name: str = "y",
    fixed_batch: int | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Path:
    """`y = factor * x`, x: `(batch, width)`."""
    batch = fixed_batch if fixed_batch is not None else "batch"
    scale = np.array(factor, helper.tensor_dtype_to_np_dtype(dtype))
    return save_model(
        path,
        [helper.make_node("Mul", [in_name, "factor"], [out_name], name="scale")],
        {in_name: (dtype, [batch, width])},
        {out_name: (dtype, [batch, width])},
        {"factor": scale},
        metadata,
    )


def linear_softmax(
    path: Path,
    weight: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    in_name: str = "x",
    out_name: str = "probabilities",
    features: int = 4,
    classes: int = 3,
    seed: int = 0,
) -> Path:
    """`softmax(x @ weight + bias)`, x: `(batch, features)`, weight: `(features, classes)`."""
    rng = np.random.default_rng(seed)
    if weight is None:
        weight = rng.normal(size=(features, classes)).astype(np.float32)
    if bias is None:
        bias = np.zeros(weight.shape[1], np.float32)
    return save_model(
        path,
        [
            helper.make_node("Gemm", [in_name, "weight", "bias"], ["logits"], name="gemm"),
            helper.make_node("Softmax", ["logits"], [out_name], name="softmax", axis=-1),
        ],
        {in_name: (FLOAT, ["batch", weight.shape[0]])},
        {out_name: (FLOAT, ["batch", weight.shape[1]])},
        {"weight": weight.astype(np.float32), "bias": bias.astype(np.float32)},
    )


def sigmoid_score(
    path: Path,
    weight: Sequence[float] = (1.0, -1.0, 0.5, 0.25),
    bias: float = 0.0,
    in_name: str = "x",
    out_name: str = "score",
) -> Path:
    """`sigmoid(x @ weight + bias)`, x: `(batch, features)`, score: `(batch, 1)`."""
    column = np.asarray(weight, np.float32).reshape(-1, 1)
    return save_model(
        path,
        [
            helper.make_node("Gemm", [in_name, "weight", "bias"], ["logit"], name="gemm"),
            helper.make_node("Sigmoid", ["logit"], [out_name], name="sigmoid"),
        ],
        {in_name: (FLOAT, ["batch", column.shape[0]])},
        {out_name: (FLOAT, ["batch", 1])},
        {"weight": column, "bias": np.array([bias], np.float32)},
    )


def multi_output(path: Path, width: int = 4, in_name: str = "x") -> Path:
    """Of x `(batch, width)`: double float32, rank int64, positive bool, wide float64."""
    return save_model(
        path,
        [
            helper.make_node("Add", [in_name, in_name], ["double"]),
            helper.make_node("Cast", [in_name], ["rank"], to=TensorProto.INT64),
            helper.make_node("Greater", [in_name, "zero"], ["positive"]),
            helper.make_node("Cast", [in_name], ["wide"], to=DOUBLE),
        ],
        {in_name: (FLOAT, ["batch", width])},
        {
            "double": (FLOAT, ["batch", width]),
            "rank": (TensorProto.INT64, ["batch", width]),
            "positive": (TensorProto.BOOL, ["batch", width]),
            "wide": (DOUBLE, ["batch", width]),
        },
        {"zero": np.array(0, np.float32)},
    )


def less_its_mean(path: Path, width: int = 4) -> Path:
    """`y = x - mean(x, axis=0)`, x: `(batch, width)`: answers that depend on the batch."""
    return save_model(
        path,
        [
            helper.make_node("ReduceMean", ["x"], ["mean"], axes=[0], keepdims=1),
            helper.make_node("Sub", ["x", "mean"], ["y"]),
        ],
        {"x": (FLOAT, ["batch", width])},
        {"y": (FLOAT, ["batch", width])},
    )


def add_constant(path: Path, width: int = 4, dtype: int = FLOAT) -> Path:
    """`y = x + c`, x: `(batch, width)`, c: a scalar input that is the same for all samples."""
    return save_model(
        path,
        [helper.make_node("Add", ["x", "c"], ["y"], name="add")],
        {"x": (dtype, ["batch", width]), "c": (dtype, [])},
        {"y": (dtype, ["batch", width])},
    )


def external_data_model(
    path: Path, weight: np.ndarray | None = None, location: str = "weights.bin"
) -> Path:
    """`y = x @ weight` with the weight outside the model file, at `location` beside it."""
    if weight is None:
        weight = np.eye(4, dtype=np.float32)
    target = path.parent / location
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(weight.astype(np.float32).tobytes())
    save_model(
        path,
        [helper.make_node("MatMul", ["x", "weight"], ["y"], name="matmul")],
        {"x": (FLOAT, ["batch", weight.shape[0]])},
        {"y": (FLOAT, ["batch", weight.shape[1]])},
        {"weight": weight.astype(np.float32)},
    )
    model = onnx.load(path)
    set_external(model.graph.initializer[0], location, weight.nbytes)
    path.write_bytes(model.SerializeToString())
    return path


def set_external(tensor: Any, location: str, length: int, offset: int = 0) -> None:
    """Make a tensor refer to bytes of a file, which is not written."""
    for field in ("raw_data", "float_data", "int64_data"):
        tensor.ClearField(field)
    tensor.data_location = TensorProto.EXTERNAL
    del tensor.external_data[:]
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(value)


def mapped_table(path: Path, rows: int = 256, width: int = 1024) -> np.ndarray:
    """`y = table[x]`, x: int64 `(batch,)`; the table lies in `table.bin`, which stays mapped."""
    table = np.arange(rows * width, dtype=np.float32).reshape(rows, width)
    path.with_name("table.bin").write_bytes(table.tobytes())
    save_model(
        path,
        [helper.make_node("Gather", ["table", "x"], ["y"], axis=0)],
        {"x": (TensorProto.INT64, ["batch"])},
        {"y": (FLOAT, ["batch", width])},
        {"table": table},
    )
    model = onnx.load(path)
    set_external(model.graph.initializer[0], "table.bin", table.nbytes)
    path.write_bytes(model.SerializeToString())
    return table
