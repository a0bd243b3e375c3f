"""The noise of references: real models that differ from themselves, and by how much."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper
from onnxruntime.quantization import quantize_dynamic
from tests import models
from tests.frontends.command import invoke
from tests.packs import write_pack
from tests.pipeline.test_consistency import answers, mlp, samples

import paritygate
from paritygate.core.errors import PlanError

N = 512
EVERYTHING = ["repetition", "batch_size", "position", "threads"]


def codes_of(result: paritygate.RunResult) -> list[str]:
    return [reason.code for reason in result.reasons]


def plan_of(folder: Path, ref: Path, output: str, atol: float, **more: Any) -> dict[str, Any]:
    """The reference against another one that answers zeros, which nothing here is about."""
    stage = {
        "name": "s",
        "reference": "ref",
        "candidate": "cand",
        "outputs": {output: {"atol": atol, "rtol": 0.0}},
    }
    return {
        "golden": str(folder / "golden.arrow"),
        "runners": {"ref": str(ref), "cand": more.pop("cand", str(ref))},
        "stages": [stage],
        "noise": {},
        **more,
    }


def floor_of(result: paritygate.RunResult, output: str) -> tuple[float, str]:
    (stage,) = result.summary["stages"]
    noise = stage["outputs"][output]["noise"]
    return noise["floor"], noise.get("cause", "")


def mean_model(folder: Path) -> Path:
    x = 10 * np.random.default_rng(0).normal(size=(N, 50, 16)).astype(np.float32)
    write_pack(folder / "golden.arrow", np.arange(N), {"x": x})
    return models.save_model(
        folder / "mean.onnx",
        [helper.make_node("ReduceMean", ["x"], ["y"], axes=[1], keepdims=0)],
        {"x": (models.FLOAT, ["batch", 50, 16])},
        {"y": (models.FLOAT, ["batch", 16])},
    )


def rows_of(path: Path, feed: dict[str, np.ndarray], size: int, threads: int = 1) -> np.ndarray:
    """What a session of so many threads answers in batches of so many rows."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    count = len(next(iter(feed.values())))
    parts = [
        session.run(None, {name: x[at : at + size] for name, x in feed.items()})[0]
        for at in range(0, count, size)
    ]
    return np.concatenate(parts).astype(np.float64)


def test_a_mean_that_depends_on_the_batch_size(tmp_path: Path) -> None:
    model = mean_model(tmp_path)
    x = 10 * np.random.default_rng(0).normal(size=(N, 50, 16)).astype(np.float32)
    gap = np.abs(rows_of(model, {"x": x}, 256) - rows_of(model, {"x": x}, 1)).max()
    assert 1e-7 < gap < 1e-5
    result = paritygate.run(plan_of(tmp_path, model, "y", gap / 2), out=None)
    assert floor_of(result, "y") == (gap, "batch size 1, not 256")
    assert codes_of(result) == ["policy.same_runner", "policy.below_noise"]
    reason = result.reasons[1]
    assert (reason.stage, reason.output) == ("s", "y")
    assert "which exceeds it against itself (batch size 1, not 256)" in reason.message
    assert f"its noise floor is {gap:.6g}" in reason.message
    found = np.abs(rows_of(model, {"x": x}, 256) - rows_of(model, {"x": x}, 1)) > gap / 2
    assert reason.count == int(found.any(axis=1).sum())
    wide = paritygate.run(plan_of(tmp_path, model, "y", gap), out=None)
    assert codes_of(wide) == ["policy.same_runner"]
    told = result.summary["noise"]["ref"]["stages"]["s"]
    assert told["run 2 on the same batches"]["outputs"]["y"]["max_abs_error"]["value"] == 0
    assert told["batches in reverse order"]["outputs"]["y"]["max_abs_error"]["value"] == 0


def forest(folder: Path) -> tuple[Path, np.ndarray]:
    from skl2onnx import to_onnx
    from sklearn.ensemble import RandomForestRegressor

    x = np.random.default_rng(1).normal(size=(N, 8)).astype(np.float32)
    made = RandomForestRegressor(60, max_depth=7, random_state=0).fit(x, x.sum(1) * 30)
    model = to_onnx(made, x[:1], target_opset=17)
    model.ir_version = 8
    (folder / "forest.onnx").write_bytes(model.SerializeToString())
    write_pack(folder / "golden.arrow", np.arange(N), {"X": x})
    return folder / "forest.onnx", x


