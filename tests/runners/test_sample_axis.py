"""Samples on any axis of a runner's tensors, or on none: moved at the border, values unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from tests import models
from tests.packs import write_pack
from tests.runners.contract import make_batch, spec_of

import paritygate
from paritygate.core.errors import ParityError, PlanError, RunnerError
from paritygate.core.tensors import ColumnSpec
from paritygate.runners.base import PrepareContext
from paritygate.runners.layout import Layout
from paritygate.runners.python import PythonRunner
from paritygate.runners.registry import prepare

RNG = np.random.default_rng(11)
N = 23
X = RNG.normal(size=(N, 3)).astype(np.float32)
STATE = RNG.normal(size=(N, 2, 3)).astype(np.float32)


def recurrent(path: Path, batch: Any = "batch", gain: float = 1.0) -> Path:
    """state[2, batch, 3], x[batch, 3], sr[] -> y[batch, 3], next[2, batch, 3]."""
    return models.save_model(
        path,
        [
            helper.make_node("Mul", ["state", "sr"], ["scaled"]),
            helper.make_node("Add", ["scaled", "x"], ["next"]),
            helper.make_node("ReduceSum", ["next", "first"], ["sum"], keepdims=0),
            helper.make_node("Mul", ["sum", "gain"], ["y"]),
        ],
        {
            "x": (models.FLOAT, [batch, 3]),
            "state": (models.FLOAT, [2, batch, 3]),
            "sr": (models.FLOAT, []),
        },
        {"y": (models.FLOAT, [batch, 3]), "next": (models.FLOAT, [2, batch, 3])},
        {"first": np.array([0], np.int64), "gain": np.array(gain, np.float32)},
    )


def plan_of(folder: Path, **changed: Any) -> dict[str, Any]:
    write_pack(folder / "g.arrow", np.arange(N), {"x": X, "state": STATE})
    return {
        "golden": str(folder / "g.arrow"),
        "dims": {"batch": {"sizes": [4]}},
        "inputs": {"state": {"shape": [2, "batch", 3]}},
        "outputs": {"next": {"shape": [2, "batch", 3]}},
        "constants": {"sr": {"dtype": "float32", "value": 0.5}},
        "runners": {n: {"model": str(folder / f"{n}.onnx")} for n in "ab"},
        "stages": [
            {
                "reference": "a",
                "candidate": "b",
                "outputs": {n: {"atol": 1e-6, "rtol": 0.0} for n in ("y", "next")},
            }
        ],
        **changed,
    }


@pytest.mark.parametrize("threads", [1, 3])
def test_a_state_on_axis_1_is_judged_sample_by_sample(tmp_path: Path, threads: int) -> None:
    recurrent(tmp_path / "a.onnx")
    recurrent(tmp_path / "b.onnx", gain=1.0 + 2**-10)
    result = paritygate.run(plan_of(tmp_path), out=None, threads=threads)
    truth = (STATE * np.float32(0.5) + X[:, None]).sum(axis=1)
    error = np.abs(truth * np.float32(1 + 2**-10) - truth)
    stage = result.summary["stages"][0]
    assert stage["samples"]["compared"] == N
    assert stage["outputs"]["next"]["failing_samples"] == 0
    assert stage["outputs"]["next"]["elements"] == STATE.size
    y = stage["outputs"]["y"]
    assert y["failing_samples"] == int((error > 1e-6).any(axis=1).sum())
    assert y["max_abs_error"]["id"] == int(error.max(axis=1).argmax())


def test_recorded_outputs_hold_one_state_a_sample(tmp_path: Path) -> None:
    recurrent(tmp_path / "a.onnx")
    state = STATE * np.float32(0.5) + X[:, None]
    recorded = {"y": state.sum(axis=1), "next": state.copy()}
    recorded["next"][7, 1, 2] += 1
    write_pack(
        tmp_path / "r.arrow", np.arange(N)[::-1], {}, {n: v[::-1] for n, v in recorded.items()}
    )
    runners = {"a": {"model": str(tmp_path / "a.onnx")}, "b": {"path": str(tmp_path / "r.arrow")}}
    runners["b"]["kind"] = "recorded"
    result = paritygate.run(plan_of(tmp_path, runners=runners), out=None)
    (reason,) = result.reasons
    assert (reason.code, reason.output, reason.ids) == ("tolerance.exceeded", "next", (7,))


def test_a_function_sees_the_axes_of_the_plan(tmp_path: Path) -> None:
    layout = Layout({"state": 1}, {"y": 2, "all": None})
    seen = []

    def call(given: Mapping[str, Any]) -> dict[str, Any]:
        seen.append({n: a.shape for n, a in given.items()})
        assert given["state"].flags.c_contiguous
        return {"y": np.moveaxis(given["state"], 1, 2), "all": given["x"][0]}

    runner = PythonRunner.from_callable("f", call, batch_size=1, layout=layout)
    batch = make_batch(X[:1])
    batch = type(batch)(0, 0, 0, 1, 1, batch.ids, {"x": X[:1], "state": STATE[:1]})
    with runner.session().run(batch) as lease:
        assert lease.outputs["y"].tobytes() == STATE[:1].tobytes()
        assert lease.outputs["all"].tobytes() == X[:1].tobytes()
    assert seen == [{"x": (1, 3), "state": (2, 1, 3)}]


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_other_axes_keep_their_order(axis: int) -> None:
    image = np.arange(5 * 2 * 3 * 4, dtype=np.float32).reshape(5, 2, 3, 4)
    seen = []

    def call(given: Mapping[str, Any]) -> dict[str, Any]:
        seen.append(given["x"])
        return {"y": given["x"]}

    runner = PythonRunner.from_callable(
        "f", call, batch_size=5, layout=Layout({"x": axis}, {"y": axis})
    )
    with runner.session().run(make_batch(image)) as lease:
        assert lease.outputs["y"].tobytes() == image.tobytes()
    dims = [2, 3, 4]
    dims.insert(axis, 5)
    assert seen[0].shape == tuple(dims)
    for sample in range(5):
        assert seen[0].take(sample, axis).tobytes() == image[sample].tobytes()


def test_answers_without_the_axis_are_refused() -> None:
    runner = PythonRunner.from_callable(
        "f", lambda given: {"y": given["x"]}, batch_size=4, layout=Layout({}, {"y": 1})
    )
    with pytest.raises(RunnerError, match=r"output 'y' has shape \(4, 3\); its axis 1 must be"):
        runner.session().run(make_batch(X[:4]))


DETECTOR = [helper.make_node("Squeeze", ["x", "first"], ["y"])]


@pytest.mark.parametrize("batch", ["batch", 1])
def test_an_output_without_a_sample_axis_belongs_to_the_one_sample(
    tmp_path: Path, batch: Any
) -> None:
    for name in "ab":
        models.save_model(
            tmp_path / f"{name}.onnx",
            [*DETECTOR, helper.make_node("Identity", ["y"], [f"z{name}"])],
            {"x": (models.FLOAT, [batch, 3])},
            {"y": (models.FLOAT, [3])},
            {"first": np.array([0], np.int64)},
        )
    plan = plan_of(
        tmp_path,
        inputs={},
        outputs={"y": {"shape": [3]}},
        dims={"batch": {"sizes": [1]}},
        constants={},
    )
    plan["stages"][0] |= {"outputs": {"y": {"atol": 0.0, "rtol": 0.0}}, "self": True}
    result = paritygate.run(plan, out=None, threads=2)
    assert result.verdict == "release"
    assert result.summary["stages"][0]["outputs"]["y"]["elements"] == X.size
    if batch == "batch":
        with pytest.raises(
            PlanError, match=r"runners.a.batch_size: is 4, but must be 1 \(outputs.y"
        ):
            paritygate.run(
                plan | {"outputs": {"y": {"shape": [3]}}, "dims": {"batch": {"sizes": [4]}}},
                out=None,
            )


def test_a_scalar_input_may_belong_to_the_one_sample(tmp_path: Path) -> None:
    length = np.arange(N, dtype=np.float32)
    models.add_constant(tmp_path / "a.onnx", 3)
    models.add_constant(tmp_path / "b.onnx", 3)
    plan = plan_of(
        tmp_path,
        inputs={"c": {"shape": []}},
        outputs={},
        constants={},
        dims={"batch": {"sizes": [1]}},
    )
    write_pack(
        tmp_path / "g.arrow", np.arange(N), {"x": X, "c": length}, {"y": X + length[:, None]}
    )
    plan["runners"]["b"] = {"kind": "recorded"}
    plan["stages"][0]["outputs"] = {"y": {"atol": 0.0, "rtol": 0.0}}
    assert paritygate.run(plan, out=None).verdict == "release"


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ({"state": {"shape": [2, 3, "batch"]}}, "the model fixes batches of 3"),
        ({"state": {"shape": ["batch", 2, 3]}}, "the samples are: inputs.NAME.shape (state: 2)"),
        ({"x": {"shape": [3, 1, "batch"]}}, "inputs.x.shape: is [3, 1, 'batch'], but the pack's"),
        ({"state": {"shape": [2, "batch", "batch"]}}, "names the sample axis once"),
        ({"state": {"shape": [2, "batch", -3]}}, "dims are numbers from 0 up"),
    ],
)
def test_axes_that_contradict(tmp_path: Path, inputs: dict[str, Any], told: str) -> None:
    recurrent(tmp_path / "a.onnx")
    recurrent(tmp_path / "b.onnx")
    with pytest.raises(ParityError) as caught:
        paritygate.run(plan_of(tmp_path, inputs=inputs), out=None)
    assert told in str(caught.value)
    assert caught.value.exit_code == 2


def test_an_undeclared_axis_says_how_to_declare_it(tmp_path: Path) -> None:
    recurrent(tmp_path / "a.onnx")
    recurrent(tmp_path / "b.onnx")
    with pytest.raises(ParityError, match=r'outputs.next.shape = \[..., "batch", ...\]'):
        paritygate.run(plan_of(tmp_path, outputs={}), out=None)


MIXED = {
    "mean": [helper.make_node("ReduceMean", ["x"], ["y"], axes=[0], keepdims=0)],
    "turned": [helper.make_node("Transpose", ["x"], ["y"])],
    "shifted": [
        helper.make_node("Slice", ["x", "one", "end"], ["tail"]),
        helper.make_node("Slice", ["x", "zero", "one"], ["head"]),
        helper.make_node("Concat", ["tail", "head"], ["shift"], axis=0),
        helper.make_node("Mul", ["shift", "rank"], ["y"]),
    ],
}


def fixed(folder: Path, nodes: list[Any], gives: list[int]) -> Any:
    models.save_model(
        folder / "m.onnx",
        nodes,
        {"x": (models.FLOAT, [4, 4])},
        {"y": (models.FLOAT, gives)},
        {
            "zero": np.array([0], np.int64),
            "one": np.array([1], np.int64),
            "end": np.array([4], np.int64),
            "rank": np.array([[1], [2], [3], [4]], np.float32),
        },
    )
    context = PrepareContext(
        folder, None, {"x": ColumnSpec("x", "float32", (4,))}, check_models=False
    )
    return prepare(spec_of({"model": "m.onnx"}), context)


@pytest.mark.parametrize("kind", MIXED)
def test_a_fixed_batch_that_its_output_does_not_follow_is_found(tmp_path: Path, kind: str) -> None:
    x = RNG.normal(size=(4, 4)).astype(np.float32)
    with fixed(tmp_path, MIXED[kind], [4] if kind == "mean" else [4, 4]) as runner:
        for session in (runner.session(), runner.session()):
            with pytest.raises(RunnerError, match="in another order give other answers"):
                session.run(make_batch(x))


@pytest.mark.parametrize("special", [None, np.nan, np.inf])
def test_a_fixed_batch_that_is_followed_answers(tmp_path: Path, special: float | None) -> None:
    x = RNG.normal(size=(4, 4)).astype(np.float32)
    if special is not None:
        x[1, 2] = special
    nodes = [helper.make_node("Softmax", ["x"], ["y"], axis=1)]
    with fixed(tmp_path, nodes, [4, 4]) as runner, runner.session().run(make_batch(x)) as lease:
        assert lease.outputs["y"].shape == (4, 4)


def test_a_batch_of_one_sample_repeated_tells_nothing(tmp_path: Path) -> None:
    x = np.repeat(RNG.normal(size=(1, 4)).astype(np.float32), 4, axis=0)
    with fixed(tmp_path, MIXED["shifted"], [4, 4]) as runner:
        runner.session().run(make_batch(x)).release()


def test_arrays_with_other_strides_are_judged_by_their_values(tmp_path: Path) -> None:
    image = RNG.normal(size=(N, 2, 3, 5)).astype(np.float32)

    def channels_last(given: Mapping[str, Any]) -> dict[str, Any]:
        wide = np.zeros((*given["x"].shape[:1], 3, 5, 4), np.float32)
        wide[..., ::2] = np.moveaxis(given["x"], 1, 3)
        return {"y": np.moveaxis(wide[..., ::2], 3, 1)}

    result = paritygate.verify(
        lambda given: {"y": given["x"]}, channels_last, {"x": image}, atol=0.0, rtol=0.0
    )
    assert result.verdict == "release"
    shifted = paritygate.verify(
        lambda given: {"y": given["x"]},
        lambda given: {"y": np.asfortranarray(given["x"][:, :, ::-1])},
        {"x": image},
        atol=0.0,
        rtol=0.0,
    )
    assert shifted.summary["stages"][0]["outputs"]["y"]["failing_samples"] == N
