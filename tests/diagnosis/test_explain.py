"""`explain`: real failing samples, checked by plain arithmetic; and samples that did not fail."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.diagnosis.runs import classifiers, ids, inputs, run_pair, square
from tests.frontends.command import invoke
from tests.models import scale_model
from tests.packs import write_pack

import paritygate
from paritygate.diagnosis.sample import describe_value
from paritygate_frontends.cli.demonstration import copy_demo


@pytest.fixture(scope="module")
def cancer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = copy_demo(tmp_path_factory.mktemp("demo"))
    result = paritygate.run(folder / "cancer.toml", out=folder / "runs")
    assert result.folder is not None
    return result.folder


def steps(ref: np.float32, cand: np.float32) -> int:
    """ULP distance of two float32 of one sign, by their bits."""
    return abs(int(ref.view(np.int32)) - int(cand.view(np.int32)))


def test_every_failing_sample_of_the_demo_says_what_arithmetic_says(cancer: Path) -> None:
    shard = pa.ipc.open_file(cancer / "failures" / "quantization-00000.arrow").read_all()
    assert shard.num_rows
    for row in shard.to_pylist():
        found = paritygate.explain(cancer, row["sample_id"])
        assert found["status"] == "failed"
        (failure,) = found["failures"]
        worst = failure["outputs"]["score"]["worst"]
        ref, cand = np.float32(row["ref.score"][0]), np.float32(row["cand.score"][0])
        error = abs(float(cand) - float(ref))
        allowed = 0.01 + 0.01 * abs(float(ref))
        assert (worst["error"], worst["allowed"]) == (error, allowed)
        assert worst["excess"] == error / allowed == row["excess"]
        assert worst["ulp"] == steps(ref, cand)
        assert float.fromhex(worst["reference"]["hex"]) == float(ref)
        assert np.float32(worst["candidate"]["text"]) == cand
        assert failure["rules"] == row["rules"]
        assert failure["outputs"]["score"]["rules"] == ["tolerance.exceeded"]
        decision = failure["decisions"]["disposition"]
        assert decision["ref"] == row["decision.disposition.ref"]
        assert decision["flipped"] == (decision["ref"] != decision["cand"])
        assert worst["magnitude"]["precision"] == "int8"
        assert worst["magnitude"]["scale"] >= abs(float(ref))
        assert shlex.split(failure["replay"])[-1] == row["sample_id"]


def test_both_models_are_named_by_their_digests(cancer: Path) -> None:
    summary = json.loads((cancer / "summary.json").read_text())
    found = paritygate.explain(cancer, "wdbc-068")["failures"][0]
    for side, name in (("reference", "float"), ("candidate", "int8")):
        assert found[side]["digest"] == summary["runners"][name]["model"]["digest"]
        assert found[side]["runner"] == name
    assert found["candidate"]["precision"]["arithmetic"] == "int8"
    assert "passed in stage conversion" in paritygate.explain(cancer, "wdbc-068")["says"]


def test_the_reasons_have_their_worst_samples_first(cancer: Path) -> None:
    shard = pa.ipc.open_file(cancer / "failures" / "quantization-00000.arrow").read_all()
    rows = shard.to_pylist()
    by_code = {r["code"]: r for r in paritygate.explain(cancer)["reasons"]}
    by_excess = sorted(rows, key=lambda r: -r["excess"])
    told = [s["id"] for s in by_code["tolerance.exceeded"]["worst"]]
    assert told == [r["sample_id"] for r in by_excess[:3]]
    flips = [r for r in rows if "decision.flip" in r["rules"]]
    flips.sort(key=lambda r: -r["decision.disposition.margin"])
    told = [s["id"] for s in by_code["decision.flip"]["worst"]]
    assert told == [r["sample_id"] for r in flips[:3]]
    assert shlex.split(by_code["decision.flip"]["explain"])[-1] == told[0]


def test_each_output_has_worst_samples_of_its_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    large = rng.normal(size=(30, 4)).astype(np.float32)
    ref = {"large": large, "small": np.arange(30, dtype=np.float32) / 1000}
    cand = {"large": large + 9, "small": np.zeros(30, np.float32)}
    texts = {"ref": pa.array(["a"] * 30), "cand": pa.array(["a"] * 20 + ["b"] * 10)}
    for side, outputs in (("ref", ref), ("cand", cand)):
        columns = {"out.text": texts[side]}
        write_pack(tmp_path / f"{side}.arrow", np.arange(30), outputs=outputs, columns=columns)
    packs = tmp_path / "ref.arrow", tmp_path / "cand.arrow"
    result = paritygate.compare(*packs, atol=1e-4, rtol=0, out=tmp_path / "runs")
    assert result.folder is not None
    by_output = {r["output"]: r["worst"] for r in paritygate.explain(result.folder)["reasons"]}
    assert [(w["id"], w["output"]) for w in by_output["small"]] == [
        (29, "small"),
        (28, "small"),
        (27, "small"),
    ]
    assert by_output["small"][0]["ref_value"] == float(np.float32(0.029))
    assert by_output["small"][0]["abs_error"] == float(np.float32(0.029))
    assert {w["output"] for w in by_output["large"]} == {"large"}
    assert [w["id"] for w in by_output["text"]] == [20, 21, 22]


def test_a_transposed_output_is_told(tmp_path: Path) -> None:
    ref = square(tmp_path / "a.onnx", transposed=False)
    cand = square(tmp_path / "b.onnx", transposed=True)
    result = run_pair(tmp_path, ref, cand)
    found = paritygate.explain(result.folder, ids()[0])["failures"][0]
    (pattern,) = found["outputs"]["y"]["patterns"]
    assert pattern["kind"] == "transposed"
    assert pattern["samples"] == pattern["of"] == 16
    assert "layout" in found["next"][0]
    place = found["outputs"]["y"]["worst"]["place"]
    x = inputs()[0]
    expected = x[:, None] * (x * np.arange(1, 5, dtype=np.float32))[None, :]
    shown = found["outputs"]["y"]["worst"]["reference"]["value"]
    np.testing.assert_allclose(shown, expected[tuple(place)], rtol=1e-6)


def test_a_permuted_class_list_is_told(tmp_path: Path) -> None:
    result = run_pair(tmp_path, *classifiers(tmp_path, [1, 2, 0, 3, 4]))
    found = paritygate.explain(result.folder, ids()[3])["failures"][0]
    (pattern,) = found["outputs"]["probabilities"]["patterns"]
    assert pattern["kind"] == "permuted"
    assert "0 is its 2" in pattern["says"]
    assert "class lists" in found["next"][0]
    assert any("evaluation mode" in line for line in found["next"])


def test_a_scale_is_told_and_equal_precision_is_judged_strictly(tmp_path: Path) -> None:
    ref, cand = scale_model(tmp_path / "a.onnx"), scale_model(tmp_path / "b.onnx", 1.5)
    result = run_pair(tmp_path, str(ref), str(cand))
    found = paritygate.explain(result.folder, ids()[0])["failures"][0]["outputs"]["y"]
    assert found["patterns"][0]["kind"] == "scale"
    assert "1.5" in found["patterns"][0]["says"]
    assert (found["worst"]["magnitude"]["precision"], found["worst"]["magnitude"]["level"]) == (
        "float32",
        "bug",
    )


def test_a_truncated_shard_knows_the_id_alone(tmp_path: Path) -> None:
    ref, cand = scale_model(tmp_path / "a.onnx"), scale_model(tmp_path / "b.onnx", 1.5)
    result = run_pair(tmp_path, str(ref), str(cand), max_failures=2)
    found = [paritygate.explain(result.folder, i) for i in ids()]
    assert {f["status"] for f in found} == {"failed"}
    whole = [f for f in found if f["failures"][0]["is_kept"]]
    assert len(whole) == 2
    cut = next(f for f in found if not f["failures"][0]["is_kept"])
    assert cut["failures"][0]["rules"] == ["tolerance.exceeded"]
    assert cut["failures"][0]["outputs"] == {}


def one_off(folder: Path, sample_ids: Any, **plan: Any) -> paritygate.RunResult:
    """Recordings that differ in the third sample."""
    y = np.arange(len(sample_ids), dtype=np.float32)
    write_pack(folder / "golden.arrow", sample_ids, {"x": y}, {"y": y})
    off = y.copy()
    off[2] += 1
    write_pack(folder / "cand.arrow", sample_ids, outputs={"y": off})
    cand = {"kind": "recorded", "path": str(folder / "cand.arrow")}
    return run_pair(folder, {"kind": "recorded"}, cand, **plan)


def test_numbers_are_ids_as_text_too(tmp_path: Path) -> None:
    result = one_off(tmp_path, np.array([-5, 10, 12, 7]))
    for given in (12, "12"):
        found = paritygate.explain(result.folder, given)
        assert (found["status"], found["id"]) == ("failed", 12)
    assert paritygate.explain(result.folder, "-5")["status"] == "passed"
    assert paritygate.explain(result.folder, "13")["status"] == "absent"
    assert paritygate.explain(result.folder, "9" * 30)["status"] == "absent"
    assert paritygate.explain(result.folder, "x")["status"] == "absent"


def test_texts_of_digits_are_texts(tmp_path: Path) -> None:
    result = one_off(tmp_path, ["01", "1", "007", "-2"])
    assert paritygate.explain(result.folder, "007")["id"] == "007"
    assert paritygate.explain(result.folder, "1")["status"] == "passed"
    assert paritygate.explain(result.folder, "7")["status"] == "absent"
    assert paritygate.explain(result.folder, 7)["status"] == "absent"


def test_samples_that_were_not_run_or_rejected(tmp_path: Path) -> None:
    one_off(tmp_path, ["a", "b", "c", "d"])
    x = {"x": {"dtype": "float32", "shape": ["batch"], "range": [0.0, 0.5]}}
    rejecting = one_off(tmp_path, ["a", "b", "c", "d"], inputs=x)
    found = paritygate.explain(rejecting.folder, "d")
    assert found["status"] == "rejected"
    assert "3.0" in found["says"]
    plan = paritygate.load_plan(rejecting.folder / "plan.toml", overrides=["inputs={}"])
    limited = paritygate.run(plan, limit=2, out=tmp_path / "limited")
    assert limited.folder is not None
    assert paritygate.explain(limited.folder, "b")["status"] == "passed"
    assert paritygate.explain(limited.folder, "c")["status"] == "not_run"


def test_a_golden_pack_that_is_gone_or_changed_leaves_it_open(tmp_path: Path) -> None:
    result = one_off(tmp_path, ["a", "b", "c", "d"])
    write_pack(tmp_path / "golden.arrow", ["a", "b", "c", "x"], outputs={"y": np.ones(4)})
    found = paritygate.explain(result.folder, "x")
    assert (found["status"], "has changed" in found["says"]) == ("unknown", True)
    (tmp_path / "golden.arrow").unlink()
    found = paritygate.explain(result.folder, "a")
    assert (found["status"], "can't be read" in found["says"]) == ("unknown", True)
    assert paritygate.explain(result.folder, "c")["status"] == "failed"


def test_samples_without_an_answer_and_shapes_that_differ(tmp_path: Path) -> None:
    write_pack(tmp_path / "golden.arrow", [1, 2, 3], outputs={"y": np.ones((3, 2), np.float32)})
    write_pack(tmp_path / "c.arrow", [1, 2], outputs={"y": np.ones((2, 2, 1), np.float32)})
    cand = {"kind": "recorded", "path": str(tmp_path / "c.arrow")}
    result = run_pair(tmp_path, {"kind": "recorded"}, cand)
    found = paritygate.explain(result.folder, 3)["failures"][0]
    assert found["rules"] == ["sample.missing"]
    assert found["outputs"]["y"]["candidate"] is None
    assert any("lacks this sample" in line for line in found["next"])
    found = paritygate.explain(result.folder, 1)["failures"][0]
    assert found["rules"] == ["shape.mismatch"]
    assert found["outputs"]["y"]["reference"] == "float32[2]"
    assert found["outputs"]["y"]["candidate"] == "float32[2, 1]"


def test_every_kind_of_value_is_told_whole(tmp_path: Path) -> None:
    """What a shard can't hold in this version isn't asked for."""
    ref = {
        "float16": np.array([0.1, 2.0], np.float16),
        "int64": np.array([2**60, 7], np.int64),
        "bool": np.array([True, False]),
        "text": np.array(["cat", "dog\x1b"], object),
    }
    cand = {
        "float16": np.array([0.2, 2.0], np.float16),
        "int64": np.array([2**60 + 1, 7], np.int64),
        "bool": np.array([False, False]),
        "text": np.array(["cow", "dog\x1b"], object),
    }
    for name, array in ref.items():
        shown = [describe_value(side[name], 0) for side in (ref, cand)]
        assert shown[0]["dtype"] == ("string" if name == "text" else name)
        assert shown[0]["value"] == array[0]
        assert shown[0]["text"] != shown[1]["text"]
    y = {name: array for name, array in ref.items() if name in ("int64", "bool")}
    write_pack(tmp_path / "golden.arrow", [1, 2], outputs=y)
    write_pack(tmp_path / "c.arrow", [1, 2], outputs={name: cand[name] for name in y})
    result = run_pair(
        tmp_path, {"kind": "recorded"}, {"kind": "recorded", "path": str(tmp_path / "c.arrow")}
    )
    found = paritygate.explain(result.folder or "", 1)["failures"][0]["outputs"]
    assert found["int64"]["worst"]["error"] == 1
    assert found["int64"]["worst"]["candidate"]["value"] == 2**60 + 1
    assert found["int64"]["worst"]["magnitude"] is None
    assert found["bool"]["worst"]["reference"]["text"] == "true"
    again = paritygate.replay(result.folder or "", out=tmp_path / "again")
    assert [s["outcome"] for s in again.summary["replay"]["samples"]] == ["bitwise"]


def test_a_sample_of_another_size_is_told_with_its_sizes(tmp_path: Path) -> None:
    rows = pa.array([[1.0] * n for n in (2, 3, 9)], pa.list_(pa.float32()))
    write_pack(tmp_path / "golden.arrow", ["a", "b", "c"], columns={"in.x": rows})
    echo = {"kind": "null", "echo": {"y": "x"}}
    dims = {"inputs": {"x": {"shape": ["batch", "seq"]}}, "dims": {"seq": {"min": 1, "max": 8}}}
    result = run_pair(tmp_path, echo, echo, **dims)
    says = paritygate.explain(result.folder, "c")["says"]
    assert "dim 0 of a sample of input 'x' is 9; allowed is 1 to 8 (contract.shape)" in says


@pytest.mark.parametrize("shape", [(2,), (), (5,), (2, 2), (3, 4)])
def test_samples_of_other_shapes_are_explained(tmp_path: Path, shape: tuple[int, ...]) -> None:
    (tmp_path / "functions.py").write_text(
        "import numpy as np\n"
        "def ref(d):\n    return {'y': d['x'] + 0}\n"
        f"def cand(d):\n    return {{'y': np.full((len(d['x']), *{shape!r}), 7, 'float32')}}\n"
    )
    sides = ({"call": f"functions:{name}", "folder": str(tmp_path)} for name in ("ref", "cand"))
    result = run_pair(tmp_path, *sides)
    assert [reason.code for reason in result.reasons] == ["shape.mismatch"]
    (failure,) = paritygate.explain(result.folder or "", "s003")["failures"]
    assert failure["rules"] == ["shape.mismatch"]
    assert failure["outputs"]["y"]["candidate"] == f"float32[{', '.join(map(str, shape))}]"


def test_what_was_not_decided_is_said_to_be_neither_kept_nor_flipped(tmp_path: Path) -> None:
    (tmp_path / "functions.py").write_text(
        "def ref(d):\n    return {'y': d['x'] + 0}\n"
        "def cand(d):\n    if d['x'][0, 0] > 0:\n        raise ValueError('too large')\n"
        "    return {'y': -d['x']}\n"
    )
    sides = (
        {"call": f"functions:{name}", "folder": str(tmp_path), "batch_size": 1}
        for name in ("ref", "cand")
    )
    decisions = {"class": {"output": "y", "argmax": True}}
    result = run_pair(tmp_path, *sides, decisions=decisions)
    raised = inputs()[:, 0] > 0
    for name, has_raised in zip(ids(), raised.tolist(), strict=True):
        (failure,) = paritygate.explain(result.folder or "", name)["failures"]
        told = failure["decisions"]["class"]
        assert ((told["ref"], told["cand"], told["margin"]) == (None,) * 3) is has_raised
        assert told["flipped"] is not has_raised
        report = invoke("explain", result.folder or "", name).stdout
        assert ("decision class: not decided" in report) is has_raised
        assert ("decision class flipped: " in report) is not has_raised
