"""Identity of models: every byte that can change an answer changes the digest; no path escapes."""

import hashlib
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests import models

from paritygate.admission.admit import ModelIdentity, admit_model
from paritygate.admission.errors import AdmissionError
from paritygate.admission.model import ModelFacts, read_structure
from paritygate.admission.model import describe_model as describe


def identify_model(path: Path) -> ModelIdentity:
    with admit_model(path, check=False) as held:
        return held.value.identity


def describe_model(path: Path) -> ModelFacts:
    return describe(read_structure(path, path))


def test_identity_without_external_data(tmp_path: Path) -> None:
    path = models.scale_model(tmp_path / "m.onnx", 2.0)
    identity = identify_model(path)
    assert identity.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert identity.bytes == path.stat().st_size
    assert identity.files == ()


def test_digest_follows_content_not_name(tmp_path: Path) -> None:
    one = identify_model(models.scale_model(tmp_path / "one.onnx", 2.0))
    same = identify_model(models.scale_model(tmp_path / "same.onnx", 2.0))
    other = identify_model(models.scale_model(tmp_path / "other.onnx", 3.0))
    assert one.digest == same.digest
    assert one.digest != other.digest


def test_external_data_belongs_to_the_identity(tmp_path: Path) -> None:
    path = models.external_data_model(tmp_path / "m.onnx")
    before = identify_model(path)
    weights = tmp_path / "weights.bin"
    assert [(f.location, f.bytes, f.sha256) for f in before.files] == [
        ("weights.bin", 64, hashlib.sha256(weights.read_bytes()).hexdigest())
    ]
    stat = weights.stat()
    data = bytearray(weights.read_bytes())
    data[17] ^= 1
    weights.write_bytes(data)
    os.utime(weights, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    after = identify_model(path)
    assert after.sha256 == before.sha256
    assert after.digest != before.digest


def _external_tensor(name: str) -> TensorProto:
    tensor = helper.make_tensor(name, models.FLOAT, [4], np.ones(4, np.float32))
    models.set_external(tensor, f"{name}.bin", 16)
    return tensor


def _constant(name: str) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [f"{name}_out"], value=_external_tensor(name))


def test_external_data_is_found_wherever_a_tensor_can_be(tmp_path: Path) -> None:
    names = ["init", "attr", "list", "then", "inner", "func", "sparse", "sparse_attr", "train"]
    names.append("default")
    for name in names:
        (tmp_path / f"{name}.bin").write_bytes(b"\0" * 16)
    inner = helper.make_graph([_constant("inner")], "inner", [], [])
    then = helper.make_graph(
        [helper.make_node("If", ["c"], ["o"], then_branch=inner, else_branch=inner)],
        "then",
        [],
        [],
        [_external_tensor("then")],
    )
    tensors = helper.make_node("Custom", [], ["l"], domain="d")
    tensors.attribute.append(helper.make_attribute("values", [_external_tensor("list")]))
    sparse_node = helper.make_node("Constant", [], ["s"])
    indices = helper.make_tensor("i", TensorProto.INT64, [4], [0, 1, 2, 3])
    sparse = helper.make_sparse_tensor(_external_tensor("sparse_attr"), indices, [9])
    sparse_node.attribute.append(helper.make_attribute("sparse_value", sparse))
    function = helper.make_function(
        "d", "F", [], ["func_out"], [_constant("func")], [helper.make_opsetid("", models.OPSET)]
    )
    function.attribute_proto.append(helper.make_attribute("d", _external_tensor("default")))
    path = models.save_model(
        tmp_path / "m.onnx",
        [
            _constant("attr"),
            tensors,
            sparse_node,
            helper.make_node("If", ["c"], ["p"], then_branch=then, else_branch=inner),
        ],
        {},
        {"l": (TensorProto.FLOAT, ["n"])},
        opsets={"d": 1},
        functions=[function],
    )
    model = onnx.load(path, load_external_data=False)
    model.graph.initializer.append(_external_tensor("init"))
    model.graph.sparse_initializer.append(
        helper.make_sparse_tensor(_external_tensor("sparse"), indices, [9])
    )
    info = model.training_info.add()
    info.algorithm.initializer.append(_external_tensor("train"))
    path.write_bytes(model.SerializeToString())
    assert sorted(f.location for f in identify_model(path).files) == sorted(
        f"{n}.bin" for n in names
    )


def _point_to(path: Path, location: str, length: int = 64, offset: int = 0) -> None:
    model = onnx.load(path, load_external_data=False)
    models.set_external(model.graph.initializer[0], location, length, offset)
    path.write_bytes(model.SerializeToString())


