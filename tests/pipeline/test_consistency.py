"""Runners against themselves at other batch sizes, and references against recorded outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pyarrow as pa
import pytest
from onnx import helper
from onnxruntime.quantization import quantize_dynamic
from tests import models
from tests.packs import write_pack

import paritygate
from paritygate.core.errors import PlanError

N = 200
SIZES = {"batch": {"sizes": [1, 32]}}
WIDE = {"atol": 0.5, "rtol": 0.0}


def samples(n: int = N) -> np.ndarray:
    rng = np.random.default_rng(5)
    scale = np.exp(rng.normal(size=(n, 1)))
    return (rng.normal(size=(n, 8)) * scale).astype(np.float32)


def mlp(path: Path) -> Path:
    rng = np.random.default_rng(6)
    weights = {
        "w1": rng.normal(size=(8, 32)).astype(np.float32),
        "w2": (rng.normal(size=(32, 1)) / 6).astype(np.float32),
    }
    return models.save_model(
        path,
        [
            helper.make_node("MatMul", ["x", "w1"], ["h"]),
            helper.make_node("Relu", ["h"], ["r"]),
            helper.make_node("MatMul", ["r", "w2"], ["z"]),
            helper.make_node("Sigmoid", ["z"], ["score"]),
        ],
        {"x": (models.FLOAT, ["batch", 8])},
        {"score": (models.FLOAT, ["batch", 1])},
        weights,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`float.onnx`, `int8.onnx` (quantised with scales per batch), `g.arrow`."""
    made = tmp_path_factory.mktemp("consistency")
    quantize_dynamic(mlp(made / "float.onnx"), made / "int8.onnx")
    write_pack(made / "g.arrow", np.arange(1000, 1000 + N), {"x": samples()})
    return made


def quantised(folder: Path, **more: Any) -> dict[str, Any]:
    stage = {"name": "q", "reference": "float", "candidate": "int8", "outputs": {"score": WIDE}}
    return {
        "golden": str(folder / "g.arrow"),
        "dims": SIZES,
        "runners": {"float": str(folder / "float.onnx"), "int8": str(folder / "int8.onnx")},
        "stages": [stage],
        **more,
    }


