"""`paritygate record` as a command: exit codes, JSON, and nothing left where it breaks off."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.frontends.command import COMMAND, environment, execute, invoke
from tests.packs import write_pack

SIDE = """\
import os
import time

def twice(inputs):
    return {"y": 2 * inputs["x"]}

def same(inputs):
    return {"y": inputs["x"] + 0}

def slow(inputs):
    time.sleep(0.02)
    return {"y": inputs["x"] + 0}

def ends(inputs):
    if (inputs["x"] > 15_000).any():
        time.sleep(0.3)
        os._exit(0)
    return {"y": inputs["x"] + 0}

def raises(inputs):
    if (inputs["x"] > 50).any():
        raise ValueError("more than 50")
    return {"y": inputs["x"] + 0}
"""
PLAN = """\
name = "side"
golden = "golden.arrow"
[runners]
twice = "side:twice"
same = "side:same"
slow = { call = "side:slow", batch_size = 64 }
ends = { call = "side:ends", batch_size = 64 }
raises = { call = "side:raises", batch_size = 10 }
[[stages]]
reference = "twice"
candidate = "same"
outputs.y = { atol = 0, rtol = 0 }
"""


def write_plan(folder: Path, n: int = 100) -> Path:
    x = np.arange(n, dtype=np.float32)
    write_pack(folder / "golden.arrow", np.arange(n), {"x": x})
    (folder / "side.py").write_text(SIDE)
    (folder / "plan.toml").write_text(PLAN)
    return folder / "plan.toml"


def left(folder: Path) -> list[str]:
    names = sorted(p.name for p in folder.iterdir())
    return [n for n in names if n not in ("golden.arrow", "side.py", "plan.toml", "__pycache__")]


def test_it_tells_what_it_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_plan(tmp_path)
    monkeypatch.chdir(tmp_path)
    done = invoke("record", "plan.toml", "twice")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("RECORDED  twice: 100 golden samples recorded\n")
    assert "y: float32[batch]" in done.stdout
    assert "twice.arrow: " in done.stdout
    assert left(tmp_path) == ["twice.arrow"]
    again = invoke("record", "plan.toml", "twice")
    assert again.exit_code == 2
    assert "is there already" in again.stderr


def test_json_is_the_summary_and_nothing_else(tmp_path: Path) -> None:
    write_plan(tmp_path)
    out = tmp_path / "deep" / "er" / "r.arrow"
    done = invoke("record", tmp_path / "plan.toml", "raises", "--out", out, "--json")
    summary = json.loads(done.stdout)
    assert (done.exit_code, summary["verdict"]) == (1, "hold")
    assert summary["recording"]["samples"]["raised"] == 50  # batches of 10; the sixth holds 51
    assert summary["reasons"][0]["code"] == "runner.error"
    rows = pa.ipc.open_file(out).read_all()["sample_id"].to_pylist()
    assert rows == list(range(50))


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["twice", "--limit", "5"], 3, "5 of 100 samples were recorded (--limit)"),
        (["twyce"], 2, "no runner is named 'twyce'; did you mean 'twice'?"),
        (["twice", "--set", "runners.twice.call=side:same"], 0, "RECORDED"),
    ],
)
def test_ends(tmp_path: Path, args: list[str], code: int, says: str) -> None:
    write_plan(tmp_path)
    runner, *options = args
    out = tmp_path / "r.arrow"
    done = invoke("record", tmp_path / "plan.toml", runner, "--out", out, *options)
    assert done.exit_code == code
    assert says in done.stdout + done.stderr
    if "--set" in options:
        y = pa.ipc.open_file(out).read_all()["out.y"].to_pylist()
        assert y == list(range(100))


def wait_until_written(folder: Path, process: subprocess.Popen[str]) -> None:
    for _ in range(600):
        partial = list(folder.glob("*.partial"))
        if process.poll() is not None or (partial and partial[0].stat().st_size > 50_000):
            return
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2])
def test_control_c_leaves_nothing(tmp_path: Path, times: int) -> None:
    write_plan(tmp_path, 1_000_000)
    process = subprocess.Popen(
        [*COMMAND, "record", "plan.toml", "slow", "--json"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until_written(tmp_path, process)
    (partial,) = left(tmp_path)
    assert re.fullmatch(r"slow\.arrow\.[0-9a-f]{12}\.partial", partial)
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert json.loads(out)["reasons"][0]["code"] == "run.interrupted"
    assert left(tmp_path) == []


@pytest.mark.slow
def test_a_process_that_ends_midway_leaves_nothing(tmp_path: Path) -> None:
    write_plan(tmp_path, 100_000)
    done = execute("record", "plan.toml", "ends", "--threads", "1", cwd=tmp_path)
    assert done.returncode == 2
    assert "runner.crashed" in done.stderr
    assert left(tmp_path) == []


FULL = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
import paritygate
try:
    paritygate.record("plan.toml", "twice")
except paritygate.ParityError as e:
    print(e.code, e.exit_code, e)
"""


@pytest.mark.slow
def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    write_plan(tmp_path, 300_000)
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
    assert left(tmp_path) == []
