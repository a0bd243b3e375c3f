"""ONNX Runtime: every dtype in and out, and answers that are no tensors, with real models."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from tests.packs import write_pack
from tests.runners.contract import Outputs, RunnerContract, context_of, make_batch, spec_of

import paritygate
from paritygate.core.errors import PlanError, RunnerError, RunnerLoadError
from paritygate.core.tensors import ColumnSpec
from paritygate.runners import ort_types
from paritygate.runners.base import Runner
from paritygate.runners.ort import OrtRunner
from paritygate.runners.ort_border import BorderError, OutputForm, form_of, take_apart
from paritygate.runners.registry import prepare

FLOAT, STRING = TensorProto.FLOAT, TensorProto.STRING
ONNX = {
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "float8_e4m3fn": TensorProto.FLOAT8E4M3FN,
    "float8_e4m3fnuz": TensorProto.FLOAT8E4M3FNUZ,
    "float8_e5m2": TensorProto.FLOAT8E5M2,
    "float8_e5m2fnuz": TensorProto.FLOAT8E5M2FNUZ,
    "int4": TensorProto.INT4,
    "uint4": TensorProto.UINT4,
}
HALF_BYTES = ("int4", "uint4")


def dtype_of(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def tensor(name: str, kind: int, shape: list[Any]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def save(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
) -> Path:
    graph = helper.make_graph(nodes, "graph", inputs, outputs)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return path


def cast_model(path: Path, source: int, target: int, width: int = 4) -> Path:
    return save(
        path,
        [helper.make_node("Cast", ["x"], ["y"], to=target)],
        [tensor("x", source, ["batch", width])],
        [tensor("y", target, ["batch", width])],
    )


def load(
    folder: Path,
    table: Mapping[str, object],
    inputs: Mapping[str, ColumnSpec] | None = None,
    constants: Mapping[str, np.ndarray] | None = None,
) -> Runner:
    return prepare(spec_of(dict(table)), context_of(folder, None, constants, inputs))


def maps_model(path: Path, keys: list[Any], value: int = FLOAT, width: int = 4) -> Path:
    is_text = isinstance(keys[0], str)
    kind = onnx.TypeProto()
    of_map = kind.sequence_type.elem_type.map_type
    of_map.key_type = STRING if is_text else TensorProto.INT64
    of_map.value_type.tensor_type.elem_type = value
    out = onnx.ValueInfoProto(name="y")
    out.type.CopyFrom(kind)
    labels = {"classlabels_strings" if is_text else "classlabels_int64s": keys}
    node = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", **labels)
    return save(path, [node], [tensor("x", FLOAT, ["batch", width])], [out])


def sequence_model(path: Path, axis: int) -> Path:
    return save(
        path,
        [helper.make_node("SplitToSequence", ["x"], ["s"], axis=axis, keepdims=1)],
        [tensor("x", FLOAT, ["batch", 4])],
        [helper.make_tensor_sequence_value_info("s", FLOAT, None)],
    )


def optional_model(path: Path, *, has_value: bool) -> Path:
    inner = helper.make_tensor_type_proto(FLOAT, ["batch", 4])
    out = onnx.ValueInfoProto(name="y")
    out.type.CopyFrom(helper.make_optional_type_proto(inner))
    node = (
        helper.make_node("Optional", ["x"], ["y"])
        if has_value
        else helper.make_node(
            "Optional", [], ["y"], type=helper.make_tensor_type_proto(FLOAT, None)
        )
    )
    return save(path, [node], [tensor("x", FLOAT, ["batch", 4])], [out])


class TestBfloat16(RunnerContract):
    def table(self, folder: Path) -> object:
        return str(cast_model(folder / "m.onnx", FLOAT, TensorProto.BFLOAT16))

    def answers(self, x: npt.NDArray[np.float32]) -> Outputs:
        return {"y": x.astype(ml_dtypes.bfloat16)}


class TestInt4(RunnerContract):
    def table(self, folder: Path) -> object:
        return str(cast_model(folder / "m.onnx", FLOAT, TensorProto.INT4))

    def answers(self, x: npt.NDArray[np.float32]) -> Outputs:
        return {"y": np.rint(x).astype(np.int8).astype(ml_dtypes.int4)}  # it doesn't cut off here


class TestStrings(RunnerContract):
    def table(self, folder: Path) -> object:
        node = [
            helper.make_node("Cast", ["x"], ["whole"], to=TensorProto.INT64),
            helper.make_node("Cast", ["whole"], ["y"], to=STRING),
        ]
        inputs = [tensor("x", FLOAT, ["batch", 4])]
        return str(save(folder / "m.onnx", node, inputs, [tensor("y", STRING, ["batch", 4])]))

    def answers(self, x: npt.NDArray[np.float32]) -> Outputs:
        return {"y": x.astype(np.int64).astype(str).astype(object)}


class TestSequence(RunnerContract):
    def table(self, folder: Path) -> object:
        return str(sequence_model(folder / "m.onnx", 1))

    def answers(self, x: npt.NDArray[np.float32]) -> Outputs:
        return {f"s.{k}": x[:, k : k + 1] for k in range(4)}


class TestMaps(RunnerContract):
    def table(self, folder: Path) -> object:
        return str(maps_model(folder / "m.onnx", ["d", "b", "c", "a"]))

    def answers(self, x: npt.NDArray[np.float32]) -> Outputs:
        return {"y": x[:, [3, 1, 2, 0]]}


class TestOptional(RunnerContract):
    def table(self, folder: Path) -> object:
        return str(optional_model(folder / "m.onnx", has_value=True))

    def answers(self, x: npt.NDArray[np.float32]) -> Outputs:
        return {"y": x}


@pytest.mark.parametrize("name", ONNX)
class TestEveryDtype:
    def values(self, name: str, rows: int = 6, width: int = 3) -> np.ndarray:
        rng = np.random.default_rng(5)
        if name in HALF_BYTES:
            low = 0 if name == "uint4" else -8
            numbers = rng.integers(low, low + 16, (rows, width))
        else:
            numbers = rng.normal(size=(rows, width))
        return numbers.astype(np.float32)

    def test_comes_out(self, name: str, tmp_path: Path) -> None:
        cast_model(tmp_path / "m.onnx", FLOAT, ONNX[name], 3)
        x = self.values(name)
        columns = {"x": ColumnSpec("x", "float32", (3,))}
        with load(tmp_path, {"model": "m.onnx"}, columns) as runner:
            assert runner.outputs is not None
            assert runner.outputs["y"].dtype == name
            session = runner.session()
            for rows in (6, 1, 5, 6, 6):
                with session.run(make_batch(x[:rows])) as lease:
                    found = lease.outputs["y"]
                    assert found.dtype == dtype_of(name)
                    np.testing.assert_array_equal(found, x[:rows].astype(dtype_of(name)))

    def test_goes_in(self, name: str, tmp_path: Path) -> None:
        cast_model(tmp_path / "m.onnx", ONNX[name], FLOAT, 3)
        x = self.values(name).astype(dtype_of(name))
        columns = {"x": ColumnSpec("x", name, (3,))}
        with load(tmp_path, {"model": "m.onnx"}, columns) as runner:
            session = runner.session()
            for rows in (6, 1, 5, 6):
                with session.run(make_batch(x[:rows])) as lease:
                    np.testing.assert_array_equal(lease.outputs["y"], x[:rows].astype(np.float32))
            with pytest.raises(RunnerError, match="input 'x' is"):
                session.run(make_batch(x.view(np.uint16 if "16" in name else np.uint8)))

    def test_is_a_constant(self, name: str, tmp_path: Path) -> None:
        save(
            tmp_path / "m.onnx",
            [
                helper.make_node("Cast", ["c"], ["wide"], to=FLOAT),
                helper.make_node("Add", ["x", "wide"], ["y"]),
            ],
            [tensor("x", FLOAT, ["batch", 3]), tensor("c", ONNX[name], [3])],
            [tensor("y", FLOAT, ["batch", 3])],
        )
        constant = np.array([1, 2, 3]).astype(dtype_of(name))
        columns = {"x": ColumnSpec("x", "float32", (3,))}
        x = self.values(name)
        with load(tmp_path, {"model": "m.onnx"}, columns, {"c": constant}) as runner:
            session = runner.session()
            for _ in range(2):
                with session.run(make_batch(x)) as lease:
                    np.testing.assert_array_equal(lease.outputs["y"], x + np.float32([1, 2, 3]))

    def test_is_judged_from_the_pack_to_the_verdict(self, name: str, tmp_path: Path) -> None:
        """The model in this dtype against the one that answers in float32, on inputs of it."""
        cast_model(tmp_path / "wide.onnx", ONNX[name], FLOAT, 3)
        save(
            tmp_path / "same.onnx",
            [
                helper.make_node("Cast", ["x"], ["wide"], to=FLOAT),
                helper.make_node("Cast", ["wide"], ["y"], to=ONNX[name]),
            ],
            [tensor("x", ONNX[name], ["batch", 3])],
            [tensor("y", ONNX[name], ["batch", 3])],
        )
        x = self.values(name, 20).astype(dtype_of(name))
        bits = x.astype(np.int8) if name == "int4" else x.view(f"u{x.itemsize}")
        bits = x if name == "float16" else bits
        meta = {} if name == "float16" else {"in.x": {"paritygate.dtype": name}}
        write_pack(tmp_path / "g.arrow", range(20), {"x": bits}, metadata=meta)
        plan: dict[str, Any] = {
            "golden": str(tmp_path / "g.arrow"),
            "runners": {
                "wide": str(tmp_path / "wide.onnx"),
                "same": {"model": str(tmp_path / "same.onnx"), "batch_size": 8},
                "other": {"model": str(tmp_path / "same.onnx"), "batch_size": 5},
            },
            "stages": [
                {
                    "name": "alike",
                    "reference": "same",
                    "candidate": "other",
                    "outputs": {"y": {"atol": 0.0, "rtol": 0.0}},
                }
            ],
        }
        if name not in HALF_BYTES:
            tolerance = {"atol": 0.0, "rtol": 0.0, "candidate_dtype": name}
            narrowed = {"reference": "wide", "candidate": "same", "outputs": {"y": tolerance}}
            plan["stages"].append({"name": "narrowed", **narrowed})
        result = paritygate.run(plan, out=None)
        assert result.verdict.value == "release", result.explain()
        for stage in result.summary["stages"]:
            assert stage["outputs"]["y"]["elements"] == 60


@given(st.lists(st.integers(-8, 7), max_size=9), st.sampled_from(HALF_BYTES))
def test_half_bytes_are_packed_low_half_first(numbers: list[int], name: str) -> None:
    low = 8 if name == "uint4" else 0
    values = np.array([n + low for n in numbers], np.int64)
    array = values.astype(dtype_of(name))
    buffer = ort_types.packed(array)
    pairs = [*(v & 15 for v in values.tolist()), 0][: len(numbers) + len(numbers) % 2]
    wanted = [a | b << 4 for a, b in zip(pairs[::2], pairs[1::2], strict=True)]
    assert buffer.tolist()[: len(wanted)] == wanted
    assert not any(buffer.tolist()[len(wanted) :])
    again = ort_types.unpacked(buffer, array.shape, name)
    assert again.astype(np.int64).tolist() == values.tolist()


def text_model(path: Path, *more: onnx.ValueInfoProto) -> Path:
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    if more:
        nodes.append(helper.make_node("Cast", ["n"], [more[0].name], to=TensorProto.BFLOAT16))
    inputs = [tensor("x", STRING, ["batch", 2])]
    inputs += [tensor("n", FLOAT, ["batch"])] if more else []
    return save(path, nodes, inputs, [tensor("y", STRING, ["batch", 2]), *more])


def test_texts_go_in_and_come_out(tmp_path: Path) -> None:
    text_model(tmp_path / "m.onnx")
    x = np.array([["a", "\u00fc"], ["", "long" * 9]], object)
    with load(tmp_path, {"model": "m.onnx"}, {"x": ColumnSpec("x", "string", (2,))}) as runner:
        session = runner.session()
        for batch in (x, x[:1], np.concatenate([x, x])):
            with session.run(make_batch(batch)) as lease:
                assert lease.outputs["y"].tolist() == batch.tolist()
    write_pack(
        tmp_path / "g.arrow",
        range(2),
        columns={"in.x": pa_texts(x), "out.y": pa_texts(np.array([["a", "\u00fc"], ["", ""]]))},
    )
    plan = {
        "golden": str(tmp_path / "g.arrow"),
        "runners": {"a": "recorded", "b": str(tmp_path / "m.onnx")},
        "stages": [
            {"reference": "a", "candidate": "b", "default": {"atol": 1.0, "rtol": 0.0}},
        ],
    }
    result = paritygate.run(plan, out=None)
    assert [(r.code, r.ids) for r in result.reasons] == [("tolerance.exceeded", (1,))]
    assert "element 1: reference '', candidate 'long" in result.reasons[0].message
    assert "tokens" in result.reasons[0].next


def pa_texts(values: np.ndarray) -> Any:
    return pa.array(values.tolist(), pa.list_(pa.string(), 2))


def refusal(folder: Path, inputs: Mapping[str, ColumnSpec] | None = None) -> str:
    with pytest.raises(RunnerLoadError) as caught:
        load(folder, {"model": "m.onnx"}, inputs)
    assert not caught.value.is_plan_fault
    return str(caught.value)


def test_a_model_that_takes_texts_cannot_answer_bits(tmp_path: Path) -> None:
    text_model(tmp_path / "m.onnx", tensor("z", TensorProto.BFLOAT16, ["batch"]))
    columns = {"x": ColumnSpec("x", "string", (2,)), "n": ColumnSpec("n", "float32", ())}
    text = refusal(tmp_path, columns)
    assert "output 'z' is tensor(bfloat16), which can't be judged" in text
    assert "takes texts" in text


@pytest.mark.parametrize(
    "kind",
    [
        "map(string,tensor(float))",
        "sparse_tensor(float)",
        "tensor(complex64)",
        "seq(tensor(bfloat16))",
        "seq(tensor(float8e4m3fn))",
        "optional(tensor(bfloat16))",
        "seq(map(string,tensor(string)))",
    ],
)
def test_types_that_have_no_form(kind: str) -> None:
    assert form_of(kind) is None


class TestSequences:
    def test_one_item_a_sample_is_no_batch(self, tmp_path: Path) -> None:
        sequence_model(tmp_path / "m.onnx", 0)
        for rows in (1, 3):
            with load(tmp_path, {"model": "m.onnx"}) as runner, pytest.raises(RunnerError) as e:
                runner.session().run(make_batch(np.ones((rows, 4), np.float32)))
            wanted = "as many items for any batch" if rows == 1 else "must be the batch of 3"
            assert wanted in str(e.value)

    def test_an_item_named_like_an_output(self, tmp_path: Path) -> None:
        save(
            tmp_path / "m.onnx",
            [
                helper.make_node("SplitToSequence", ["x"], ["s"], axis=1, keepdims=1),
                helper.make_node("Identity", ["x"], ["s.1"]),
            ],
            [tensor("x", FLOAT, ["batch", 4])],
            [
                tensor("s.1", FLOAT, ["batch", 4]),
                helper.make_tensor_sequence_value_info("s", FLOAT, None),
            ],
        )
        with load(tmp_path, {"model": "m.onnx"}) as runner, pytest.raises(RunnerError) as e:
            runner.session().run(make_batch(np.ones((2, 4), np.float32)))
        assert "output 's.1' is also an item of 's'" in str(e.value)

    def test_renamed_and_judged_item_by_item(self, tmp_path: Path) -> None:
        sequence_model(tmp_path / "m.onnx", 1)
        x = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
        outputs = {f"parts.{k}": x[:, k : k + 1] for k in range(4)}
        outputs["parts.2"] = outputs["parts.2"] + np.float32(1) * (np.arange(9) == 5)[:, None]
        write_pack(tmp_path / "g.arrow", range(9), {"x": x}, outputs)
        plan = {
            "golden": str(tmp_path / "g.arrow"),
            "runners": {
                "a": "recorded",
                "b": {"model": str(tmp_path / "m.onnx"), "outputs": {"parts": "s"}},
            },
            "stages": [{"reference": "a", "candidate": "b", "default": {"atol": 0.0, "rtol": 0.0}}],
        }
        result = paritygate.run(plan, out=None)
        found = [(r.code, r.output, r.ids) for r in result.reasons]
        assert found == [("tolerance.exceeded", "parts.2", (5,))]


class TestMapsAndOptional:
    def test_columns_are_keys_in_ascending_order(self, tmp_path: Path) -> None:
        maps_model(tmp_path / "m.onnx", [10, -2, 3, 0])
        x = np.arange(8, dtype=np.float32).reshape(2, 4)
        with load(tmp_path, {"model": "m.onnx"}) as runner:
            with runner.session().run(make_batch(x)) as lease:
                assert lease.outputs["y"].tolist() == x[:, [1, 3, 2, 0]].tolist()
                assert lease.outputs["y"].dtype == np.float32
            assert runner.facts["class_keys"] == {"y": [-2, 0, 3, 10]}

    @pytest.mark.parametrize("keys", [["a", "b", "c", "e"], [1, 2, 3, 4]])
    def test_other_classes_hold_whatever_the_numbers(self, tmp_path: Path, keys: list[Any]) -> None:
        maps_model(tmp_path / "ref.onnx", ["a", "b", "c", "d"])
        maps_model(tmp_path / "cand.onnx", keys)
        x = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
        result = paritygate.verify(
            tmp_path / "ref.onnx", tmp_path / "cand.onnx", {"x": x}, atol=0.0, rtol=0.0
        )
        (reason,) = result.reasons
        assert (reason.code, reason.output) == ("output.classes", "y")
        assert "'a', 'b', 'c', 'd' of the reference" in reason.message

    @pytest.mark.parametrize(
        ("view", "verdict"),
        [({"transform": "softmax"}, "hold"), ({"select": [0, 1, 2, 3]}, "release")],
    )
    def test_a_transform_leaves_the_classes_where_they_are(
        self, tmp_path: Path, view: dict[str, Any], verdict: str
    ) -> None:
        runners: dict[str, Any] = {}
        for name, keys in (("ref", list("abcd")), ("cand", list("abce"))):
            maps_model(tmp_path / f"{name}.onnx", keys)
            runners[name] = {"model": str(tmp_path / f"{name}.onnx"), "outputs": {"y": view}}
        x = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
        result = paritygate.verify(runners["ref"], runners["cand"], {"x": x}, atol=0.0, rtol=0.0)
        assert result.verdict.value == verdict, result.explain()
        assert [r.code for r in result.reasons] == ["output.classes"] * (verdict == "hold")

    @pytest.mark.parametrize(
        ("labels", "says"),
        [
            ({"labels": list("abcd")}, None),
            ({"labels": list("wxyz")}, None),
            ({"labels": list("abdc")}, "labels has the classes 'a', 'b', 'd', 'c'"),
            ({"ref_labels": list("abcd"), "cand_labels": list("abdc")}, "cand_labels has"),
        ],
    )
    def test_labels_that_a_model_contradicts_hold(
        self, tmp_path: Path, labels: dict[str, Any], says: str | None
    ) -> None:
        for name, keys in (("ref", "abcd"), ("cand", "abdc")):
            maps_model(tmp_path / f"{name}.onnx", list(keys))
        # Columns are in the order of the keys: the candidate's last two come from other inputs.
        x = np.array([[9, 1, 2, 3], [1, 2, 3, 9]], np.float32)
        x = x[:1] if says is None else x
        rule = {"output": "y", "argmax": True, **labels}
        result = paritygate.verify(
            tmp_path / "ref.onnx",
            tmp_path / "cand.onnx",
            {"x": x},
            atol=10.0,
            rtol=0.0,
            decisions={"k": rule},
        )
        if says is None:
            assert result.verdict.value == "release", result.explain()
            return
        found = [r for r in result.reasons if r.code == "output.classes"]
        assert found[0].decision == "k"
        assert says in found[0].message

    def test_a_side_without_names_is_told(self, tmp_path: Path) -> None:
        maps_model(tmp_path / "ref.onnx", ["a", "b", "c", "d"])
        x = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
        result = paritygate.verify(
            tmp_path / "ref.onnx", lambda given: {"y": given["x"]}, {"x": x}, atol=0.0, rtol=0.0
        )
        assert result.verdict.value == "release", result.explain()
        told = [text for text in result.summary["not_judged"] if "named columns" in text]
        assert len(told) == 1
        assert "reference alone ('a', 'b', 'c', 'd')" in told[0]

    def test_keys_that_change_cost_the_batch(self) -> None:
        form = OutputForm("maps", "float32")
        rows = [{"a": 1.0, "b": 2.0}, {"a": 1.0, "c": 2.0}]
        with pytest.raises(BorderError, match=r"keys 'a', 'c' in row 1 of the batch, 'a', 'b' in"):
            take_apart("y", rows, form)
        with pytest.raises(BorderError, match="keys 'a' in row 1"):
            take_apart("y", [rows[0], {"a": 1.0}], form)
        with pytest.raises(BorderError, match="keys 'a', 'b' in row 1"):
            take_apart("y", [{"a": 1.0}, rows[0]], form)
        table, keys = take_apart("y", [{"b": 2.0, "a": 1.0}, {"a": 3.0, "b": 4.0}], form)
        assert (table["y"].tolist(), keys) == ([[1.0, 2.0], [3.0, 4.0]], ("a", "b"))
        with pytest.raises(BorderError, match="without maps"):
            take_apart("y", [], form)

    def test_keys_of_a_later_batch_must_be_those_of_the_first(self, tmp_path: Path) -> None:
        """No operator names classes by the batch: what it would answer is given by hand."""
        maps_model(tmp_path / "m.onnx", ["a", "b", "c", "d"])
        with load(tmp_path, {"model": "m.onnx"}) as runner:
            runner.session().run(make_batch(np.ones((2, 4), np.float32))).release()
            assert isinstance(runner, OrtRunner)
            with pytest.raises(
                BorderError, match=r"output 'y' has the keys \['a', 'b', 'c', 'e'\]"
            ):
                runner._answer._tensors("y", [dict.fromkeys("abce", 1.0)])
            assert runner.facts["class_keys"] == {"y": ["a", "b", "c", "d"]}

    def test_an_optional_output_without_a_value_is_an_error(self, tmp_path: Path) -> None:
        optional_model(tmp_path / "m.onnx", has_value=False)
        with load(tmp_path, {"model": "m.onnx"}) as runner, pytest.raises(RunnerError) as e:
            runner.session().run(make_batch(np.ones((2, 4), np.float32)))
        assert "output 'y' has no value in this batch (it is optional)" in str(e.value)


def test_a_classifier_with_zipmap_against_itself_without(tmp_path: Path) -> None:
    from skl2onnx import to_onnx
    from sklearn.datasets import load_iris
    from sklearn.linear_model import LogisticRegression

    x, y = load_iris(return_X_y=True)
    x = x.astype(np.float32)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = LogisticRegression(max_iter=500).fit(x, names)
    tables = {}
    for name, zipmap in (("maps", True), ("table", False)):
        made = to_onnx(
            model, x[:1], options={"zipmap": zipmap}, target_opset={"": 17, "ai.onnx.ml": 3}
        )
        made.ir_version = 10
        onnx.save(made, tmp_path / f"{name}.onnx")
        label, chances = (output.name for output in made.graph.output)
        tables[name] = {
            "model": str(tmp_path / f"{name}.onnx"),
            "inputs": {"x": made.graph.input[0].name},
            "outputs": {"label": label, "chances": chances},
        }
    result = paritygate.verify(
        tables["maps"],
        tables["table"],
        {"x": x},
        atol=0.0,
        rtol=0.0,
        decisions={"class": {"output": "chances", "argmax": True}},
    )
    assert result.verdict.value == "release", result.explain()
    (stage,) = result.summary["stages"]
    assert stage["outputs"]["label"]["elements"] == 150
    assert stage["outputs"]["chances"]["elements"] == 450
    facts = result.summary["runners"]["reference"]
    assert facts["class_keys"] == {"chances": ["setosa", "versicolor", "virginica"]}


def test_a_fault_of_the_plan_stays_one(tmp_path: Path) -> None:
    cast_model(tmp_path / "m.onnx", TensorProto.BFLOAT16, FLOAT)
    write_pack(tmp_path / "g.arrow", range(2), {"x": np.zeros((2, 4), np.uint16)})
    plan = {
        "golden": str(tmp_path / "g.arrow"),
        "runners": {"a": str(tmp_path / "m.onnx"), "b": str(tmp_path / "m.onnx")},
        "stages": [{"reference": "a", "candidate": "b", "default": {"atol": 0.0, "rtol": 0.0}}],
    }
    with pytest.raises((PlanError, RunnerLoadError), match="takes bfloat16, the pack has uint16"):
        paritygate.run(plan, out=None)
