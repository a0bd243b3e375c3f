"""What holds a runner, or lacks in a recording of it, holds what is compared with the recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.packs import write_pack
from tests.pipeline.test_record import N, plan_of, table_of, told_by
from tests.runners.test_ort_dtypes import maps_model

import paritygate
from paritygate.core.errors import FolderError

EXACT = {"atol": 0.0, "rtol": 0.0}
INCOMPLETE = "evidence.incomplete_recording"


def codes(result: paritygate.RunResult) -> set[str]:
    return {reason.code for reason in result.reasons}


def maps_plan(folder: Path, ref: str, cand: str) -> dict[str, Any]:
    x = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    write_pack(folder / "g.arrow", range(20), {"x": x})
    for name, keys in (("ref", ref), ("cand", cand)):
        maps_model(folder / f"{name}.onnx", list(keys))
    return {
        "golden": str(folder / "g.arrow"),
        "runners": {n: {"model": str(folder / f"{n}.onnx")} for n in ("ref", "cand")},
        "stages": [{"reference": "ref", "candidate": "cand", "default": EXACT}],
    }


@pytest.mark.parametrize("sides", [("ref",), ("cand",), ("ref", "cand")])
@pytest.mark.parametrize(("keys", "holds"), [("abce", True), ("abcd", False)])
def test_classes_are_compared_from_recordings(
    tmp_path: Path, sides: tuple[str, ...], keys: str, holds: bool
) -> None:
    plan = maps_plan(tmp_path, "abcd", keys)
    for name in sides:
        paritygate.record(plan, name, out=tmp_path / f"{name}.arrow")
        again = {**plan, "runners": {**plan["runners"], name: str(tmp_path / f"{name}.arrow")}}
        paritygate.record(again, name, out=tmp_path / f"{name}.2.arrow")
    for name in sides:
        outputs = {"outputs": {"y": "y"}}
        path = str(tmp_path / f"{name}.2.arrow")
        plan["runners"][name] = {"kind": "recorded", "path": path, **outputs}
    result = paritygate.run(plan, out=None)
    assert ("output.classes" in codes(result)) == holds, result.explain()


def test_classes_follow_an_output_of_another_name(tmp_path: Path) -> None:
    plan = maps_plan(tmp_path, "abcd", "abce")
    for name in ("ref", "cand"):
        paritygate.record(plan, name, out=tmp_path / f"{name}.arrow")
        path = str(tmp_path / f"{name}.arrow")
        plan["runners"][name] = {"kind": "recorded", "path": path, "outputs": {"z": "y"}}
    (reason,) = paritygate.run(plan, out=None).reasons
    assert (reason.code, reason.output) == ("output.classes", "z")


def test_labels_are_compared_with_a_recordings_classes(tmp_path: Path) -> None:
    plan = maps_plan(tmp_path, "abcd", "abcd")
    plan["decisions"] = {"best": {"output": "y", "argmax": True, "labels": list("bacd")}}
    for name in ("ref", "cand"):
        paritygate.record(plan, name, out=tmp_path / f"{name}.arrow")
        plan["runners"][name] = str(tmp_path / f"{name}.arrow")
    assert "output.classes" in codes(paritygate.run(plan, out=None))


def test_two_parts_of_a_pack_are_not_released(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    for name in ("ref", "cand"):
        paritygate.record(plan, name, out=tmp_path / f"{name}.arrow", limit=10)
    result = paritygate.compare(
        tmp_path / "ref.arrow", tmp_path / "cand.arrow", atol=1.0, rtol=0.5, out=None
    )
    assert result.verdict == "hold"
    assert codes(result) == {INCOMPLETE}
    assert all(f"10 of the {N} samples" in reason.message for reason in result.reasons)
    assert {r.message.split("'")[1] for r in result.reasons} == {"reference", "candidate"}
    live = {**plan, "golden": str(tmp_path / "ref.arrow")}
    live["runners"] = {"ref": "recorded", "cand": str(tmp_path / "cand.arrow")}
    made = paritygate.record(live, "ref", out=tmp_path / "again.arrow")
    assert [r.code for r in made.reasons] == [INCOMPLETE]


def test_rows_that_were_taken_out_hold_and_files_that_were_cut_do_not(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    for name in ("ref", "cand"):
        paritygate.record(plan, name, out=tmp_path / f"{name}.arrow")
        table = table_of(tmp_path / f"{name}.arrow")
        for part, (start, rows) in {"few": (0, 51), "a": (0, 400), "b": (400, N)}.items():
            path = str(tmp_path / f"{name}-{part}.arrow")
            with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table.slice(start, rows))

    def judged(parts: list[str]) -> paritygate.RunResult:
        runners = {
            n: {"kind": "recorded", "path": [str(tmp_path / f"{n}-{p}.arrow") for p in parts]}
            for n in ("ref", "cand")
        }
        golden = [str(tmp_path / f"ref-{p}.arrow") for p in parts]
        stages = [{**plan["stages"][0], "outputs": {"y": {"atol": 1.0, "rtol": 0.5}}}]
        return paritygate.run({"golden": golden, "runners": runners, "stages": stages}, out=None)

    few = judged(["few"])
    assert codes(few) == {INCOMPLETE}
    assert all(f"51 rows, but {N} samples" in r.message for r in few.reasons)
    assert judged(["a", "b"]).verdict == "release"


def coupled_plan(folder: Path) -> dict[str, Any]:
    (folder / "side.py").write_text(
        "def f(inputs):\n    return {'y': inputs['x'] + 0.25 * (len(inputs['x']) == 1)}\n"
    )
    plan = plan_of(folder, dims={"batch": {"sizes": [1, 32]}})
    plan["runners"] = {
        name: {"call": "side:f", "folder": str(folder), "batch_size": 32}
        for name in ("ref", "cand")
    }
    plan["stages"][0]["self"] = True
    return plan


def test_what_the_run_finds_in_a_runner_is_kept(tmp_path: Path) -> None:
    plan = coupled_plan(tmp_path)
    live = paritygate.run(plan, out=tmp_path / "runs", keep_outputs=True)
    assert "runner.batch_coupled" in codes(live)
    assert live.folder is not None
    for name in ("ref", "cand"):
        path = live.folder / "outputs" / f"{name}.arrow"
        assert [f["code"] for f in told_by(path)["findings"]] == ["runner.batch_coupled"]
        plan["runners"][name] = str(path)
    again = paritygate.run(plan, out=None)
    assert codes(again) == {"runner.batch_coupled"}


def test_what_record_does_not_look_for_is_told(tmp_path: Path) -> None:
    plan = coupled_plan(tmp_path)
    for name in ("ref", "cand"):
        paritygate.record(plan, name, out=tmp_path / f"{name}.arrow")
        plan["runners"][name] = str(tmp_path / f"{name}.arrow")
    result = paritygate.run(plan, out=None)
    for name in ("ref", "cand"):
        for code in ("runner.batch_coupled", "runner.reference_drift"):
            assert any(
                note.startswith(f"recording {name}: when it was recorded") and code in note
                for note in result.not_judged
            ), result.not_judged


def test_drift_from_the_packs_outputs_is_kept(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    x = np.ones((30, 4), np.float32)
    write_pack(tmp_path / "with.arrow", range(30), {"x": x}, {"y": 3 * x})
    plan["golden"] = str(tmp_path / "with.arrow")
    live = paritygate.run(plan, out=tmp_path / "runs", keep_outputs=True)
    assert live.folder is not None
    told = told_by(live.folder / "outputs" / "ref.arrow")
    assert [f["code"] for f in told["findings"]] == ["runner.reference_drift"]
    cand = told_by(live.folder / "outputs" / "cand.arrow")
    assert any("what the pack had recorded" in text for text in cand["unchecked"])


def test_two_recordings_of_one_name_do_not_destroy_each_other(tmp_path: Path) -> None:
    plan, out = plan_of(tmp_path), tmp_path / "r.arrow"
    inner: list[paritygate.RecordResult] = []

    def second(event: object) -> None:
        if type(event).__name__ == "Progress" and not inner:
            inner.append(paritygate.record(plan, "cand", out=out))

    with pytest.raises(FolderError, match="was written by somebody else"):
        paritygate.record(plan, "ref", out=out, observer=second)
    assert told_by(out)["runner"]["name"] == "cand"
    assert table_of(out).num_rows == N
    assert [p.name for p in tmp_path.glob("r.arrow*")] == ["r.arrow"]


def test_noise_below_a_tolerance_holds_its_stage_alone(tmp_path: Path) -> None:
    plan = coupled_plan(tmp_path)
    del plan["stages"][0]["self"]
    plan["runners"]["cand"]["call"] = "side:g"
    with (tmp_path / "side.py").open("a") as file:
        file.write("def g(inputs):\n    return {'y': inputs['x'] + 0.0}\n")
    narrow = {**plan["stages"][0], "name": "narrow", "outputs": {"y": {"atol": 0.1, "rtol": 0.0}}}
    wide = {**narrow, "name": "wide", "outputs": {"y": {"atol": 1.0, "rtol": 0.0}}}
    plan["stages"] = [narrow, wide]
    plan["noise"] = {"vary": ["batch_size"]}
    plan["batch_coupling"] = {}
    result = paritygate.run(plan, out=None)
    stages = {s["name"]: s["verdict"] for s in result.summary["stages"]}
    below = {r.stage for r in result.reasons if r.code == "policy.below_noise"}
    assert below == {"narrow"}, result.explain()
    coupled = any(r.code == "runner.batch_coupled" for r in result.reasons)
    assert stages == {"narrow": "hold", "wide": "hold" if coupled else "release"}
