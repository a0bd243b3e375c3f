"""What can't be a row of a pack, tried against the contract and against real runners."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from onnx import TensorProto, helper
from tests.frontends.command import invoke
from tests.models import save_model, scale_model
from tests.packs import write_pack

import paritygate

X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(6, 4)
RULE = {"atol": 1e-6, "rtol": 0.0}
CONTRACT = {"x": {"dtype": "float32", "shape": ["batch", 4]}}


def make(folder: Path, probes: dict[str, Any] | None = None, **plan: Any) -> dict[str, Any]:
    write_pack(folder / "g.arrow", range(6), {"x": X})
    scale_model(folder / "a.onnx", 1.0)
    scale_model(folder / "b.onnx", 1.0)
    return {
        "golden": "g.arrow",
        "runners": {"a": "a.onnx", "b": {"model": "b.onnx", "intra_op_num_threads": 2}},
        "stages": [{"reference": "a", "candidate": "b", "outputs": {"y": RULE}}],
        "probes": probes or {},
        **plan,
    }


def run(folder: Path, plan: dict[str, Any]) -> Any:
    return paritygate.run(paritygate.load_plan(plan, folder=folder), out=None)


def told(result: Any) -> dict[str, dict[str, str]]:
    """Probe -> contract and runners -> what became of it."""
    return {
        f"{r['probe']} {r['what']}": {
            "contract": r["contract"]["outcome"],
            **{name: tried["outcome"] for name, tried in r["runners"].items()},
        }
        for r in result.summary["probes"]["results"]
    }


def test_a_contract_refuses_every_probe_and_runners_are_reported(tmp_path: Path) -> None:
    plan = make(tmp_path, inputs=CONTRACT, dims={"batch": {"sizes": [1, 3]}})
    result = run(tmp_path, plan)
    assert result.verdict == "release", result.explain()
    found = told(result)
    assert {f.split()[0] for f in found} == {
        "batch_zero",
        "batch_over",
        "rank",
        "dtype",
        "name",
        "missing",
        "dim_over",
        "dim_zero",
    }
    assert {tuple(f) for f in found.values()} == {("contract", "a", "b")}
    assert {f["contract"] for f in found.values()} == {"refused"}
    by_name = {name.split()[0]: f["a"] for name, f in found.items()}
    assert by_name == {
        "batch_zero": "accepted",  # of 0 samples it makes 0 answers
        "batch_over": "accepted",
        "rank": "refused",
        "dtype": "refused",
        "name": "refused",
        "missing": "refused",
        "dim_over": "refused",
        "dim_zero": "refused",
    }
    results = {r["probe"]: r for r in result.summary["probes"]["results"]}
    assert "INVALID_ARGUMENT" in results["rank"]["runners"]["a"]["text"]
    assert results["batch_over"]["what"] == "a batch of 4 samples, one more than is approved"
    assert "y tensor(float)[4, 4]" in results["batch_over"]["runners"]["a"]["text"]
    assert any("a batch of 0 samples: a took it" in text for text in result.not_judged)


def test_a_runner_that_takes_what_it_must_refuse_holds(tmp_path: Path) -> None:
    probes = {"refuse": ["batch_over", "rank"]}
    plan = make(tmp_path, probes, inputs=CONTRACT, dims={"batch": {"sizes": [1, 3]}})
    result = run(tmp_path, plan)
    assert [r.code for r in result.reasons] == ["runner.probe", "runner.probe"]
    assert "runner 'a', probe batch_over" in result.reasons[0].message
    assert "took it, where the plan expects a refusal" in result.reasons[0].message
    assert result.summary["stages"][0]["verdict"] == "hold"


FUNCTIONS = """
import ctypes, os, time
import numpy as np
def same(inputs):
    return {"y": np.asarray(inputs["x"], np.float32)}
def other(inputs):
    if len(inputs["x"]) == 0:
        ctypes.string_at(0)
    if inputs["x"].dtype == np.float64:
        os._exit(0)
    if inputs["x"].ndim == 3:
        time.sleep(60)
    return {"y": inputs["x"] * np.float32(1)}
