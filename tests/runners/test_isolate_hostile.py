"""Workers that answer twice, answer nonsense, read nothing, or leave children behind."""

from __future__ import annotations

import os
import pickle
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.packs import write_pack
from tests.runners.test_isolate_signals import within

from paritygate.api.plans import load_plan
from paritygate.pipeline.execute import Options, Outcome, execute
from paritygate.runners.isolate.channel import Channel, ClosedError, GarbledError, LateError
from paritygate.runners.isolate.memory import SharedMemory, write_tensors
from paritygate.runners.isolate.replies import Answer, Refusal, read_reply

SAMPLES = 300
GOOD = "def good(d):\n    return {'y': d['x'] * 2}\n"


def run(
    folder: Path, code: str, isolate: Any = "process", *, batch: int = 32, **more: Any
) -> Outcome:
    """Compare `good` with `bad` over samples whose first element is their id."""
    (folder / "side.py").write_text(GOOD + code)
    x = np.random.default_rng(0).normal(size=(SAMPLES, 4)).astype(np.float32)
    x[:, 0] = np.arange(SAMPLES)
    write_pack(folder / "g.arrow", np.arange(SAMPLES), {"x": x, **more})
    plan = {
        "golden": "g.arrow",
        "runners": {
            "good": {"call": "side:good", "batch_size": batch, "isolate": isolate},
            "bad": {"call": "side:bad", "batch_size": batch, "isolate": isolate},
        },
        "stages": [
            {
                "name": "s",
                "reference": "good",
                "candidate": "bad",
                "default": {"atol": 0.0, "rtol": 0.0},
            }
        ],
    }
    return execute(load_plan(plan, folder=folder), Options(threads=1))


@pytest.mark.slow
def test_a_child_that_falls_through_a_call_answers_nothing(tmp_path: Path) -> None:
    """Its answer would be taken for the next batch's, and the last batch never be seen."""
    code = (
        "import os, time\n"
        "n = 0\n"
        "def bad(d):\n"
        "    global n\n"
        "    n += 1\n"
        "    if n == 2:\n"
        "        if os.fork() == 0: time.sleep(0.2)\n"
        "    else: time.sleep(0.4)\n"
        "    y = d['x'] * 2\n"
        "    y[d['x'][:, 0] >= 288] += 1000\n"
        "    return {'y': y}\n"
    )
    outcome = run(tmp_path, code)
    assert outcome.judgement.verdict == "hold"
    (reason,) = outcome.judgement.reasons
    assert (reason.code, reason.count) == ("tolerance.exceeded", 12)
    assert outcome.summary["stages"][0]["samples"]["compared"] == SAMPLES


WRITES = (
    "import os, stat\n"
    "def bad(d):\n"
    "    if 100 in d['x'][:, 0]:\n"
    "        for fd in os.listdir('/proc/self/fd'):\n"
    "            try:\n"
    "                if stat.S_ISSOCK(os.fstat(int(fd)).st_mode): os.write(int(fd), %r)\n"
    "            except OSError: pass\n"
    "    return {'y': d['x'] * 2}\n"
)


def frame(message: object) -> bytes:
    data = pickle.dumps(message)
    return struct.pack("<Q", len(data)) + data


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"\5\0\0\0\0\0\0\0hello" * 3, "no message"),
        (b"\xff" * 64, "no message"),
        (frame(("ok", 4096, [], None, {})), "answered request 'ok' in place of"),
        (frame(os.getpid), "no message"),
    ],
    ids=["no pickle", "no length", "no number", "no plain value"],
)
def test_what_is_no_answer_costs_the_sample(tmp_path: Path, sent: bytes, told: str) -> None:
    outcome = run(tmp_path, WRITES % sent, batch=8)
    (reason,) = outcome.judgement.reasons
    assert (reason.code, reason.ids) == ("runner.crashed", (100,))
    assert told in reason.message
    assert outcome.summary["stages"][0]["samples"]["compared"] == SAMPLES - 1


@pytest.mark.slow
def test_a_want_of_memory_costs_the_sample_and_no_process(tmp_path: Path) -> None:
    code = (
        "import numpy as np\n"
        "def bad(d):\n"
        "    if 100 in d['x'][:, 0]: np.ones((8 << 30,), np.uint8)\n"
        "    return {'y': d['x'] * 2}\n"
    )
    outcome = run(tmp_path, code, {"memory_limit": "4 GiB"})
    (reason,) = outcome.judgement.reasons
    assert (reason.code, reason.ids) == ("runner.disagreement", (100,))
    assert "memory_limit: 4,294,967,296 bytes" in reason.message
    assert outcome.summary["stages"][0]["samples"]["compared"] == SAMPLES - 1
    told = outcome.summary["runners"]["bad"]["isolation"]
    assert (told["restarts"], told["regrouped_samples"]) == (0, 31)


@pytest.mark.slow
def test_where_every_sample_wants_too_much_few_are_run_alone(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path\n"
        "def bad(d):\n"
        f"    with open({str(tmp_path / 'calls')!r}, 'a') as f: f.write('x')\n"
        "    raise MemoryError\n"
    )
    outcome = run(tmp_path, code, {"max_crashes": 4})
    assert outcome.judgement.verdict == "hold"
    assert outcome.summary["stages"][0]["samples"]["compared"] == 0
    assert len((tmp_path / "calls").read_text()) < 60


