"""A candidate isn't judged on what it was calibrated on, where the plan names those samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.packs import write_pack

import paritygate
from paritygate.core.errors import GoldenError, PlanError

X = np.arange(24, dtype=np.float32).reshape(8, 3)


def plan(folder: Path, calibration: Any, **more: Any) -> dict[str, Any]:
    write_pack(folder / "golden.arrow", [f"g{i}" for i in range(8)], {"x": X})
    echo = {"kind": "null", "echo": {"y": "x"}}
    stage = {
        "reference": "ref",
        "candidate": "cand",
        "self": True,
        "default": {"atol": 0.0, "rtol": 0.0},
    }
    given = {"golden": str(folder / "golden.arrow"), "calibration": calibration}
    return {**given, "runners": {"ref": echo, "cand": echo}, "stages": [stage], **more}


def calibrated_on(folder: Path, rows: list[int]) -> str:
    x = np.concatenate([X[rows], X[:1] + 100])
    return str(write_pack(folder / "calib.parquet", range(len(x)), {"x": x}, container="parquet"))


def test_overlap_holds_with_count_and_ids_of_both(tmp_path: Path) -> None:
    given = plan(tmp_path, calibrated_on(tmp_path, [5, 2]))
    result = paritygate.run(given, out=tmp_path / "runs")
    (reason,) = result.reasons
    assert (result.verdict.value, reason.code) == ("hold", "evidence.calibration_overlap")
    assert (reason.count, reason.ids) == (2, ("g2", "g5"))
    assert "2 of 8 golden samples are also in the calibration pack" in reason.message
    assert "of 3 samples: all inputs are equal; first: 'g2', there 1" in reason.message
    assert {stage["verdict"] for stage in result.summary["stages"]} == {"hold"}
    assert result.summary["golden"]["calibration"] == {
        "files": [str(tmp_path / "calib.parquet")],
        "samples": 3,
        "overlap": 2,
        "first": [{"id": "g2", "calibration_id": 1}, {"id": "g5", "calibration_id": 0}],
    }
    saved = paritygate.load_plan(result.folder / "plan.toml")
    assert saved.calibration == [str(tmp_path / "calib.parquet")]


def test_samples_apart_release(tmp_path: Path) -> None:
    given = plan(tmp_path, [calibrated_on(tmp_path, [])])
    result = paritygate.run(given, out=None)
    assert result.verdict.value == "release"
    assert result.summary["golden"]["calibration"]["overlap"] == 0
    assert "calibration" not in paritygate.run(plan(tmp_path, None), out=None).summary["golden"]


def test_inputs_in_columns_of_other_names(tmp_path: Path) -> None:
    given = plan(tmp_path, str(tmp_path / "calib.arrow"))
    for name, x in (("golden.arrow", X), ("calib.arrow", X[3:4])):
        renamed(write_pack(tmp_path / name, range(len(x)), {"features": x}))
    given["inputs"] = {"x": {"column": "features"}}
    (reason,) = paritygate.run(given, out=None).reasons
    assert (reason.code, reason.ids) == ("evidence.calibration_overlap", (3,))


def renamed(path: Path) -> None:
    import pyarrow as pa

    with pa.ipc.open_file(path) as reader:
        table = reader.read_all().rename_columns(["sample_id", "features"])
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)


def test_a_calibration_pack_that_says_nothing_is_no_release(tmp_path: Path) -> None:
    given = plan(tmp_path, str(tmp_path / "none.arrow"))
    with pytest.raises(GoldenError, match="doesn't exist"):
        paritygate.run(given, out=None)
    write_pack(tmp_path / "none.arrow", [1], {"other": X[:1]})
    with pytest.raises(GoldenError, match="its inputs are other"):
        paritygate.run(given, out=None)
    write_pack(tmp_path / "none.arrow", [], {"x": X[:0]})
    with pytest.raises(GoldenError, match="has no samples") as error:
        paritygate.run(given, out=None)
    assert error.value.code == "golden.empty"
    for wrong in ("", [], 3):
        with pytest.raises(PlanError, match="calibration"):
            paritygate.run(plan(tmp_path, wrong), out=None)


def test_check_reads_its_columns_too(tmp_path: Path) -> None:
    report = paritygate.check(plan(tmp_path, str(tmp_path / "none.arrow")))
    assert report.exit_code == 2
    assert any("none.arrow" in problem for problem in report.problems)


def test_a_replay_of_failing_samples_does_not_look_for_them_there(tmp_path: Path) -> None:
    given = plan(tmp_path, calibrated_on(tmp_path, [5]))
    wrong = write_pack(tmp_path / "c.arrow", [f"g{i}" for i in range(8)], outputs={"y": X + 1})
    given["runners"]["cand"] = str(wrong)
    run = paritygate.run(given, out=tmp_path / "runs")
    codes = {reason.code for reason in run.reasons}
    assert codes == {"tolerance.exceeded", "evidence.calibration_overlap"}
    for with_batch in (False, True):
        again = paritygate.replay(run.folder, out=tmp_path / "runs", with_batch=with_batch)
        assert [reason.code for reason in again.reasons] == ["tolerance.exceeded"]
