"""Operators of a model that one batch really ran, told apart by version and attributes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests import models
from tests.runners.test_placement import branchy, conv_net, run_once

import paritygate
from paritygate.admission.nodes import ModelNode, list_nodes
from paritygate.admission.operators import Operator
from paritygate.runners.ort_exercised import describe_exercised

FLOAT = TensorProto.FLOAT


def exercised(folder: Path, x: np.ndarray, **table: Any) -> dict[str, dict[str, Any]]:
    told = run_once(folder, x, **table)["exercised"]
    assert told["kinds"] == len(told["operators"])
    assert told["kinds_that_ran"] == sum(1 for o in told["operators"] if o.get("ran"))
    assert told["rows"] == len(x)
    for operator in told["operators"]:
        fates = ("ran", "compiled_away", "in_compiled_subgraph", "not_run", "unnamed")
        assert operator["nodes"] == sum(operator.get(fate, 0) for fate in fates)
    return {f"{o['op_type']} {o['attributes']}".strip(): o for o in told["operators"]}


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_branch_that_was_not_taken_is_not_exercised(tmp_path: Path, sign: float) -> None:
    branchy(tmp_path / "m.onnx")
    found = exercised(tmp_path, np.full((3, 4), sign, np.float32))
    assert found["If else_branch, then_branch"]["ran"] == 1
    assert found["Sin"]["ran"] == 1, "within a function"
    assert "F" not in found
    assert found["Neg"] == {**found["Neg"], ("not_run" if sign > 0 else "ran"): 1}
    # One Mul is in the branch, one in the function, which is called either way.
    assert found["Mul"].get("not_run", 0) == (0 if sign > 0 else 1)
    assert found["Mul"]["ran"] == (2 if sign > 0 else 1)


def test_the_verdict_tells_what_was_not_exercised(tmp_path: Path) -> None:
    branchy(tmp_path / "a.onnx")
    branchy(tmp_path / "b.onnx", then="renamed")
    x = np.ones((3, 4), np.float32)
    result = paritygate.verify(tmp_path / "a.onnx", tmp_path / "b.onnx", {"x": x}, atol=0, rtol=0)
    notes = [n for n in result.summary["not_judged"] if n.startswith("operators: ")]
    assert len(notes) == 2
    assert "no Neg ran in the batch that was observed" in notes[0]


def test_fused_and_folded_ones_are_compiled_away(tmp_path: Path) -> None:
    conv_net(tmp_path / "m.onnx")
    model = onnx.load(tmp_path / "m.onnx")
    dims = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim[1:]]
    x = np.ones((2, *dims), np.float32)
    plain = exercised(tmp_path, x, graph_optimization_level="disable")
    assert all(set(o) >= {"ran"} and "compiled_away" not in o for o in plain.values())
    fused = exercised(tmp_path, x)
    assert any(o.get("compiled_away") for o in fused.values())
    assert sum(o["nodes"] for o in fused.values()) == sum(o["nodes"] for o in plain.values())


def test_nodes_without_a_name(tmp_path: Path) -> None:
    models.save_model(
        tmp_path / "m.onnx",
        [helper.make_node("Sin", ["x"], ["t"]), helper.make_node("Cos", ["t"], ["y"])],
        {"x": (FLOAT, ["n", 4])},
        {"y": (FLOAT, ["n", 4])},
    )
    found = exercised(tmp_path, np.ones((2, 4), np.float32))
    assert {op: o.get("ran") for op, o in found.items()} == {"Sin": 1, "Cos": 1}


def test_operators_are_told_apart(tmp_path: Path) -> None:
    def softmax(axis: int, name: str) -> onnx.NodeProto:
        source = "x" if name == "a" else "t"
        return helper.make_node("Softmax", [source], ["t" if name == "a" else "y"], name, axis=axis)

    path = models.save_model(
        tmp_path / "m.onnx",
        [softmax(1, "a"), softmax(0, "b")],
        {"x": (FLOAT, ["n", 4])},
        {"y": (FLOAT, ["n", 4])},
    )
    first, second = (n.operator for n in list_nodes(onnx.load(path)))
    assert first is not None
    assert second is not None
    assert (first.attributes, second.attributes) == ("axis = 1", "axis = 0")
    assert first.digest != second.digest
    assert first.since_version == second.since_version == 13
    model = onnx.load(path)
    model.opset_import[0].version = 12
    assert {n.operator.since_version for n in list_nodes(model) if n.operator} == {11}


def node(op: str, name: str = "", attributes: str = "") -> ModelNode:
    operator = Operator("ai.onnx", op, 1, attributes, attributes)
    return ModelNode(name, op, "", "graph", operator=operator)


def test_without_names_too_few_events_leave_it_open() -> None:
    nodes = [node("Relu"), node("Relu"), node("Sin", "s")]
    unnamed = {"unnamed": nodes[:2]}
    for events, wanted in ((2, {"ran": 2}), (1, {"unnamed": 2}), (0, {"unnamed": 2})):
        told: Any = describe_exercised(nodes, unnamed, {"Relu": events}, 1)
        [relu, sin] = told["operators"]
        assert {k: relu[k] for k in ("ran", "unnamed") if k in relu} == wanted
        assert sin["ran"] == 1


def test_lists_are_bounded() -> None:
    nodes = [node("Relu", f"n{i}", f"a = {i:04d}") for i in range(500)]
    told: Any = describe_exercised(nodes, {}, {}, 1)
    assert told["kinds"] == told["kinds_that_ran"] == 500
    assert len(told["operators"]) == 200
