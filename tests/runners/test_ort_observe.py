"""The process that observes: it may crash, hang or lose its parent, and nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests import models

from paritygate.runners.ort_observe import Observation, Observer
from paritygate.runners.ort_warnings import MAX_WARNINGS, read_warnings

REQUEST = {
    "level": "ORT_ENABLE_ALL",
    "mode": "ORT_SEQUENTIAL",
    "intra": 1,
    "inter": 1,
    "entries": {"session.record_ep_graph_assignment_info": "1"},
    "providers": [["CPUExecutionProvider", {}]],
    "disabled": [],
    "libraries": [],
}
ANSWER = """
import json, os, sys
out = int(sys.argv[1])
for line in sys.stdin:
    request = json.loads(line)
"""


@pytest.fixture
def child(tmp_path: Path) -> Path:
    """A file for a process that stands where the observing one does."""
    return tmp_path / "child.py"


def observer(child: Path, body: str, idle_s: float = 10.0) -> Observer:
    child.write_text(ANSWER + "".join(f"    {line}\n" for line in body.splitlines()))
    return Observer([sys.executable, str(child)], idle_s)


def ask(one: Observer, deadline_s: float = 30.0, **more: object) -> Observation:
    return one.submit({**REQUEST, "model": "none", **more}, (), deadline_s).result(60)


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("os.kill(os.getpid(), 11)", "SIGSEGV"),
        ("os.kill(os.getpid(), 9)", "SIGKILL"),
        ("os.abort()", "SIGABRT"),
        ("os._exit(3)", "exit code 3"),
    ],
)
def test_a_crash_is_told_and_the_next_one_is_observed(child: Path, how: str, told: str) -> None:
    body = f"{how} if request['model'] == 'bad' else os.write(out, b'{{}}\\n')"
    one = observer(child, body)
    assert ask(one).problem == ""
    assert told in ask(one, model="bad").problem
    assert ask(one).problem == ""


def test_a_hang_ends_at_the_deadline(child: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paritygate.runners.ort_observe.START_S", 0.0)
    one = observer(child, "import time; time.sleep(600)")
    started = time.monotonic()
    assert "longer than 0 s" in ask(one, deadline_s=0.3).problem
    assert time.monotonic() - started < 10


def test_a_process_that_does_not_start_is_told(tmp_path: Path) -> None:
    one = Observer([str(tmp_path / "no-such-file")])
    assert "could not be used" in ask(one).problem


def test_an_idle_process_ends_and_is_started_again_when_needed(child: Path) -> None:
    one = observer(child, "os.write(out, json.dumps({'said': str(os.getpid())}).encode() + b'\\n')")
    one._idle_s = 0.2
    first = int(ask(one).said)
    until = time.monotonic() + 10
    while psutil.pid_exists(first) and time.monotonic() < until:
        time.sleep(0.05)
    assert not psutil.pid_exists(first)
    assert int(ask(one).said) != first


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_an_observer_of_its_own(child: Path) -> None:
    one = observer(
        child, "os.write(out, json.dumps({'said': str(os.getppid())}).encode() + b'\\n')"
    )
    assert ask(one).said == str(os.getpid())
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if ask(one).said == str(os.getpid()) else 2
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    assert ask(one).said == str(os.getpid())


def test_a_model_that_does_not_load_is_told(tmp_path: Path) -> None:
    found = ask(Observer(idle_s=0.1), model=str(tmp_path / "none.onnx"))
    assert "raised" in found.problem
    assert "NoSuchFile" in found.problem


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A process whose observer runs a model without an end, and its folder for temporary files."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    endless(tmp_path / "m.onnx")
    code = f"""
from paritygate.runners.ort_observe import OBSERVER
print("ready", flush=True)
OBSERVER.submit({REQUEST | {"model": str(tmp_path / "m.onnx")}!r}, (), 600).result()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        env={
            **os.environ,
            "TMPDIR": str(folder),
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        },
    )
    yield process, folder
    process.kill()
    process.communicate()


def endless(path: Path) -> None:
    from onnx import TensorProto, helper

    node, info = helper.make_node, helper.make_tensor_value_info
    body = helper.make_graph(
        [node("Identity", ["go"], ["again"]), node("Add", ["v", "v"], ["w"])],
        "body",
        [
            info("i", TensorProto.INT64, []),
            info("go", TensorProto.BOOL, []),
            info("v", TensorProto.FLOAT, None),
        ],
        [info("again", TensorProto.BOOL, []), info("w", TensorProto.FLOAT, None)],
    )
    import numpy as np

    models.save_model(
        path,
        [node("Loop", ["trips", "", "zero"], ["y"], name="loop", body=body)],
        {},
        {"y": (TensorProto.FLOAT, [])},
        {"trips": np.array(2**60, np.int64), "zero": np.array(0, np.float32)},
    )


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_of_an_observer_whose_parent_ends(
    busy: tuple[subprocess.Popen[bytes], Path], number: signal.Signals
) -> None:
    process, folder = busy
    assert process.stdout is not None
    process.stdout.readline()
    until = time.monotonic() + 20
    while not list(folder.glob("paritygate-profile-*/*")) and time.monotonic() < until:
        time.sleep(0.05)
    (child,) = psutil.Process(process.pid).children()
    os.kill(process.pid, number)
    process.wait(20)
    child.wait(10)
    assert list(folder.glob("paritygate*")) == []  # ONNX Runtime leaves one of its own


def test_temporary_files_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models.scale_model(tmp_path / "m.onnx")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    ask(Observer(idle_s=0.1), model=str(tmp_path / "m.onnx"))
    assert list((tmp_path / "tmp").iterdir()) == []


W, END = "\x1b[0;93m2026-01-02 03:04:05.678901234 [W:onnxruntime:, ", "\x1b[m\n"
LOG = (
    f"{W}graph.cc:125 Merge] shape {{-1,1}} at 0x7fdeadbeef00{END}"
    f"{W}graph.cc:126 Merge] shape {{-1,1}} at 0x7fdeadbeef11{END}"
    "\x1b[1;31m2026-01-02 03:04:06.000000002 [E:onnxruntime:Default, provider.cc:9 Load] no library"
    f"\nRequired: CUDA{END}\nEP Error: falls back\n"
)


def test_messages_lose_times_and_addresses_and_are_counted() -> None:
    found = [w.to_json() for w in read_warnings(LOG)]
    assert found == [
        {
            "level": "warning",
            "text": "shape {-1,1} at 0x..",
            "count": 2,
            "place": "graph.cc Merge",
        },
        {
            "level": "error",
            "text": "no library Required: CUDA",
            "count": 1,
            "place": "provider.cc Load",
        },
        {"level": "output", "text": "EP Error: falls back", "count": 1},
    ]


def test_messages_without_an_end_are_capped() -> None:
    said = "".join(f"message {i}\n{'long ' * 1000}{i}\n" for i in range(500))
    found = read_warnings(said, cut=7)
    assert len(found) == MAX_WARNINGS + 2
    assert found[-2].text == f"{500 + 1 - MAX_WARNINGS} more messages of other kinds"
    assert "7 more bytes" in found[-1].text
    assert max(len(w.text) for w in found) <= 600
