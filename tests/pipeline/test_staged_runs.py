"""Weights that are truncated or overwritten under a run: the numbers stay those of what was judged.

Each case is first shown to bite a session that loads the file itself.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import models
from tests.frontends.command import COMMAND, environment, execute
from tests.packs import write_pack

import paritygate

ROWS = 256

_ACT = """
import os
def truncate():
    os.truncate("table.bin", 16)
def overwrite():
    size = os.stat("table.bin").st_size
    with open("table.bin", "r+b") as file:
        file.write(bytes(size))
def remove():
    os.unlink("table.bin")
    os.unlink("m.onnx")
"""

_BARE = """
import sys
import time
import numpy as np, onnxruntime
import act
session = onnxruntime.InferenceSession("m.onnx", providers=["CPUExecutionProvider"])
x = np.full(8, 250, np.int64)
before = session.run(None, {"x": x})[0]
getattr(act, sys.argv[1])()
print(bool((session.run(None, {"x": x})[0] == before).all()))
"""

_RUN = """
import json, sys
import numpy as np
import paritygate
import act
done = []
def ref(given):
    if not done:
        done.append(1)
        getattr(act, sys.argv[1])()
    return {"y": np.arange(256 * 1024, dtype=np.float32).reshape(256, 1024)[given["x"]]}
batches = [{"x": np.arange(n, n + 8)} for n in range(0, 256, 8)]
result = paritygate.verify(ref, "m.onnx", batches, atol=0, rtol=0)
summary = result.summary
print(json.dumps([result.verdict, [r.code for r in result.reasons],
    summary["stages"][0]["outputs"]["y"]["failing_elements"], summary["stages"][0]["samples"]]))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "staging").mkdir()
    monkeypatch.setenv("PARITYGATE_STAGING", str(tmp_path / "staging"))
    models.mapped_table(tmp_path / "m.onnx")
    (tmp_path / "act.py").write_text(_ACT)
    return tmp_path


def left(folder: Path) -> list[str]:
    return [p.name for p in (folder / "staging").iterdir()]


def python(folder: Path, code: str, act: str) -> subprocess.CompletedProcess[str]:
    (folder / "main.py").write_text(code)
    return subprocess.run(
        [sys.executable, "main.py", act], cwd=folder, capture_output=True, text=True, timeout=120
    )


def test_a_session_of_the_file_itself_dies_or_changes(folder: Path) -> None:
    assert python(folder, _BARE, "overwrite").stdout == "False\n"
    models.mapped_table(folder / "m.onnx")
    assert python(folder, _BARE, "truncate").returncode == -signal.SIGBUS


@pytest.mark.slow
@pytest.mark.parametrize("act", ["truncate", "overwrite", "remove"])
def test_a_run_judges_the_numbers_of_what_it_digested(folder: Path, act: str) -> None:
    done = python(folder, _RUN, act)
    assert done.returncode == 0, done.stderr
    verdict, codes, failing, samples = json.loads(done.stdout)
    assert verdict == "hold"
    assert codes == ["evidence.changed"]
    assert failing == 0
    assert samples["compared"] == samples["expected"] == ROWS
    assert samples["failed"] == 0
    assert left(folder) == []


def plan(folder: Path, ref: Any, cand: Any) -> dict[str, Any]:
    rows = np.arange(ROWS)
    write_pack(folder / "g.arrow", rows, {"x": rows})
    return {
        "golden": str(folder / "g.arrow"),
        "dims": {"batch": {"sizes": [8]}},
        "runners": {"a": ref, "b": cand},
        "stages": [{"reference": "a", "candidate": "b", "outputs": {"y": {"atol": 0, "rtol": 0}}}],
    }


def test_both_runners_of_one_file_share_a_copy_that_goes_with_the_run(folder: Path) -> None:
    from paritygate.api.plans import load_plan
    from paritygate.pipeline.prepare import prepare_plan

    model = str(folder / "m.onnx")
    table = plan(folder, model, {"model": model, "graph_optimization_level": "disable"})
    ready = prepare_plan(load_plan(table))
    with ready.resources:
        copies = sorted(p.name for p in (folder / "staging").rglob("*") if p.is_file())
        assert copies == ["m.onnx", "table.bin"]
    assert left(folder) == []
    result = paritygate.run(table, out=None)
    assert result.verdict == "release"
    staging = result.summary["runners"]["b"]["staging"]
    size = (folder / "m.onnx").stat().st_size + (folder / "table.bin").stat().st_size
    assert staging["bytes"] == size
    assert staging["method"] in ("copy", "reflink")
    assert result.summary["timing"]["staging_s"] >= staging["seconds"] > 0
    assert left(folder) == []


