"""The semantic digest: the same for whatever is packaged otherwise, another for any change."""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from tests import models

from paritygate import inspect_model
from paritygate.admission.errors import AdmissionError
from paritygate.admission.semantic import digest_graph, used_opsets

FLOAT = TensorProto.FLOAT
HERE = Path()


def rich() -> onnx.ModelProto:
    """Weights of several dtypes, a body that reads outer values, a function, shared values."""
    t = helper.make_tensor_value_info("t", FLOAT, None)
    bodies = {
        "then_branch": helper.make_graph(
            [
                helper.make_node("Mul", ["outer", "inner"], ["m"]),
                helper.make_node("Sub", ["m", "x"], ["t"]),
            ],
            "then",
            [],
            [t],
            [numpy_helper.from_array(np.full(4, 2, np.float32), "inner")],
        ),
        "else_branch": helper.make_graph(
            [helper.make_node("LeakyRelu", ["outer"], ["t"], alpha=0.25)], "else", [], [t]
        ),
    }
    own = helper.make_function(
        "own",
        "Scale",
        ["a"],
        ["b"],
        [
            helper.make_node("Constant", [], ["k"], value_float=3.0),
            helper.make_node("Mul", ["a", "k"], ["b"]),
        ],
        [helper.make_opsetid("", 17)],
    )
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["outer"], name="first"),
            helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
            helper.make_node("Greater", ["most", "zero"], ["flag"]),
            helper.make_node("If", ["flag"], ["chosen"], **bodies),
            helper.make_node("Scale", ["chosen"], ["scaled"], domain="own"),
            helper.make_node("Add", ["scaled", "outer"], ["y"]),
            helper.make_node("Cast", ["y"], ["i"], to=TensorProto.INT64),
            helper.make_node("Add", ["i", "n"], ["z"]),
            helper.make_node("Clip", ["y", "", "top"], ["c"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", FLOAT, ["batch", 4])],
        [
            helper.make_tensor_value_info("z", TensorProto.INT64, ["batch", 4]),
            helper.make_tensor_value_info("c", FLOAT, ["batch", 4]),
        ],
        [
            numpy_helper.from_array(np.arange(16, dtype=np.float32).reshape(4, 4), "w"),
            numpy_helper.from_array(np.array(0, np.float32), "zero"),
            numpy_helper.from_array(np.array([1, -2, 3, 4]), "n"),
            numpy_helper.from_array(np.array(9, np.float32), "top"),
        ],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10, functions=[own])


def digest(model: onnx.ModelProto, folder: Path = HERE) -> str:
    onnx.checker.check_model(model)
    return digest_graph(model, folder)


def graphs(model: onnx.ModelProto) -> Iterator[Any]:
    pending: list[Any] = [model.graph, *model.functions]
    while pending:
        graph = pending.pop()
        yield graph
        pending += [a.g for n in graph.node for a in n.attribute if a.HasField("g")]


def rename_values(model: onnx.ModelProto, draw: random.Random) -> None:
    """Every value but inputs and outputs of the main graph has another name."""
    kept = {v.name for v in (*model.graph.input, *model.graph.output)}
    names: dict[str, str] = {}

    def other(name: str) -> str:
        if not name or name in kept:
            return name
        return names.setdefault(name, f"v{draw.randrange(10**9)}_{len(names)}")

    for graph in graphs(model):
        is_function = isinstance(graph, onnx.FunctionProto)
        for node in graph.node:
            node.input[:] = [other(n) for n in node.input]
            node.output[:] = [other(n) for n in node.output]
        if is_function:
            graph.input[:] = [other(n) for n in graph.input]
            graph.output[:] = [other(n) for n in graph.output]
            continue
        for tensor in graph.initializer:
            tensor.name = other(tensor.name)
        for value in (*graph.input, *graph.output):
            value.name = other(value.name)


def shuffle_nodes(model: onnx.ModelProto, draw: random.Random) -> None:
    """Another topological order."""
    for graph in graphs(model):
        left, ordered = list(graph.node), []
        made = {n for node in left for n in node.output}
        done: set[str] = set()
        while left:
            ready = [n for n in left if reads(n).isdisjoint(made - done)]
            chosen = draw.choice(ready)
            left.remove(chosen)
            ordered.append(copy.deepcopy(chosen))
            done |= set(chosen.output)
        del graph.node[:]
        graph.node.extend(ordered)


def reads(node: onnx.NodeProto) -> set[str]:
    found = set(node.input)
    for attribute in node.attribute:
        if attribute.HasField("g"):
            for inner in attribute.g.node:
                found |= reads(inner)
    return found


def shuffle_initializers(model: onnx.ModelProto, draw: random.Random) -> None:
    tensors = [copy.deepcopy(t) for t in model.graph.initializer]
    draw.shuffle(tensors)
    del model.graph.initializer[:]
    model.graph.initializer.extend(tensors)


def use_typed_fields(model: onnx.ModelProto, _: random.Random) -> None:
    for tensor in model.graph.initializer:
        values = numpy_helper.to_array(tensor)
        typed = helper.make_tensor(tensor.name, tensor.data_type, values.shape, values.reshape(-1))
        assert not typed.raw_data
        tensor.CopyFrom(typed)


def decorate(model: onnx.ModelProto, draw: random.Random) -> None:
    """Everything that calculates nothing."""
    model.producer_name, model.producer_version = "another", str(draw.random())
    model.doc_string, model.graph.doc_string = "words", "more words"
    model.model_version, model.domain, model.graph.name = 7, "org.example", "renamed"
    helper.set_model_props(model, {"author": "somebody"})
    model.ir_version = 9
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    model.graph.value_info.append(helper.make_tensor_value_info("most", FLOAT, []))
    for index, node in enumerate(model.graph.node):
        node.name, node.doc_string = f"n{index}", "a node"
    model.graph.node.insert(0, helper.make_node("Relu", ["x"], ["unused"]))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "N"


KINDS = (
    *("FLOAT16", "BFLOAT16", "DOUBLE", "INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32"),
    *("UINT64", "BOOL", "INT4", "UINT4", "FLOAT8E4M3FN", "COMPLEX64"),
)
SAME = [rename_values, shuffle_nodes, shuffle_initializers, use_typed_fields, decorate]


@settings(max_examples=60)
@given(st.lists(st.sampled_from(SAME), min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_packaging_does_not_count(changes: list[Callable[..., None]], draw: random.Random) -> None:
    model = rich()
    wanted = digest(model)
    for change in dict.fromkeys(changes):
        change(model, draw)
    assert digest(model) == wanted


def with_external(model: onnx.ModelProto, path: Path) -> onnx.ModelProto:
    onnx.save(
        copy.deepcopy(model), path, save_as_external_data=True, location="w.bin", size_threshold=0
    )
    return onnx.load(path, load_external_data=False)


def test_external_data_do_not_count(tmp_path: Path) -> None:
    model = rich()
    outside = with_external(model, tmp_path / "m.onnx")
    assert outside.graph.initializer[0].data_location == TensorProto.EXTERNAL
    assert digest_graph(outside, tmp_path) == digest(model)
    content = bytearray((tmp_path / "w.bin").read_bytes())
    content[5] ^= 1
    (tmp_path / "w.bin").write_bytes(content)
    assert digest_graph(outside, tmp_path) != digest(model)


@pytest.mark.parametrize("kind", KINDS)
def test_every_dtype_is_the_same_in_both_forms(kind: str) -> None:
    number = getattr(TensorProto, kind)
    dtype = helper.tensor_dtype_to_np_dtype(number)
    values = np.array([0, 1, 3, 1, 2], np.float64).astype(dtype)
    if kind in ("INT8", "INT16", "INT32", "FLOAT16", "DOUBLE"):
        values = -values
    typed = helper.make_tensor("v", number, [5], values)
    raw = numpy_helper.from_array(values, "v")
    assert raw.raw_data
    assert not typed.raw_data

    def of(tensor: onnx.TensorProto) -> str:
        graph = helper.make_graph(
            [helper.make_node("Identity", ["v"], ["y"])],
            "g",
            [],
            [helper.make_tensor_value_info("y", number, [5])],
            [tensor],
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        return digest_graph(made, HERE)

    assert of(typed) == of(raw)
    other = helper.make_tensor("v", number, [5], values[[1, 0, 2, 3, 4]])
    assert of(other) != of(raw)


def set_attribute(node: onnx.NodeProto, name: str, value: Any) -> None:
    kept = [a for a in node.attribute if a.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])


def body(model: onnx.ModelProto, name: str) -> onnx.GraphProto:
    return next(a.g for a in model.graph.node[3].attribute if a.name == name)


def weight(model: onnx.ModelProto) -> None:
    values = numpy_helper.to_array(model.graph.initializer[0]).copy()
    values[3, 3] = np.nextafter(values[3, 3], np.float32(99))
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(values, "w"))


def swap_bodies(model: onnx.ModelProto) -> None:
    for attribute in model.graph.node[3].attribute:
        kinds = {"then_branch": "else_branch", "else_branch": "then_branch"}
        attribute.name = kinds[attribute.name]


def unshare(model: onnx.ModelProto) -> None:
    """The first MatMul twice: equal values, but another graph."""
    twin = helper.make_node("MatMul", ["x", "w"], ["outer2"])
    model.graph.node.insert(1, twin)
    model.graph.node[6].input[1] = "outer2"


DIFFERENT: dict[str, Callable[[onnx.ModelProto], object]] = {
    "a weight by one step": weight,
    "a weight's dims": lambda m: m.graph.initializer[2].dims.__setitem__(slice(None), [1, 4]),
    "an operator": lambda m: setattr(m.graph.node[1], "op_type", "ReduceMin"),
    "an attribute": lambda m: set_attribute(m.graph.node[1], "keepdims", 1),
    "a float attribute of a body": lambda m: set_attribute(
        body(m, "else_branch").node[0], "alpha", 0.2500001
    ),
    "a weight of a body": lambda m: (
        body(m, "then_branch")
        .initializer[0]
        .CopyFrom(numpy_helper.from_array(np.full(4, 3, np.float32), "inner"))
    ),
    "an edge": lambda m: m.graph.node[5].input.__setitem__(1, "chosen"),
    "the order of inputs": lambda m: m.graph.node[5].input.__setitem__(
        slice(None), ["outer", "scaled"]
    ),
    "an edge from a body to outside": lambda m: (
        body(m, "then_branch").node[1].input.__setitem__(1, "outer")
    ),
    "the outer value that a body reads": lambda m: (
        body(m, "else_branch").node[0].input.__setitem__(0, "x")
    ),
    "bodies exchanged": swap_bodies,
    "a constant of a function": lambda m: set_attribute(m.functions[0].node[0], "value_float", 3.5),
    "an optional input's place": lambda m: m.graph.node[8].input.__setitem__(
        slice(None), ["y", "top"]
    ),
    "an output's name": lambda m: (
        setattr(m.graph.output[1], "name", "d"),
        m.graph.node[8].output.__setitem__(0, "d"),
    ),
    "an output's dims": lambda m: setattr(
        m.graph.output[1].type.tensor_type.shape.dim[1], "dim_value", 5
    ),
    "a fixed batch": lambda m: setattr(
        m.graph.input[0].type.tensor_type.shape.dim[0], "dim_value", 1
    ),
    "the order of outputs": lambda m: m.graph.output.reverse(),
    "a shared value calculated twice": unshare,
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_any_change_counts(name: str) -> None:
    model = rich()
    before = digest_graph(model, HERE)
    DIFFERENT[name](model)
    assert digest_graph(model, HERE) != before


def split(outputs: int, taken: int) -> str:
    """`y` is one of the equal parts of `x`."""
    names = [f"p{i}" for i in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node("Split", ["x"], names), helper.make_node("Relu", [names[taken]], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", FLOAT, [6])],
        [helper.make_tensor_value_info("y", FLOAT, None)],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    return digest_graph(made, HERE)


def test_which_output_of_a_node_counts_and_how_many_it_has() -> None:
    assert len({split(2, 0), split(2, 1), split(3, 0), split(3, 1), split(3, 2)}) == 5


def test_the_dtype_of_a_weight_counts() -> None:
    def of(dtype: str) -> str:
        weight = numpy_helper.from_array(np.zeros(2, dtype), "w")
        graph = helper.make_graph(
            [helper.make_node("Shape", ["w"], ["y"])],
            "g",
            [],
            [helper.make_tensor_value_info("y", TensorProto.INT64, [1])],
            [weight],
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
        return digest_graph(made, HERE)

    assert len({of("float32"), of("int32"), of("uint32")}) == 3


@settings(max_examples=40)
@given(st.randoms(use_true_random=False))
def test_every_bit_of_every_weight_counts(draw: random.Random) -> None:
    model = rich()
    before = digest_graph(model, HERE)
    tensor = draw.choice([t for graph in graphs(model) for t in getattr(graph, "initializer", ())])
    content = bytearray(tensor.raw_data)
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    tensor.raw_data = bytes(content)
    assert digest_graph(model, HERE) != before


def test_the_opset_counts_apart() -> None:
    model, other = rich(), rich()
    other.opset_import[0].version = 18
    other.functions[0].opset_import[0].version = 18
    assert digest_graph(model, HERE) == digest_graph(other, HERE)
    assert used_opsets(model) == {"ai.onnx": 17, "own": 1, "own.Scale:ai.onnx": 17}
    assert used_opsets(other) != used_opsets(model)


def test_a_cycle_is_refused_and_no_loop() -> None:
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Relu", ["a"], ["b"])],
        "g",
        [helper.make_tensor_value_info("x", FLOAT, [1])],
        [helper.make_tensor_value_info("b", FLOAT, [1])],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    with pytest.raises(AdmissionError, match="cycle"):
        digest_graph(made, HERE)


def test_a_chain_of_many_nodes_needs_no_recursion() -> None:
    names = ["x", *(f"v{i}" for i in range(20_000))]
    graph = helper.make_graph(
        [helper.make_node("Relu", [a], [b]) for a, b in itertools.pairwise(names)],
        "g",
        [helper.make_tensor_value_info("x", FLOAT, [1])],
        [helper.make_tensor_value_info(names[-1], FLOAT, [1])],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    assert len(digest_graph(made, HERE)) == 64


class TestInRuns:
    def opset(self, path: Path, version: int) -> Path:
        models.scale_model(path, 2.0)
        model = onnx.load(path)
        model.opset_import[0].version = version
        onnx.save(model, path)
        return path

    def notes(self, ref: Path, cand: Path) -> list[str]:
        import paritygate

        x = np.ones((4, 4), np.float32)
        result = paritygate.verify(ref, cand, {"x": x}, atol=0.1, rtol=0)
        assert result.verdict == "release", result.reasons
        return [note for note in result.summary["not_judged"] if "graph" in note or "opset" in note]

    def test_nothing_but_the_opset(self, tmp_path: Path) -> None:
        pair = self.opset(tmp_path / "a.onnx", 17), self.opset(tmp_path / "b.onnx", 15)
        [note] = self.notes(*pair)
        assert "nothing but the number of the opset: ai.onnx 17 against ai.onnx 15" in note

    def test_the_same_graph_packaged_otherwise(self, tmp_path: Path) -> None:
        models.external_data_model(tmp_path / "a.onnx")
        model = onnx.load(tmp_path / "a.onnx")
        onnx.save(model, tmp_path / "b.onnx")
        [note] = self.notes(tmp_path / "a.onnx", tmp_path / "b.onnx")
        assert "the same graph with the same weights" in note
        one, other = (inspect_model(tmp_path / n)["identity"] for n in ("a.onnx", "b.onnx"))
        assert one["digest"] != other["digest"]
        assert one["semantic_digest"] == other["semantic_digest"]

    def test_other_weights_are_not_told(self, tmp_path: Path) -> None:
        models.scale_model(tmp_path / "a.onnx", 2.0)
        models.scale_model(tmp_path / "b.onnx", 2.0001)
        assert self.notes(tmp_path / "a.onnx", tmp_path / "b.onnx") == []
