"""Answers written straight into a block's arrays are those that batches give one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from msgspec.structs import replace
from onnx import TensorProto, helper
from tests import models
from tests.runners.contract import context_of, make_batch, spec_of
from tests.runners.test_ort import column, load

from paritygate import testing
from paritygate.core.dtypes import numpy_dtype
from paritygate.runners import ort_fill
from paritygate.runners.layout import Layout
from paritygate.runners.registry import prepare

N, ROWS = 24, 8


def block(dtype: Any = np.float32) -> np.ndarray:
    x = np.random.default_rng(5).standard_normal((N, 4)).astype(dtype)
    x.flags.writeable = False
    return x


def never() -> bool:
    return False


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def room_like(answer: np.ndarray, fill: float = 55) -> np.ndarray:
    return np.full((N, *answer.shape[1:]), fill, answer.dtype)


@pytest.mark.parametrize("dtype", [models.FLOAT, models.DOUBLE, TensorProto.FLOAT16])
def test_a_block_is_filled_with_what_run_answers(tmp_path: Path, dtype: int) -> None:
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    models.scale_model(tmp_path / "m.onnx", 3.0, dtype=dtype)
    with load(tmp_path, {"model": "m.onnx"}, column("x", kind.name, 4)) as runner:
        session, x = runner.session(), block(kind)
        first = session.run(make_batch(x[:ROWS]))
        room = {"y": room_like(first.outputs["y"])}
        first.release()
        fill = session.filler({"x": x}, ROWS)
        assert fill is not None
        for start in (16, 8):
            assert fill.fill(room, start, 1, never) == 1
        assert (room["y"][:ROWS] == 55).all()
        assert room["y"][ROWS:].tobytes() == (x[ROWS:] * kind.type(3)).tobytes()
        with session.run(make_batch(x[:ROWS])) as lease:  # the session goes on as before
            assert lease.outputs["y"].tobytes() == (x[:ROWS] * kind.type(3)).tobytes()


@pytest.mark.parametrize("most_bytes", [1, 3 * ROWS * 16, 1 << 20])
def test_many_batches_are_filled_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_bytes: int
) -> None:
    monkeypatch.setattr(ort_fill, "_AT_ONCE_BYTES", most_bytes)
    models.add_constant(tmp_path / "m.onnx")
    constants = {"c": np.array(0.5, np.float32)}
    x = np.random.default_rng(6).standard_normal((21 * ROWS, 4)).astype(np.float32)
    with load(tmp_path, {"model": "m.onnx"}, column("x", "float32", 4), constants) as runner:
        session = runner.session()
        session.run(make_batch(x[:ROWS])).release()
        room = {"y": np.full_like(x, 55)}
        for _ in range(2):
            fill = session.filler({"x": x}, ROWS)
            assert fill is not None
            assert fill.fill(room, ROWS, 19, never) == 19
        (bound,) = session._bound.values()  # type: ignore[attr-defined]
        assert len(bound._bindings) == min(8, max(1, most_bytes // (ROWS * 16)))
        assert (room["y"][:ROWS] == 55).all()
        assert (room["y"][20 * ROWS :] == 55).all()
        wanted = x[ROWS : 20 * ROWS] + np.float32(0.5)
        assert room["y"][ROWS : 20 * ROWS].tobytes() == wanted.tobytes()
        with session.run(make_batch(x[:ROWS])) as lease:
            assert lease.outputs["y"].tobytes() == (x[:ROWS] + np.float32(0.5)).tobytes()


def test_all_inputs_and_outputs_are_filled(tmp_path: Path) -> None:
    dims = (models.FLOAT, ["batch", 4])
    models.save_model(
        tmp_path / "m.onnx",
        [helper.make_node(op, ["a", "b"], [op.lower()]) for op in ("Add", "Mul", "Sub")],
        {"a": dims, "b": dims},
        {"add": dims, "mul": dims, "sub": dims},
    )
    a, b = block(), block()[::-1].copy()
    columns = {**column("a", "float32", 4), **column("b", "float32", 4)}
    with load(tmp_path, {"model": "m.onnx"}, columns) as runner:
        session = runner.session()
        session.run(testing.make_batch({"a": a[:ROWS], "b": b[:ROWS]})).release()
        room = {name: np.full((N, 4), 55, np.float32) for name in ("add", "mul", "sub")}
        fill = session.filler({"a": a, "b": b}, ROWS)
        assert fill is not None
        assert fill.fill(room, 0, 3, never) == 3
        for name, wanted in (("add", a + b), ("mul", a * b), ("sub", a - b)):
            assert room[name].tobytes() == wanted.tobytes(), name


@pytest.mark.parametrize("width", [3, 4, 16])
def test_answers_depend_on_no_place_in_memory(tmp_path: Path, width: int) -> None:
    """ONNX Runtime rounds some functions otherwise where what it writes to isn't aligned."""
    dims = (models.FLOAT, ["batch", width])
    softplus = helper.make_node("Softplus", ["x"], ["y"])
    models.save_model(tmp_path / "m.onnx", [softplus], {"x": dims}, {"y": dims})
    x = 3 * np.random.default_rng(7).standard_normal((20 * ROWS, width)).astype(np.float32)
    plain = ort.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    parts = [x[at : at + ROWS] for at in range(0, len(x), ROWS)]
    wanted = np.concatenate([plain.run(None, {"x": part})[0] for part in parts])
    with load(tmp_path, {"model": "m.onnx"}, column("x", "float32", width)) as runner:
        session = runner.session()
        leases = [session.run(make_batch(part)) for part in parts]
        found = [lease.outputs["y"] for lease in leases]
        assert np.concatenate(found).tobytes() == wanted.tobytes()  # type: ignore[arg-type]
        leases.pop().release()
        with session.run(make_batch(parts[0])) as lease:
            assert address(lease.outputs["y"]) % 64 == 0
        fill = session.filler({"x": x}, ROWS)
        assert fill is not None
        assert address(fill.answers["y"]) % 64 == 0
        (bound,) = session._bound.values()  # type: ignore[attr-defined]
        assert {address(part) % 64 for part in bound._buffers["y"].parts} == {0}
        room = {"y": np.full_like(x, 55)}
        assert fill.fill(room, 0, 20, never) == 20
        assert room["y"].tobytes() == wanted.tobytes()