def answers(path: Path, x: np.ndarray, size: int) -> np.ndarray:
    """What a session answers, batch by batch, the last one filled up with its last sample."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    rows = []
    for at in range(0, len(x), size):
        part = x[at : at + size]
        full = np.concatenate([part, np.repeat(part[-1:], size - len(part), axis=0)])
        rows.append(session.run(None, {"x": full})[0][: len(part)])
    return np.concatenate(rows).astype(np.float64)


def test_dynamic_quantisation_depends_on_the_batch(folder: Path) -> None:
    result = paritygate.run(quantised(folder), out=None)
    (reason,) = result.reasons
    assert (reason.code, reason.output) == ("runner.batch_coupled", "score")
    at_32, at_1 = (answers(folder / "int8.onnx", samples(), size) for size in (32, 1))
    errors = np.abs(at_1 - at_32)[:, 0]
    worst = int(errors.argmax())
    assert reason.count == np.count_nonzero(errors) > N // 2
    assert errors[worst] > 0.01
    assert f"id {1000 + worst}, element 0" in reason.message
    assert f"|error| {errors[worst]:.6g}" in reason.message
    assert f"up to {errors[worst] / 0.5:.3g} times the tolerance of stage 'q'" in reason.message
    assert reason.ids == tuple((1000 + np.flatnonzero(errors)[:5]).tolist())
    found = result.summary["consistency"]
    assert found["samples"] == N
    assert found["runners"]["float"]["at"]["1"]["score"]["failing_samples"] == 0
    assert found["runners"]["int8"]["at"]["1"]["score"]["max_abs_error"]["value"] == errors[worst]
    assert [s["verdict"] for s in result.summary["stages"]] == ["hold"]


@pytest.mark.parametrize(("atol", "verdict"), [(0.5, "release"), (1e-3, "hold")])
def test_a_budget_is_what_may_differ(folder: Path, atol: float, verdict: str) -> None:
    budget = {"int8": {"score": {"atol": atol, "rtol": 0.0}}}
    result = paritygate.run(quantised(folder, batch_coupling=budget), out=None)
    assert result.verdict == verdict, result.explain()
    if verdict == "hold":
        assert "allowed are atol 0.001" in result.reasons[0].message
    told = [n for n in result.not_judged if n.startswith("batch sizes: int8")]
    assert told == [f"batch sizes: int8 was run at 1 besides 32 over {N} samples, not over all"]


def test_decisions_within_a_budget_are_told(folder: Path) -> None:
    budget = {"int8": {"score": {"atol": 0.5, "rtol": 0.0}}}
    decisions = {"band": {"output": "score", "bands": "no < 1e9 <= yes"}}
    told = (
        "batch sizes: int8 differs within its budget; whether that changes the decisions band was "
        "not judged"
    )
    result = paritygate.run(quantised(folder, batch_coupling=budget, decisions=decisions), out=None)
    assert result.verdict == "release", result.explain()
    assert told in result.not_judged
    assert not any("float differs within" in n for n in result.not_judged)
    result = paritygate.run(quantised(folder, batch_coupling=budget), out=None)
    assert not any("differs within" in n for n in result.not_judged)


def test_one_approved_size_is_told(folder: Path) -> None:
    result = paritygate.run(quantised(folder, dims={"batch": {"sizes": [32]}}), out=None)
    assert result.verdict == "release", result.explain()
    told = "batch sizes: int8 in the batches of this run only; 32 is the only approved size"
    assert told in result.not_judged
    assert result.summary["consistency"]["samples"] == 0


@pytest.mark.parametrize(
    ("batch", "others"), [({"min": 1, "max": 16}, ["1"]), ({"sizes": [8, 2, 16]}, ["2", "8"])]
)
def test_the_ends_of_a_range_and_every_listed_size(
    folder: Path, batch: dict[str, Any], others: list[str]
) -> None:
    result = paritygate.run(quantised(folder, dims={"batch": batch}), out=None)
    check = result.summary["consistency"]["runners"]["int8"]
    assert (check["size"], sorted(check["at"])) == (16, others)
    assert {r.code for r in result.reasons} == {"runner.batch_coupled"}


def test_a_part_of_the_pack_is_spread_over_it(folder: Path) -> None:
    batch = {"sizes": [1, 8], "check_samples": 20}
    result = paritygate.run(quantised(folder, dims={"batch": batch}), out=None)
    assert result.summary["consistency"]["samples"] == 24
    starts = [k * N // 3 for k in range(3)]
    x = samples()
    path = folder / "int8.onnx"
    errors = [
        np.abs(answers(path, x[s : s + 8], 8) - answers(path, x[s : s + 8], 1)) for s in starts
    ]
    found = result.summary["consistency"]["runners"]["int8"]["at"]["1"]["score"]
    assert found["max_abs_error"]["value"] == np.concatenate(errors).max()
    assert found["failing_samples"] == np.count_nonzero(np.concatenate(errors))


FUNCTIONS = """\
import numpy as np

def plain(d):
    return {"y": d["x"] * 2}

def again(d):
    return {"y": d["x"] + d["x"]}

def mean(d):
    return {"y": d["x"] * 2 + (d["x"].mean() * 0 if len(d["x"]) < 4 else 1e-3)}

def tail(d):
    if len(d["x"]) == 1:
        raise ValueError("one is too few")
    return {"y": d["x"] * 2}

def shape(d):
    y = d["x"] * 2
    return {"y": y if len(y) > 1 else y[:, :1]}

def boxes(d):
    return {"y": [row[: 1 + i % 3] * 2 for i, row in zip(counts(d), d["x"])]}

def more_boxes(d):
    extra = 0 if len(d["x"]) > 1 else 1
    return {"y": [row[: 1 + i % 3 + extra] * 2 for i, row in zip(counts(d), d["x"])]}

def counts(d):
    return (np.abs(d["x"][:, 0]) * 100).astype(int)

def name(d):
    return {"name": np.array(["odd" if i % 2 else "even" for i in range(len(d["x"]))], object)}

def same_name(d):
    return {"name": np.array([("even", "odd")[i % 2] for i in range(len(d["x"]))], object)}

def never(d):
    raise ValueError("never")

def tired(d, calls=[]):
    calls.append(1)
    if len(calls) > 2:
        raise ValueError("tired")
    return {"y": d["x"] * 2}

def nan(d):
    y = d["x"] * 2
    return {"y": y if len(y) > 1 else np.where(y > 1e9, y, np.nan)}