@pytest.mark.slow
def test_a_forest_that_depends_on_threads(tmp_path: Path) -> None:
    model, x = forest(tmp_path)
    one = rows_of(model, {"X": x}, 256)
    result = paritygate.run(plan_of(tmp_path, model, "variable", 0.0), out=None)
    at = next(v["at"] for v in result.summary["noise"]["ref"]["varied"] if v["cause"] == "threads")
    gap = np.abs(one - rows_of(model, {"X": x}, 256, at)).max()
    assert gap > 0
    assert floor_of(result, "variable") == (gap, f"{at} threads, not 1")
    assert codes_of(result) == ["policy.same_runner", "policy.below_noise"]
    assert "pin its threads" in result.reasons[1].next
    plan = plan_of(tmp_path, model, "variable", 0.0)
    plan["noise"] = {"vary": ["repetition", "position", "batch_size"]}
    narrow = paritygate.run(plan, out=None)
    assert codes_of(narrow) == ["policy.same_runner"]
    assert floor_of(narrow, "variable") == (0.0, "")
    assert "noise: ref: threads was not varied; [noise] vary leaves it out" in narrow.not_judged


def quantised(folder: Path, atol: float, **more: Any) -> dict[str, Any]:
    quantize_dynamic(mlp(folder / "float.onnx"), folder / "int8.onnx")
    write_pack(folder / "golden.arrow", np.arange(N), {"x": samples(N)})
    cand = str(folder / "float.onnx")
    return plan_of(folder, folder / "int8.onnx", "score", atol, cand=cand, **more)


@pytest.mark.slow
def test_dynamic_quantisation_is_beyond_its_tolerance(tmp_path: Path) -> None:
    plan = quantised(tmp_path, 0.001)
    result = paritygate.run(plan, out=None)
    x = samples(N)
    whole, single = (answers(tmp_path / "int8.onnx", x, size) for size in (256, 1))
    gap = np.abs(whole - single).max()
    assert gap > 0.001
    assert floor_of(result, "score") == (gap, "batch size 1, not 256")
    (reason,) = [r for r in result.reasons if r.code == "policy.below_noise"]
    assert reason.count == int((np.abs(whole - single) > 0.001).sum())
    noise = result.summary["stages"][0]["outputs"]["score"]["noise"]
    error = np.abs(answers(tmp_path / "float.onnx", x, 256) - whole).max()
    assert noise["times"] == pytest.approx(error / gap)
    approved = {"dims": {"batch": {"sizes": [1, 256]}}}
    both = paritygate.run({**plan, **approved}, out=None)
    assert {"runner.batch_coupled", "policy.below_noise"} <= set(codes_of(both))
    budget = {"batch_coupling": {"ref": {"score": {"atol": 0.5, "rtol": 0.0}}}}
    accepted = paritygate.run({**plan, **approved, **budget}, out=None)
    assert {"runner.batch_coupled", "policy.below_noise"} & set(codes_of(accepted)) == set()
    assert any("which [batch_coupling.ref] accepts" in note for note in accepted.not_judged)
    only = paritygate.run({**plan, "dims": {"batch": {"sizes": [256]}}}, out=None)
    assert "policy.below_noise" not in codes_of(only)
    note = "noise: ref: batch_size was not varied; 256 is the only approved size"
    assert note in only.not_judged


RESTLESS = """
import itertools
import numpy as np
turns = itertools.count()
def restless(inputs):
    x = inputs["x"]
    return {"y": (x + next(turns) * np.float32(0.25)).astype(np.float32)}
def order(inputs):
    x = inputs["x"]
    return {"y": x + np.arange(len(x), dtype=np.float32)[:, None]}
def nan(inputs):
    x = inputs["x"].copy()
    if len(x) == 1:
        x[:] = np.nan
    return {"y": x}
def always_nan(inputs):
    return {"y": np.where(inputs["x"] > 0, inputs["x"], np.float32(np.nan))}
def shape(inputs):
    x = inputs["x"]
    return {"y": [row[:1] if len(x) == 1 else row for row in x]}
def text(inputs):
    return {"y": np.array([str(len(inputs["x"]))] * len(inputs["x"]), object)}
done = []
def once(inputs):
    done.append(1)
    if len(done) > 2:
        raise ValueError("only once")
    return {"y": inputs["x"]}
def many(inputs):
    if len(inputs["x"]) == 1:
        raise ValueError("never one")
    return {"y": inputs["x"]}
def other(inputs):
    return {"y": inputs["x"]}
"""