"""


def functions(folder: Path, **plan: Any) -> dict[str, Any]:
    made = make(folder, {"timeout_s": 2.0}, **plan)
    (folder / "f.py").write_text(FUNCTIONS)
    return {**made, "runners": {"a": "f:same", "b": "f:other"}}


@pytest.mark.slow
def test_a_runner_may_crash_or_hang_and_the_run_goes_on(tmp_path: Path) -> None:
    result = run(tmp_path, functions(tmp_path, inputs=CONTRACT))
    assert result.verdict == "release", result.explain()
    results = {r["probe"]: r["runners"] for r in result.summary["probes"]["results"]}
    assert results["batch_zero"]["b"]["outcome"] == "crashed"
    assert "SIGSEGV" in results["batch_zero"]["b"]["text"]
    assert results["dtype"]["b"] == {
        "outcome": "crashed",
        "text": "its process was ended with status 0, as by exit",
    }
    assert results["rank"]["b"]["outcome"] == "late"
    assert results["missing"]["b"] == {"outcome": "refused", "text": "KeyError: 'x'"}
    assert results["dim_over"]["b"]["outcome"] == "accepted"
    assert result.summary["probes"]["left_out"] == {
        "batch_over": "neither the plan ([dims] batch) nor a model bounds the batch"
    }


def test_a_contract_that_says_nothing_holds(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        functions(tmp_path)
        | {
            "runners": {"a": "f:same", "b": "f:same"},
            "stages": [{"reference": "a", "candidate": "b", "outputs": {"y": RULE}, "self": True}],
        },
    )
    assert {r.code for r in result.reasons} == {"contract.probe"}
    found = {r.message.split(":")[0] for r in result.reasons}
    assert found == {
        f"probe {n}" for n in ("rank", "dtype", "name", "missing", "dim_over", "dim_zero")
    }
    assert all(s["verdict"] == "hold" for s in result.summary["stages"])


def test_what_the_models_declare_is_part_of_the_contract(tmp_path: Path) -> None:
    result = run(tmp_path, make(tmp_path))
    assert result.verdict == "release", result.explain()
    by_name = {r["probe"]: r["contract"]["text"] for r in result.summary["probes"]["results"]}
    assert by_name["dtype"] == "a takes x: float32[batch, 4], which isn't float64[4] a sample"


def test_dims_that_have_names_are_tried_past_their_bounds(tmp_path: Path) -> None:
    save_model(
        tmp_path / "m.onnx",
        [
            helper.make_node("Add", ["x", "w"], ["s"]),
            helper.make_node("ReduceSum", ["s", "axis"], ["y"], keepdims=0),
        ],
        {"x": (TensorProto.FLOAT, ["b", "s"]), "w": (TensorProto.FLOAT, ["b", "s"])},
        {"y": (TensorProto.FLOAT, ["b"])},
        {"axis": np.array([1])},
    )
    column = pa.array([[1.0] * (1 + i % 3) for i in range(6)], pa.list_(pa.float32()))
    write_pack(tmp_path / "g.arrow", range(6), columns={"in.x": column, "in.w": column})
    shape = {"shape": ["batch", "seq"]}
    plan = {
        "golden": "g.arrow",
        "runners": {"a": "m.onnx"},
        "stages": [{"reference": "a", "candidate": "a", "self": True, "outputs": {"y": RULE}}],
        "inputs": {"x": shape, "w": shape},
        "dims": {"seq": {"min": 1, "max": 5}},
        "probes": {},
    }
    result = run(tmp_path, plan)
    assert result.verdict == "release", result.explain()
    results = {r["what"]: r for r in result.summary["probes"]["results"]}
    over, none = results["dim seq of 6, at most 5"], results["dim seq of 0, at least 1"]
    assert over["contract"]["text"] == "contract.shape: x, axis 0 is 6, allowed 1 to 5"
    assert none["contract"]["outcome"] == "refused"
    assert over["runners"]["a"]["outcome"] == "accepted"
    plan["dims"] = {"seq": {"min": 0, "max": 5}}
    left_out = run(tmp_path, plan).summary["probes"]["left_out"]
    assert left_out["dim_zero: seq"] == "[dims] allows 0"


def test_a_model_that_fixes_its_batch(tmp_path: Path) -> None:
    plan = make(tmp_path)
    for name in ("a", "b"):
        scale_model(tmp_path / f"{name}.onnx", 1.0, fixed_batch=2)
    result = run(tmp_path, plan)
    assert result.verdict == "release", result.explain()
    assert told(result)["batch_over a batch of 3 samples, one more than is approved"] == {
        "contract": "refused",
        "a": "refused",
        "b": "refused",
    }


def test_recordings_are_not_probed(tmp_path: Path) -> None:
    write_pack(tmp_path / "r.arrow", range(6), outputs={"y": X})
    plan = make(tmp_path, inputs=CONTRACT)
    plan["runners"] = {"a": "a.onnx", "b": "r.arrow"}
    assert {tuple(f) for f in told(run(tmp_path, plan)).values()} == {("contract", "a")}


def test_no_probe_without_the_table(tmp_path: Path) -> None:
    plan = make(tmp_path)
    del plan["probes"]
    result = run(tmp_path, plan)
    assert "probes" not in result.summary
    assert "probes_s" not in result.summary["timing"]


@pytest.mark.slow
def test_the_command_tells_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make(tmp_path)
    (tmp_path / "p.toml").write_text(
        'golden = "g.arrow"\n[runners]\na = "a.onnx"\n'
        'b = { model = "b.onnx", intra_op_num_threads = 2 }\n'
        '[[stages]]\nreference = "a"\ncandidate = "b"\n'
        "outputs.y = { atol = 0, rtol = 0 }\n[probes]\n"
    )
    done = invoke("run", "p.toml")
    assert done.exit_code == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "Probes 7 probes" in text
    assert "missing, no x: contract refused, a refused, b refused" in text