def at_offset(values: np.ndarray, offset: int) -> np.ndarray:
    """A read-only copy, so many bytes after an aligned address."""
    raw = np.empty(values.nbytes + 128, np.uint8)
    begin = -address(raw) % 64 + offset
    moved = raw[begin : begin + values.nbytes].view(values.dtype).reshape(values.shape)
    moved[...] = values
    moved.flags.writeable = False
    return moved


@pytest.mark.parametrize("width", [5, 8])
@pytest.mark.parametrize("has_text", [False, True])
def test_answers_depend_on_no_place_of_inputs(tmp_path: Path, width: int, has_text: bool) -> None:
    """ONNX Runtime adds up in another order where what it reads isn't aligned."""
    texts = {"t": (TensorProto.STRING, ["batch", 1])} if has_text else {}
    models.save_model(
        tmp_path / "m.onnx",
        [
            helper.make_node("ReduceMean", ["x"], ["y"], axes=[1], keepdims=1),
            *[helper.make_node("Identity", [name], ["u"]) for name in texts],
        ],
        {"x": (models.FLOAT, ["batch", width]), **texts},
        {"y": (models.FLOAT, ["batch", 1]), **({"u": texts["t"]} if has_text else {})},
    )
    x = np.random.default_rng(8).standard_normal((30 * ROWS, width)).astype(np.float32)
    columns = column("x", "float32", width)
    more = {}
    if has_text:
        columns |= column("t", "string", 1)
        more = {"t": np.array([["a"]] * ROWS, object)}
    found: list[list[bytes]] = []
    with load(tmp_path, {"model": "m.onnx"}, columns) as runner:
        session = runner.session()
        for offset in range(0, 64, 4):
            moved = at_offset(x, offset)
            answers = []
            for at in range(0, len(x), ROWS):
                with session.run(make_batch_of(moved[at : at + ROWS], more)) as lease:
                    answers.append(np.asarray(lease.outputs["y"]).tobytes())
            found.append(answers)
            fill = session.filler({"x": moved}, ROWS)
            assert (fill is None) == has_text
            if fill is not None:
                room = {"y": np.full((len(x), 1), 55, np.float32)}
                assert fill.fill(room, 0, 30, never) == 30
                assert room["y"].tobytes() == b"".join(answers)
    assert all(answers == found[0] for answers in found)