@pytest.mark.parametrize(
    "location", ["../weights.bin", "sub/../../weights.bin", "ABSOLUTE", "..", ".", "", "a\0b"]
)
def test_location_outside_is_refused(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "weights.bin").write_bytes(b"\0" * 64)
    path = models.external_data_model(folder / "m.onnx")
    _point_to(path, str(tmp_path / "weights.bin") if location == "ABSOLUTE" else location)
    with pytest.raises(AdmissionError, match="external data") as caught:
        identify_model(path)
    assert caught.value.code == "admission.external_data"


def test_sibling_folder_with_the_same_prefix_is_outside(tmp_path: Path) -> None:
    (tmp_path / "model-other").mkdir()
    (tmp_path / "model-other" / "w.bin").write_bytes(b"\0" * 64)
    (tmp_path / "model").mkdir()
    path = models.external_data_model(tmp_path / "model" / "m.onnx")
    _point_to(path, "../model-other/w.bin")
    with pytest.raises(AdmissionError, match="outside the model's folder"):
        identify_model(path)


def test_link_out_of_the_folder_is_refused_and_one_inside_is_followed(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    path = models.external_data_model(folder / "m.onnx")
    weights = folder / "weights.bin"
    inside = weights.rename(folder / "blob.bin")
    weights.symlink_to(inside)
    assert identify_model(path).files[0].bytes == 64
    weights.unlink()
    outside = inside.rename(tmp_path / "blob.bin")
    weights.symlink_to(outside)
    with pytest.raises(AdmissionError, match="a link out of the model's folder"):
        identify_model(path)


def test_linked_folder_is_refused_too(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "w.bin").write_bytes(b"\0" * 64)
    folder = tmp_path / "model"
    folder.mkdir()
    path = models.external_data_model(folder / "m.onnx")
    (folder / "sub").symlink_to(outside)
    _point_to(path, "sub/w.bin")
    with pytest.raises(AdmissionError, match="a link out of the model's folder"):
        identify_model(path)


def test_missing_or_special_file_is_refused(tmp_path: Path) -> None:
    path = models.external_data_model(tmp_path / "m.onnx")
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(AdmissionError, match=r"'weights.bin', which is missing"):
        identify_model(path)
    os.mkfifo(tmp_path / "weights.bin")
    with pytest.raises(AdmissionError, match="isn't a regular file"):
        identify_model(path)


@pytest.mark.parametrize(("length", "offset"), [(65, 0), (64, 1), (1, 64)])
def test_data_past_the_end_is_refused(tmp_path: Path, length: int, offset: int) -> None:
    path = models.external_data_model(tmp_path / "m.onnx")
    _point_to(path, "weights.bin", length, offset)
    with pytest.raises(AdmissionError, match=r"has 64 bytes .* up to byte 65"):
        identify_model(path)


@pytest.mark.parametrize("content", [b"not a model", b"\x08\xff\xff"])
def test_not_a_model(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(AdmissionError, match="isn't an ONNX model") as caught:
        identify_model(path)
    assert caught.value.code == "admission.invalid_model"


def test_missing_model(tmp_path: Path) -> None:
    with pytest.raises(AdmissionError, match="No such file"):
        identify_model(tmp_path / "m.onnx")


def test_description(tmp_path: Path) -> None:
    path = models.save_model(
        tmp_path / "m.onnx",
        [helper.make_node("Odd", ["x"], ["y"], domain="com.example")],
        {"x": (models.FLOAT, ["batch", 4, None]), "n": (TensorProto.INT64, [])},
        {"y": (models.DOUBLE, ["batch", 3])},
        metadata={"b": "2", "a": "1"},
        opsets={"com.example": 7, "com.unused": 1},
    )
    facts = describe_model(path)
    assert facts.opsets == {"ai.onnx": models.OPSET, "com.example": 7, "com.unused": 1}
    assert facts.ir_version == models.IR_VERSION
    assert facts.custom_domains == ("com.example",)
    assert facts.inputs == {"x": "float32[batch, 4, ?]", "n": "int64[]"}
    assert facts.outputs == {"y": "float64[batch, 3]"}
    assert dict(facts.metadata) == {"a": "1", "b": "2"}
    assert facts.producer == "paritygate-tests"


def test_description_of_sequences_and_maps(tmp_path: Path) -> None:
    path = models.scale_model(tmp_path / "m.onnx")
    model = onnx.load(path)
    value = helper.make_tensor_type_proto(models.FLOAT, None)
    entry = helper.make_map_type_proto(TensorProto.INT64, value)
    del model.graph.output[:]
    model.graph.output.append(
        helper.make_value_info("zipped", helper.make_sequence_type_proto(entry))
    )
    path.write_bytes(model.SerializeToString())
    assert describe_model(path).outputs == {"zipped": "sequence(map(float32[...]))"}
