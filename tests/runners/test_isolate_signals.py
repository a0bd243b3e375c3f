"""Whatever ends the gate ends its workers, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.packs import write_pack

TAG = "PARITYGATE_TEST_TAG"
SLOW = """
import os, time
import numpy as np
def ref(d):
    return {"y": d["x"]}
def cand(d):
    open(os.environ["PARITYGATE_TEST_MARK"], "a").close()
    %s
    return {"y": d["x"]}
"""


def processes(tag: str) -> list[int]:
    """Those that were started with a tag in their environment and haven't ended."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            is_ours = f"{TAG}={tag}".encode() in (entry / "environ").read_bytes()
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if is_ours and state != "Z":
            found.append(int(entry.name))
    return found


def workers(tag: str) -> list[int]:
    """The workers among them."""
    return [pid for pid in processes(tag) if b"isolate.worker" in command(pid)]


def command(pid: int) -> bytes:
    """A process's command line; empty where it has ended meanwhile."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def shared_files(tag: str) -> set[Path]:
    """Files of shared memory that they have open or mapped; other tests have some of their own."""
    held = set()
    for pid in processes(tag):
        entry = Path("/proc") / str(pid)
        try:
            maps = (entry / "maps").read_text().splitlines()
            held |= {Path(line.split(maxsplit=5)[-1]) for line in maps}
            held |= {path.readlink() for path in (entry / "fd").iterdir()}
        except OSError:
            continue
    return {path for path in held if path.is_relative_to("/dev/shm")}


def within(seconds: float, is_so: object) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if is_so():  # type: ignore[operator]
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def tag() -> Iterator[str]:
    made = uuid.uuid4().hex
    yield made
    for pid in processes(made):
        os.kill(pid, signal.SIGKILL)


def start(folder: Path, tag: str, body: str) -> subprocess.Popen[bytes]:
    """`paritygate run` over a candidate that is in the middle of a batch."""
    (folder / "side.py").write_text(SLOW % body)
    write_pack(folder / "g.arrow", np.arange(64), {"x": np.zeros((64, 2), np.float32)})
    plan = {
        "golden": "g.arrow",
        "runners": {
            "ref": {"call": "side:ref", "isolate": "process"},
            "cand": {"call": "side:cand", "isolate": "process", "batch_size": 1},
        },
        "stages": [{"reference": "ref", "candidate": "cand", "default": {"atol": 0, "rtol": 0}}],
    }
    import paritygate

    (folder / "plan.toml").write_text(paritygate.toml_text(plan))
    mark = folder / "mark"
    process = subprocess.Popen(
        [sys.executable, "-m", "paritygate_frontends", "run", "plan.toml", "--json"],
        cwd=folder,
        env={**os.environ, TAG: tag, "PARITYGATE_TEST_MARK": str(mark)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert within(60, mark.exists), process.communicate()
    assert len(workers(tag)) == 2
    return process


STUCK = ["time.sleep(0.5)", "while True: pass", "time.sleep(1e6)"]


@pytest.mark.slow
@pytest.mark.parametrize("body", STUCK)
def test_kill_leaves_no_worker(tmp_path: Path, tag: str, body: str) -> None:
    process = start(tmp_path, tag, body)
    held = shared_files(tag)
    process.kill()
    process.wait()
    assert within(5, lambda: not processes(tag)), processes(tag)
    process.communicate()
    assert not [path for path in held if path.exists()]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_worker(tmp_path: Path, tag: str, number: signal.Signals) -> None:
    process = start(tmp_path, tag, "time.sleep(0.5)")
    held = shared_files(tag)
    os.killpg(process.pid, number)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 128 + number, err
    assert json.loads(out)["verdict"] == "unjudged"
    assert within(5, lambda: not processes(tag)), processes(tag)
    assert not [path for path in held if path.exists()]
    assert not [path for path in tmp_path.glob("runs/*") if path.suffix == ".partial"]


@pytest.mark.slow
def test_a_second_interrupt_ends_a_stuck_worker_at_once(tmp_path: Path, tag: str) -> None:
    process = start(tmp_path, tag, "while True: pass")
    os.killpg(process.pid, signal.SIGINT)
    time.sleep(1)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=10)
    assert process.returncode == 130
    assert within(5, lambda: not processes(tag)), processes(tag)


@pytest.mark.slow
def test_a_worker_that_is_killed_from_outside_is_replaced(tmp_path: Path, tag: str) -> None:
    process = start(tmp_path, tag, "time.sleep(0.05)")
    time.sleep(0.5)  # the reference, asked at the same time, has answered its only batch
    for pid in workers(tag):
        os.kill(pid, signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1, err
    summary = json.loads(out)
    assert {r["code"] for r in summary["reasons"]} == {"runner.crashed"}
    told = {message[:13]: message for message in (r["message"] for r in summary["reasons"])}
    assert "not reproducible" in told["runner 'cand'"]
    # It had nothing to do any more, and what it would have told of itself is lost.
    assert "when it was asked what it knows" in told["runner 'ref':"]
    assert summary["stages"][0]["samples"]["compared"] == 64


ENDS_THEN_HANGS = """mark = os.environ["PARITYGATE_TEST_MARK"]
    if os.path.exists(mark + ".ended"):
        open(mark + ".hangs", "a").close()
        time.sleep(1e6)
    open(mark + ".ended", "a").close()
    time.sleep(2)
    os.abort()"""


@pytest.mark.slow
def test_an_interrupt_ends_the_search_of_a_batch(tmp_path: Path, tag: str) -> None:
    """Which would last as long as the deadlines of its parts, 120 s each."""
    process = start(tmp_path, tag, ENDS_THEN_HANGS)
    assert within(60, (tmp_path / "mark.hangs").exists)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    assert json.loads(out)["verdict"] == "unjudged"
    assert within(5, lambda: not processes(tag)), processes(tag)
