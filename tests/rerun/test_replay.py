"""`replay` on real runs: bit for bit, by rule, or not; and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.diagnosis.runs import TOLERANCE, classifiers, ids, inputs, run_pair, square
from tests.models import add_constant, linear_softmax, scale_model
from tests.packs import write_pack
from tests.rerun.models import coupled_run, failing, neighbours_of_outliers

import paritygate
from paritygate.core.errors import GoldenError, ParityError, ReplayError
from paritygate_frontends.cli.demonstration import copy_demo


def outcomes(result: paritygate.RunResult) -> dict[Any, str]:
    return {s["id"]: s["outcome"] for s in result.summary["replay"]["samples"]}


@pytest.fixture
def coupled(tmp_path: Path) -> Path:
    return coupled_run(tmp_path)


def test_batch_coupled_samples_come_out_in_their_own_batches_only(coupled: Path) -> None:
    neighbours = neighbours_of_outliers(coupled)[::3]
    alone = [
        outcomes(paritygate.replay(coupled, [i], out=coupled.parent / "again"))[i]
        for i in neighbours
    ]
    assert set(alone) == {"not_reproduced"}
    beside = paritygate.replay(coupled, with_batch=True, out=coupled.parent / "again")
    assert set(outcomes(beside).values()) == {"bitwise"}
    assert list(outcomes(beside)) == failing(coupled)
    assert beside.verdict == "hold"
    one = paritygate.replay(coupled, neighbours[:1], with_batch=True, out=coupled.parent / "b")
    assert outcomes(one) == {neighbours[0]: "bitwise"}
    assert one.summary["stages"][0]["samples"]["compared"] == 1


def test_what_is_not_reproduced_says_both_values(coupled: Path) -> None:
    name = neighbours_of_outliers(coupled)[0]
    result = paritygate.replay(coupled, [name], out=coupled.parent / "again")
    assert (result.verdict, result.exit_code) == ("incomplete", 3)
    (sample,) = result.summary["replay"]["samples"]
    shard = pa.ipc.open_file(coupled / "failures" / "only-00000.arrow").read_all()
    row = next(r for r in shard.to_pylist() if r["sample_id"] == name)
    assert sample["rules_then"] == row["rules"]
    assert sample["rules_now"] == []
    worst = sample["worst"]
    assert worst["candidate_then"]["value"] == row["cand_value"]
    assert worst["candidate_now"]["value"] != row["cand_value"]
    assert worst["reference_now"] == worst["reference_then"]
    for key in ("candidate_then", "candidate_now"):
        assert worst[key]["text"] in sample["says"]
    assert sample["differs"] == ["cand.y"]


@pytest.mark.slow
@pytest.mark.parametrize(("threads", "with_batch"), [(1, False), (3, False), (1, True), (3, True)])
@pytest.mark.parametrize("plan", ["cancer", "digits"])
def test_the_demo_is_reproduced_bit_for_bit(
    tmp_path: Path, plan: str, threads: int, with_batch: bool
) -> None:
    folder = copy_demo(tmp_path / "demo")
    first = paritygate.run(folder / f"{plan}.toml", out=tmp_path / "runs")
    again = paritygate.replay(
        first.folder or "", with_batch=with_batch, threads=threads, out=tmp_path / "again"
    )
    assert again.verdict == "hold"
    found = outcomes(again)
    assert list(found) == failing(first.folder, "quantization")
    assert set(found.values()) == {"bitwise"}
    assert {r.code for r in again.reasons} == {r.code for r in first.reasons}
    assert again.folder is not None
    assert failing(again.folder, "quantization") == list(found)
    name = next(iter(found))
    told = [paritygate.explain(f or "", name)["failures"][0] for f in (first.folder, again.folder)]
    assert told[0]["outputs"] == told[1]["outputs"]
    assert told[0]["row"] == told[1]["row"]
    assert paritygate.explain(again.folder, "nobody")["status"] == "not_run"


def test_layouts_and_class_orders_are_reproduced(tmp_path: Path) -> None:
    for number, pair in enumerate(
        (
            (
                square(tmp_path / "a.onnx", transposed=False),
                square(tmp_path / "b.onnx", transposed=True),
            ),
            classifiers(tmp_path, [1, 0, 2]),
        )
    ):
        first = run_pair(tmp_path, *pair)
        again = paritygate.replay(first.folder or "", ids()[3:6], out=tmp_path / f"r{number}")
        assert outcomes(again) == dict.fromkeys(ids()[3:6], "bitwise")


def test_a_changed_model_is_told_and_refused(tmp_path: Path) -> None:
    ref, cand = scale_model(tmp_path / "a.onnx"), scale_model(tmp_path / "b.onnx", 1.5)
    first = run_pair(tmp_path, str(ref), str(cand))
    scale_model(cand, 1.0 + 2e-7)
    with pytest.raises(ReplayError, match="'cand' was") as refused:
        paritygate.replay(first.folder or "", out=tmp_path / "again")
    assert first.summary["runners"]["cand"]["model"]["digest"] in str(refused.value)
    assert not (tmp_path / "again").exists()
    mended = paritygate.replay(first.folder or "", changed=True, out=tmp_path / "again")
    assert (mended.verdict, mended.exit_code) == ("incomplete", 3)
    assert set(outcomes(mended).values()) == {"not_reproduced"}
    assert "'cand' was" in mended.summary["replay"]["changed"][0]
    scale_model(cand, 1.25)
    other = paritygate.replay(first.folder or "", changed=True, out=tmp_path / "again")
    assert other.verdict == "hold"
    assert set(outcomes(other).values()) == {"same_rules"}
    assert "cand.y differ in their bits" in other.summary["replay"]["samples"][0]["says"]


def test_recorded_sides_come_from_the_shard(tmp_path: Path) -> None:
    write_pack(tmp_path / "golden.arrow", ids(), {"x": inputs()}, {"y": inputs()})
    cand = scale_model(tmp_path / "b.onnx", 1.5)
    first = run_pair(tmp_path, {"kind": "recorded"}, str(cand))
    (tmp_path / "golden.arrow").unlink()
    again = paritygate.replay(first.folder or "", out=tmp_path / "again")
    assert set(outcomes(again).values()) == {"bitwise"}
    with pytest.raises(ReplayError, match=r"golden\.arrow: can't be read"):
        paritygate.replay(first.folder or "", with_batch=True, out=tmp_path / "again")


def test_two_recordings_one_of_which_lacks_samples(tmp_path: Path) -> None:
    y = np.arange(6, dtype=np.float32)
    write_pack(tmp_path / "a.arrow", [5, 4, 3, 2, 1, -9], outputs={"y": y})
    write_pack(tmp_path / "b.arrow", [1, 2, 3, 4], outputs={"y": y[[4, 3, 1, 1]]})
    first = paritygate.compare(tmp_path / "a.arrow", tmp_path / "b.arrow", out=tmp_path / "runs")
    assert {r.code for r in first.reasons} == {"sample.missing", "tolerance.exceeded"}
    again = paritygate.replay(first.folder or "", out=tmp_path / "again")
    assert outcomes(again) == dict.fromkeys([5, 3, -9], "bitwise")
    assert {r.code for r in again.reasons} == {"sample.missing", "tolerance.exceeded"}
    lost = paritygate.replay(first.folder or "", ["-9"], out=tmp_path / "again")
    assert outcomes(lost) == {-9: "bitwise"}


def test_functions_that_raise_raise_again(tmp_path: Path) -> None:
    write_pack(tmp_path / "golden.arrow", ids(), {"x": inputs()})
    (tmp_path / "functions.py").write_text(
        "def ref(d):\n    return {'y': d['x'] + 0}\n"
        "def cand(d):\n"
        "    if (d['x'][:, 0] > 1.5).any():\n        raise ValueError('too large')\n"
        "    return {'y': d['x'] * 1}\n"
    )
    plan = {
        "name": "raising",
        "golden": "golden.arrow",
        "runners": {
            "ref": {"kind": "python", "call": "functions:ref", "batch_size": 1},
            "cand": {"kind": "python", "call": "functions:cand", "batch_size": 1},
        },
        "stages": [
            {
                "name": "only",
                "reference": "ref",
                "candidate": "cand",
                "default": {"atol": 0.0, "rtol": 0.0},
            }
        ],
    }
    first = paritygate.run(paritygate.load_plan(plan, folder=tmp_path), out=tmp_path / "runs")
    assert {r.code for r in first.reasons} == {"runner.disagreement"}
    again = paritygate.replay(first.folder or "", out=tmp_path / "again")
    assert set(outcomes(again).values()) == {"bitwise"}
    assert {r.code for r in again.reasons} == {"runner.disagreement", "evidence.empty"}


@pytest.mark.parametrize("with_batch", [False, True])
def test_runners_are_not_held_against_themselves_again(tmp_path: Path, with_batch: bool) -> None:
    write_pack(tmp_path / "golden.arrow", ids(), {"x": inputs()})
    (tmp_path / "by.txt").write_text("1")
    (tmp_path / "functions.py").write_text(
        "def ref(d):\n    return {'y': d['x'] + d['x'].dtype.type(1e-3 * len(d['x']))}\n"
        "from pathlib import Path\n"
        f"def cand(d):\n    by = float(Path({str(tmp_path / 'by.txt')!r}).read_text())\n"
        "    return {'y': d['x'] + d['x'].dtype.type(by * (d['x'][:, :1] > 1.5))}\n"
    )
    plan = {
        "name": "coupled",
        "golden": "golden.arrow",
        "runners": {"ref": "functions:ref", "cand": "functions:cand"},
        "dims": {"batch": {"sizes": [1, 4]}},
        "batch_coupling": {"ref": {"y": {"atol": 0.01, "rtol": 0.0}}},
        "stages": [
            {
                "name": "only",
                "reference": "ref",
                "candidate": "cand",
                "default": {"atol": 0.5, "rtol": 0.0},
            }
        ],
    }
    first = paritygate.run(paritygate.load_plan(plan, folder=tmp_path), out=tmp_path / "runs")
    assert {r.code for r in first.reasons} == {"tolerance.exceeded"}
    (tmp_path / "by.txt").write_text("0")
    again = paritygate.replay(first.folder or "", with_batch=with_batch, out=tmp_path / "again")
    assert (again.verdict, {r.code for r in again.reasons}) == ("incomplete", {"evidence.partial"})


def test_constants_of_another_stage_are_left_out(tmp_path: Path) -> None:
    scale_model(tmp_path / "a.onnx")
    scale_model(tmp_path / "b.onnx", 1.5)
    add_constant(tmp_path / "c.onnx")
    result = run_pair(
        tmp_path,
        str(tmp_path / "a.onnx"),
        str(tmp_path / "b.onnx"),
        runners={n: str(tmp_path / f"{n}.onnx") for n in "abc"},
        constants={"c": {"dtype": "float32", "value": 0.5}},
        stages=[
            {"name": c, "reference": "a", "candidate": c, "default": {"atol": 1e-3, "rtol": 0.0}}
            for c in "bc"
        ],
    )
    for with_batch in (False, True):
        again = paritygate.replay(result.folder or "", with_batch=with_batch, out=tmp_path / "r")
        found = again.summary["replay"]
        assert found["outcomes"] == {
            "bitwise": len(found["samples"]),
            "same_rules": 0,
            "not_reproduced": 0,
        }
        assert {s["stage"] for s in found["samples"]} == {"b", "c"}
        assert [s["name"] for s in again.summary["stages"]] == ["b", "c"]


def test_what_cannot_be_replayed_says_why(tmp_path: Path) -> None:
    ref, cand = scale_model(tmp_path / "a.onnx"), scale_model(tmp_path / "b.onnx", 1.5)
    first = run_pair(tmp_path, str(ref), str(cand), max_failures=2)
    folder = first.folder
    assert folder is not None
    cut = next(i for i in ids() if i not in failing(folder))
    with pytest.raises(ReplayError, match=f"{cut} failed, but its values were not kept; x failed"):
        paritygate.replay(folder, [cut, "x"], out=tmp_path / "r")
    write_pack(tmp_path / "golden.arrow", ids(), {"x": inputs() + 1})
    with pytest.raises(ReplayError, match="has changed since"):
        paritygate.replay(folder, with_batch=True, out=tmp_path / "r")
    again = paritygate.replay(folder, out=tmp_path / "r")
    with pytest.raises(ReplayError, match="is a replay itself"):
        paritygate.replay(again.folder or "", with_batch=True, out=tmp_path / "r")
    assert set(outcomes(paritygate.replay(again.folder or "", out=tmp_path / "r")).values()) == {
        "bitwise"
    }
    shard = folder / "failures" / "only-00000.arrow"
    shard.write_bytes(shard.read_bytes()[:-100])
    with pytest.raises(GoldenError, match="only-00000"):
        paritygate.replay(folder, out=tmp_path / "r")


def test_a_release_and_function_objects(tmp_path: Path) -> None:
    x = {"x": inputs()}
    held = paritygate.verify(
        lambda d: {"y": d["x"]}, lambda d: {"y": d["x"] + 1}, x, atol=0, rtol=0, out=tmp_path / "v"
    )
    with pytest.raises(ReplayError, match="called verify"):
        paritygate.replay(held.folder or "", out=tmp_path / "r")
    ref, cand = scale_model(tmp_path / "a.onnx"), scale_model(tmp_path / "b.onnx", 1.0 + 1e-7)
    released = run_pair(tmp_path, str(ref), str(cand))
    assert released.verdict == "release"
    with pytest.raises(ReplayError, match="nothing to run again"):
        paritygate.replay(released.folder or "", out=tmp_path / "r")


@pytest.mark.parametrize("fields", [{"golden": {}}, {"stages": [{}]}])
def test_hostile_summaries_are_told_in_a_sentence(tmp_path: Path, fields: dict[str, Any]) -> None:
    ref, cand = scale_model(tmp_path / "a.onnx"), scale_model(tmp_path / "b.onnx", 1.5)
    folder = run_pair(tmp_path, str(ref), str(cand)).folder
    assert folder is not None
    path = folder / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
    with pytest.raises(ParityError):
        paritygate.replay(folder, with_batch=True, out=tmp_path / "r")
    assert not list((tmp_path / "r").glob("*"))


def test_external_weights_are_part_of_the_model(tmp_path: Path) -> None:
    from tests.models import external_data_model

    rng = np.random.default_rng(4)
    for name in "ab":
        (tmp_path / name).mkdir()
        weight = rng.standard_normal((4, 4)).astype(np.float32)
        external_data_model(tmp_path / name / "m.onnx", weight)
    first = run_pair(tmp_path, str(tmp_path / "a" / "m.onnx"), str(tmp_path / "b" / "m.onnx"))
    weights = tmp_path / "b" / "weights.bin"
    weights.write_bytes(weights.read_bytes()[::-1])
    with pytest.raises(ReplayError, match="'cand' was"):
        paritygate.replay(first.folder or "", out=tmp_path / "again")


def test_declared_outputs_are_seen_as_the_plan_says_and_never_twice(tmp_path: Path) -> None:
    weight = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
    models = [
        str(linear_softmax(tmp_path / f"{n}.onnx", weight * f)) for n, f in (("a", 1), ("b", 1.5))
    ]
    probabilities = np.exp(inputs() @ weight)
    probabilities /= probabilities.sum(1, keepdims=True)
    write_pack(tmp_path / "golden.arrow", ids(), {"x": inputs()}, {"all": probabilities})
    view = {"from": "probabilities", "select": [2, 0]}
    stages = [
        {"name": f"{ref}-{cand}", "reference": ref, "candidate": cand, "default": TOLERANCE}
        for ref, cand in (("a", "b"), ("kept", "b"))
    ]
    first = run_pair(
        tmp_path,
        *models,
        runners={
            "a": {"model": models[0], "outputs": {"score": view}},
            "b": {"model": models[1], "outputs": {"score": view}},
            "kept": {
                "kind": "recorded",
                "outputs": {"score": {"from": "all", "select": [2, 0]}},
            },
        },
        stages=stages,
        decisions={"best": {"output": "score", "argmax": True}},
    )
    for with_batch in (False, True):
        again = paritygate.replay(first.folder or "", with_batch=with_batch, out=tmp_path / "r")
        found = again.summary["replay"]["samples"]
        assert {s["stage"] for s in found} == {"a-b", "kept-b"}
        assert {s["outcome"] for s in found} == {"bitwise"}
    told = paritygate.explain(first.folder or "", found[0]["id"])["failures"][0]
    assert told["outputs"]["score"]["reference"] == "float32[2]"
    assert set(told["decisions"]["best"]) >= {"ref", "cand", "margin", "flipped"}