def make_batch_of(x: np.ndarray, more: dict[str, Any]) -> Any:
    return testing.make_batch({"x": x, **more})


def test_who_is_stopped_fills_as_far_as_it_ran(tmp_path: Path) -> None:
    models.scale_model(tmp_path / "m.onnx", 3.0)
    x = np.ones((12 * ROWS, 4), np.float32)
    with load(tmp_path, {"model": "m.onnx"}) as runner:
        session = runner.session()
        session.run(make_batch(x[:ROWS])).release()
        room = {"y": np.full_like(x, 55)}
        fill = session.filler({"x": x}, ROWS)
        assert fill is not None
        asked = iter([False] * 4)
        assert fill.fill(room, 0, 12, lambda: next(asked, True)) == 3
        assert (room["y"][: 3 * ROWS] == 3).all()
        assert (room["y"][3 * ROWS :] == 55).all()


def test_nothing_is_filled_before_a_batch_of_these_rows_was_answered(tmp_path: Path) -> None:
    models.scale_model(tmp_path / "m.onnx", 3.0)
    with load(tmp_path, {"model": "m.onnx"}) as runner:
        session, x = runner.session(), block()
        assert session.filler({"x": x}, ROWS) is None
        lease = session.run(make_batch(x[:ROWS]))
        assert session.filler({"x": x}, ROWS) is None  # its buffers are in use
        lease.release()
        assert session.filler({"x": x}, 4) is None
        assert session.filler({"x": x}, ROWS) is not None


def test_after_a_batch_of_other_rows_one_of_these_is_asked_first(tmp_path: Path) -> None:
    models.scale_model(tmp_path / "m.onnx", 3.0)
    with load(tmp_path, {"model": "m.onnx"}) as runner:
        session, x = runner.session(), block()
        for rows in (ROWS, 3):
            session.run(make_batch(x[:rows])).release()
        assert session.filler({"x": x}, ROWS) is None
        session.run(make_batch(x[:ROWS])).release()
        assert session.filler({"x": x}, ROWS) is not None


@pytest.mark.parametrize("takes", ["float32", "bfloat16"])
@pytest.mark.parametrize("gives", ["float32", "bfloat16"])
def test_only_what_can_be_bound_is_filled(tmp_path: Path, takes: str, gives: str) -> None:
    kinds = {"float32": TensorProto.FLOAT, "bfloat16": TensorProto.BFLOAT16}
    models.save_model(
        tmp_path / "m.onnx",
        [helper.make_node("Cast", ["x"], ["y"], to=kinds[gives])],
        {"x": (kinds[takes], ["batch", 4])},
        {"y": (kinds[gives], ["batch", 4])},
    )
    with load(tmp_path, {"model": "m.onnx"}, column("x", takes, 4)) as runner:
        session, x = runner.session(), block(numpy_dtype(takes))
        session.run(make_batch(x[:ROWS])).release()
        room = {"y": np.empty((N, 4), numpy_dtype(gives))}
        fill = session.filler({"x": x}, ROWS)
        assert (fill is not None) == (takes == "float32")
        if fill is not None:
            assert fill.fill(room, 0, 3, never) == 3
            assert room["y"].tobytes() == x.astype(numpy_dtype(gives)).tobytes()


