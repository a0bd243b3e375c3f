"""Rejected samples: never run, all told by id, kept as a pack, counted against what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.models import scale_model
from tests.packs import write_pack

import paritygate
from paritygate.golden.pack import open_pack

N = 40
BAD = {3: ("above", 512.3), 17: ("below", -41.0), 30: ("nan", np.nan)}


def features() -> np.ndarray:
    x = np.random.default_rng(1).uniform(0, 50, (N, 2)).astype(np.float32)
    for row, (_, value) in BAD.items():
        x[row, 1] = value
    return x


def plan_of(folder: Path, x: np.ndarray | None = None, **more: Any) -> dict[str, Any]:
    x = features() if x is None else x
    ids = [f"s{i:02d}" for i in range(len(x))]
    site = ["north" if i % 2 else "south" for i in range(len(x))]
    write_pack(folder / "g.arrow", ids, {"x": x}, columns={"site": pa.array(site)})
    for name in ("a", "b"):
        scale_model(folder / f"{name}.onnx", width=2, factor=2.0, metadata={"side": name})
    return {
        "golden": str(folder / "g.arrow"),
        "slices": ["site"],
        "inputs": {
            "x": {
                "channels": ["vibration", "temperature"],
                "units": ["mm/s", "degC"],
                "range": [[0, 50], [-40, 200]],
            }
        },
        "runners": {name: str(folder / f"{name}.onnx") for name in ("a", "b")},
        "stages": [{"reference": "a", "candidate": "b", "default": {"atol": 0, "rtol": 0}}],
        **more,
    }


def run(folder: Path, plan: dict[str, Any]) -> Any:
    return paritygate.run(plan, out=folder / "runs")


def rows_of(path: Path) -> list[dict[str, Any]]:
    return pa.ipc.open_file(path).read_all().to_pylist()


def test_each_is_told_with_channel_value_and_limit(tmp_path: Path) -> None:
    result = run(tmp_path, plan_of(tmp_path))
    (reason,) = result.reasons
    assert (reason.code, reason.count, reason.ids) == ("sample.rejected", 3, ("s03", "s17", "s30"))
    assert "3 of 40 samples were rejected, 0 allowed (max_rejected)" in reason.message
    assert "id s03: input 'x', channel 'temperature' (degC): 512.3 is above 200" in reason.message
    assert "-41.0 is below -40" in reason.message
    assert "nan, where a finite number is demanded" in reason.message
    rows = rows_of(result.folder / "rejected-ids.arrow")
    assert [(r["sample_id"], r["row"], r["code"], r["channel"]) for r in rows] == [
        ("s03", 3, "contract.range", "temperature"),
        ("s17", 17, "contract.range", "temperature"),
        ("s30", 30, "contract.missing", "temperature"),
    ]
    told = result.summary["rejected"]
    assert (told["count"], told["kept"], told["truncated"], told["allowed"]) == (3, 3, False, 0)
    assert told["first"][0]["says"].endswith("512.3 is above 200")


def test_the_shard_is_a_golden_pack_that_is_rejected_again(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    result = run(tmp_path, plan)
    shard = result.folder / "rejected-00000.arrow"
    with open_pack([shard], tmp_path, slices=["site"]) as pack:
        pack.scan_ids()
        assert pack.ids(0, 3).tolist() == ["s03", "s17", "s30"]
        np.testing.assert_array_equal(pack.input("x", 0, 3), features()[[3, 17, 30]])
    assert [r["site"] for r in rows_of(shard)] == ["north", "north", "south"]
    again = run(tmp_path, {**plan, "golden": str(shard)})
    assert {r.code for r in again.reasons} == {"sample.rejected", "evidence.empty"}
    assert rows_of(again.folder / "rejected-ids.arrow")[0]["sample_id"] == "s03"


def test_a_stated_number_is_allowed_and_told(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, max_rejected=3)
    result = run(tmp_path, plan)
    assert result.verdict == "release"
    samples = result.summary["stages"][0]["samples"]
    assert (samples["compared"], samples["rejected"]) == (37, 3)
    (note,) = [n for n in result.summary["not_judged"] if "rejected" in n]
    assert "3 samples were rejected and not run, 3 allowed (max_rejected); id s03" in note
    held = run(tmp_path, {**plan, "max_rejected": 2})
    assert [r.code for r in held.reasons] == ["sample.rejected"]
    assert "2 allowed" in held.reasons[0].message


def test_no_budget_releases_where_nothing_ran(tmp_path: Path) -> None:
    x = np.full((N, 2), -1, np.float32)
    result = run(tmp_path, plan_of(tmp_path, x, max_rejected=1000))
    assert [r.code for r in result.reasons] == ["evidence.empty"]
    few = run(tmp_path, plan_of(tmp_path, max_rejected=3, min_samples=38))
    assert [r.code for r in few.reasons] == ["evidence.too_few"]


@pytest.mark.parametrize(("limits", "kept"), [({"max_failures": 2}, 2), ({"max_failures": 0}, 0),
                                              ({"max_failure_bytes": 8}, 1)])  # fmt: skip
def test_what_is_kept_is_bounded_and_all_ids_are_there(
    tmp_path: Path, limits: dict[str, int], kept: int
) -> None:
    result = run(tmp_path, plan_of(tmp_path, **limits))
    told = result.summary["rejected"]
    assert (told["count"], told["kept"], told["truncated"]) == (3, kept, True)
    assert len(rows_of(result.folder / "rejected-ids.arrow")) == 3
    shard = result.folder / "rejected-00000.arrow"
    assert shard.exists() is bool(kept)
    if kept:
        assert [r["sample_id"] for r in rows_of(shard)] == ["s03", "s17", "s30"][:kept]
    told = paritygate.explain(result.folder, "s30")
    assert told["status"] == "rejected"
    assert "channel 'temperature' (degC): nan" in told["says"]


def test_many_are_written_in_pack_order(tmp_path: Path) -> None:
    x = np.zeros((3000, 2), np.float32)
    bad = np.random.default_rng(2).choice(3000, 700, replace=False)
    x[bad, 0] = -1
    result = run(tmp_path, plan_of(tmp_path, x, max_failures=600))
    rows = rows_of(result.folder / "rejected-ids.arrow")
    assert [r["row"] for r in rows] == sorted(bad.tolist())
    kept = rows_of(result.folder / "rejected-00000.arrow")
    assert [r["row"] for r in kept] == sorted(bad.tolist())[:600]
    assert result.summary["rejected"]["count"] == 700


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int4", "bool", "float64"])
def test_shards_of_other_dtypes_hold_the_same_values(tmp_path: Path, dtype: str) -> None:
    import ml_dtypes

    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x = np.array([[0, 1], [1, 0], [1, 1]]).astype(kind)
    write_pack(tmp_path / "g.arrow", [0, 1, 2], {"x": x}, {"y": np.zeros(3)})
    write_pack(tmp_path / "c.arrow", [0, 1, 2], outputs={"y": np.zeros(3)})
    result = paritygate.run(
        {
            "golden": str(tmp_path / "g.arrow"),
            "inputs": {"x": {"range": [[0, 1], [0, 0]]}},
            "runners": {"a": "recorded", "b": str(tmp_path / "c.arrow")},
            "stages": [{"reference": "a", "candidate": "b", "default": {"atol": 0, "rtol": 0}}],
        },
        out=tmp_path / "runs",
    )
    with open_pack([result.folder / "rejected-00000.arrow"], tmp_path) as pack:
        assert pack.inputs["x"].dtype == dtype
        np.testing.assert_array_equal(pack.input("x", 0, 2), x[[0, 2]])


def test_what_is_read_for_a_runner_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from paritygate.golden.pack import GoldenPack

    taken, take, read = [], GoldenPack.take_input, GoldenPack.input

    def counted(self: GoldenPack, name: str, rows: Any) -> Any:
        taken.append((name, len(rows)))
        return take(self, name, rows)

    def counted_run(self: GoldenPack, name: str, start: int, stop: int) -> Any:
        taken.append((name, stop - start))
        return read(self, name, start, stop)

    monkeypatch.setattr(GoldenPack, "take_input", counted)
    monkeypatch.setattr(GoldenPack, "input", counted_run)
    x = np.zeros((N, 2), np.float32)
    assert paritygate.run(plan_of(tmp_path, x), out=None).verdict == "release"
    assert taken == [("x", N)]


def test_recordings_without_the_rejected_samples(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, max_rejected=3)
    for name in ("a", "b"):
        made = paritygate.record(plan, name, out=tmp_path / f"{name}.arrow")
        assert made.exit_code == 0, made.reasons
    files = {name: str(tmp_path / f"{name}.arrow") for name in ("a", "b")}
    recorded = {**plan, "runners": {n: {"kind": "recorded", "path": p} for n, p in files.items()}}
    assert paritygate.run(recorded, out=None).verdict == "release"
    strict = paritygate.run({**recorded, "max_rejected": 0}, out=None)
    assert [r.code for r in strict.reasons] == ["sample.rejected"]
    wider = {**recorded, "inputs": {"x": {"range": [-100, 1000]}}}
    missing = [r for r in paritygate.run(wider, out=None).reasons if r.code == "sample.missing"]
    assert [r.count for r in missing] == [2, 2]
    alone = paritygate.compare(files["a"], files["b"], out=None, atol=0, rtol=0)
    assert alone.verdict == "release"
    told = "3 of 40 samples were rejected when it was made, and aren't in it; its plan allowed 3"
    assert sum(told in note for note in alone.summary["not_judged"]) == 2


def test_recordings_that_lack_more_than_their_plan_allowed(tmp_path: Path) -> None:
    files = {name: tmp_path / f"{name}.arrow" for name in ("a", "b")}
    for name, file in files.items():
        made = paritygate.record(plan_of(tmp_path, max_rejected=2), name, out=file)
        assert made.exit_code == 1
        assert [r.code for r in made.reasons] == ["sample.rejected"]
    alone = paritygate.compare(files["a"], files["b"], out=None, atol=0, rtol=0)
    assert {r.code for r in alone.reasons} == {"evidence.incomplete_recording"}
    for name, file in files.items():
        file.unlink()
        made = paritygate.record(plan_of(tmp_path, max_rejected=3), name, out=file, limit=30)
        assert made.exit_code == 3
    part = paritygate.compare(files["a"], files["b"], out=None, atol=0, rtol=0)
    assert {r.code for r in part.reasons} == {"evidence.incomplete_recording"}


def test_the_first_input_at_fault_is_told_in_the_plans_order(tmp_path: Path) -> None:
    one = np.array([[0.0], [9.0], [0.0]], np.float32)
    two = np.array([[0.0], [9.0], [9.0]], np.float32)
    write_pack(tmp_path / "g.arrow", [0, 1, 2], {"one": one, "two": two}, {"y": np.zeros(3)})
    write_pack(tmp_path / "c.arrow", [0, 1, 2], outputs={"y": np.zeros(3)})
    plan = {
        "golden": str(tmp_path / "g.arrow"),
        "runners": {"a": "recorded", "b": str(tmp_path / "c.arrow")},
        "stages": [{"reference": "a", "candidate": "b", "default": {"atol": 0, "rtol": 0}}],
    }
    for order in (("one", "two"), ("two", "one")):
        inputs = {name: {"range": [0, 1]} for name in order}
        result = paritygate.run({**plan, "inputs": inputs}, out=tmp_path / "runs")
        rows = rows_of(result.folder / "rejected-ids.arrow")
        assert [(r["row"], r["input"]) for r in rows] == [(1, order[0]), (2, "two")]