def test_a_check_and_a_plan_that_fails_leave_nothing(folder: Path) -> None:
    model = str(folder / "m.onnx")
    table = plan(folder, model, {"model": model, "graph_optimization_level": "disable"})
    assert paritygate.check(table).exit_code == 0
    assert left(folder) == []
    models.scale_model(folder / "other.onnx", in_name="absent")
    table["runners"]["b"] = str(folder / "other.onnx")
    assert paritygate.check(table).exit_code != 0
    assert left(folder) == []


_SLOW = """
import time
open("preparing", "w").close()
time.sleep(5)
def ref(given):
    return {}
"""

_INTERRUPTED = """
import os, signal, threading, time
import paritygate

def interrupt():
    while not os.path.exists("preparing"):
        time.sleep(0.01)
    time.sleep(1)
    signal.raise_signal(signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
try:
    paritygate.run("p.toml", out=None)
except KeyboardInterrupt:
    for thread in threading.enumerate():
        if thread.name.startswith("prepare"):
            thread.join()
    print("interrupted", flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
def test_an_interrupt_while_models_are_prepared_leaves_no_copies_to_a_process_that_goes_on(
    folder: Path,
) -> None:
    write_plan(folder)
    (folder / "fns.py").write_text(_SLOW)
    (folder / "main.py").write_text(_INTERRUPTED)
    process = subprocess.Popen(
        [sys.executable, "main.py"], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "interrupted\n"
        assert left(folder) == []
    finally:
        process.kill()
        process.communicate()


_WAITING = """
import ctypes, os, time
def ref(given):
    open("started", "w").close()
    if os.path.exists("crash"):
        ctypes.string_at(0)
    time.sleep(60)
"""


def write_plan(folder: Path) -> None:
    write_pack(folder / "g.arrow", np.arange(ROWS), {"x": np.arange(ROWS)})
    (folder / "fns.py").write_text(_WAITING)
    (folder / "p.toml").write_text(
        'golden = "g.arrow"\n[runners]\na = "fns:ref"\nb = "m.onnx"\n'
        '[[stages]]\nreference = "a"\ncandidate = "b"\noutputs.y = { atol = 0, rtol = 0 }\n'
    )


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_a_stopped_command_leaves_no_copies(folder: Path, number: signal.Signals) -> None:
    write_plan(folder)
    process = subprocess.Popen(
        [*COMMAND, "run", "p.toml"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not (folder / "started").exists():
        assert process.poll() is None
        time.sleep(0.01)
    assert len(left(folder)) == 1
    process.send_signal(number)
    if number is signal.SIGINT:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.send_signal(number)
    process.wait(60)
    if number is signal.SIGKILL:  # nobody was left to remove them; the next start does
        assert execute("check", "p.toml", cwd=folder).returncode == 0
    assert left(folder) == []


@pytest.mark.slow
def test_a_crash_leaves_no_copies(folder: Path) -> None:
    write_plan(folder)
    (folder / "crash").touch()
    done = execute("run", "p.toml", cwd=folder)
    assert done.returncode == 2
    assert "SIGSEGV" in done.stderr
    assert left(folder) == []


@pytest.mark.slow
def test_a_replay_loads_copies_too(folder: Path) -> None:
    models.scale_model(folder / "a.onnx", 1.0)
    models.external_data_model(folder / "b.onnx", np.eye(4, dtype=np.float32) * 2)
    x = np.ones((8, 4), np.float32)
    write_pack(folder / "g.arrow", np.arange(8), {"x": x})
    table = plan(folder, str(folder / "a.onnx"), str(folder / "b.onnx"))
    write_pack(folder / "g.arrow", np.arange(8), {"x": x})
    run = paritygate.run(table, out=folder / "runs")
    assert run.verdict == "hold"
    assert run.folder is not None
    again = paritygate.replay(run.folder, out=folder / "runs")
    assert again.summary["runners"]["b"]["staging"]["bytes"] > 64
    assert left(folder) == []
    with (folder / "weights.bin").open("r+b") as file:
        file.write(b"\1")
    with pytest.raises(paritygate.ParityError, match="'b' was"):
        paritygate.replay(run.folder, out=folder / "runs")
    assert left(folder) == []
    assert os.environ["PARITYGATE_STAGING"] == str(folder / "staging")