"""


def functions(folder: Path, cand: str, **more: Any) -> Any:
    (folder / "fns.py").write_text(FUNCTIONS)
    write_pack(folder / "g.arrow", np.arange(40), {"x": samples(40)}, more.pop("recorded", None))
    plan = {
        "golden": "g.arrow",
        "dims": SIZES,
        "runners": {"a": "fns:plain", "b": f"fns:{cand}"},
        "stages": [{"name": "s", "reference": "a", "candidate": "b", "outputs": {"y": WIDE}}],
        **more,
    }
    return paritygate.load_plan(plan, folder=folder)


def test_functions_that_ignore_the_batch_are_released(tmp_path: Path) -> None:
    result = paritygate.run(functions(tmp_path, "again"), out=None)
    assert result.verdict == "release", result.explain()
    assert result.summary["consistency"]["samples"] == 40


@pytest.mark.parametrize(
    ("cand", "code", "says"),
    [
        ("mean", "runner.batch_coupled", "40 of 40 samples differ; worst at id"),
        ("tail", "runner.error", "raised at batch size 1, which the plan approves"),
        ("shape", "runner.error", "'y' is float32[1] a sample but was float32[8]"),
        ("nan", "runner.batch_coupled", "320 elements by being NaN or infinite once only"),
    ],
)
def test_what_another_batch_size_changes_holds(
    tmp_path: Path, cand: str, code: str, says: str
) -> None:
    result = paritygate.run(functions(tmp_path, cand), out=None)
    (reason,) = result.reasons
    assert reason.code == code
    assert says in reason.message
    assert result.exit_code == 1


def test_a_nan_at_both_sizes_is_the_same(tmp_path: Path) -> None:
    plan = functions(tmp_path, "again")
    x = samples(40)
    x[3, 1] = np.nan
    write_pack(tmp_path / "g.arrow", np.arange(40), {"x": x})
    result = paritygate.run(plan, out=None)
    assert {r.code for r in result.reasons} == {"nonfinite.reference"}


@pytest.mark.parametrize("dims", [SIZES, {}, {"batch": {"sizes": [32]}}])
@pytest.mark.parametrize(("off", "verdict"), [(0.25, "release"), (0.75, "hold")])
def test_a_reference_is_compared_with_what_was_recorded(
    tmp_path: Path, dims: dict[str, Any], off: float, verdict: str
) -> None:
    y = samples(40) * 2
    y[7, 2] += np.float32(off)
    result = paritygate.run(functions(tmp_path, "again", recorded={"y": y}, dims=dims), out=None)
    assert result.verdict == verdict, result.explain()
    if verdict == "release":
        told = "stage s: recorded y was compared with the reference over 40 samples, not over all"
        assert told in result.not_judged
    else:
        (reason,) = result.reasons
        assert (reason.code, reason.stage) == ("runner.reference_drift", "s")
        assert (reason.ids, reason.count) == ((7,), 1)
        assert "worst at id 7, element 2" in reason.message
        assert "allowed are atol 0.5" in reason.message


def test_a_recording_of_another_dtype_or_shape_is_drift(tmp_path: Path) -> None:
    for y in ((samples(40) * 2).astype(np.float64), samples(40)[:, :4]):
        result = paritygate.run(functions(tmp_path, "again", recorded={"y": y}), out=None)
        (reason,) = result.reasons
        assert reason.code == "runner.reference_drift"
        assert f"recorded is {y.dtype}" in reason.message


@pytest.mark.parametrize(("last", "verdict"), [("even", "release"), ("odd", "hold")])
def test_recorded_texts_are_compared_with_the_reference(
    tmp_path: Path, last: str, verdict: str
) -> None:
    stage = {"name": "s", "reference": "a", "candidate": "b", "outputs": {"name": {}}}
    runners = {"a": "fns:name", "b": "fns:same_name"}
    plan = functions(tmp_path, "again", runners=runners, stages=[stage], dims={})
    names = pa.array(["odd" if i % 2 else "even" for i in range(38)] + [last, "odd"])
    columns = {"out.name": names}
    write_pack(tmp_path / "g.arrow", np.arange(40), {"x": samples(40)}, columns=columns)
    result = paritygate.run(plan, out=None)
    assert result.verdict == verdict, result.explain()
    drift = [("runner.reference_drift", (38,))] if verdict == "hold" else []
    assert [(r.code, r.ids) for r in result.reasons] == drift


def test_recordings_that_the_plan_uses_itself_are_no_second_reference(tmp_path: Path) -> None:
    plan = functions(
        tmp_path,
        "again",
        recorded={"y": samples(40) * 2 + 1},
        runners={"a": "fns:plain", "b": "recorded"},
    )
    result = paritygate.run(plan, out=None)
    assert {r.code for r in result.reasons} == {"tolerance.exceeded"}


def test_recorded_outputs_that_nobody_answers_are_told(tmp_path: Path) -> None:
    recorded = {"y": samples(40) * 2, "z": samples(40)}
    result = paritygate.run(functions(tmp_path, "again", recorded=recorded), out=None)
    assert result.verdict == "release", result.explain()
    (told,) = [n for n in result.not_judged if n.startswith("recorded outputs")]
    assert told == (
        "recorded outputs: z of the pack, which no live reference answers as it is in a stage that "
        "judges it"
    )


def test_a_reference_that_is_seen_otherwise_is_not_what_was_recorded(tmp_path: Path) -> None:
    view = {"y": {"select": 3}}
    calls = {"a": "fns:plain", "b": "fns:again"}
    runners = {side: {"call": call, "outputs": view} for side, call in calls.items()}
    plan = functions(tmp_path, "again", recorded={"y": samples(40) * 2}, runners=runners)
    result = paritygate.run(plan, out=None)
    assert result.verdict == "release", result.explain()
    assert any(n.startswith("recorded outputs: y of the pack") for n in result.not_judged)


def test_answers_of_varying_shapes_are_compared_sample_by_sample(tmp_path: Path) -> None:
    outputs = {"y": {"shape": ["batch", "some"]}}
    runners = {"a": "fns:boxes", "b": "fns:more_boxes"}
    dims = {**SIZES, "some": {"min": 1, "max": 8}}
    plan = functions(tmp_path, "boxes", outputs=outputs, runners=runners, dims=dims)
    result = paritygate.run(plan, out=None)
    found = result.summary["consistency"]["runners"]
    assert found["a"]["at"]["1"]["y"]["samples"] == 40
    assert found["a"]["at"]["1"]["y"]["good"]
    assert not found["b"]["at"]["1"]["y"]["good"]
    assert {r.code for r in result.reasons} == {"runner.batch_coupled"}


def test_a_runner_that_raises_is_run_at_no_other_size(tmp_path: Path) -> None:
    result = paritygate.run(functions(tmp_path, "never"), out=None)
    assert "runner.disagreement" in {r.code for r in result.reasons}
    assert "batch sizes: b in the batches of this run only; it raised" in result.not_judged


@pytest.mark.parametrize("side", ["a", "b"])
def test_a_runner_that_raises_when_it_is_run_again_holds(tmp_path: Path, side: str) -> None:
    runners = {"a": "fns:plain", "b": "fns:again", side: "fns:tired"}
    recorded = {"y": samples(40) * 2}
    plan = functions(tmp_path, "again", runners=runners, recorded=recorded)
    result = paritygate.run(plan, out=None)
    (reason,) = result.reasons
    assert reason.code == "runner.error"
    assert (
        f"runner {side!r} answered in the run, but raised when it was run again" in reason.message
    )
    assert "tired" in reason.message
    assert result.exit_code == 1


def test_nothing_is_compared_where_the_plan_says_so(tmp_path: Path) -> None:
    dims = {"batch": {"sizes": [1, 32], "check_samples": 0}}
    plan = functions(tmp_path, "mean", dims=dims, recorded={"y": samples(40)})
    result = paritygate.run(plan, out=None)
    assert result.verdict == "release", result.explain()
    told = "\n".join(result.not_judged)
    assert "b in the batches of this run only; check_samples is 0" in told
    assert "no reference was compared with the pack's; check_samples is 0" in told


def test_rejected_samples_are_not_run_again(tmp_path: Path) -> None:
    inputs = {"x": {"range": [-1e6, 1e6]}}
    plan = functions(tmp_path, "again", inputs=inputs)
    x = samples(40)
    x[::2, 0] = 2e6
    write_pack(tmp_path / "g.arrow", np.arange(40), {"x": x})
    result = paritygate.run(plan, out=None)
    assert [r.code for r in result.reasons] == ["sample.rejected"]
    assert result.summary["consistency"]["samples"] == 20


@pytest.mark.parametrize(
    ("budgets", "path", "says"),
    [
        ({"in8": {}}, "batch_coupling.in8", "did you mean 'int8'?"),
        ({"int8": {"scor": WIDE}}, "batch_coupling.int8.scor", "did you mean 'score'?"),
        ({"int8": {"score": {"atol": 1.0}}}, "batch_coupling.int8.score.rtol", "is missing"),
        (
            {"int8": {"score": {"atol": -1.0, "rtol": 0.0}}},
            "batch_coupling.int8.score.atol",
            "greater than or equal to 0",
        ),
        ({"int8": {"score": {**WIDE, "a": 1}}}, "batch_coupling.int8.score.a", "isn't a known key"),
    ],
)
def test_budgets_that_cannot_be_meant(
    folder: Path, budgets: dict[str, Any], path: str, says: str
) -> None:
    with pytest.raises(PlanError) as caught:
        paritygate.run(quantised(folder, batch_coupling=budgets), out=None)
    (problem,) = caught.value.problems
    assert problem.path == path
    assert says in problem.message
