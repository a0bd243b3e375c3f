"""`paritygate replay` as a command, with its own process for the models."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.frontends.command import execute, invoke
from tests.frontends.plans import make_plan
from tests.packs import write_pack

FUNCTIONS = """\
import os

def ref(d):
    return {"y": d["x"] + 0}

def cand(d):
    if os.path.exists("leave"):
        os._exit(0)
    print("from the model")
    return {"y": d["x"] * 2}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert invoke("run", make_plan(tmp_path, 0.99)).exit_code == 1
    return tmp_path


def test_a_hold_that_holds_again(folder: Path) -> None:
    (run,) = (folder / "runs").iterdir()
    done = invoke("replay", run, "105", "--out", "again")
    assert done.exit_code == 1
    for word in (
        f"Replay  1 sample of {run}, without their neighbours",
        "1 reproduced bit for bit",
        "105  only: reproduced bit for bit",
        "HOLD  scaled: 1 golden sample",
        "decision.flip",
        "Run folder  again/scaled-replay-",
    ):
        assert word in done.stdout


def test_json_is_the_summary_of_the_replays_own_folder(folder: Path) -> None:
    (run,) = (folder / "runs").iterdir()
    done = invoke("replay", run, "--with-batch", "--out", "again", "--json")
    assert done.exit_code == 1
    (again,) = (folder / "again").iterdir()
    assert done.stdout == (again / "summary.json").read_text()
    summary = json.loads(done.stdout)
    assert summary["replay"]["with_batch"]
    assert summary["replay"]["outcomes"]["bitwise"] == len(summary["replay"]["samples"]) == 20
    assert invoke("explain", again, "105").exit_code == 0


def test_a_mended_candidate_is_incomplete_and_never_released(folder: Path) -> None:
    (run,) = (folder / "runs").iterdir()
    shutil.copy(folder / "ref.onnx", folder / "cand.onnx")
    make_plan(folder, 1.0 + 1e-6)
    done = invoke("replay", run, "--out", "again")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "'other' was" in done.stderr
    assert "--changed" in done.stderr
    done = invoke("replay", run, "--changed", "--out", "again")
    assert done.exit_code == 3
    assert "changed since: 'other' was" in done.stdout
    assert "20 not reproduced" in done.stdout
    assert "candidate 0.495000005 -> 0.5" in done.stdout


@pytest.mark.parametrize("damage", ["gone", "cut", "no folder"])
def test_what_is_no_run_folder(folder: Path, damage: str) -> None:
    (run,) = (folder / "runs").iterdir()
    if damage == "gone":
        shutil.rmtree(run)
    if damage == "cut":
        path = run / "summary.json"
        path.write_text(path.read_text()[:100])
    if damage == "no folder":
        run = folder / "plan.toml"
    done = invoke("replay", run, "--out", "again")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "runfolder.unreadable" in done.stderr
    assert not (folder / "again").exists()


@pytest.mark.slow
def test_a_model_that_ends_its_process_leaves_no_verdict_and_no_folder(tmp_path: Path) -> None:
    write_pack(tmp_path / "g.arrow", np.arange(6), {"x": np.ones((6, 2), np.float32)})
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    (tmp_path / "plan.toml").write_text(
        'golden = "g.arrow"\n[runners]\nref = "functions:ref"\ncand = "functions:cand"\n'
        '[[stages]]\nname = "only"\nreference = "ref"\ncandidate = "cand"\n'
        "default = { atol = 0.0, rtol = 0.0 }\n"
    )
    assert execute("run", "plan.toml", cwd=tmp_path).returncode == 1
    (run,) = (tmp_path / "runs").iterdir()
    done = execute("replay", run, "--out", "again", "--json", cwd=tmp_path)
    assert done.returncode == 1
    assert json.loads(done.stdout)["replay"]["outcomes"]["bitwise"] == 6
    assert "from the model" in done.stderr
    shutil.rmtree(tmp_path / "again")
    (tmp_path / "leave").touch()
    done = execute("replay", run, "--out", "again", cwd=tmp_path)
    assert done.returncode == 2
    assert "called exit" in done.stderr
    assert not (tmp_path / "again").exists()
