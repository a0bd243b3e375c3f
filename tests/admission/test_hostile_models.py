"""Hostile and broken models: one clear sentence or a plain description, no crash, in bounds."""

from __future__ import annotations

import itertools
import json
import resource
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests import models
from tests.admission.hostile import outcome
from tests.admission.test_semantic import rich
from tests.frontends.command import execute

import paritygate
from paritygate.admission.errors import AdmissionError
from paritygate.admission.inspect import inspect_structure
from paritygate.admission.model import describe_model

FLOAT = TensorProto.FLOAT
LONG = "n" * 10_000_000
node = helper.make_node


def info(name: str, dims: Sequence[int | str] | None = ("b", 4)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, FLOAT, dims)


def model(
    nodes: Sequence[onnx.NodeProto],
    weights: Sequence[onnx.TensorProto] = (),
    inputs: Sequence[onnx.ValueInfoProto] = (),
    outputs: Sequence[onnx.ValueInfoProto] = (),
    domain: str = "",
) -> onnx.ModelProto:
    graph = helper.make_graph(
        list(nodes), "g", list(inputs) or [info("x")], list(outputs) or [info("y")], list(weights)
    )
    imports = [helper.make_opsetid("", 17)]
    imports += [helper.make_opsetid(domain, 1)] if domain else []
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def weight(name: str = "w", dims: Sequence[int] = (4,)) -> onnx.TensorProto:
    made = numpy_helper.from_array(np.ones(4, np.float32), name)
    made.dims[:] = dims
    return made


def external(location: str, name: str = "w", dims: Sequence[int] = (4,)) -> onnx.TensorProto:
    made = weight(name, dims)
    models.set_external(made, location, 0)
    return made


def cut(tensor: onnx.TensorProto) -> onnx.TensorProto:
    tensor.raw_data = tensor.raw_data[:8]
    return tensor


def with_metadata(key: str, value: str) -> onnx.ModelProto:
    made = model([node("Relu", ["x"], ["y"])])
    helper.set_model_props(made, {key: value})
    return made


def nested(depth: int) -> onnx.ModelProto:
    """If in If in If."""
    body = helper.make_graph([node("Identity", ["x"], ["t"])], "b", [], [info("t", None)])
    for i in range(depth):
        other = helper.make_graph(
            [node("Identity", ["x"], [f"e{i}"])], "e", [], [info(f"e{i}", None)]
        )
        chosen = node("If", ["c"], [f"t{i}"], then_branch=body, else_branch=other)
        body = helper.make_graph([chosen], "b", [], [info(f"t{i}", None)])
    body.node[0].output[0] = "y"
    flag = numpy_helper.from_array(np.array(True), "c")
    return model(list(body.node), [flag])


def recursive() -> onnx.ModelProto:
    """Two functions that call each other."""
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("o", 1)]
    made = model([node("F", ["x"], ["y"], domain="o")], domain="o")
    for name, other in (("F", "G"), ("G", "F")):
        calls = [node(other, ["a"], ["b"], domain="o")]
        made.functions.append(helper.make_function("o", name, ["a"], ["b"], calls, imports))
    return made


