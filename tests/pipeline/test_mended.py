"""Verdicts that were once wrong or unclear, each as a user would meet it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests import models
from tests.packs import write_pack

import paritygate
from paritygate.core.errors import PlanError

Y = np.arange(24, dtype=np.float32).reshape(-1, 2)


def recorded(folder: Path, ref: Any, cand: Any, **more: Any) -> dict[str, Any]:
    n = len(ref)
    write_pack(folder / "g.arrow", np.arange(n), outputs={"y": ref}, **more)
    write_pack(folder / "c.arrow", np.arange(n), outputs={"y": cand})
    return {
        "golden": str(folder / "g.arrow"),
        "runners": {"a": "recorded", "b": str(folder / "c.arrow")},
        "stages": [
            {
                "name": "s",
                "reference": "a",
                "candidate": "b",
                "outputs": {"y": {"atol": 0.5, "rtol": 0.0}},
            }
        ],
    }


@pytest.mark.parametrize("name", ["batch", "row", "index", "elements", "rules", "stage", "output"])
def test_slices_may_be_named_like_shard_columns(tmp_path: Path, name: str) -> None:
    plan = recorded(tmp_path, Y, Y + 1, slices={name: [f"v{i % 2}" for i in range(12)]})
    plan["slices"] = [name]
    result = paritygate.run(plan, out=tmp_path / "runs")
    assert result.folder is not None
    shard = pa.ipc.open_file(result.folder / "failures" / "s-00000.arrow").read_all()
    assert shard[f"pack.{name}"].to_pylist() == [f"v{i % 2}" for i in range(12)]
    assert shard["row"].to_pylist() == list(range(12))
    assert shard["stage"].to_pylist() == ["s"] * 12


def test_a_stage_name_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    plan = recorded(tmp_path, Y, Y + 1)
    plan["runners"]["../../x"] = plan["runners"].pop("b")
    del plan["stages"][0]["name"]
    plan["stages"][0]["candidate"] = "../../x"
    with pytest.raises(PlanError, match="can't name files"):
        paritygate.run(plan, out=tmp_path / "runs")


def test_the_flipped_sample_is_in_a_full_shard(tmp_path: Path) -> None:
    ref = np.full((20, 1), 0.5, np.float32)
    cand = ref.copy()
    cand[:10] += 5
    ref[15], cand[15] = 0.1999999, 0.2000001
    plan = recorded(tmp_path, ref, cand)
    plan["max_failures"] = 3
    plan["decisions"] = {"d": {"output": "y", "bands": "a < 0.2 <= b"}}
    result = paritygate.run(plan, out=tmp_path / "runs")
    assert result.folder is not None
    shard = pa.ipc.open_file(result.folder / "failures" / "s-00000.arrow").read_all()
    assert shard.num_rows == 3
    assert 15 in shard["sample_id"].to_pylist()


def test_an_integer_is_judged_exactly_and_said_so(tmp_path: Path) -> None:
    counts = np.arange(12, dtype=np.int64).reshape(-1, 1)
    recorded(tmp_path, counts, counts + 1)
    result = paritygate.compare(
        tmp_path / "g.arrow", tmp_path / "c.arrow", atol=5.0, rtol=0.0, out=None
    )
    (reason,) = result.reasons
    assert "allowed 0 " in reason.message
    assert result.summary["stages"][0]["outputs"]["y"]["tolerance"]["atol"] == 0.0


def test_a_fixed_batch_model_gets_its_batch_whatever_is_approved(tmp_path: Path) -> None:
    x = np.arange(49 * 4, dtype=np.float32).reshape(-1, 4)
    write_pack(tmp_path / "g.arrow", np.arange(49), {"x": x})
    ref = models.scale_model(tmp_path / "a.onnx", 2.0, fixed_batch=8)
    cand = models.scale_model(tmp_path / "b.onnx", 2.0, fixed_batch=8, metadata={"v": "2"})
    for batch in ({"sizes": [1, 8]}, {"min": 1, "max": 8}):
        plan = {
            "golden": str(tmp_path / "g.arrow"),
            "dims": {"batch": batch},
            "runners": {"a": str(ref), "b": str(cand)},
            "stages": [
                {"reference": "a", "candidate": "b", "outputs": {"y": {"atol": 0.0, "rtol": 0.0}}}
            ],
        }
        result = paritygate.run(plan, out=None)
        assert result.verdict == "release", result.explain()
        assert result.summary["stages"][0]["samples"]["compared"] == 49


def test_a_contract_for_an_output_that_no_stage_compares(tmp_path: Path) -> None:
    plan = recorded(tmp_path, Y, Y)
    plan["outputs"] = {"z": {"dtype": "float64"}}
    with pytest.raises(PlanError, match=r"outputs\.z"):
        paritygate.run(plan, out=None)


def test_argmax_over_one_class_is_refused(tmp_path: Path) -> None:
    plan = recorded(tmp_path, Y[:, :1], 1 - Y[:, :1])
    plan["decisions"] = {"d": {"output": "y", "argmax": True}}
    with pytest.raises(PlanError, match="two classes"):
        paritygate.run(plan, out=None)


def test_integers_ids_and_bools_have_no_tolerance_in_assert_parity() -> None:
    x = np.float32([0.5])
    for ref, cand in (
        ([200000], [200001]),
        ([True, True], [False, True]),
        ({"score": x, "id": np.array([200000])}, {"score": x, "id": np.array([200001])}),
    ):
        with pytest.raises(AssertionError):
            paritygate.assert_parity(ref, cand, atol=1.0, rtol=1e-5)


@pytest.mark.parametrize(
    "value", [[2**63, -1], [2**53 + 1, 0.5], np.ma.array([1.0, 2.0], mask=[0, 1])]
)
def test_values_that_numpy_would_change_are_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        paritygate.assert_parity(value, value)


def test_a_batch_without_rows_among_others_is_refused() -> None:
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(PlanError, match="no rows"):
        paritygate.verify(
            lambda g: {"y": g["x"]},
            lambda g: {"y": g["x"] + 0},
            [{"x": x}, {"x": x[:0]}],
            atol=0.0,
            rtol=0.0,
        )


def test_an_output_missing_on_one_side_is_named_with_its_side(tmp_path: Path) -> None:
    write_pack(tmp_path / "a.arrow", [1, 2], outputs={"score (raw)": Y[:2], "y": Y[:2]})
    write_pack(tmp_path / "b.arrow", [1, 2], outputs={"y": Y[:2]})
    result = paritygate.compare(tmp_path / "a.arrow", tmp_path / "b.arrow", out=None)
    (reason,) = [r for r in result.reasons if r.code == "output.missing"]
    assert reason.output == "score (raw)"
    assert "isn't answered by the candidate" in reason.message


def test_a_thing_against_itself_is_told_even_where_it_is_allowed(tmp_path: Path) -> None:
    plan = recorded(tmp_path, Y, Y)
    plan["runners"]["b"] = "recorded"
    plan["stages"][0]["self"] = True
    result = paritygate.run(plan, out=None)
    assert result.verdict == "release"
    assert any("itself" in note for note in result.not_judged)


@pytest.mark.parametrize(
    ("answers", "by", "is_told"),
    [(Y, 0, True), (Y, 0.25, False), (Y, -0.25, False), (Y.astype(np.int32), 0, False)],
)
def test_recordings_that_are_equal_in_every_number_are_told(
    tmp_path: Path, answers: Any, by: float, is_told: bool
) -> None:
    other = answers.copy()
    other[-1] += np.array(by, answers.dtype)
    plan = recorded(tmp_path, answers, other)
    table = pa.ipc.open_file(tmp_path / "c.arrow").read_all()
    packed = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(tmp_path / "c.arrow", table.schema, options=packed) as writer:
        writer.write_table(table)
    result = paritygate.run(plan, out=None)
    assert result.verdict == "release"
    assert any("written twice" in note for note in result.not_judged) is is_told


def test_layout_reasons_name_both_layouts_and_the_contract(tmp_path: Path) -> None:
    plan = recorded(tmp_path, Y, Y.astype(np.float64))
    (reason,) = [r for r in paritygate.run(plan, out=None).reasons if r.code == "dtype.mismatch"]
    assert "reference answers float32[batch, 2], the candidate float64[batch, 2]" in reason.message
    plan = recorded(tmp_path, Y, Y + 0.25)
    plan["outputs"] = {"y": {"dtype": "float64"}}
    (reason,) = [r for r in paritygate.run(plan, out=None).reasons if r.code == "dtype.mismatch"]
    assert "[outputs] demands float64" in reason.message
    plan = recorded(tmp_path, Y, Y)
    plan["stages"][0]["outputs"] = {"y": {"atol": 0.0, "rtol": 0.0, "candidate_dtype": "float16"}}
    (reason,) = [r for r in paritygate.run(plan, out=None).reasons if r.code == "dtype.mismatch"]
    assert "float32[batch, 2]; the stage demands float16 of the candidate" in reason.message


@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_a_default_that_is_for_floats_says_so_where_integers_differ(
    tmp_path: Path, dtype: str
) -> None:
    plan = recorded(tmp_path, Y.astype(dtype), Y.astype(dtype) + np.array(5, dtype))
    plan["stages"][0] |= {"outputs": {}, "default": {"atol": 2.0, "rtol": 0.0}}
    (reason,) = paritygate.run(plan, out=None).reasons
    assert reason.code == "tolerance.exceeded"
    assert ("default is a tolerance of floats" in reason.next) is (dtype == "int64")
    plan["stages"][0]["outputs"] = {"y": {"atol": 2.0, "rtol": 0.0}}
    (reason,) = paritygate.run(plan, out=None).reasons
    assert "default is a tolerance of floats" not in reason.next


def test_a_limited_clean_run_is_incomplete_in_spite_of_min_samples(tmp_path: Path) -> None:
    plan = recorded(tmp_path, Y, Y + 0.25)
    plan["min_samples"] = 10
    assert paritygate.run(plan, out=None, limit=4).verdict == "incomplete"
    plan["min_samples"] = 13
    assert [r.code for r in paritygate.run(plan, out=None).reasons] == ["evidence.too_few"]


def test_the_cause_comes_before_the_empty_evidence(tmp_path: Path) -> None:
    def broken(_given: dict[str, Any]) -> dict[str, Any]:
        raise ValueError("out of order")

    result = paritygate.verify(
        lambda g: {"y": g["x"]}, broken, {"x": np.zeros((3, 2), np.float32)}, atol=0.0, rtol=0.0
    )
    assert [r.code for r in result.reasons] == ["runner.disagreement", "evidence.empty"]


def test_declarations_that_nobody_uses_are_told(tmp_path: Path) -> None:
    x = np.zeros((4, 4), np.float32)
    write_pack(tmp_path / "g.arrow", np.arange(4), {"x": x, "unused": x})
    ref = models.scale_model(tmp_path / "a.onnx", 2.0)
    cand = models.scale_model(tmp_path / "b.onnx", 2.0, metadata={"v": "2"})
    plan: dict[str, Any] = {
        "golden": str(tmp_path / "g.arrow"),
        "runners": {"a": str(ref), "b": str(cand)},
        "stages": [
            {"reference": "a", "candidate": "b", "outputs": {"y": {"atol": 0.0, "rtol": 0.0}}}
        ],
    }
    assert "inputs: no runner takes unused of the pack" in paritygate.run(plan, out=None).not_judged
    plan["constants"] = {"sr": {"dtype": "int64", "value": 16000}}
    with pytest.raises(PlanError, match=r"constants\.sr: no runner takes"):
        paritygate.run(plan, out=None)


def test_a_float_output_needs_its_tolerance_stated(tmp_path: Path) -> None:
    plan = recorded(tmp_path, Y, Y)
    plan["stages"][0]["outputs"]["y"] = {"nonfinite": "match"}
    with pytest.raises(PlanError, match="give atol and rtol"):
        paritygate.run(plan, out=None)


def test_what_both_sides_show_to_be_wrong_is_told_at_once(tmp_path: Path) -> None:
    x = np.zeros((4, 2), np.float32)
    sides = {}
    for side, dtype in (("a", np.float32), ("b", np.float64)):
        outputs = {name: x.astype(dtype) for name in ("y", "z", "free")}
        sides[side] = str(write_pack(tmp_path / side, np.arange(4), {"x": x}, outputs))
    widened = {"atol": 0.0, "rtol": 0.0, "candidate_dtype": "float64"}
    unstated = {"candidate_dtype": "float64"}
    one = {"reference": "a", "candidate": "b"}
    plan: dict[str, Any] = {
        "golden": sides["a"],
        "runners": {side: {"kind": "recorded", "path": path} for side, path in sides.items()},
        "stages": [
            {**one, "name": "one", "outputs": {"y": widened, "z": widened, "free": unstated}},
            {**one, "name": "two", "outputs": {"y": widened, "z": unstated, "free": unstated}},
        ],
        "decisions": {
            "of_y": {"output": "y", "argmax": True},
            "also_of_y": {"output": "y", "topk": 1},
            "fine": {"output": "y", "argmax": True, "compare_as": "output"},
            "of_z": {"output": "z", "argmax": True},
        },
    }
    with pytest.raises(PlanError) as told:
        paritygate.run(plan, out=None)
    assert sorted(problem.path for problem in told.value.problems) == [
        "decisions.also_of_y",
        "decisions.of_y",
        "decisions.of_z",
        "stages.one.outputs.free",
        "stages.two.outputs.free",
        "stages.two.outputs.z",
    ]


def test_figures_of_decisions_name_ids(tmp_path: Path) -> None:
    ref = np.full((4, 1), 0.1, np.float32)
    cand = ref.copy()
    cand[2] = 0.3
    plan = recorded(tmp_path, ref, cand)
    plan["decisions"] = {"d": {"output": "y", "bands": "a < 0.2 <= b"}}
    figures = paritygate.run(plan, out=None).summary["stages"][0]["decisions"]["d"]
    assert figures["flip_margin"]["max"]["id"] == 2


@pytest.mark.parametrize("threads", [0, -1])
def test_a_run_needs_a_thread(tmp_path: Path, threads: int) -> None:
    with pytest.raises(PlanError, match="at least 1"):
        paritygate.run(recorded(tmp_path, Y, Y + 0.25), out=None, threads=threads)
