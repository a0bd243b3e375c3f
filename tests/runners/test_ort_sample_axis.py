"""The first axis of an output is the samples, not something that happens to be as long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from onnx import TensorProto, helper
from tests import models
from tests.packs import write_pack
from tests.runners.contract import context_of, make_batch, spec_of

import paritygate
from paritygate.core.errors import RunnerError, RunnerLoadError
from paritygate.core.tensors import ColumnSpec
from paritygate.runners.base import Runner
from paritygate.runners.registry import prepare

Dims = Sequence[int | str | None]
TRANSPOSE = [helper.make_node("Transpose", ["x"], ["y"])]
MEAN = [helper.make_node("ReduceMean", ["x"], ["y"], axes=[0], keepdims=0)]
COPY = [helper.make_node("Identity", ["x"], ["y"])]
X = np.arange(16, dtype=np.float32).reshape(4, 4)


def load(
    folder: Path,
    nodes: Any,
    takes: Dims,
    gives: Dims,
    batch_size: int | None = 4,
    constants: Mapping[str, np.ndarray] | None = None,
) -> Runner:
    inputs = {"x": (models.FLOAT, takes)}
    inputs |= {name: (TensorProto.INT64, c.shape) for name, c in (constants or {}).items()}
    models.save_model(folder / "m.onnx", nodes, inputs, {"y": (models.FLOAT, gives)})
    table = {"model": "m.onnx"} | ({"batch_size": batch_size} if batch_size else {})
    return prepare(spec_of(table), context_of(folder, None, constants))


@pytest.mark.parametrize(
    ("nodes", "takes", "gives", "told"),
    [
        (TRANSPOSE, ["batch", 4], [4, "batch"], "is always 4, but the batch of its inputs is free"),
        (MEAN, ["batch", 4], [4], "is always 4"),
        (MEAN, ["batch", 4], [None], "is always 4"),
        (TRANSPOSE, ["batch", "seq"], ["seq", "batch"], "is 'seq', which isn't the first"),
        (TRANSPOSE, [2, 4], [4, 2], "is always 4, but the batch of its inputs is always 2"),
    ],
)
def test_a_declared_contradiction_is_a_fault_of_the_plan(
    tmp_path: Path, nodes: Any, takes: Dims, gives: Dims, told: str
) -> None:
    with pytest.raises(RunnerLoadError) as caught:
        load(tmp_path, nodes, takes, gives, None if takes[0] == 2 else 4)
    assert caught.value.is_plan_fault
    assert "output y: float32" in str(caught.value)
    assert told in str(caught.value)


def test_the_state_of_a_bidirectional_network_is_refused(tmp_path: Path) -> None:
    models.save_model(
        tmp_path / "m.onnx",
        [
            helper.make_node("Unsqueeze", ["x", "first"], ["steps"]),
            helper.make_node(
                "GRU", ["steps", "w", "r"], ["", "y"], direction="bidirectional", hidden_size=4
            ),
        ],
        {"x": (models.FLOAT, ["batch", 4])},
        {"y": (models.FLOAT, [2, "batch", 4])},
        {
            "first": np.array([0], np.int64),
            "w": np.ones((2, 12, 4), np.float32),
            "r": np.ones((2, 12, 4), np.float32),
        },
    )
    with pytest.raises(RunnerLoadError, match="is always 2"):
        prepare(spec_of({"model": "m.onnx", "batch_size": 2}), context_of(tmp_path))


@pytest.mark.parametrize("gives", [["b", "s"], ["batch", "seq"], ["b", None]])
@pytest.mark.parametrize("rows", [4, 1])
def test_a_coincidence_is_found_by_another_batch(tmp_path: Path, gives: Dims, rows: int) -> None:
    with load(tmp_path, TRANSPOSE, ["batch", "seq"], gives) as runner:
        x = np.ascontiguousarray(X[:rows, :rows])
        for session in (runner.session(), runner.session()):
            with pytest.raises(RunnerError, match=r"output 'y' doesn't follow the batch"):
                session.run(make_batch(x, start=8))


@pytest.mark.parametrize(
    ("takes", "gives", "batch_size"),
    [
        (["batch", 4], ["batch", 4], 4),
        (["batch", "n"], ["out", None], 4),
        ([None, 4], ["other", 4], 4),
        ([None, None], [None, None], 1),
        ([4, 4], [4, 4], None),
        (["batch", 4], [1, 4], 1),
    ],
)
def test_what_follows_the_batch_answers(
    tmp_path: Path, takes: Dims, gives: Dims, batch_size: int | None
) -> None:
    rows = batch_size or 4
    with load(tmp_path, COPY, takes, gives, batch_size) as runner:
        session = runner.session()
        for shift in range(3):
            x = X[:rows] + np.float32(shift)
            with session.run(make_batch(x)) as lease:
                assert lease.outputs["y"].tobytes() == x.tobytes()


def test_one_small_batch_finds_out(tmp_path: Path) -> None:
    with load(tmp_path, COPY, [None, 4], [None, 4]) as runner:
        real, sizes = runner._inference, list[int]()

        class Spy:
            def run(self, names: list[str], feeds: dict[str, np.ndarray]) -> Any:
                sizes.append(len(feeds["x"]))
                return real.run(names, feeds)

            def __getattr__(self, name: str) -> Any:
                return getattr(real, name)

        runner._inference = Spy()
        for _ in range(2):
            session = runner.session()
            session.run(make_batch(X)).release()
            session.run(make_batch(X[:2])).release()
    assert sizes == [2]


def test_an_output_that_cannot_be_shown_to_follow_is_refused(tmp_path: Path) -> None:
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"])]
    constants = {"shape": np.array([4, 4], np.int64)}
    with (
        load(tmp_path, nodes, ["batch", 4], [None, 4], constants=constants) as runner,
        pytest.raises(RunnerError, match="a batch of 2 to find out raised"),
    ):
        runner.session().run(make_batch(X))


def test_a_run_is_held(tmp_path: Path) -> None:
    write_pack(tmp_path / "g.arrow", np.arange(8), {"x": np.tile(X, (2, 1))})
    for name, gives in (("a", ["b", "s"]), ("b", ["c", "d"])):
        models.save_model(
            tmp_path / f"{name}.onnx",
            TRANSPOSE,
            {"x": (models.FLOAT, ["batch", "seq"])},
            {"y": (models.FLOAT, gives)},
        )
    plan = {
        "golden": str(tmp_path / "g.arrow"),
        "runners": {
            name: {"model": str(tmp_path / f"{name}.onnx"), "batch_size": 4} for name in "ab"
        },
        "stages": [
            {"reference": "a", "candidate": "b", "outputs": {"y": {"atol": 0.0, "rtol": 0.0}}}
        ],
    }
    result = paritygate.run(plan, out=None)
    assert result.verdict == "hold"
    assert {r.code for r in result.reasons} == {"runner.error", "evidence.empty"}


def test_a_constants_dims_prove_nothing(tmp_path: Path) -> None:
    models.save_model(
        tmp_path / "m.onnx",
        [
            helper.make_node("Add", ["c", "zero"], ["y"]),
            helper.make_node("Identity", ["x"], ["z"]),
        ],
        {"x": (models.FLOAT, ["batch", 4]), "c": (models.FLOAT, ["n"])},
        {"y": (models.FLOAT, ["n"]), "z": (models.FLOAT, ["batch", 4])},
        {"zero": np.array(0, np.float32)},
    )
    context = context_of(
        tmp_path,
        None,
        {"c": np.ones(4, np.float32)},
        {"x": ColumnSpec("x", "float32", (4,))},
    )
    with (
        prepare(spec_of({"model": "m.onnx", "batch_size": 4}), context) as runner,
        pytest.raises(RunnerError, match="output 'y' doesn't follow the batch"),
    ):
        runner.session().run(make_batch(X))


@pytest.mark.parametrize("isolate", [False, "process"])
@pytest.mark.parametrize(
    ("element", "k"),
    [
        (TensorProto.INT64, np.arange(5)),
        (TensorProto.BOOL, np.array([True, False, True, True, False])),
        (TensorProto.FLOAT16, np.arange(5).astype(np.float16)),
        (TensorProto.STRING, np.array(["1", "0.5", "2", "0", "-1"], object)),
    ],
)
def test_a_scalar_that_differs_from_sample_to_sample(
    tmp_path: Path, element: int, k: np.ndarray, isolate: object
) -> None:
    nodes = [
        helper.make_node("Cast", ["k"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["x", "f"], ["y"]),
    ]
    takes = {"x": (models.FLOAT, [1, 4]), "k": (element, [])}
    models.save_model(tmp_path / "m.onnx", nodes, takes, {"y": (models.FLOAT, [1, 4])})
    x = np.arange(20, dtype=np.float32).reshape(5, 4)
    y = x * k.astype(np.float32)[:, None]
    columns = {"in.k": pa.array(k)}
    pack = write_pack(tmp_path / "g.arrow", range(5), {"x": x}, {"y": y}, columns=columns)
    dtype = "string" if k.dtype == object else k.dtype.name
    plan = {
        "golden": str(pack),
        "inputs": {"k": {"dtype": dtype, "shape": []}},
        "runners": {
            "ref": {"kind": "recorded"},
            "cand": {
                "kind": "onnxruntime",
                "model": str(tmp_path / "m.onnx"),
                "batch_size": 1,
                "isolate": isolate,
            },
        },
        "stages": [
            {"reference": "ref", "candidate": "cand", "outputs": {"y": {"atol": 0, "rtol": 0}}}
        ],
    }
    result = paritygate.run(plan, out=None)
    assert (result.verdict, result.reasons) == ("release", ())
