"""What other tools keep, as packs, and back: ONNX's test data, Polygraphy's JSON, NumPy's files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hn
from onnx import TensorProto, helper, numpy_helper
from tests.packs import write_pack

import paritygate
from paritygate.core.errors import FolderError, GoldenError, PlanError
from paritygate.golden.pack import open_pack

DATA = Path(__file__).with_name("data")
QUICK = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
KINDS = ["float32", "float64", "float16", "int8", "int64", "uint16", "bool", "bfloat16", "int4"]


def save(folder: Path, **protos: Any) -> Path:
    folder.mkdir(parents=True)
    for name, proto in protos.items():
        (folder / f"{name}.pb").write_bytes(proto.SerializeToString())
    return folder


def tensor(values: Any, name: str = "") -> Any:
    return numpy_helper.from_array(np.asarray(values), name)


@QUICK
@given(st.data(), st.sampled_from(KINDS), st.integers(1, 5), st.booleans())
def test_build_check_export_import(
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
    kind: str,
    count: int,
    is_varying: bool,
) -> None:
    folder = tmp_path_factory.mktemp("round")
    dtype = np.dtype(getattr(ml_dtypes, kind, kind))
    bits = {"bfloat16": np.uint16, "int4": np.int8}.get(kind, dtype)
    limits = {"elements": st.integers(-8, 7)} if kind == "int4" else {}
    rows = [
        data.draw(hn.arrays(bits, (data.draw(st.integers(0, 3)) if is_varying else 2, 2), **limits))
        for _ in range(count)
    ]
    x = [row.astype(dtype) if kind == "int4" else row.view(dtype) for row in rows]
    texts = data.draw(
        st.lists(st.text(st.characters(codec="utf-8")), min_size=count, max_size=count)
    )
    samples = [
        {"sample_id": f"test_data_set_{i}", "in.x": x[i], "out.t": np.array([texts[i]], object)}
        for i in range(count)
    ]
    first = paritygate.build_pack(folder / "a.arrow", samples, varying=["in.x"])
    assert paritygate.check_pack(first.path).exit_code == 0
    made = paritygate.export_pack(first.path, folder / "sets", rows=range(count))
    assert [path.name for path in made] == [f"test_data_set_{i}" for i in range(count)]
    second = paritygate.import_pack(folder / "b.arrow", folder / "sets").built
    assert (second.samples, second.digest) == (count, first.digest)
    can_be_npz = kind not in ("bfloat16", "int4") and not any("\0" in text for text in texts)
    if can_be_npz and len({array.shape for array in x}) == 1:
        paritygate.export_pack(first.path, folder / "c.npz", rows=range(count))
        third = paritygate.build_from(folder / "c.arrow", folder / "c.npz")
        assert third.digest == first.digest


def test_exported_data_are_what_onnx_reads(tmp_path: Path) -> None:
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    pack = write_pack(tmp_path / "p.arrow", ["a", "b", "c"], {"x": x}, {"y": x[:, 0]})
    (made,) = paritygate.export_pack(pack, tmp_path / "sets", ids=["b"])
    proto = onnx.load_tensor(made / "input_0.pb")
    assert (proto.name, numpy_helper.to_array(proto).tolist()) == ("x", [[2.0, 3.0]])
    proto = onnx.load_tensor(made / "output_0.pb")
    assert (proto.name, numpy_helper.to_array(proto).tolist()) == ("y", [2.0])
    with pytest.raises(FolderError, match="File exists"):
        paritygate.export_pack(pack, tmp_path / "sets", ids=["a"])
    assert [path.name for path in (tmp_path / "sets").iterdir()] == ["test_data_set_0"]


def test_samples_are_chosen_by_id_or_row(tmp_path: Path) -> None:
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    pack = write_pack(tmp_path / "p.arrow", [7, 8, 9], {"x": x}, label=[1, 0, 1])
    paritygate.export_pack(pack, tmp_path / "a.npz", ids=["9", "7"])
    found = np.load(tmp_path / "a.npz")
    assert found["sample_id"].tolist() == [9, 7]
    assert np.array_equal(found["in.x"], x[[2, 0]])
    for ids, rows, told in (
        (["5"], [], "has no sample '5'"),
        (["x"], [], "are numbers"),
        ([], [3], "has no row 3"),
        ([], [-1], "has no row -1"),
    ):
        with pytest.raises(GoldenError, match=told):
            paritygate.export_pack(pack, tmp_path / "b.npz", ids=ids, rows=rows)
    for wrong in ({}, {"ids": [7], "rows": [0]}):
        with pytest.raises(PlanError, match="by their ids or by their rows"):
            paritygate.export_pack(pack, tmp_path / "b.npz", **wrong)
    assert not (tmp_path / "b.npz").exists()


def test_what_a_file_of_numpy_can_not_hold_is_told(tmp_path: Path) -> None:
    half = np.ones((2, 2), ml_dtypes.bfloat16)
    pack = write_pack(tmp_path / "p.arrow", [1, 2], {"x": half})
    with pytest.raises(GoldenError, match="a file of NumPy has no bfloat16"):
        paritygate.export_pack(pack, tmp_path / "a.npz", rows=[0])
    samples = [{"sample_id": n, "in.x": np.zeros(n, np.float32)} for n in (1, 2)]
    built = paritygate.build_pack(tmp_path / "q.arrow", samples, varying=["in.x"])
    with pytest.raises(GoldenError, match=r"differ in shape .\[1\], \[2\]"):
        paritygate.export_pack(built.path, tmp_path / "a.npz", rows=[0, 1])


def test_a_failing_sample_of_a_run_is_exported_with_either_side(tmp_path: Path) -> None:
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    golden = write_pack(tmp_path / "golden.arrow", ["a", "b", "c"], {"x": x})
    wrong = x.copy()
    wrong[1] += 1
    cand = write_pack(tmp_path / "cand.arrow", ["a", "b", "c"], outputs={"y": wrong})
    plan = {
        "golden": str(golden),
        "runners": {"ref": {"kind": "null", "echo": {"y": "x"}}, "cand": str(cand)},
        "stages": [
            {
                "name": "s",
                "reference": "ref",
                "candidate": "cand",
                "outputs": {"y": {"atol": 0.1, "rtol": 0}},
            }
        ],
    }
    run = paritygate.run(plan, out=tmp_path / "runs")
    shard = run.folder / "failures" / "s-00000.arrow"
    for side, expected in (("ref.", x), ("cand.", wrong)):
        (made,) = paritygate.export_pack(shard, tmp_path / side, ids=["b"], outputs_prefix=side)
        proto = onnx.load_tensor(made / "output_0.pb")
        assert np.array_equal(numpy_helper.to_array(proto), expected[1:2])


def test_rows_of_a_call_are_samples_unless_it_is_whole(tmp_path: Path) -> None:
    x, y = np.arange(6, dtype=np.float32).reshape(3, 2), np.arange(3)
    save(tmp_path / "m" / "test_data_set_0", input_0=tensor(x, "x"), output_0=tensor(y, "y"))
    save(
        tmp_path / "m" / "test_data_set_10", input_0=tensor(x[:1], "x"), output_0=tensor(y[:1], "y")
    )
    save(
        tmp_path / "m" / "test_data_set_2",
        input_0=tensor(x[1:2], "x"),
        output_0=tensor(y[1:2], "y"),
    )
    paritygate.import_pack(tmp_path / "p.arrow", tmp_path / "m")
    with open_pack([tmp_path / "p.arrow"], tmp_path) as pack:
        ids = [f"test_data_set_0/{i}" for i in range(3)] + ["test_data_set_2", "test_data_set_10"]
        assert pack.ids(0, 5).tolist() == ids
        assert np.array_equal(pack.input("x", 0, 5), x[[0, 1, 2, 1, 0]])
        assert pack.output("y", 0, 5)[:, ...].tolist() == [0, 1, 2, 1, 0]
    built = paritygate.import_pack(tmp_path / "w.arrow", tmp_path / "m", whole=True).built
    assert built.samples == 3
    with open_pack([tmp_path / "w.arrow"], tmp_path, varying=["x"]) as pack:
        assert np.array_equal(pack.input("x", 0, 1), x[None])


def test_sequences_optionals_and_names_of_a_model(tmp_path: Path) -> None:
    one, two = tensor([[1.0]]), tensor([[2.0]])
    sequence = helper.make_sequence("", onnx.SequenceProto.TENSOR, [one, two])
    optional = helper.make_optional("", onnx.OptionalProto.TENSOR, one)
    save(tmp_path / "test_data_set_0", input_0=sequence, input_1=optional, output_0=two)
    kind = helper.make_tensor_type_proto(TensorProto.DOUBLE, ["batch", 1])
    inputs = [
        helper.make_value_info("s", helper.make_sequence_type_proto(kind)),
        helper.make_value_info("o", helper.make_optional_type_proto(kind)),
    ]
    graph = helper.make_graph([], "g", inputs, [helper.make_value_info("y", kind)])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    paritygate.import_pack(tmp_path / "p.arrow", tmp_path, model=tmp_path / "m.onnx")
    with open_pack([tmp_path / "p.arrow"], tmp_path) as pack:
        assert sorted(pack.inputs) == ["o", "s.0", "s.1"]
        assert pack.input("s.1", 0, 1).tolist() == [[2.0]]
        assert pack.input("o", 0, 1).tolist() == [[1.0]]
        assert list(pack.outputs) == ["y"]
    paritygate.import_pack(tmp_path / "p.arrow", tmp_path)
    with open_pack([tmp_path / "p.arrow"], tmp_path) as pack:
        assert sorted(pack.inputs) == ["input_0.0", "input_0.1", "input_1.0"]


def external(location: str) -> Any:
    proto = TensorProto(name="x", data_type=TensorProto.FLOAT, dims=[1, 2])
    proto.data_location = TensorProto.EXTERNAL
    proto.external_data.add(key="location", value=location)
    return proto


def test_data_beside_the_file_are_read_and_no_others(tmp_path: Path) -> None:
    folder = save(tmp_path / "test_data_set_0", input_0=external("x.bin"))
    (folder / "x.bin").write_bytes(np.array([1, 2], np.float32).tobytes())
    paritygate.import_pack(tmp_path / "p.arrow", folder)
    with open_pack([tmp_path / "p.arrow"], tmp_path) as pack:
        assert pack.input("x", 0, 1).tolist() == [[1.0, 2.0]]
    (tmp_path / "y.bin").write_bytes(bytes(8))
    (folder / "link.bin").symlink_to(tmp_path / "y.bin")
    for location in ("../y.bin", str(tmp_path / "y.bin"), "link.bin", "none.bin", ""):
        (folder / "input_0.pb").write_bytes(external(location).SerializeToString())
        with pytest.raises(GoldenError, match="isn't a file in this folder"):
            paritygate.import_pack(tmp_path / "q.arrow", folder)


@pytest.mark.parametrize(
    "data", [b"", b"nothing of the kind", b"\x0a\xff\xff\xff\xff\x0f", bytes(90)]
)
def test_a_file_that_is_no_tensor(tmp_path: Path, data: bytes) -> None:
    folder = tmp_path / "test_data_set_0"
    folder.mkdir()
    (folder / "input_0.pb").write_bytes(data)
    with pytest.raises(GoldenError, match="input_0.pb: holds no tensor"):
        paritygate.import_pack(tmp_path / "p.arrow", folder)


def test_folders_that_are_no_test_data(tmp_path: Path) -> None:
    with pytest.raises(GoldenError, match="has no folder test_data_set_0"):
        paritygate.import_pack(tmp_path / "p.arrow", tmp_path)
    (tmp_path / "test_data_set_0").mkdir()
    with pytest.raises(GoldenError, match=r"has no input_0.pb"):
        paritygate.import_pack(tmp_path / "p.arrow", tmp_path)
    save(
        tmp_path / "m" / "test_data_set_0", input_0=tensor(np.zeros((2, 1))), input_1=tensor([1.0])
    )
    with pytest.raises(GoldenError, match="--whole makes one sample"):
        paritygate.import_pack(tmp_path / "p.arrow", tmp_path / "m")


def test_tolerances_beside_the_data_are_told(tmp_path: Path) -> None:
    save(tmp_path / "test_data_set_0", input_0=tensor([[1.0]], "x"))
    text = "post_processing:false\nper_sample_tolerance:1e-3\nrelative_per_sample_tolerance:0.01\n"
    (tmp_path / "config.txt").write_text(text)
    found = paritygate.import_pack(tmp_path / "p.arrow", tmp_path)
    assert found.tolerances == {"atol": 1e-3, "rtol": 0.01}
    (tmp_path / "config.txt").write_text("per_sample_tolerance:much\n")
    with pytest.raises(GoldenError, match="'much', which is no number"):
        paritygate.import_pack(tmp_path / "p.arrow", tmp_path)


def test_inputs_and_outputs_that_polygraphy_saved(tmp_path: Path) -> None:
    """The files were written by Polygraphy 0.53.6."""
    sources = [DATA / "polygraphy-inputs.json", DATA / "polygraphy-outputs.json"]
    built = paritygate.import_pack(tmp_path / "p.arrow", sources).built
    assert built.samples == 4
    with open_pack([tmp_path / "p.arrow"], tmp_path) as pack:
        assert pack.ids(0, 2).tolist() == ["iteration_0/0", "iteration_0/1"]
        assert pack.input("x", 0, 4).tolist() == [[0, 1, 2], [3, 4, 5], [1, 1, 1], [1, 1, 1]]
        assert pack.output("y", 0, 4)[:, ...].tolist() == [0, 1, 1, 1]
    with pytest.raises(GoldenError, match="the outputs of: onnxrt-runner-N0; name one"):
        paritygate.import_pack(tmp_path / "q.arrow", sources[1], runner="other")
    with pytest.raises(GoldenError, match="holds inputs, as"):
        paritygate.import_pack(tmp_path / "q.arrow", [sources[0], sources[0]])


@pytest.mark.parametrize(
    ("told", "error"),
    [
        ("{", "is no JSON"),
        ({"lst": []}, "is neither a list of inputs nor RunResults"),
        ([{"x": {"array": "!", "polygraphy_class": "ndarray"}}], "can't be read"),
        ([{"x": {"array": "AAAA", "polygraphy_class": "ndarray"}}], "can't be read"),
        ([{"x": {"polygraphy_class": "Formatted"}}], "is Formatted, no array"),
        ([3], "iteration 0 is no table"),
        ({"lst": [3], "polygraphy_class": "RunResults"}, "is no RunResults"),
    ],
)
def test_a_json_of_something_else(tmp_path: Path, told: Any, error: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(told if isinstance(told, str) else json.dumps(told))
    with pytest.raises(GoldenError, match=error):
        paritygate.import_pack(tmp_path / "p.arrow", path)


def model(path: Path, inputs: list[str], outputs: list[str]) -> Path:
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, ["batch", 2])
    weight = numpy_helper.from_array(np.zeros((1, 2), np.float32), "w")
    values = [helper.make_value_info(name, kind) for name in ["w", *inputs]]
    answers = [helper.make_value_info(name, kind) for name in outputs]
    graph = helper.make_graph([], "g", values, answers, [weight])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def test_a_model_says_the_order_of_inputs(tmp_path: Path) -> None:
    x = np.arange(4, dtype=np.float32).reshape(2, 2)
    outputs = {"y": x, "z": x + 1}
    pack = write_pack(tmp_path / "p.arrow", [1, 2], {"a": x, "b": x + 2}, outputs)
    twisted = model(tmp_path / "m.onnx", ["b", "a"], ["z"])
    (made,) = paritygate.export_pack(pack, tmp_path / "sets", rows=[0], model=twisted)
    assert sorted(path.name for path in made.iterdir()) == [
        "input_0.pb",
        "input_1.pb",
        "output_0.pb",
    ]
    names = [onnx.load_tensor(path).name for path in sorted(made.iterdir())]
    assert names == ["b", "a", "z"]
    more = model(tmp_path / "n.onnx", ["a", "c"], ["y"])
    with pytest.raises(GoldenError, match="has no input 'c', which the model takes"):
        paritygate.export_pack(pack, tmp_path / "more", rows=[0], model=more)


def test_a_side_that_gave_no_answer_is_left_out(tmp_path: Path) -> None:
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    golden = write_pack(tmp_path / "golden.arrow", ["a", "b", "c"], {"x": x})
    cand = write_pack(tmp_path / "cand.arrow", ["a", "c"], outputs={"y": x[[0, 2]]})
    echo = {"kind": "null", "echo": {"y": "x"}}
    stage = {
        "name": "s",
        "reference": "ref",
        "candidate": "cand",
        "default": {"atol": 0.1, "rtol": 0},
    }
    plan = {"golden": str(golden), "runners": {"ref": echo, "cand": str(cand)}, "stages": [stage]}
    run = paritygate.run(plan, out=tmp_path / "runs")
    assert [reason.code for reason in run.reasons] == ["sample.missing"]
    shard = run.folder / "failures" / "s-00000.arrow"
    (made,) = paritygate.export_pack(shard, tmp_path / "o", ids=["b"], outputs_prefix="cand.")
    assert [path.name for path in made.iterdir()] == ["input_0.pb"]


def test_texts_come_in_with_every_character(tmp_path: Path) -> None:
    texts = np.array([["a\0", ""], ["\0", "ä"]], object)
    save(tmp_path / "test_data_set_0", input_0=tensor(texts, "t"))
    paritygate.import_pack(tmp_path / "p.arrow", tmp_path)
    with open_pack([tmp_path / "p.arrow"], tmp_path) as pack:
        assert pack.input("t", 0, 2).tolist() == texts.tolist()
