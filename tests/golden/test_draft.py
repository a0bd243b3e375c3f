"""A drafted contract accepts what it was drafted from, and nothing beyond it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hn
from onnx import TensorProto, helper
from tests.frontends.command import invoke
from tests.packs import write_pack

import paritygate
from paritygate.core.errors import GoldenError

STAGE = {"reference": "a", "candidate": "a", "self": True, "default": {"atol": 0, "rtol": 0}}
RUNNERS = {"a": {"kind": "null", "echo": {"y": "x"}}}
QUICK = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def plan_of(pack: Path, draft: str) -> dict[str, Any]:
    return {"golden": str(pack), "runners": RUNNERS, "stages": [STAGE], **tomllib.loads(draft)}


def beyond(values: Any, draft: dict[str, Any]) -> Any:
    """The same values with one of the first sample past its range."""
    limits = draft["inputs"]["x"]["range"]
    high = limits[0][1] if isinstance(limits[0], list) else limits[1]
    more = values.copy()
    more.reshape(len(more), -1)[0, 0] = np.nextafter(more.dtype.type(high), more.dtype.type(np.inf))
    return more


@QUICK
@given(st.data(), st.sampled_from(["float32", "float64", "int64", "uint8", "bool", "bfloat16"]))
def test_a_draft_accepts_its_own_pack(tmp_path: Path, data: st.DataObject, kind: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, kind, kind))
    shape = tuple(data.draw(st.lists(st.integers(1, 3), max_size=2)))
    finite = {"allow_nan": False, "allow_infinity": False} if kind.startswith("float") else {}
    source = np.dtype(np.float32) if kind == "bfloat16" else dtype
    elements = (
        st.integers(-99, 99).map(float) if kind == "bfloat16" else hn.from_dtype(dtype, **finite)
    )
    x = data.draw(hn.arrays(source, (4, *shape), elements=elements)).astype(dtype)
    pack = write_pack(tmp_path / "p.arrow", range(4), {"x": x}, {"y": x})
    draft = paritygate.draft_contract(pack)
    plan = plan_of(pack, draft)
    assert plan["inputs"]["x"]["shape"] == ["batch", *shape]
    assert plan["inputs"]["x"]["dtype"] == plan["outputs"]["y"]["dtype"] == kind
    report = paritygate.check_pack(pack, plan=plan)
    assert report.exit_code == 0, report.problems
    if kind in ("float32", "float64") and np.abs(x).max() < 1e30:
        worse = write_pack(tmp_path / "w.arrow", range(4), {"x": beyond(x, plan)}, {"y": x})
        report = paritygate.check_pack(worse, plan=plan)
        assert report.problems[0].startswith("input x: 1 sample breaks the plan's contract: 0; 0: ")


def test_short_vectors_have_a_range_a_channel(tmp_path: Path) -> None:
    x = np.array([[1, -5], [2, 7]], np.float32)
    pack = write_pack(tmp_path / "p.arrow", [1, 2], {"x": x})
    found = tomllib.loads(paritygate.draft_contract(pack))
    assert found["inputs"]["x"]["range"] == [[1.0, 2.0], [-5.0, 7.0]]
    image = write_pack(tmp_path / "q.arrow", [1, 2], {"x": x.reshape(2, 2, 1)})
    assert tomllib.loads(paritygate.draft_contract(image))["inputs"]["x"]["range"] == [-5.0, 7.0]


def test_nan_is_told_and_no_range_is_made_of_nothing(tmp_path: Path) -> None:
    x = np.array([[1, np.nan], [2, np.inf]], np.float32)
    pack = write_pack(tmp_path / "p.arrow", [1, 2], {"x": x})
    draft = paritygate.draft_contract(pack)
    assert "# 2 samples have a NaN or an infinity in 'x': this contract rejects them." in draft
    assert "range" not in tomllib.loads(draft)["inputs"]["x"]


@pytest.mark.parametrize("has_model", [False, True])
def test_dims_that_vary_have_a_name_and_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_model: bool
) -> None:
    monkeypatch.setattr("paritygate.golden.observe._STEP", 1)
    samples = [
        {"sample_id": n, "in.x": np.zeros((n, 2), np.float32), "out.y": np.zeros(n + 1)}
        for n in (3, 1, 4, 2)
    ]
    pack = paritygate.build_pack(tmp_path / "p.arrow", samples, varying=["in.x", "out.y"]).path
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, ["n", "seq-len", 2])
    graph = helper.make_graph([], "g", [helper.make_value_info("x", kind)], [])
    opsets = [helper.make_opsetid("", 17)]
    model = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), model)
    draft = paritygate.draft_contract(pack, model=model if has_model else None)
    found = plan_of(pack, draft)
    name = "seq_len" if has_model else "x_0"
    assert found["dims"] == {name: {"min": 1, "max": 4}, "y_0": {"min": 2, "max": 5}}
    assert found["inputs"]["x"]["shape"] == ["batch", name, 2]
    assert paritygate.check_pack(pack, plan=found).exit_code == 0
    found["inputs"]["x"]["range"] = [1.0, 2.0]
    report = paritygate.check_pack(pack, plan=found)
    (problem,) = report.problems
    assert problem.startswith("input x: 4 samples break the plan's contract: 3, 1, 4, 2; 3: ")


def test_the_command_prints_toml(tmp_path: Path) -> None:
    x = np.array([[1, -5], [2, 7]], np.float32)
    pack = write_pack(tmp_path / "p.arrow", [1, 2], {"x": x})
    result = invoke("pack", "check", pack, "--draft")
    assert result.exit_code == 0, result.output
    assert result.stdout == paritygate.draft_contract(pack)


def test_channels_without_a_number_are_told(tmp_path: Path) -> None:
    x = np.array([[1, np.nan, 3, np.inf], [2, np.nan, 4, 1]], np.float32)
    draft = paritygate.draft_contract(write_pack(tmp_path / "p.arrow", range(2), {"x": x}))
    assert (
        "# No range of 'x': there is no finite number in any sample of its channels 1 (counted "
        "from 0).\n"
    ) in draft
    assert "range" not in tomllib.loads(draft)["inputs"]["x"]
    x[0, 1] = 0
    draft = paritygate.draft_contract(write_pack(tmp_path / "p.arrow", range(2), {"x": x}))
    assert "No range" not in draft
    assert len(tomllib.loads(draft)["inputs"]["x"]["range"]) == 4


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--draft", "--plan", "p.toml"], "checks nothing: leave out --plan"),
        (["--draft", "--against", "o.arrow"], "checks nothing: leave out --against"),
        (["--draft", "--json"], "checks nothing: leave out --json"),
        (["--model", "m.onnx"], "give --draft too"),
    ],
)
def test_a_draft_is_no_check(tmp_path: Path, given: list[str], told: str) -> None:
    pack = write_pack(tmp_path / "p.arrow", range(2), {"x": np.ones((2, 3), np.float32)})
    result = invoke("pack", "check", pack, *given)
    assert result.exit_code == 2
    assert told in result.stderr
    assert "[inputs" not in result.stdout


def test_samples_that_must_be_rejected_don_t_widen_a_draft(tmp_path: Path) -> None:
    x = np.array([[0.5], [-0.5], [7.0], [np.nan]], np.float32)
    expect = [None, "run", "reject", "reject"]
    pack = write_pack(tmp_path / "p.arrow", range(4), {"x": x}, slices={"expect": expect})
    draft = paritygate.draft_contract(pack)
    assert "# Drafted from 2 samples." in draft
    assert "# 2 samples that must be rejected are left out." in draft
    assert "NaN" not in draft
    assert tomllib.loads(draft)["inputs"]["x"]["range"] == [-0.5, 0.5]
    plan = plan_of(pack, draft) | {"max_rejected": 0}
    assert paritygate.check_pack(pack, plan=plan).exit_code == 0


def test_nothing_is_drafted_where_every_sample_must_be_rejected(tmp_path: Path) -> None:
    x = np.ones((2, 1), np.float32)
    pack = write_pack(tmp_path / "p.arrow", range(2), {"x": x}, slices={"expect": ["reject"] * 2})
    with pytest.raises(GoldenError, match="every sample is expected to be rejected"):
        paritygate.draft_contract(pack)


def test_a_model_says_what_the_outputs_are_that_a_pack_doesn_t_hold(tmp_path: Path) -> None:
    kind = pa.list_(pa.list_(pa.float32(), 2))
    rows = pa.array([[[1.0, 2.0]] * n for n in (3, 5)], kind)
    pack = write_pack(tmp_path / "p.arrow", range(2), columns={"in.x": rows})
    outputs = [
        helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", "seq", 2]),
        helper.make_tensor_value_info("k", TensorProto.INT64, ["n", 4]),
        helper.make_tensor_value_info("open", TensorProto.FLOAT, ["n", "boxes"]),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "seq", 2])]
    graph = helper.make_graph([], "g", inputs, outputs)
    onnx.save(helper.make_model(graph, ir_version=10), tmp_path / "m.onnx")
    draft = tomllib.loads(paritygate.draft_contract(pack, model=tmp_path / "m.onnx"))
    assert draft["dims"] == {"seq": {"min": 3, "max": 5}}
    assert draft["outputs"] == {
        "y": {"dtype": "float32", "shape": ["batch", "seq", 2]},
        "k": {"dtype": "int64", "shape": ["batch", 4]},
        "open": {"dtype": "float32"},
    }
