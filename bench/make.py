"""Packs and models that are measured with, made from seeds."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from tests.packs import write_pack

OPSET, IR_VERSION = 17, 8
BATCH_ROWS = 65_536

Array = npt.NDArray[Any]


def random_values(samples: int, shape: tuple[int, ...], dtype: str = "float32") -> Array:
    """`(samples, *shape)` values, the same for the same arguments."""
    rng = np.random.default_rng(20)
    if np.dtype(dtype).kind == "i":
        return rng.integers(-(2**20), 2**20, size=(samples, *shape), dtype=dtype)
    return rng.standard_normal((samples, *shape), dtype=np.float32).astype(dtype)


def close_to(values: Array) -> Array:
    """A candidate near these values: every element differs, none by much."""
    if values.dtype.kind == "i":
        near: Array = values + np.resize(np.array([0, 1, -1, 2], values.dtype), values.shape)
        return near
    noise = np.random.default_rng(21).uniform(-1e-6, 1e-6, size=values.shape)
    return (values * (1 + noise)).astype(values.dtype)


def pack(
    path: Path,
    ids: npt.NDArray[np.int64] | list[str],
    inputs: dict[str, Array] | None = None,
    outputs: dict[str, Array] | None = None,
) -> Path:
    """A golden pack in record batches of 65 536 rows."""
    return write_pack(path, ids, inputs, outputs, rows_per_batch=BATCH_ROWS)


def mlp(path: Path, sizes: tuple[int, ...], noise: float = 0.0) -> Path:
    """`Gemm, Relu, ..., Gemm` through layers of these sizes; `noise` perturbs the weights."""
    rng, disturb = np.random.default_rng(22), np.random.default_rng(23)
    nodes, weights, name = [], {}, "x"
    for at, (rows, columns) in enumerate(itertools.pairwise(sizes)):
        weight = rng.normal(size=(rows, columns)) / np.sqrt(rows)
        weight *= 1 + noise * disturb.uniform(-1, 1, size=weight.shape)
        weights[f"w{at}"] = weight.astype(np.float32)
        weights[f"b{at}"] = np.full(columns, 0.01, np.float32)
        is_last = at == len(sizes) - 2
        out = "y" if is_last else f"g{at}"
        nodes.append(helper.make_node("Gemm", [name, f"w{at}", f"b{at}"], [out]))
        if not is_last:
            nodes.append(helper.make_node("Relu", [out], [f"r{at}"]))
            name = f"r{at}"
    return _save(path, nodes, weights, ["batch", sizes[0]], ["batch", sizes[-1]])


def convnet(path: Path, side: int, channels: int, noise: float = 0.0) -> Path:
    """Two 3x3 convolutions over a `side x side` image, pooled to 10 logits."""
    rng, disturb = np.random.default_rng(24), np.random.default_rng(25)
    shapes = {"w0": (channels, 1, 3, 3), "w1": (channels, channels, 3, 3), "w2": (channels, 10)}
    weights = {}
    for name, shape in shapes.items():
        weight = rng.normal(size=shape) / np.sqrt(np.prod(shape) / shape[0])
        weights[name] = (weight * (1 + noise * disturb.uniform(-1, 1, size=shape))).astype(
            np.float32
        )
    pads: dict[str, Any] = {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c0"], **pads),
        helper.make_node("Relu", ["c0"], ["r0"]),
        helper.make_node("Conv", ["r0", "w1"], ["c1"], strides=[2, 2], **pads),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("GlobalAveragePool", ["r1"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "w2"], ["y"]),
    ]
    return _save(path, nodes, weights, ["batch", 1, side, side], ["batch", 10])


def _save(
    path: Path,
    nodes: list[onnx.NodeProto],
    weights: dict[str, npt.NDArray[np.float32]],
    x: list[int | str],
    y: list[int | str],
) -> Path:
    graph = helper.make_graph(
        nodes,
        "bench",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, y)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    imports = [helper.make_opsetid("", OPSET)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION), path)
    return path
