"""Missing values: replaced once for both sides, by what the plan names with digest and approver."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pyarrow as pa
import pytest
from onnx import TensorProto, helper
from tests.models import save_model, scale_model
from tests.packs import write_pack

import paritygate
from paritygate.core.errors import ParityError, PlanError

N = 30
CODE = """
import numpy as np
def ahead(sample):
    filled = sample.copy()
    filled[np.isnan(filled)] = 7
    return filled
def all_new(sample):
    return np.full_like(sample, 3)
def other_shape(sample):
    return sample[:1]
def fails(sample):
    raise RuntimeError("no idea")
def keeps(sample):
    return sample
"""


def digest(folder: Path) -> str:
    return "sha256:" + hashlib.sha256((folder / "fill.py").read_bytes()).hexdigest()


def features() -> np.ndarray:
    x = np.random.default_rng(0).uniform(0, 5, (N, 2)).astype(np.float32)
    x[3, 1] = x[9, 0] = x[9, 1] = np.nan
    return x


def plan_of(folder: Path, missing: Any, x: np.ndarray | None = None, **more: Any) -> dict[str, Any]:
    (folder / "fill.py").write_text(CODE)
    x = features() if x is None else x
    write_pack(folder / "g.arrow", np.arange(len(x)), {"x": x}, rows_per_batch=7)
    for name in ("a", "b"):
        scale_model(folder / f"{name}.onnx", width=2, factor=2.0, metadata={"side": name})
    return {
        "golden": str(folder / "g.arrow"),
        "inputs": {"x": {"range": [0, 10], "missing": missing}},
        "runners": {name: str(folder / f"{name}.onnx") for name in ("a", "b")},
        "stages": [{"reference": "a", "candidate": "b", "default": {"atol": 0, "rtol": 0}}],
        **more,
    }


def run(folder: Path, plan: dict[str, Any], **how: Any) -> Any:
    return paritygate.run(paritygate.load_plan(plan, folder=folder), out=folder / "runs", **how)


def constant(value: Any, by: str = "J. Doe") -> dict[str, Any]:
    return {"impute": "constant", "value": value, "approved_by": by}


def answers(folder: Path, plan: dict[str, Any]) -> np.ndarray:
    path = paritygate.record(paritygate.load_plan(plan, folder=folder), "a", out=folder / "a.arrow")
    from paritygate.golden.pack import open_pack

    assert path.exit_code == 0, path.reasons
    with open_pack([folder / "a.arrow"], folder) as pack:
        return np.array(pack.output("y", 0, pack.samples))


@pytest.mark.parametrize(("value", "per"), [(4.5, [4.5, 4.5]), ([1, 2], [1, 2])])
def test_a_constant_for_all_or_a_channel(tmp_path: Path, value: Any, per: list[float]) -> None:
    plan = plan_of(tmp_path, constant(value))
    result = run(tmp_path, plan)
    assert result.verdict == "release"
    assert result.summary["stages"][0]["samples"]["compared"] == N
    told = result.summary["imputed"]["x"]
    assert (told["samples"], told["elements"], told["approved_by"]) == (2, 3, "J. Doe")
    (note,) = [n for n in result.summary["not_judged"] if "imputed" in n]
    assert "3 NaN in 2 samples of x were imputed by constant, approved by J. Doe" in note
    expected = np.where(np.isnan(features()), np.float32(per), features()) * 2
    np.testing.assert_array_equal(answers(tmp_path, plan), expected)


def test_a_function_with_its_digest(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, None)
    plan["inputs"]["x"]["missing"] = {
        "impute": "fill:ahead", "digest": digest(tmp_path), "approved_by": "me",
    }  # fmt: skip
    assert run(tmp_path, plan).verdict == "release"
    expected = np.where(np.isnan(features()), 7, features()) * 2
    np.testing.assert_array_equal(answers(tmp_path, plan), expected)
    report = paritygate.check_pack(
        tmp_path / "g.arrow", plan=paritygate.load_plan(plan, folder=tmp_path)
    )
    assert report.exit_code == 0, report.problems
    wrong = "sha256:" + 64 * "0"
    plan["inputs"]["x"]["missing"]["digest"] = wrong
    with pytest.raises(PlanError) as caught:
        run(tmp_path, plan)
    (told,) = caught.value.problems
    assert told.path == "inputs.x.missing.digest"
    assert wrong in told.message
    assert digest(tmp_path) in told.message


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("all_new", "changed values that are not missing"),
        ("other_shape", r"answered float32\[1\] for float32\[2\]"),
        ("fails", "RuntimeError: no idea"),
    ],
)
def test_functions_that_do_something_else(tmp_path: Path, name: str, told: str) -> None:
    plan = plan_of(tmp_path, "reject")
    plan["inputs"]["x"]["missing"] = {
        "impute": f"fill:{name}", "digest": digest(tmp_path), "approved_by": "me",
    }  # fmt: skip
    with pytest.raises(ParityError, match=told) as caught:
        run(tmp_path, plan)
    assert caught.value.code == "contract.imputation"
    assert caught.value.exit_code == 2


def test_what_is_imputed_is_held_against_the_range_and_infinities_stay(tmp_path: Path) -> None:
    beyond = run(tmp_path, plan_of(tmp_path, constant(11)))
    assert beyond.summary["imputed"]["x"]["elements"] == 0  # none of them was run
    (reason,) = beyond.reasons
    assert (reason.code, reason.ids) == ("sample.rejected", (3, 9))
    assert "11.0 is above 10" in reason.message
    x = features()
    x[5, 0] = np.inf
    result = run(tmp_path, plan_of(tmp_path, constant(1), x))
    (reason,) = result.reasons
    assert (reason.code, reason.ids) == ("sample.rejected", (5,))
    assert result.summary["imputed"]["x"]["elements"] == 3
    plan = plan_of(tmp_path, "reject")
    plan["inputs"]["x"]["missing"] = {
        "impute": "fill:keeps", "digest": digest(tmp_path), "approved_by": "me",
    }  # fmt: skip
    (reason,) = run(tmp_path, plan).reasons
    assert (reason.code, reason.ids) == ("sample.rejected", (3, 9))


@pytest.mark.parametrize(
    ("missing", "path", "told"),
    [
        ("drop", "inputs.x.missing", "'reject'"),
        ({"impute": "constant", "approved_by": "me"}, "inputs.x.missing", "needs value"),
        ({"impute": "constant", "value": 1}, "inputs.x.missing.approved_by", "is missing"),
        ({"impute": "f:g", "approved_by": "me"}, "inputs.x.missing", "needs digest"),
        ({"impute": "mean", "approved_by": "me"}, "inputs.x.missing", "'module:function'"),
        ({**constant(1), "aproved": "x"}, "inputs.x.missing.aproved", "did you mean"),
        ({**constant(None), "digest": "sha256:1", "impute": "f:g"}, "inputs.x.missing.digest", ""),
        (constant([1, 2, 3]), "inputs.x.missing.value", "has 3 numbers for 2 channels"),
        (constant([1]), "inputs.x.missing.value", "has 1 number for 2 channels; give one each"),
        (constant(1e300), "inputs.x.missing.value", "doesn't fit float32"),
        ({"impute": "fill:none", "digest": "sha256:" + 64 * "0", "approved_by": "me"},
         "inputs.x.missing.impute", "has no 'none'"),
    ],
)  # fmt: skip
def test_plans_that_say_it_wrongly(tmp_path: Path, missing: Any, path: str, told: str) -> None:
    plan = plan_of(tmp_path, missing)
    with pytest.raises(PlanError) as caught:
        run(tmp_path, plan)
    (problem,) = caught.value.problems
    assert problem.path == path
    assert told in problem.message


def test_integers_have_nothing_missing(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, constant(1), np.zeros((3, 2), np.int32))
    with pytest.raises(PlanError, match="int32 has no NaN"):
        run(tmp_path, plan)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float64"])
def test_other_dtypes(tmp_path: Path, dtype: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x = np.array([[1, np.nan], [2, 3]], np.float64).astype(kind)
    write_pack(tmp_path / "g.arrow", [0, 1], {"x": x})
    echo = {"kind": "null", "echo": {"y": "x"}}
    plan = {
        "golden": str(tmp_path / "g.arrow"), "runners": {"a": echo, "b": echo},
        "inputs": {"x": {"missing": constant([5, 6])}},
        "stages": [{"reference": "a", "candidate": "b", "self": True,
                    "default": {"atol": 0, "rtol": 0}}],
    }  # fmt: skip
    np.testing.assert_array_equal(answers(tmp_path, plan).astype(np.float64), [[1, 6], [2, 3]])


@pytest.mark.parametrize("threads", [1, 2])
def test_counts_are_the_same_for_any_split(tmp_path: Path, threads: int) -> None:
    from paritygate.pipeline.execute import Options, execute

    plan = paritygate.load_plan(plan_of(tmp_path, constant(1)), folder=tmp_path)
    found = [
        execute(plan, Options(threads=threads, cuts=cuts)).summary["imputed"]
        for cuts in ((), (4, 6, 20), (30,))
    ]
    assert found[0] == found[1] == found[2]


def test_a_replay_imputes_as_the_run_did(tmp_path: Path) -> None:
    x = np.random.default_rng(1).uniform(1, 2, (6, 2, 2)).astype(np.float32)
    x[1, 0, 1] = x[4, 1, 0] = x[4, 1, 1] = np.nan
    marks = pa.array([None, None, "run", None, None, None], pa.string())
    write_pack(tmp_path / "g.arrow", range(6), {"x": x}, columns={"must": marks})
    for name, factor in (("a", 2.0), ("b", 3.0)):
        node = helper.make_node("Mul", ["x", "by"], ["y"])
        dims = {"x": (TensorProto.FLOAT, ["n", 2, 2])}
        save_model(
            tmp_path / f"{name}.onnx", [node], dims, {"y": dims["x"]}, {"by": np.float32(factor)}
        )
    axes = ["sample", "channel", "time"]
    plan = {
        "golden": str(tmp_path / "g.arrow"),
        "expect": "must",
        "inputs": {"x": {"axes": axes, "missing": constant([5, 7])}},
        "runners": {name: str(tmp_path / f"{name}.onnx") for name in ("a", "b")},
        "stages": [{"reference": "a", "candidate": "b", "default": {"atol": 0, "rtol": 0}}],
    }
    result = run(tmp_path, plan)
    assert {r.code for r in result.reasons} == {"tolerance.exceeded"}
    again = paritygate.replay(result.folder, [1, 4], out=tmp_path / "again")
    found = {s["id"]: s["outcome"] for s in again.summary["replay"]["samples"]}
    assert found == {1: "bitwise", 4: "bitwise"}
