"""A look into models: what is counted, what is pointed out, what would hold a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests import models
from tests.packs import write_pack

import paritygate
from paritygate.admission.errors import AdmissionError
from paritygate.runners.ort_support import installed_support

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def node(op: str, inputs: list[str], outputs: list[str], **more: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs, outputs, **more)


def look(path: Path) -> dict[str, Any]:
    found = paritygate.inspect_model(path)
    json.dumps(found)  # of JSON types
    return found


def codes(found: dict[str, Any]) -> list[str]:
    return [finding["code"] for finding in found["findings"]]


def with_body(path: Path) -> Path:
    """If with a Relu in one branch and a Neg in the other; a function that is called once."""
    x = helper.make_tensor_value_info("t", FLOAT, None)
    branches = {
        f"{name}_branch": helper.make_graph([node(op, ["x"], ["t"])], name, [], [x])
        for name, op in (("then", "Relu"), ("else", "Neg"))
    }
    twice = helper.make_function(
        "own",
        "Twice",
        ["a"],
        ["b"],
        [node("Add", ["a", "a"], ["b"])],
        [helper.make_opsetid("", 17)],
    )
    return models.save_model(
        path,
        [
            node("ReduceMax", ["x"], ["most"], keepdims=0),
            node("Cast", ["most"], ["flag"], to=TensorProto.BOOL),
            node("If", ["flag"], ["z"], **branches),
            node("Twice", ["z"], ["y"], domain="own"),
        ],
        {"x": (FLOAT, ["n", 4])},
        {"y": (FLOAT, ["n", 4])},
        opsets={"own": 1},
        functions=[twice],
    )


class TestWhatIsThere:
    def test_operators_of_bodies_and_functions_too(self, tmp_path: Path) -> None:
        found = look(with_body(tmp_path / "m.onnx"))
        counted = {(o["domain"], o["op_type"]): o["count"] for o in found["operators"]}
        wanted = ("ReduceMax", "Cast", "If", "Relu", "Neg", "Add")
        assert counted == {("ai.onnx", op): 1 for op in wanted} | {("own", "Twice"): 1}
        assert found["functions"] == ["own:Twice"]
        assert found["nodes"] == 7
        assert found["findings"] == []  # the model brings the function along

    def test_tensors_by_dtype(self, tmp_path: Path) -> None:
        path = models.save_model(
            tmp_path / "m.onnx",
            [
                node("Add", ["x", "a"], ["t"]),
                node("Add", ["t", "b"], ["y"]),
                node("Constant", [], ["c"], value=numpy_helper.from_array(np.ones(3, np.int64))),
            ],
            {"x": (FLOAT, ["n", 4])},
            {"y": (FLOAT, ["n", 4])},
            {"a": np.ones((2, 4), np.float32), "b": np.ones(4, np.float32)},
        )
        assert look(path)["tensors"] == {
            "float32": {"tensors": 2, "elements": 12, "bytes": 48, "external": 0},
            "int64": {"tensors": 1, "elements": 3, "bytes": 24, "external": 0},
        }

    def test_external_files_with_their_digests(self, tmp_path: Path) -> None:
        found = look(models.external_data_model(tmp_path / "m.onnx"))
        [file] = found["identity"]["external_data"]
        assert (file["location"], file["bytes"], len(file["sha256"])) == ("weights.bin", 64, 64)
        assert found["tensors"]["float32"]["external"] == 1

    def test_open_dims_are_named(self, tmp_path: Path) -> None:
        path = models.save_model(
            tmp_path / "m.onnx",
            [node("Identity", ["x"], ["y"])],
            {"x": (FLOAT, ["batch", "seq", 4])},
            {"y": (FLOAT, ["batch", None, 4])},
        )
        assert look(path)["open_dims"] == {
            "?": ["output y"],
            "batch": ["input x", "output y"],
            "seq": ["input x"],
        }

    def test_the_installed_runtime_is_asked(self, tmp_path: Path) -> None:
        found = look(models.scale_model(tmp_path / "m.onnx"))
        support = installed_support()
        assert support is not None
        assert support.version == onnxruntime.__version__ == found["installed"]["version"]
        assert loads(tmp_path, support.max_opset or 0, support.max_ir or 0)
        assert not loads(tmp_path, (support.max_opset or 0) + 1, support.max_ir or 0)
        assert not loads(tmp_path, support.max_opset or 0, (support.max_ir or 0) + 1)

    def test_a_model_beyond_the_installed_runtime_would_not_load(self, tmp_path: Path) -> None:
        path = models.scale_model(tmp_path / "m.onnx")
        model = onnx.load(path)
        model.ir_version = 14
        support = installed_support()
        assert support is not None
        if support.max_ir is None or support.max_ir >= 14:
            pytest.skip("this runtime takes whatever the checker takes")
        onnx.save(model, path)
        found = look(path)
        assert codes(found) == ["runner.load_failed"]
        assert "IR version 14" in found["findings"][0]["message"]


def loads(folder: Path, opset: int, ir_version: int) -> bool:
    """Whether ONNX Runtime makes a session of `y = x` under these versions."""
    x, y = (helper.make_tensor_value_info(n, FLOAT, [1]) for n in "xy")
    graph = helper.make_graph([node("Identity", ["x"], ["y"])], "g", [x], [y])
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version
    )
    (folder / "versions.onnx").write_bytes(model.SerializeToString())
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(
            str(folder / "versions.onnx"), options, providers=["CPUExecutionProvider"]
        )
    except Exception:
        return False
    return True


class TestPointedOut:
    def test_a_fixed_batch_under_an_open_output(self, tmp_path: Path) -> None:
        def save(batch: int | str, out: int | str) -> dict[str, Any]:
            path = models.save_model(
                tmp_path / "m.onnx",
                [node("Identity", ["x"], ["y"])],
                {"x": (FLOAT, [batch, 4])},
                {"y": (FLOAT, [out, 4])},
            )
            return look(path)

        [note] = save(1, "batch")["notes"]
        assert "x 1" in note
        assert "output y" in note
        assert save("batch", "batch")["notes"] == save(1, 1)["notes"] == []

    def test_session_options_in_metadata_are_told_and_not_obeyed(self, tmp_path: Path) -> None:
        config = '{"session_options": {"intra_op_num_threads": 5}}'
        metadata = {"ort_config": config, "session.disable_prepacking": "1", "author": "me"}
        found = look(models.scale_model(tmp_path / "m.onnx", metadata=metadata))
        first, second = found["notes"]
        assert "'ort_config'" in first
        assert "not obeyed" in first
        assert "session.disable_prepacking" in second
        assert found["metadata"]["author"] == "me"
        assert found["findings"] == []

    def test_random_operators(self, tmp_path: Path) -> None:
        path = models.save_model(
            tmp_path / "m.onnx",
            [node("RandomUniformLike", ["x"], ["r"]), node("Add", ["x", "r"], ["y"])],
            {"x": (FLOAT, ["n", 4])},
            {"y": (FLOAT, ["n", 4])},
        )
        assert "RandomUniformLike" in look(path)["notes"][0]


class TestTrainingMode:
    def dropout(self, path: Path, ratio: float, training: bool) -> Path:
        return models.save_model(
            path,
            [node("Dropout", ["x", "ratio", "training"], ["y"], name="drop")],
            {"x": (FLOAT, ["n", 4])},
            {"y": (FLOAT, ["n", 4])},
            {"ratio": np.array(ratio, np.float32), "training": np.array(training)},
        )

    def test_a_dropout_that_is_on_holds(self, tmp_path: Path) -> None:
        found = look(self.dropout(tmp_path / "m.onnx", 0.5, True))
        assert codes(found) == ["admission.training_mode"]
        assert "Dropout 'drop'" in found["findings"][0]["message"]

    @pytest.mark.parametrize(("ratio", "training"), [(0.5, False), (0.0, True)])
    def test_one_that_does_nothing_is_fine(
        self, tmp_path: Path, ratio: float, training: bool
    ) -> None:
        assert look(self.dropout(tmp_path / "m.onnx", ratio, training))["findings"] == []

    def test_a_run_holds_by_it(self, tmp_path: Path) -> None:
        self.dropout(tmp_path / "m.onnx", 0.5, True)
        x = np.ones((4, 4), np.float32)
        result = paritygate.verify(
            lambda given: {"y": given["x"]}, tmp_path / "m.onnx", {"x": x}, atol=9, rtol=0
        )
        assert result.verdict == "hold"
        assert "admission.training_mode" in [r.code for r in result.reasons]

    @pytest.mark.parametrize(("mode", "wanted"), [(1, ["admission.training_mode"]), (0, [])])
    def test_batch_statistics(self, tmp_path: Path, mode: int, wanted: list[str]) -> None:
        outputs = ["y", "m", "v"] if mode else ["y"]
        path = models.save_model(
            tmp_path / "m.onnx",
            [node("BatchNormalization", ["x", *"abcd"], outputs, training_mode=mode)],
            {"x": (FLOAT, ["n", 4])},
            {"y": (FLOAT, ["n", 4])},
            {name: np.ones(4, np.float32) for name in "abcd"},
        )
        assert codes(look(path)) == wanted


class TestTrust:
    def test_operators_that_nobody_brings(self, tmp_path: Path) -> None:
        path = models.save_model(
            tmp_path / "m.onnx",
            [node("Odd", ["x"], ["y"], domain="acme")],
            {"x": (FLOAT, ["n", 4])},
            {"y": (FLOAT, ["n", 4])},
            opsets={"acme": 1},
        )
        [finding] = look(path)["findings"]
        assert finding["code"] == "runner.load_failed"
        assert "'acme'" in finding["message"]
        assert "custom_op_libraries" in finding["next"]

    def test_operators_of_the_runtime_are_fine(self, tmp_path: Path) -> None:
        path = models.save_model(
            tmp_path / "m.onnx",
            [node("Gelu", ["x"], ["y"], domain="com.microsoft")],
            {"x": (FLOAT, ["n", 4])},
            {"y": (FLOAT, ["n", 4])},
            opsets={"com.microsoft": 1},
        )
        assert look(path)["findings"] == []


class TestRefused:
    @pytest.mark.parametrize(
        ("name", "content", "says"),
        [
            ("m.onnx", b"", "is empty"),
            ("m.onnx", b"a text, not a model\n", "isn't an ONNX model"),
            ("m.bin", b"\0\0\0\0TFL3\0\0\0\0", "is a TFLite model"),
        ],
    )
    def test_no_model(self, tmp_path: Path, name: str, content: bytes, says: str) -> None:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(AdmissionError, match=says):
            paritygate.inspect_model(tmp_path / name)

    def test_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(AdmissionError, match=r"m\.onnx"):
            paritygate.inspect_model(tmp_path / "m.onnx")

    def test_a_malformed_one(self, tmp_path: Path) -> None:
        path = models.save_model(
            tmp_path / "m.onnx",
            [node("Add", ["x", "b"], ["a"]), node("Add", ["a", "a"], ["b"])],
            {"x": (FLOAT, ["n", 4])},
            {"b": (FLOAT, ["n", 4])},
        )
        with pytest.raises(AdmissionError, match="topologically sorted"):
            paritygate.inspect_model(path)


def test_the_summary_has_it(tmp_path: Path) -> None:
    models.scale_model(tmp_path / "a.onnx")
    models.scale_model(tmp_path / "b.onnx", metadata={"ort_config": "{}"})
    x = np.ones((4, 4), np.float32)
    result = paritygate.verify(tmp_path / "a.onnx", tmp_path / "b.onnx", {"x": x}, atol=0.1, rtol=0)
    told = result.summary["runners"]["candidate"]["admission"]
    assert told["operators"] == [{"domain": "ai.onnx", "op_type": "Mul", "count": 1}]
    assert told["findings"] == []
    assert "ort_config" in told["notes"][0]


@pytest.mark.slow
def test_a_runner_in_a_process_of_its_own_tells_and_holds_the_same(tmp_path: Path) -> None:
    path = TestTrainingMode().dropout(tmp_path / "m.onnx", 0.5, True)
    x = np.ones((4, 4), np.float32)
    write_pack(tmp_path / "g.arrow", [0, 1, 2, 3], {"x": x})
    other = models.save_model(
        tmp_path / "other.onnx",
        [node("Identity", ["x"], ["y"])],
        {"x": (FLOAT, ["n", 4])},
        {"y": (FLOAT, ["n", 4])},
    )
    plan = {
        "golden": str(tmp_path / "g.arrow"),
        "runners": {"a": str(other), "b": str(path)},
        "stages": [{"reference": "a", "candidate": "b", "default": {"atol": 9, "rtol": 0}}],
    }
    results = [paritygate.run(plan, out=None, isolate=isolate) for isolate in (False, True)]
    here, there = (r.summary["runners"]["b"]["admission"] for r in results)
    assert here == there
    for result in results:
        assert "admission.training_mode" in [r.code for r in result.reasons]
