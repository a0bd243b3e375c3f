"""A second interrupt doesn't wait for what is running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.pipeline.test_record import plan_of

import paritygate
from paritygate.core.errors import Interrupted

X = np.ones((4, 2), np.float32)


def interrupt_once() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_a_second_interrupt_ends_at_once(tmp_path: Path) -> None:
    finish, ended = threading.Event(), threading.Event()
    lets_go: list[bool] = []

    def ref(given: dict[str, Any]) -> dict[str, Any]:
        lets_go.append(threading.current_thread().daemon)
        for delay in (0.2, 1.0):
            threading.Timer(delay, interrupt_once).start()
        finish.wait(30)
        ended.set()
        return {"y": given["x"]}

    def cand(given: dict[str, Any]) -> dict[str, Any]:
        return {"y": given["x"] * 1}

    try:
        with pytest.raises(Interrupted):
            paritygate.verify(ref, cand, {"x": X}, atol=0.0, rtol=0.0, out=tmp_path / "runs")
        assert not ended.is_set()
        assert lets_go == [True]  # else the process would wait for it at its end
    finally:
        finish.set()
        assert ended.wait(30)
    assert not (tmp_path / "runs").exists()


def test_the_first_one_waits_for_the_batch_that_is_running(tmp_path: Path) -> None:
    ended = threading.Event()

    def ref(given: dict[str, Any]) -> dict[str, Any]:
        threading.Timer(0.2, interrupt_once).start()
        threading.Event().wait(1.0)
        ended.set()
        return {"y": given["x"]}

    def cand(given: dict[str, Any]) -> dict[str, Any]:
        return {"y": given["x"] * 1}

    with pytest.raises(Interrupted):
        paritygate.verify(ref, cand, {"x": X}, atol=0.0, rtol=0.0, out=tmp_path / "runs")
    assert ended.is_set()
    assert not (tmp_path / "runs").exists()


COLD = """
import json, os, signal, sys, threading, time
import paritygate
from paritygate.core.errors import Interrupted
from paritygate.core.events import Prepared

interrupted = []

def interrupt():
    interrupted.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)

def observe(event):
    if isinstance(event, Prepared) and not interrupted:
        threading.Timer(0.3, interrupt).start()

def run():
    return paritygate.run(json.loads(sys.argv[1]), out=None, observer=observe)

try:
    run()
except Interrupted:
    took = time.monotonic() - interrupted[0]
left = [t for t in threading.enumerate() if t.name.startswith("paritygate-")]
result = run()
print(json.dumps([took, len(left), result.verdict, result.summary["timing"]["compiling_s"]]))
for thread in left:
    thread.join()
"""


@pytest.mark.slow
def test_an_interrupt_does_not_wait_for_kernels_and_the_next_run_compiles_them(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COLD, json.dumps(plan_of(tmp_path))],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kernels")},
        capture_output=True,
        text=True,
        check=True,
    )
    took, left, verdict, seconds = json.loads(done.stdout)
    assert verdict == "release"
    assert left  # of which the first compiles, and nobody waits for it
    assert took < seconds / 2
    assert not list(tmp_path.rglob(".*"))
