"""Samples that a pack expects to be rejected: each that passes holds, none is run or counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.models import scale_model
from tests.packs import write_pack

import paritygate
from paritygate.core.errors import GoldenError

RANGE = {"x": {"range": [0, 10]}}


def plan_of(
    folder: Path, values: list[float], marks: list[str | None], **more: Any
) -> dict[str, Any]:
    x = np.repeat(np.array(values, np.float32)[:, None], 4, axis=1)
    column = more.pop("column", "expect")
    columns = {column: pa.array(marks, pa.string())}
    write_pack(folder / "g.arrow", np.arange(len(x)), {"x": x}, columns=columns)
    for name in ("a", "b"):
        scale_model(folder / f"{name}.onnx", factor=2.0, metadata={"side": name})
    return {
        "golden": str(folder / "g.arrow"),
        "inputs": RANGE,
        "runners": {name: str(folder / f"{name}.onnx") for name in ("a", "b")},
        "stages": [{"reference": "a", "candidate": "b", "default": {"atol": 0, "rtol": 0}}],
        **more,
    }


def run(folder: Path, *args: Any, **more: Any) -> Any:
    return paritygate.run(plan_of(folder, *args, **more), out=folder / "runs")


VALUES = [1, 2, np.nan, 4, 11, np.inf]
EXPECT = [None, "run", "reject", "", "reject", "reject"]


def test_those_that_break_the_contract_are_neither_compared_nor_rejected(tmp_path: Path) -> None:
    result = run(tmp_path, VALUES, EXPECT)
    assert result.verdict == "release"
    samples = result.summary["stages"][0]["samples"]
    assert {k: samples[k] for k in ("expected", "compared", "rejected", "errors")} == {
        "expected": 6, "compared": 3, "rejected": 0, "errors": 0,
    }  # fmt: skip
    assert (samples["as_expected"], samples["not_rejected"]) == (3, 0)
    told = result.summary["rejected"]
    assert (told["count"], told["as_expected"], told["kept"]) == (0, 3, 3)
    rows = pa.ipc.open_file(result.folder / "rejected-ids.arrow").read_all().to_pylist()
    assert [(r["row"], r["outcome"]) for r in rows] == [(n, "as_expected") for n in (2, 4, 5)]
    says = paritygate.explain(result.folder, 4)["says"]
    assert "not run, as the pack expects: input 'x', element 0: 11.0 is above 10" in says


def test_each_that_passes_holds(tmp_path: Path) -> None:
    result = run(tmp_path, [1, 2, 3, 12], [None, "reject", "reject", "reject"])
    (reason,) = result.reasons
    assert (reason.code, reason.count, reason.ids) == ("contract.not_rejected", 2, (1, 2))
    assert "2 of 3 samples that the pack expects to be rejected" in reason.message
    samples = result.summary["stages"][0]["samples"]
    assert (samples["compared"], samples["not_rejected"], samples["as_expected"]) == (1, 2, 1)
    assert "it satisfies the contract" in paritygate.explain(result.folder, 2)["says"]


def test_no_budget_covers_either(tmp_path: Path) -> None:
    both = run(tmp_path, [1, 2, 12, 13], [None, "reject", "reject", None], max_rejected=5)
    assert [r.code for r in both.reasons] == ["contract.not_rejected"]
    others = run(tmp_path, [1, 12, 13, 14], [None, "reject", "reject", None])
    (reason,) = others.reasons
    assert (reason.code, reason.count, reason.ids) == ("sample.rejected", 1, (3,))
    assert "id 3" in reason.message
    none = run(tmp_path, [12, 13], ["reject", "reject"])
    assert [r.code for r in none.reasons] == ["evidence.empty"]


def test_without_a_contract_all_of_them_hold(tmp_path: Path) -> None:
    result = run(tmp_path, VALUES, EXPECT, inputs={})
    codes = {r.code for r in result.reasons}
    assert codes == {"contract.not_rejected"}
    assert result.reasons[0].count == 3


def test_another_column_by_the_plan(tmp_path: Path) -> None:
    result = run(tmp_path, VALUES, EXPECT, column="must", expect="must")
    assert result.verdict == "release"
    with pytest.raises(GoldenError, match="'expect'.*; the columns are") as caught:
        run(tmp_path, VALUES, EXPECT, column="must", expect="expect")
    assert caught.value.code == "golden.missing_column"


def test_any_other_word_is_refused_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(GoldenError, match="says 'rejct'; a sample is expected to 'reject' or"):
        run(tmp_path, [1, 2], [None, "rejct"])
    assert not (tmp_path / "runs").exists()


def test_a_slice_of_that_name_stays_a_slice(tmp_path: Path) -> None:
    result = run(tmp_path, [1, 2], ["good", "bad"], slices=["expect"])
    assert result.verdict == "release"
    assert set(result.summary["stages"][0]["slices"]["expect"]) == {"good", "bad"}


def test_over_long_sequences_must_be_rejected(tmp_path: Path) -> None:
    x = pa.array([[1.0] * n for n in (2, 3, 9, 5)], pa.list_(pa.float32()))
    expect = pa.array([None, None, "reject", None], pa.string())
    write_pack(tmp_path / "g.arrow", range(4), columns={"in.x": x, "expect": expect})
    echo = {"kind": "null", "echo": {"y": "x"}}
    plan = {
        "golden": str(tmp_path / "g.arrow"),
        "inputs": {"x": {"shape": ["batch", "seq"]}},
        "dims": {"seq": {"min": 1, "max": 8}},
        "runners": {"a": echo, "b": echo},
        "stages": [{"reference": "a", "candidate": "b", "self": True,
                    "default": {"atol": 0, "rtol": 0}}],
    }  # fmt: skip
    assert paritygate.run(plan, out=None).verdict == "release"
    plan["dims"] = {"seq": {"min": 1, "max": 9}}
    (reason,) = paritygate.run(plan, out=None).reasons
    assert (reason.code, reason.ids) == ("contract.not_rejected", (2,))


def test_a_recording_lacks_nothing_where_they_are_left_out(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, VALUES, EXPECT)
    for name in ("a", "b"):
        made = paritygate.record(plan, name, out=tmp_path / f"{name}.arrow")
        assert made.exit_code == 0, made.reasons
        assert made.summary["recording"]["samples"]["as_expected"] == 3
    recorded = {n: {"kind": "recorded", "path": str(tmp_path / f"{n}.arrow")} for n in ("a", "b")}
    result = paritygate.run({**plan, "runners": recorded}, out=None)
    assert result.verdict == "release", result.reasons
    plan = plan_of(tmp_path, [1, 2], ["reject", None])
    held = paritygate.record(plan, "a", out=tmp_path / "c.arrow")
    assert [(r.code, r.ids) for r in held.reasons] == [("contract.not_rejected", (0,))]


@pytest.mark.parametrize("threads", [1, 2])
def test_tallies_are_the_same_for_any_split(tmp_path: Path, threads: int) -> None:
    from paritygate.pipeline.execute import Options, execute
    from paritygate.tally.stage import Tally

    values = np.random.default_rng(3).integers(0, 14, 60).astype(float).tolist()
    expect = ["reject" if n % 3 == 0 else None for n in range(60)]
    plan = paritygate.load_plan(plan_of(tmp_path, values, expect))
    whole = execute(plan, Options(threads=threads)).tally.to_json()["stages"]
    cut = execute(plan, Options(threads=threads, cuts=(7, 1, 30, 22))).tally
    assert cut.to_json()["stages"] == whole
    assert Tally.from_json(cut.to_json()).to_json() == cut.to_json()


def test_pack_check_tells_the_same_without_a_model(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, [1, 2, 12, 13], [None, "reject", "reject", None])
    report = paritygate.check_pack(tmp_path / "g.arrow", plan=plan)
    assert report.summary["contract"] == {
        "rejected": 1, "allowed": 0, "as_expected": 1, "not_rejected": 1,
    }  # fmt: skip
    assert report.summary["rejected"]["x"] == {"count": 1, "first": [3]}
    one, other = report.problems
    assert one.startswith(
        "input x: 1 sample breaks the plan's contract: 3; 3: input 'x', element 0"
    )
    assert other.startswith("contract.not_rejected: 1 of 2 samples")
    assert other.endswith(": 1")
    allowed = paritygate.check_pack(tmp_path / "g.arrow", plan={**plan, "max_rejected": 1})
    assert allowed.problems == (other,)