def side_plan(folder: Path, call: str, atol: float = 1.0, **more: Any) -> dict[str, Any]:
    (folder / "side.py").write_text(RESTLESS)
    x = np.random.default_rng(2).normal(size=(64, 3)).astype(np.float32)
    write_pack(folder / "golden.arrow", np.arange(64), {"x": x})
    plan = plan_of(folder, Path("x"), "y", atol, **more)
    for name, function in (("ref", call), ("cand", "other")):
        plan["runners"][name] = {
            "call": f"side:{function}",
            "folder": str(folder),
            "batch_size": 32,
        }
    return plan


def test_repetition_is_seen(tmp_path: Path) -> None:
    plan = side_plan(tmp_path, "restless", noise={"vary": ["repetition"], "repeat": 4})
    result = paritygate.run(plan, out=None)
    told = result.summary["noise"]["ref"]["stages"]["s"]
    errors = [t["outputs"]["y"]["max_abs_error"]["value"] for t in told.values()]
    assert list(told) == [f"run {n} on the same batches" for n in (2, 3, 4)]
    # one batch a window, one more turn each
    assert errors == pytest.approx([0.25, 0.5, 0.75], abs=1e-5)
    floor, cause = floor_of(result, "y")
    assert (floor, cause) == (errors[2], "run 4 on the same batches")


def test_position_is_seen(tmp_path: Path) -> None:
    plan = side_plan(tmp_path, "order", atol=0.5, noise={"vary": ["position"]})
    result = paritygate.run(plan, out=None)
    assert floor_of(result, "y")[0] == pytest.approx(31, abs=1e-5)
    (reason,) = [r for r in result.reasons if r.code == "policy.below_noise"]
    assert "(batches in reverse order) for 64 of 64 samples" in reason.message


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("nan", "192 elements are NaN or infinite once only"),
        ("shape", r"it answers float32[batch, 3], then float32[batch, 1]"),
        ("text", "which exceeds it against itself (batch size 1, not 32) for 64 of 64 samples"),
    ],
)
def test_what_has_no_error_is_noise_too(tmp_path: Path, call: str, says: str) -> None:
    plan = side_plan(tmp_path, call)
    if call == "shape":
        plan["outputs"] = {"y": {"shape": ["batch", "n"]}}
        plan["dims"] = {"n": {"min": 0, "max": 3}}
    if call == "text":
        plan["stages"][0]["outputs"]["y"] = {}
    result = paritygate.run(plan, out=None)
    reasons = [r for r in result.reasons if r.code == "policy.below_noise"]
    assert [says in reason.message for reason in reasons] == [True], result.explain()


def test_what_is_nan_twice_is_no_noise(tmp_path: Path) -> None:
    result = paritygate.run(side_plan(tmp_path, "always_nan"), out=None)
    assert "policy.below_noise" not in codes_of(result)
    assert floor_of(result, "y") == (0.0, "")


def test_raising_when_run_again_holds(tmp_path: Path) -> None:
    result = paritygate.run(side_plan(tmp_path, "once"), out=None)
    (reason,) = [r for r in result.reasons if r.code == "runner.error"]
    assert "raised when it was run again on a part of the pack to measure its noise" in (
        reason.message
    )
    other = paritygate.run(side_plan(tmp_path, "many"), out=None)
    assert "runner.error" not in codes_of(other)
    (note,) = [n for n in other.not_judged if "never one" in n]
    assert note.startswith("noise: ref: batch size 1, not 32: it raised")


def test_flips_within_the_noise_are_told(tmp_path: Path) -> None:
    plan = side_plan(tmp_path, "order", atol=100.0)
    plan["decisions"] = {
        "d": {"output": "y", "bands": "low < 10 <= high", "elementwise": True},
    }
    plan["stages"][0]["flips"] = {"d": 64}
    result = paritygate.run(plan, out=None)
    told = result.summary["noise"]["ref"]["stages"]["s"]["batches in reverse order"]
    x = np.random.default_rng(2).normal(size=(64, 3)).astype(np.float32)
    place = np.arange(64, dtype=np.float32)[:, None] % 32
    flipped = (((x + place) < 10) != ((x + 31 - place) < 10)).any(axis=1)
    assert told["decisions"]["d"] == {"samples": 64, "flips": int(flipped.sum())}
    note = f"decision d of ref itself changes for {flipped.sum()} of 64 samples"
    assert any(note in line for line in result.not_judged)
    assert "policy.below_noise" not in codes_of(result)