def test_an_output_that_no_node_writes_is_not_filled(tmp_path: Path) -> None:
    dims = (models.FLOAT, ["batch", 4])
    models.save_model(
        tmp_path / "m.onnx",
        [helper.make_node("Add", ["x", "x"], ["u"])],
        {"x": dims},
        {"x": dims, "u": dims},
    )
    with load(tmp_path, {"model": "m.onnx", "outputs": {"s": "x", "u": "u"}}) as runner:
        session, x = runner.session(), block()
        session.run(make_batch(x[:ROWS])).release()
        assert session.filler({"x": x}, ROWS) is None


def test_samples_on_another_axis_are_not_filled(tmp_path: Path) -> None:
    dims = (models.FLOAT, [4, "batch"])
    add = helper.make_node("Add", ["x", "x"], ["y"])
    models.save_model(tmp_path / "m.onnx", [add], {"x": dims}, {"y": dims})
    context = replace(
        context_of(tmp_path, None, None, column("x", "float32", 4)),
        layout=Layout({"x": 1}, {"y": 1}),
    )
    with prepare(spec_of({"model": "m.onnx", "batch_size": ROWS}), context) as runner:
        session, x = runner.session(), block()
        with session.run(make_batch(x[:ROWS])) as lease:
            assert lease.outputs["y"].tobytes() == (2 * x[:ROWS]).tobytes()
        assert session.filler({"x": x}, ROWS) is None


def test_arrays_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    models.scale_model(tmp_path / "m.onnx", 3.0)
    with load(tmp_path, {"model": "m.onnx"}) as runner:
        session, x = runner.session(), block()
        session.run(make_batch(x[:ROWS])).release()
        assert session.filler({"x": x}, ROWS) is not None
        for inputs in (
            {},
            {"x": x.astype(np.float64)},
            {"x": x.astype(">f4")},
            {"x": np.asfortranarray(x)},
            {"x": x[:, :3]},
        ):
            assert session.filler(inputs, ROWS) is None
        session.close()
        assert session.filler({"x": x}, ROWS) is None


def test_a_shape_that_depends_on_the_values_is_left_to_run(tmp_path: Path) -> None:
    """An output `(batch, most)`, most of the batch's largest number."""
    models.save_model(
        tmp_path / "m.onnx",
        [
            helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
            helper.make_node("Cast", ["most"], ["whole"], to=TensorProto.INT64),
            helper.make_node("Reshape", ["whole", "one"], ["stop"]),
            helper.make_node("Slice", ["x", "zero", "stop", "one"], ["y"]),
        ],
        {"x": (models.FLOAT, ["batch", 4])},
        {"y": (models.FLOAT, ["batch", "m"])},
        {"one": np.array([1], np.int64), "zero": np.array([0], np.int64)},
    )
    x = np.ones((N, 4), np.float32)
    x[:ROWS] = 2
    x[2 * ROWS :] = 3
    with load(tmp_path, {"model": "m.onnx"}) as runner:
        session = runner.session()
        session.run(make_batch(x[:ROWS])).release()
        room = {"y": np.full((N, 2), 55, np.float32)}
        fill = session.filler({"x": x}, ROWS)
        assert fill is not None
        assert fill.fill(room, 0, 3, never) == 1
        assert (room["y"][:ROWS] == 2).all()
        assert fill.fill(room, ROWS, 1, never) == 0
        with session.run(make_batch(x[ROWS : 2 * ROWS])) as lease:
            assert lease.outputs["y"].shape == (ROWS, 1)
        assert session.filler({"x": x}, ROWS) is None