@pytest.mark.slow
def test_a_sample_is_not_blamed_for_the_one_before(tmp_path: Path) -> None:
    """Sample 100 has its process end a moment later, when others are run."""
    code = (
        "import os, threading, time\n"
        "def bad(d):\n"
        "    if 100 in d['x'][:, 0]: threading.Timer(0.3, os.abort).start()\n"
        "    time.sleep(0.2)\n"
        "    return {'y': d['x'] * 2}\n"
    )
    outcome = run(tmp_path, code)
    assert outcome.judgement.verdict == "hold"
    assert {r.code for r in outcome.judgement.reasons} == {"runner.crashed"}
    assert all(not r.ids for r in outcome.judgement.reasons)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["pass", "os.abort()"])
def test_children_end_with_their_process(tmp_path: Path, end: str) -> None:
    code = (
        "import os, subprocess\n"
        "def bad(d):\n"
        "    if 100 in d['x'][:, 0]:\n"
        "        p = subprocess.Popen(['sleep', '1000'])\n"
        f"        with open({str(tmp_path / 'pids')!r}, 'a') as f: print(p.pid, file=f)\n"
        f"        {end}\n"
        "    return {'y': d['x'] * 2}\n"
    )
    run(tmp_path, code, batch=8)
    pids = (tmp_path / "pids").read_text().split()
    assert pids
    for pid in pids:
        assert within(5, lambda pid=pid: not is_running(pid))  # type: ignore[misc]


def is_running(pid: str) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.fixture
def pair() -> Iterator[tuple[Channel, socket.socket]]:
    ours, theirs = Channel.pair()
    yield ours, theirs
    ours.close()
    theirs.close()


def test_sending_has_a_deadline(pair: tuple[Channel, socket.socket]) -> None:
    ours, theirs = pair
    started = time.monotonic()
    with pytest.raises(LateError):
        ours.send(b"x" * (64 << 20), timeout_s=0.6)
    assert time.monotonic() - started < 5
    theirs.close()
    with pytest.raises(ClosedError):
        ours.send(b"x", timeout_s=0.6)


def test_a_message_in_drops_is_late_too(pair: tuple[Channel, socket.socket]) -> None:
    ours, theirs = pair
    theirs.send(struct.pack("<Q", 1 << 20))
    done = threading.Event()

    def drip() -> None:
        while not done.wait(0.05):
            theirs.send(b"x")

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        with pytest.raises(LateError):
            ours.receive(0.5)
    finally:
        done.set()
        thread.join()


def test_a_second_answer_is_found_before_the_next_question(
    pair: tuple[Channel, socket.socket],
) -> None:
    ours, theirs = pair
    theirs.sendall(frame(("left over",)))
    with pytest.raises(GarbledError, match="asked"):
        ours.ask("?", (), 1.0, lambda: True)


def test_a_plain_answer_looks_up_no_class(pair: tuple[Channel, socket.socket]) -> None:
    ours, theirs = pair
    theirs.sendall(frame(os.getpid) + frame([np.str_("ß"), "a", 1, b"x", None, {"k": [1]}]))
    with pytest.raises(GarbledError, match="getpid"):
        ours.receive(1.0, is_plain=True)
    assert ours.receive(1.0, is_plain=True) == ["ß", "a", 1, b"x", None, {"k": [1]}]


def test_long_messages_take_linear_time(pair: tuple[Channel, socket.socket]) -> None:
    ours, theirs = pair
    long = frame(b"x" * (64 << 20))
    thread = threading.Thread(target=theirs.sendall, args=(long,))
    thread.start()
    assert len(ours.receive(30.0)) == 64 << 20
    thread.join()


def test_replies_are_read_with_suspicion() -> None:
    memory = SharedMemory.create(1 << 14)
    y = np.arange(8, dtype=np.float32).reshape(2, 4)
    told, _ = write_tensors(memory, {"y": y}, 64)
    size = memory.capacity

    def read(*reply: object) -> Answer | Refusal:
        return read_reply(reply, 7, memory, 64, 2)

    answer = read(7, "ok", size, told, None, {})
    assert isinstance(answer, Answer)
    np.testing.assert_array_equal(answer.outputs["y"], y)
    assert read(7, "memory", "t", "r") == Refusal("memory", "t", "r")
    garbled: list[tuple[object, ...]] = [
        (6, "ok", size, told, None, {}),
        (True, "ok", size, told, None, {}),
        (7, "well", size, told, None, {}),
        (7, "ok", size, told, None),
        (7, "ok", 1 << 40, told, None, {}),
        (7, "ok", "much", told, None, {}),
        (7, "ok", size, told, b"\1", {}),
        (7, "ok", size, told, None, []),
        (7, "ok", size, [("array", "y", "float32", (2, 4), 0)], None, {}),
        (7, "ok", size, [("array", "y", "float32", (2, 4), -64)], None, {}),
        (7, "ok", size, [("array", "y", "float32", (2, 4), size)], None, {}),
        (7, "ok", size, [("array", "y", "float32", (2, -4), 64)], None, {}),
        (7, "ok", size, [("array", "y", "float33", (2, 4), 64)], None, {}),
        (7, "ok", size, [("array", "y", "string", (2, 4), 64)], None, {}),
        (7, "ok", size, [("ragged", "y", "float32", 2, [(4,), (4,)], [64])], None, {}),
        (7, "ok", size, [("texts", "y", (3,), ["a"])], None, {}),
        (7, "error", "text"),
        (),
    ]
    for reply in garbled:
        with pytest.raises(GarbledError):
            read(*reply)