@pytest.mark.parametrize("kind", ["recorded", "null"])
def test_what_computes_nothing_is_told(tmp_path: Path, kind: str) -> None:
    plan = side_plan(tmp_path, "other")
    if kind == "recorded":
        paritygate.record(plan, "cand", out=tmp_path / "r.arrow")
        plan["runners"]["ref"] = {"path": str(tmp_path / "r.arrow")}
    else:
        plan["runners"]["ref"] = {"kind": "null", "echo": {"y": "x"}}
    result = paritygate.run(plan, out=None)
    note = f"noise: of ref it was not measured; ref computes nothing ({kind})"
    assert note in result.not_judged
    assert "noise" not in result.summary["stages"][0]["outputs"]["y"]


def test_by_default_nothing_is_measured(tmp_path: Path) -> None:
    plan = side_plan(tmp_path, "other")
    plan["runners"]["ref"]["call"] = "side:many"
    del plan["noise"]
    result = paritygate.run(plan, out=None)
    assert "noise" not in result.summary
    assert "noise: how far each runner differs from itself was not measured" in result.not_judged
    asked = paritygate.run(plan, out=None, noise=True)
    assert asked.summary["noise"]["ref"]["samples"] == 64
    digest = paritygate.load_plan({**plan, "noise": {}}).digest()
    assert digest != paritygate.load_plan(plan).digest()


def test_a_part_of_the_pack_is_enough(tmp_path: Path) -> None:
    plan = side_plan(tmp_path, "other", noise={"samples": 32})
    assert paritygate.run(plan, out=None).summary["noise"]["ref"]["samples"] == 32


@pytest.mark.parametrize(
    ("table", "path"),
    [
        ({"samples": 0}, "noise.samples"),
        ({"repeat": 1}, "noise.repeat"),
        ({"vary": []}, "noise.vary"),
        ({"vary": ["thread"]}, "noise.vary[0]"),
        ({"vary": ["threads", "threads"]}, "noise.vary"),
        ({"sample": 1}, "noise.sample"),
    ],
)
def test_a_bad_table_is_a_problem(tmp_path: Path, table: dict[str, Any], path: str) -> None:
    with pytest.raises(PlanError) as caught:
        paritygate.load_plan(side_plan(tmp_path, "other", noise=table))
    assert [p.path for p in caught.value.problems] == [path]


def test_the_command_draws_it(tmp_path: Path) -> None:
    plan = side_plan(tmp_path, "order", atol=100.0)
    (tmp_path / "plan.toml").write_text(paritygate.toml_text({**plan, "noise": {"samples": 64}}))
    done = invoke("run", tmp_path / "plan.toml", "--out", tmp_path / "runs")
    assert "Noise of ref, over 64 samples of the pack" in done.stdout
    says = "s, y: floor 31 (batch size 1, not 32); the largest error of the stage is 1 times"
    assert says in done.stdout
    with_json = invoke(
        "run", tmp_path / "plan.toml", "--noise", "--json", "--out", tmp_path / "runs"
    )
    assert json.loads(with_json.stdout)["noise"]["ref"]["samples"] == 64


@pytest.mark.parametrize(("n", "idle"), [(1, {"position"}), (3, set())])
def test_what_no_batch_can_vary_is_not_called_varied(
    tmp_path: Path, n: int, idle: set[str]
) -> None:
    write_pack(tmp_path / "few.arrow", range(n), {"x": np.ones((n, 4), np.float32)})
    model = str(models.scale_model(tmp_path / "m.onnx", 2.0))
    plan = {
        "golden": str(tmp_path / "few.arrow"),
        "noise": {"vary": ["repetition", "position"]},
        "runners": {"a": {"model": model, "batch_size": 8}, "b": {"model": model}},
        "stages": [{"reference": "a", "candidate": "b", "default": {"atol": 0.1, "rtol": 0.0}}],
    }
    told = paritygate.run(plan, out=None).not_judged
    found = {c for c in ("repetition", "position") for t in told if f"a: {c} was not varied" in t}
    assert found == idle, told