# A file's name for the case, what makes it, and a part of the sentence; none: it is described.
CASES: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "a cycle": (
        lambda: model([node("Add", ["x", "y"], ["a"]), node("Relu", ["a"], ["y"])]),
        "topologically sorted",
    ),
    "a weight of 2^60": (
        lambda: model([node("Add", ["x", "w"], ["y"])], [weight(dims=[1 << 60])]),
        "too small for the declared shape",
    ),
    "an external weight of 2^124": (
        lambda: model(
            [node("Add", ["x", "w"], ["y"])], [external("w.bin", dims=[1 << 62, 1 << 62])]
        ),
        "has 16 bytes but the model reads up",
    ),
    "an input of 2^60": (
        lambda: model([node("Relu", ["x"], ["y"])], inputs=[info("x", [1 << 60, 4])]),
        "",
    ),
    "a weight shorter than its shape": (
        lambda: model([node("Add", ["x", "w"], ["y"])], [cut(weight())]),
        "too small for the declared shape",
    ),
    "a long name of a value": (
        lambda: model([node("Relu", ["x"], [LONG]), node("Relu", [LONG], ["y"])]),
        "",
    ),
    "a long name of an input": (
        lambda: model([node("Relu", [LONG], ["y"])], inputs=[info(LONG)]),
        "",
    ),
    "a long name of a dim": (
        lambda: model([node("Relu", ["x"], ["y"])], inputs=[info("x", [LONG, 4])]),
        "",
    ),
    "a long name of an operator": (
        lambda: model([node(LONG, ["x"], ["y"], domain="q")], domain="q"),
        "",
    ),
    "a long name of a domain": (
        lambda: model([node("A", ["x"], ["y"], domain=LONG)], domain=LONG),
        "",
    ),
    "a long name of a weight elsewhere": (
        lambda: model([node("Add", ["x", LONG], ["y"])], [external("../w", LONG)]),
        "outside the model's folder",
    ),
    "a long location": (
        lambda: model([node("Add", ["x", "w"], ["y"])], [external(LONG)]),
        "can't be read",
    ),
    "long metadata": (lambda: with_metadata(LONG, LONG), ""),
    "long session options": (lambda: with_metadata("ort_config", LONG), ""),
    "bodies within bodies": (lambda: nested(28), ""),
    "functions that call each other": (recursive, "must not be recursive"),
}


def write(folder: Path, content: bytes) -> Path:
    (folder / "w.bin").write_bytes(bytes(16))
    path = folder / "m.onnx"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("name", CASES)
def test_without_the_checker_nothing_else_fails(tmp_path: Path, name: str) -> None:
    outcome(write(tmp_path, CASES[name][0]().SerializeToString()))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_told_in_few_words(tmp_path: Path, name: str) -> None:
    make, says = CASES[name]
    path = write(tmp_path, make().SerializeToString())
    if not says:
        assert len(json.dumps(paritygate.inspect_model(path))) < 20_000
        return
    with pytest.raises(AdmissionError, match=says) as caught:
        paritygate.inspect_model(path)
    assert len(str(caught.value)) < 2_000


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a cycle", "a long name of an operator"])
def test_the_command_ends_as_it_says(tmp_path: Path, name: str) -> None:
    make, says = CASES[name]
    write(tmp_path, make().SerializeToString())
    done = execute("inspect", "m.onnx", cwd=tmp_path)
    assert done.returncode == (2 if says else 1)
    assert len(done.stdout) + len(done.stderr) < 5_000
    assert "Traceback" not in done.stderr


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    content = model([node("Relu", ["x"], ["y"], name="marked")]).SerializeToString()
    path = write(tmp_path, content.replace(b"marked", b"\xff\xfe\xfd\xfc\xfb\xfa"))
    with pytest.raises(AdmissionError, match=r"NodeProto\.name isn't UTF-8"):
        paritygate.inspect_model(path)


@pytest.mark.parametrize("name", ["rich", "quantised"])
def test_cut_off_anywhere(tmp_path: Path, name: str) -> None:
    content = rich().SerializeToString()
    if name == "quantised":
        from tests.admission.test_quantization import qdq

        content = qdq(tmp_path / "q.onnx", np.full(4, 0.1, np.float32)).read_bytes()
    for length in range(len(content)):
        outcome(write(tmp_path, content[:length]))


