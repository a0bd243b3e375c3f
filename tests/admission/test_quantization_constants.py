"""Scales that aren't there to be read at once, and shapes of them that ONNX Runtime refuses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import paritygate
from paritygate.admission.constants import MOST_ELEMENTS
from paritygate.admission.roles import roles_of
from paritygate.admission.scopes import MOST_REPEATED, iter_scopes

FLOAT, INT8 = TensorProto.FLOAT, TensorProto.INT8
node = helper.make_node
QUANT = [node("QuantizeLinear", ["x", "s", "z"], ["q"], name="quant")]
DEQUANT = [node("DequantizeLinear", ["q", "s", "z"], ["y"], name="dequant")]
Weights = dict[str, Any]


def make(
    nodes: Sequence[onnx.NodeProto],
    weights: Weights,
    *,
    functions: Sequence[onnx.FunctionProto] = (),
    inputs: Sequence[onnx.ValueInfoProto] = (),
    output: int = FLOAT,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        list(nodes),
        "g",
        [*inputs] or [helper.make_tensor_value_info("x", FLOAT, ["n", 3])],
        [helper.make_tensor_value_info("y", output, ["rows", "columns"])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
    )
    imports = [helper.make_opsetid(d, v) for d, v in (("", 17), ("com.microsoft", 1), ("own", 1))]
    return helper.make_model(graph, opset_imports=imports, ir_version=10, functions=list(functions))


def findings(folder: Path, model: onnx.ModelProto) -> list[str]:
    onnx.save(model, folder / "m.onnx")
    found = paritygate.inspect_model(folder / "m.onnx")["findings"]
    assert {f["code"] for f in found} <= {"admission.quantization"}
    return [f["message"] for f in found]


def f32(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values if len(values) != 1 else values[0], np.float32)


def i64(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


WAYS: dict[str, tuple[list[onnx.NodeProto], Weights, Weights]] = {
    # name -> nodes that make the scale, weights of a bad one, weights of a good one
    "identity": ([node("Identity", ["a"], ["s"])], {"a": f32(0)}, {"a": f32(0.1)}),
    "chain": (
        [
            node("Identity", ["a"], ["b"]),
            node("Unsqueeze", ["b", "at"], ["c"]),
            node("Squeeze", ["c", "at"], ["d"]),
            node("Reshape", ["d", "one"], ["e"]),
            node("Flatten", ["e"], ["f"], axis=0),
            node("Transpose", ["f"], ["g"]),
            node("Squeeze", ["g"], ["s"]),
        ],
        {"a": f32(np.inf), "at": i64(0), "one": i64(1)},
        {"a": f32(0.1), "at": i64(0), "one": i64(1)},
    ),
    "cast": (
        [node("Cast", ["a"], ["s"], to=FLOAT)],
        {"a": np.array(np.nan, np.float16)},
        {"a": np.array(0.5, np.float16)},
    ),
    "underflow": (
        [
            node("Cast", ["a"], ["h"], to=TensorProto.FLOAT16),
            node("Cast", ["h"], ["s"], to=FLOAT),
        ],
        {"a": f32(1e-9)},
        {"a": f32(1e-3)},
    ),
    "overflow": (
        [
            node("Cast", ["a"], ["h"], to=TensorProto.FLOAT16),
            node("Cast", ["h"], ["s"], to=FLOAT),
        ],
        {"a": f32(1e6)},
        {"a": f32(1e3)},
    ),
    "expand": (
        [node("Expand", ["a", "shape"], ["e"]), node("Squeeze", ["e"], ["s"])],
        {"a": f32(0), "shape": i64(1, 1)},
        {"a": f32(0.2), "shape": i64(1, 1)},
    ),
}


class TestMadeScales:
    @pytest.mark.parametrize("way", list(WAYS))
    def test_what_nodes_make_of_constants(self, tmp_path: Path, way: str) -> None:
        nodes, bad, good = WAYS[way]
        zero = {"z": np.array(0, np.int8)}
        [told] = findings(tmp_path, make([*nodes, *QUANT, *DEQUANT], {**bad, **zero}))
        assert "1 scale can't be right: 's' of QuantizeLinear 'quant'" in told
        assert findings(tmp_path, make([*nodes, *QUANT, *DEQUANT], {**good, **zero})) == []

    def test_constant_of_shape_is_of_zeros_unless_it_says_otherwise(self, tmp_path: Path) -> None:
        weights = {"n": i64(), "z": np.array(0, np.int8)}
        value = numpy_helper.from_array(np.array([0.5], np.float32))
        for more, is_bad in (({}, True), ({"value": value}, False)):
            made = node("ConstantOfShape", ["n"], ["s"], **more)
            assert bool(findings(tmp_path, make([made, *QUANT, *DEQUANT], weights))) == is_bad

    def test_what_would_be_too_large_is_left_alone(self, tmp_path: Path) -> None:
        made = [
            node("ConstantOfShape", ["n"], ["s"]),
            node("QuantizeLinear", ["x", "s"], ["y"], name="quant"),
        ]
        weights = {"n": i64(MOST_ELEMENTS + 1)}
        assert findings(tmp_path, make(made, weights, output=TensorProto.UINT8)) == []

    def function(self, name: str, nodes: list[onnx.NodeProto]) -> onnx.FunctionProto:
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
        return helper.make_function("own", name, ["a", "s", "z"], ["o"], nodes, imports)

    def fake_quant(self) -> list[onnx.FunctionProto]:
        """`Outer` calls `Inner`, which quantises with the scale that it was given."""
        inner = [
            node("Identity", ["s"], ["t"]),
            node("QuantizeLinear", ["a", "t", "z"], ["q"], name="inner"),
            node("DequantizeLinear", ["q", "t", "z"], ["o"]),
        ]
        outer = [node("Inner", ["a", "s", "z"], ["o"], domain="own")]
        return [self.function("Outer", outer), self.function("Inner", inner)]

    def test_what_calls_give_to_functions(self, tmp_path: Path) -> None:
        calls = [
            node("Outer", ["x", "good", "z"], ["h"], domain="own"),
            node("Outer", ["h", "bad", "z"], ["y"], domain="own"),
        ]
        weights = {"good": f32(0.1), "bad": f32(0), "z": np.array(0, np.int8)}
        [told] = findings(tmp_path, make(calls, weights, functions=self.fake_quant()))
        assert "1 scale can't be right: 't' of QuantizeLinear 'inner': 1 zero" in told
        weights["bad"] = f32(0.2)
        assert findings(tmp_path, make(calls, weights, functions=self.fake_quant())) == []

    @pytest.mark.slow
    def test_calls_without_number_end(self, tmp_path: Path) -> None:
        """Each function calls the next one twice: 2^24 calls, of as many choices of constants."""
        functions = []
        for i in range(24):
            body = [
                node("Identity", ["s"], ["t"]),
                node(f"F{i + 1}", ["a", "t", "z"], ["h"], domain="own"),
                node(f"F{i + 1}", ["h", "s", "z"], ["o"], domain="own"),
            ]
            functions.append(self.function(f"F{i}", body))
        functions.append(self.function("F24", self.fake_quant()[1].node))
        weights = {"s": f32(0), "z": np.array(0, np.int8)}
        made = make(
            [node("F0", ["x", "s", "z"], ["y"], domain="own")], weights, functions=functions
        )
        scopes = sum(len(scope.nodes) for scope in iter_scopes(made, tmp_path))
        assert scopes <= MOST_REPEATED + sum(len(f.node) for f in functions) + 1


def refuses(model: onnx.ModelProto) -> bool:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        session.run(None, {"x": np.ones((2, 3), np.float32)})
    except Exception as e:
        assert "ONNXRuntimeError" in str(e)
        return True
    return False


@pytest.mark.parametrize(
    ("scale", "zero"),
    [
        (0.1, 0),
        (0.1, [0]),
        ([0.1], 0),
        ([0.1] * 3, [0] * 3),
        ([0.1] * 3, 0),
        ([0.1] * 3, [0]),
        (0.1, [0] * 3),
        ([0.1] * 3, [0] * 2),
        ([0.1] * 2, [0] * 2),
        ([0.1] * 4, [0] * 4),
        ([], []),
        ([[0.1]], [[0]]),
        ([[0.1] * 3], [[0] * 3]),
    ],
)
@pytest.mark.parametrize("domain", ["", "com.microsoft"])
@pytest.mark.parametrize("is_weight", [False, True])
def test_shapes_hold_where_the_runtime_refuses_them(
    tmp_path: Path, scale: Any, zero: Any, domain: str, is_weight: bool
) -> None:
    weights: Weights = {"s": np.array(scale, np.float32), "z": np.array(zero, np.int8)}
    if is_weight:
        weights["w"] = np.ones((4, 3), np.int8)
        nodes = [
            node("DequantizeLinear", ["w", "s", "z"], ["d"], axis=1, domain=domain),
            node("MatMul", ["x", "t"], ["y"]),
        ]
        nodes.insert(1, node("Transpose", ["d"], ["t"]))
    else:
        nodes = [
            node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=1, domain=domain),
            node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=1, domain=domain),
        ]
    model = make(nodes, weights)
    assert bool(findings(tmp_path, model)) == refuses(model)


@pytest.mark.parametrize(
    ("scale", "zero"),
    [(0.1, 0), ([0.1] * 3, 0), ([0.1] * 3, [0] * 3), ([0.1] * 2, [0] * 2), ([0.1] * 2, 0)],
)
@pytest.mark.parametrize("op", ["QLinearMatMul", "MatMulIntegerToFloat", "DynamicQuantizeMatMul"])
def test_scales_of_a_weight_by_column(tmp_path: Path, op: str, scale: Any, zero: Any) -> None:
    own = "com.microsoft"
    nodes = {
        "QLinearMatMul": [
            *QUANT,
            node(op, ["q", "s", "z", "w", "ws", "wz", "s", "z"], ["p"]),
            node("DequantizeLinear", ["p", "s", "z"], ["y"]),
        ],
        "MatMulIntegerToFloat": [
            *QUANT,
            node(op, ["q", "w", "s", "ws", "z", "wz"], ["y"], domain=own),
        ],
        "DynamicQuantizeMatMul": [node(op, ["x", "w", "ws", "wz"], ["y"], domain=own)],
    }[op]
    weights = {
        "s": f32(0.1),
        "z": np.array(0, np.int8),
        "w": np.eye(3, dtype=np.int8),
        "ws": np.array(scale, np.float32),
        "wz": np.array(zero, np.int8),
    }
    model = make(nodes, weights)
    assert bool(findings(tmp_path, model)) == refuses(model)


def test_the_scales_of_where(tmp_path: Path) -> None:
    inputs = [
        helper.make_tensor_value_info("c", TensorProto.BOOL, ["n", 3]),
        helper.make_tensor_value_info("x", INT8, ["n", 3]),
    ]
    nodes = [
        node(
            "QLinearWhere",
            ["c", "x", "s", "z", "x", "s", "z", "o", "z"],
            ["y"],
            domain="com.microsoft",
        )
    ]
    weights = {"s": f32(0.1), "z": np.array(0, np.int8), "o": f32(0)}
    [told] = findings(tmp_path, make(nodes, weights, inputs=inputs, output=INT8))
    assert "'o' of QLinearWhere" in told


def test_roles_are_where_the_runtime_has_scales_and_zero_points() -> None:
    """Every operator of ONNX Runtime with an input of such a name, but for gains and settings."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    others = {"Resize", "Upsample", "TorchEmbedding", "LinearAttentionGate", "ScaledSiLU"}
    gains = {"scale", "Scale", "norm_scale"}
    seen = 0
    for schema in state.get_all_operator_schema():
        op, names = schema.name, [given.name for given in schema.inputs]
        wanted = {
            i
            for i, name in enumerate(names)
            if ("scale" in name.lower() or "zero_point" in name) and name not in gains
        }
        if op in others or op.endswith(("Norm", "Gate")) or not wanted or op == "QLinearConcat":
            continue
        made = node(op, names, ["y"], domain=schema.domain)
        roles = roles_of(made)
        assert {role.scale for role in roles} - {-1} == {
            i for i in wanted if "scale" in names[i].lower()
        }, op
        zeros = {role.zero for role in roles} - {-1}
        assert zeros <= {i for i in wanted if "zero_point" in names[i]}, op
        seen += 1
    assert seen > 30
