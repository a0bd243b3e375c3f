"""`--keep-outputs`: both sides of a run, judged again from what was kept, count the same."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pyarrow as pa
import pytest
from tests.frontends.command import environment, invoke
from tests.pipeline.test_record import N, plan_of, samples, table_of, tally_of, told_by

import paritygate
from paritygate.core.errors import PlanError
from paritygate_frontends.cli.demonstration import copy_demo


def three(tmp_path: Path) -> dict[str, Any]:
    """Two stages that share a reference; one candidate raises, inputs are rejected."""
    (tmp_path / "side.py").write_text(
        "def f(inputs):\n"
        "    if (inputs['x'][:, 0] > 2.5).any():\n"
        "        raise ValueError('too large')\n"
        "    return {'y': 2 * inputs['x']}\n"
    )
    plan = plan_of(tmp_path)
    plan["inputs"] = {"x": {"range": [-3.0, 3.0]}}
    plan["runners"]["odd name/"] = {"call": "side:f", "folder": str(tmp_path), "batch_size": 10}
    stage = {**plan["stages"][0], "name": "second", "candidate": "odd name/"}
    plan["stages"].append(stage)
    return plan


def stages_of(result: paritygate.RunResult) -> list[Any]:
    keys = ("name", "samples", "outputs", "decisions", "verdict")
    return [{key: stage[key] for key in keys} for stage in result.summary["stages"]]


@pytest.mark.parametrize("threads", [1, 3])
def test_what_is_kept_judges_the_same_bit_for_bit(tmp_path: Path, threads: int) -> None:
    plan = plan_of(tmp_path)
    live = paritygate.run(plan, out=tmp_path / "runs", keep_outputs=True, threads=threads)
    assert live.folder is not None
    kept = live.summary["outputs"]
    assert list(kept) == ["ref", "cand"]
    for name, told in kept.items():
        path = live.folder / told["path"]
        assert told["path"] == f"outputs/{name}.arrow"
        assert told["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
        assert told["bytes"] == path.stat().st_size
        session = onnxruntime.InferenceSession(tmp_path / f"{name}.onnx")
        (wanted,) = session.run(None, {"x": samples()})
        tensors = table_of(path)["out.y"].combine_chunks().to_numpy_ndarray()
        assert tensors.tobytes() == wanted.tobytes()
        assert told_by(path)["golden"]["digest"] == live.summary["golden"]["digest"]
        assert told_by(path)["runner"]["identity"] == live.summary["runners"][name]["identity"]
        plan["runners"][name] = {"kind": "recorded", "path": str(path)}
    assert stages_of(paritygate.run(plan, out=None)) == stages_of(live)
    compared = paritygate.compare(
        live.folder / "outputs" / "ref.arrow",
        live.folder / "outputs" / "cand.arrow",
        tolerances={"y": {"atol": 1e-3, "rtol": 1e-3}},
        out=None,
    )
    assert tally_of(compared)["outputs"] == tally_of(live)["outputs"]  # type: ignore[index]


def test_each_runner_once_and_what_it_did_not_answer(tmp_path: Path) -> None:
    result = paritygate.run(three(tmp_path), out=tmp_path / "runs", keep_outputs=True)
    assert result.folder is not None
    names = sorted(p.name for p in (result.folder / "outputs").iterdir())
    assert names == ["cand.arrow", "ref.arrow", "runner-2.arrow"]
    kept = result.summary["outputs"]
    second = result.summary["stages"][1]["samples"]
    odd = kept["odd name/"]["samples"]
    assert odd["raised"] == second["errors"] > 0
    assert odd["rejected"] == second["rejected"] > 0
    assert odd["recorded"] == second["compared"]
    assert kept["ref"]["samples"]["recorded"] == N - odd["rejected"]
    assert json.loads((result.folder / "summary.json").read_bytes())["outputs"] == kept


def test_by_default_nothing_is_kept(tmp_path: Path) -> None:
    result = paritygate.run(plan_of(tmp_path), out=tmp_path / "runs")
    assert result.folder is not None
    assert not (result.folder / "outputs").exists()
    assert "outputs" not in result.summary
    with pytest.raises(PlanError, match="keep_outputs: needs a run folder"):
        paritygate.run(plan_of(tmp_path), out=None, keep_outputs=True)


def test_the_command_says_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy_demo(tmp_path)
    monkeypatch.chdir(tmp_path)
    done = invoke("run", "cancer.toml", "--keep-outputs", "--stage", "conversion")
    assert done.exit_code == 3, done.stderr
    assert ".arrow: what float answered to 252 samples" in done.stdout


FULL = """
import resource, sys
import paritygate
paritygate.assert_parity([1.0], [1.0])
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, resource.RLIM_INFINITY))
try:
    paritygate.run(paritygate.load_plan("plan.toml"), keep_outputs=True)
except paritygate.ParityError as e:
    print(e.code, e.exit_code, e)
"""


@pytest.mark.slow
def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, n=20_000)
    (tmp_path / "plan.toml").write_text(paritygate.toml_text(plan))
    done = subprocess.run(
        [sys.executable, "-c", FULL],
        cwd=tmp_path,
        env=environment(NUMBA_DISABLE_JIT="1"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("runfolder.unwritable 2 "), done.stderr
    assert "no room left" in done.stdout
    assert not (tmp_path / "runs").exists()


def test_a_recording_is_kept_too(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    paritygate.record(plan, "cand", out=tmp_path / "c.arrow")
    plan["runners"]["cand"] = {"path": str(tmp_path / "c.arrow")}
    result = paritygate.run(plan, out=tmp_path / "runs", keep_outputs=True)
    assert result.folder is not None
    kept = table_of(result.folder / "outputs" / "cand.arrow")
    assert kept.equals(table_of(tmp_path / "c.arrow").replace_schema_metadata(kept.schema.metadata))
    assert np.array_equal(kept["sample_id"], pa.chunked_array([np.arange(N) * 3]))