@pytest.mark.slow
def test_the_whole_look_at_files_cut_at_every_percent(tmp_path: Path) -> None:
    content = rich().SerializeToString()
    refused = 0
    for percent in range(100):
        path = write(tmp_path, content[: len(content) * percent // 100])
        try:
            paritygate.inspect_model(path)
        except AdmissionError as e:
            assert str(path) in str(e)
            refused += 1
    assert refused == 100


@pytest.mark.slow
def test_a_hundred_thousand_nodes(tmp_path: Path) -> None:
    names = ["x", *(f"v{i}" for i in range(99_999)), "y"]
    chain = [node("Relu", [a], [b]) for a, b in itertools.pairwise(names)]
    write(tmp_path, model(chain).SerializeToString())
    done = execute("inspect", "m.onnx", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told: Any = json.loads(done.stdout)
    assert told["operators"] == [{"domain": "ai.onnx", "op_type": "Relu", "count": 100_000}]
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 1 << 20  # KiB


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_models_of_onnx_itself_are_described_without_a_false_alarm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from onnx.backend.test.loader import load_model_tests

    # What the models should answer, and how they are told of, takes longest to make.
    with monkeypatch.context() as changed:
        changed.setattr("onnx.reference.ops.op_pool_common.pool", nothing_pooled)
        changed.setattr("inspect.getsource", lambda made: "@staticmethod\ndef export(): ...")
        cases = [case for case in load_model_tests(kind="node") if case.model is not None]
    assert len(cases) > 1_000
    for case in cases:
        path = write(tmp_path, case.model.SerializeToString())
        assert outcome(path) == "read", case.name
        found = inspect_structure(case.model, describe_model(case.model), tmp_path)
        trains = any(word in case.name for word in ("training", "adagrad", "adam", "momentum"))
        wanted = {"admission.training_mode"} if trains else set()
        assert {c.code for c in found.concerns} <= wanted, case.name


def nothing_pooled(padded: Any, x_shape: Any, *given: Any, **more: Any) -> Any:
    """Zeros in the shape of what is pooled."""
    _, _, out_shape, *_ = given
    return np.zeros((*x_shape[:2], *out_shape), padded.dtype)


def left_over(dims: Sequence[int], raw: bytes = b"", numbers: Sequence[float] = ()) -> Any:
    made = TensorProto(name="w", data_type=FLOAT, dims=dims, float_data=numbers)
    if raw:
        made.raw_data = raw
    return made


@pytest.mark.parametrize(
    ("tensor", "told"),
    [
        (left_over([1], raw=bytes(8)), "holds 8 bytes, a float32[1] has 4"),
        (left_over([4], raw=bytes(17)), "holds 17 bytes, a float32[4] has 16"),
        (left_over([1], numbers=[1, 2]), "holds 2 numbers, a float32[1] has 1"),
    ],
)
@pytest.mark.parametrize("is_node", [False, True])
def test_a_tensor_that_holds_more_than_its_shape_is_refused(
    tmp_path: Path, tensor: onnx.TensorProto, told: str, is_node: bool
) -> None:
    held = [node("Constant", [], ["w"], value=tensor)] if is_node else []
    made = model([*held, node("Mul", ["x", "w"], ["y"])], [] if is_node else [tensor])
    with pytest.raises(Exception, match="ONNXRuntimeError"):
        onnxruntime.InferenceSession(made.SerializeToString())
    onnx.save(made, tmp_path / "m.onnx")
    with pytest.raises(AdmissionError) as raised:
        paritygate.inspect_model(tmp_path / "m.onnx")
    assert told in str(raised.value)


def test_a_graph_without_outputs_is_refused(tmp_path: Path) -> None:
    made = model([node("Relu", ["x"], ["y"])])
    del made.graph.output[:]
    onnx.save(made, tmp_path / "m.onnx")
    with pytest.raises(AdmissionError, match="the graph has no outputs"):
        paritygate.inspect_model(tmp_path / "m.onnx")


def test_an_output_that_is_listed_twice_is_told(tmp_path: Path) -> None:
    made = model([node("Relu", ["x"], ["y"])], outputs=[info("y"), info("y")])
    onnx.save(made, tmp_path / "m.onnx")
    found = paritygate.inspect_model(tmp_path / "m.onnx")
    assert found["findings"] == []
    assert "the graph lists an output more than once: y" in found["notes"]
