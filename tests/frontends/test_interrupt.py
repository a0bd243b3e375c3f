from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests import models
from tests.frontends.command import COMMAND, environment
from tests.packs import write_pack

SLOW = """\
import time


def answer(inputs):
    time.sleep(0.05)
    return {"y": inputs["x"] + 0}


def other(inputs):
    return {"y": inputs["x"] + 0}
"""

PLAN = """\
name = "slow"
golden = "golden.arrow"
[runners]
ref = { kind = "python", call = "slow:answer", batch_size = 1, outputs = ["y"] }
cand = { kind = "python", call = "slow:other", batch_size = 1, outputs = ["y"] }
[[stages]]
reference = "ref"
candidate = "cand"
outputs.y = { atol = 0, rtol = 0 }
"""


def wait_for(folder: Path, pattern: str, process: subprocess.Popen[str]) -> None:
    for _ in range(1200):
        if any(folder.glob(pattern)) or process.poll() is not None:
            return
        time.sleep(0.05)


@pytest.mark.slow
def test_control_c_ends_with_130_and_leaves_no_finished_folder(tmp_path: Path) -> None:
    write_pack(
        tmp_path / "golden.arrow", np.arange(20_000), {"x": np.zeros((20_000, 2), np.float32)}
    )
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "plan.toml").write_text(PLAN)
    process = subprocess.Popen(
        [*COMMAND, "run", "plan.toml", "--json"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(tmp_path / "runs", "*.partial", process)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert err.startswith("interrupted")
    assert "Traceback" not in err
    assert json.loads(out)["reasons"][0]["code"] == "run.interrupted"
    assert not (tmp_path / "runs").exists()


LONG = """\
import time


def answer(inputs):
    open("started", "w").close()
    time.sleep(100)
    return {"y": inputs["x"] + 0}


def other(inputs):
    return {"y": inputs["x"] + 0}
"""


def start_long(folder: Path, *options: str) -> subprocess.Popen[str]:
    """Run a plan whose only batch takes long, as the head of a process group."""
    write_pack(folder / "golden.arrow", np.arange(2), {"x": np.zeros((2, 2), np.float32)})
    (folder / "slow.py").write_text(LONG)
    (folder / "plan.toml").write_text(PLAN.replace("batch_size = 1", "batch_size = 2"))
    process = subprocess.Popen(
        [*COMMAND, "run", "plan.toml", *options],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_for(folder, "started", process)
    return process


@pytest.mark.slow
@pytest.mark.parametrize("send", [os.kill, os.killpg])
def test_a_second_control_c_ends_at_once(tmp_path: Path, send: Callable[[int, int], None]) -> None:
    process = start_long(tmp_path, "--json")
    assert process.stderr is not None
    send(process.pid, signal.SIGINT)
    told = process.stderr.readline()
    assert told == "stopping after the batches that are running; Ctrl-C again ends at once\n"
    send(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "interrupted; no verdict\n")
    assert json.loads(out)["reasons"][0]["code"] == "run.interrupted"
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_one_control_c_that_arrives_twice_is_one(tmp_path: Path) -> None:
    process = start_long(tmp_path)
    assert process.stderr is not None
    os.kill(process.pid, signal.SIGINT)
    os.killpg(process.pid, signal.SIGINT)
    assert process.stderr.readline().startswith("stopping after the batches")
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.1, 0.15, 0.2, 0.3, 0.4, 0.5])
def test_two_quick_ones_at_the_start_leave_no_traceback(tmp_path: Path, delay: float) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    write_pack(tmp_path / "golden.arrow", np.arange(2), {"x": np.zeros((2, 2), np.float32)})
    (tmp_path / "slow.py").write_text(LONG)
    process = subprocess.Popen(
        [sys.executable, "-c", START],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    for pause in (delay, 0.3):
        time.sleep(pause)
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "interrupted; no verdict\n")
    assert json.loads(out)["reasons"][0]["code"] == "run.interrupted"


COLD = """\
golden = "golden.arrow"
[runners]
ref = { model = "ref.onnx", batch_size = 64 }
cand = { model = "cand.onnx", batch_size = 64 }
[[stages]]
reference = "ref"
candidate = "cand"
outputs.y = { atol = 1e-3, rtol = 1e-3 }
"""


@pytest.mark.slow
def test_control_c_does_not_wait_for_kernels(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(2_000, 8)).astype(np.float32)
    write_pack(tmp_path / "golden.arrow", np.arange(2_000), {"x": x})
    for name, factor in (("ref", 1.0), ("cand", 1.0001)):
        models.scale_model(tmp_path / f"{name}.onnx", factor, 8)
    (tmp_path / "plan.toml").write_text(COLD)
    kernels = tmp_path / "kernels"

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COMMAND, "run", "plan.toml", "--json"],
            cwd=tmp_path,
            env=environment(NUMBA_CACHE_DIR=str(kernels)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    took = []
    for delay in (0.1, 0.6):  # from when the first kernel is compiled, or just before
        process = start()
        wait_for(tmp_path / "runs", "*.partial", process)
        time.sleep(delay)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
        took.append(time.monotonic() - began)
        assert (process.returncode, err.splitlines()[-1]) == (130, "interrupted; no verdict")
        assert "Traceback" not in err
        assert json.loads(out)["reasons"][0]["code"] == "run.interrupted"
        assert not list(kernels.rglob(".*"))
    out, _ = (process := start()).communicate(timeout=120)
    assert process.returncode == 0
    assert max(took) < json.loads(out)["timing"]["compiling_s"] / 2
    out, _ = start().communicate(timeout=120)
    assert json.loads(out)["timing"]["compiling_s"] == 0.0


AT_ONCE = """\
import os, signal, sys
from paritygate_frontends.cli.main import main
os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGINT))
os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGINT))
sys.argv = ["paritygate", "run", "plan.toml", "--json"]
main()
"""


@pytest.mark.slow
def test_one_that_arrives_while_the_child_begins_is_told(tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-c", AT_ONCE],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (process.returncode, process.stderr) == (130, "interrupted; no verdict\n")
    assert json.loads(process.stdout)["reasons"][0]["code"] == "run.interrupted"


START = """\
import sys
print("ready", flush=True)
from paritygate_frontends.cli.main import main
sys.argv = ["paritygate", "run", "plan.toml", "--json"]
main()
"""


TURNED = """
import sys, time
from paritygate_frontends.cli import run
from paritygate_frontends.cli.main import main

def choose(*_):
    open("started", "w").close()
    try:
        time.sleep(100)
    except KeyboardInterrupt:
        raise RuntimeError("a library that was interrupted says something else") from None

run._choose = choose
sys.argv = ["paritygate", "run", "plan.toml", "--json"]
main()
"""


@pytest.mark.slow
def test_an_interrupt_that_a_library_turns_into_its_own_error_is_still_one(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", TURNED],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(tmp_path, "started", process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "interrupted; no verdict\n")
    assert json.loads(out)["reasons"][0]["code"] == "run.interrupted"
