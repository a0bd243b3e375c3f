"""A second process compiles, too: results don't depend on it, and nothing of it stays."""

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numba import typeof
from numba.core.serialize import dumps

import paritygate.kernels
from paritygate.comparison import looks
from paritygate.comparison.ahead import second_process
from paritygate.comparison.elements import ElementComparer
from paritygate.core.policy import Tolerance
from paritygate.kernels import elements, linked, second, sums
from paritygate.kernels.second import Second

ENGINE = Path(paritygate.kernels.__file__).parents[2]
GONE_S = 20.0

COMPARE = """
import json, sys, time
import numpy as np
from paritygate.comparison import looks
from paritygate.comparison.ahead import second_process
from paritygate.comparison.elements import ElementComparer
from paritygate.core.policy import Tolerance
from paritygate.kernels import _cache, linked, scan, second

ref = np.linspace(0.5, 1.5, 4096, dtype=np.float32).reshape(-1, 8)
comparer = ElementComparer(Tolerance(1e-3, 0.0), "float32", "float32", (8,), "gate")
process = second_process([comparer], cores=2)
before = second.before

def meet(need, waiting):
    {meeting}
    return before(need, waiting)

second.before = meet
with process.watching():
    cand = ref + np.float32(1e-4)
    tally, _ = comparer.compare(ref, cand, np.arange(len(ref)), is_lazy=True, in_order=True)
process.end()
code = process._process.returncode if process._process else None
hits = sum(scan.scan_floats.inner.dispatcher.stats.cache_hits.values())
print(json.dumps([tally.to_json(), hits, code]))
"""
WAIT = """while not list(_cache.cache_folder().glob("scan.scan_floats.inner-*")):
        time.sleep(0.01)"""
KILL = "process._process and process._process.kill()"
START = """
import os, signal, sys, threading
from pathlib import Path
from paritygate.kernels.second import Second
process = Second([], [], [], cores=2)
thread = threading.Thread(target=process.missing, args=(Path(sys.argv[1]),))  # one that ends first
thread.start()
thread.join()
print(process._process.pid, flush=True)
if len(sys.argv) > 2:
    sys.stdin.readline()
    os.kill(process._process.pid, signal.SIGSTOP)
os.kill(os.getpid(), signal.SIGKILL)
"""


STOPPED = """
import threading
import numpy as np
from paritygate.comparison.elements import ElementComparer
from paritygate.core.policy import Tolerance
from paritygate.kernels import linked
from paritygate.kernels.compiling import Stopped, until

stop, make = threading.Event(), linked._Links._make

def stopping(*arguments):
    stop.set()
    make(*arguments)

def compare():
    comparer = ElementComparer(Tolerance(1e-3, 0.0), "float32", "float32", (8,), "gate")
    ref = np.ones((4, 8), np.float32)
    return comparer.compare(ref, ref, np.arange(4), is_lazy=True)[0].to_json()["samples"]

linked._Links._make = stopping
try:
    with until(stop):
        compare()
except Stopped:
    print(compare())
"""


def run(code, folder, *args):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": str(ENGINE)}
    return subprocess.Popen(
        [sys.executable, "-c", code, *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


def compared(folder, meeting="pass"):
    return run(COMPARE.replace("{meeting}", meeting), folder)


def told(process):
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return json.loads(out)


@pytest.fixture(scope="module")
def expected():
    ref = np.linspace(0.5, 1.5, 4096, dtype=np.float32).reshape(-1, 8)
    judge = ElementComparer(Tolerance(1e-3, 0.0), "float32", "float32", (8,), "gate")
    tally, _ = judge.compare(ref, ref + np.float32(1e-4), np.arange(len(ref)))
    return json.loads(json.dumps(tally.to_json()))


def is_gone(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"  # of nobody who would ask


def wait_until_gone(pid):
    until = time.monotonic() + GONE_S
    while not is_gone(pid):
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.slow
def test_what_the_second_process_compiled_is_loaded(tmp_path, expected):
    assert told(compared(tmp_path, WAIT)) == [expected, 1, 0]


@pytest.mark.slow
def test_runs_at_once_and_a_second_process_that_is_killed_change_nothing(tmp_path, expected):
    both = [compared(tmp_path), compared(tmp_path, KILL)]
    assert [told(process)[0] for process in both] == [expected, expected]
    (folder,) = (tmp_path / "paritygate").iterdir()
    assert not list(folder.glob(".*"))
    # All is there: no second process is started.
    assert told(compared(tmp_path)) == [expected, 1, None]


@pytest.mark.slow
def test_a_thread_that_was_stopped_compiles_no_kernel_that_another_one_calls(tmp_path):
    out, _ = run(STOPPED, tmp_path).communicate(timeout=120)
    assert out == "4\n"


@pytest.mark.slow
def test_it_ends_with_the_first_process(tmp_path):
    process = run(START, tmp_path, str(tmp_path))
    out, _ = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    wait_until_gone(int(out))


@pytest.mark.slow
def test_it_ends_with_the_first_process_though_it_is_stopped(tmp_path):
    process = run(START, tmp_path, str(tmp_path), "stop")
    pid = int(process.stdout.readline())
    marked = Path(f"/proc/{pid}/oom_score_adj")
    until = time.monotonic() + GONE_S
    while marked.read_text() != "1000\n":  # what it does once it has begun
        assert time.monotonic() < until
        time.sleep(0.01)
    process.communicate("\n", timeout=60)
    assert process.returncode == -signal.SIGKILL
    try:
        wait_until_gone(pid)
    finally:
        with suppress(OSError):
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("is_stopped", [False, True])
def test_it_is_ended_whatever_it_does(tmp_path, is_stopped, monkeypatch):
    if not is_stopped:
        monkeypatch.setattr(
            second, "_END_S", GONE_S
        )  # it may have to start first, on a busy machine
    process = Second([], [], [], cores=2)
    process.missing(tmp_path / "new")
    assert process._process.poll() is None
    if is_stopped:
        process._process.send_signal(signal.SIGSTOP)
    process.end()
    assert process._process.returncode in ([-signal.SIGKILL] if is_stopped else [0])
    process.end()


def wait_for(path):
    until = time.monotonic() + GONE_S
    while not path.exists():
        assert time.monotonic() < until
        time.sleep(0.001)


def test_calls_are_made_there(tmp_path):
    made = [tmp_path / name for name in ("one", "two")]
    process = Second([], [partial(os.mkdir, path) for path in (tmp_path, *made)], [], cores=2)
    process.missing(tmp_path)
    wait_for(made[-1])
    # Where memory is short, the kernel ends this one and not the run.
    assert Path(f"/proc/{process._process.pid}/oom_score_adj").read_text() == "1000\n"
    process.end()
    assert made[0].exists()


def test_what_cannot_be_sent_is_no_error(tmp_path):
    process = Second([], [partial(id, threading.Lock())], [], cores=2)
    process.missing(tmp_path)
    assert process._line is None
    process.end()


def test_a_file_that_is_being_written_is_written_to_its_end(tmp_path):
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    code = f"""
import os, time
from paritygate.kernels import _cache
with _cache.WRITING:
    os.mkdir({str(begun)!r})
    time.sleep(0.1)
    os.mkdir({str(ended)!r})
"""
    process = Second([], [partial(exec, code)], [], cores=2)
    process.missing(tmp_path)
    wait_for(begun)
    process.end()
    assert ended.exists()


ENDED = """
import signal, sys
from pathlib import Path
from paritygate.kernels.second import Second
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
process = Second([print], [], [], cores=2)
process.missing(Path(sys.argv[1]))
process._process.kill()
process._process.wait()
for _ in range(2):
    process.tell(("builtins", "print", ()))
print(process._line)
"""


def test_one_that_has_ended_does_not_end_a_program_that_pipes_would(tmp_path):
    process = run(ENDED, tmp_path, str(tmp_path))
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "None\n")


def test_one_that_does_not_listen_is_told_nothing_more(tmp_path):
    process = Second([test_one_that_does_not_listen_is_told_nothing_more], [], [], cores=2)
    process.missing(tmp_path)
    process._process.send_signal(signal.SIGSTOP)
    need = (*second._name_of(test_one_that_does_not_listen_is_told_nothing_more), "x" * 9000)
    for _ in range(100):
        process.tell(need)
    assert process._line is None
    process.end()


def test_it_is_not_started_in_vain(tmp_path, monkeypatch):
    def starts(folder=tmp_path, cores=2):
        process = Second([], [], [], cores)
        process.missing(folder)
        process.end()
        return process._process is not None

    assert starts()
    assert not starts(cores=1)
    blocked = tmp_path / "file"
    blocked.touch()
    assert not starts(blocked / "folder")
    for owner, name, value in ((sys, "frozen", True), (os, "access", lambda *_: False)):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, value, raising=False)
            assert not starts()
    for executable in ("", None, "/usr/sbin/server", str(tmp_path / "python")):
        monkeypatch.setattr(sys, "executable", executable)
        assert not starts()


def test_it_is_started_once_and_only_while_watching(tmp_path, monkeypatch):
    started = []

    def start():
        started.append(1)
        raise OSError

    monkeypatch.setattr(second, "_start", start)
    process, other = (Second([], [], [], cores=2) for _ in range(2))
    second.missing(tmp_path)
    with process.watching(), other.watching():
        assert second._Current.second is process
        second.missing(tmp_path)
        second.missing(tmp_path)
    second.missing(tmp_path)
    other.end()
    second.missing(tmp_path)
    process.end()
    assert started == [1]
    assert second.before(("a", "b", ()), []) == []


def test_each_process_begins_at_another_end(tmp_path):
    def one(): ...

    def two(): ...

    def three(): ...

    names = [second._name_of(kernel) for kernel in (one, two, three)]
    needs = [(*name, (dtype,)) for name in names for dtype in "fd"]
    process = Second([one, two, three], [], [], cores=2)
    process._process = object()
    assert process.before(needs[4], needs[::-1]) == [needs[1], needs[0], needs[3], needs[2]]
    assert process.before(needs[2], needs) == needs[:2]
    assert process.before(("other", "one", ()), needs) == []


@pytest.mark.parametrize(
    ("dtypes", "width", "stats"),
    [
        (("float32", "float32"), 8, "gate"),
        (("float32", "float32"), 8, "full"),
        (("float32", "float32"), 100, "full"),
        (("float32", "float32"), 5000, "full"),
        (("float32", "float32"), 5000, "gate"),
    ],
)
def test_what_is_compiled_ahead_is_what_clean_samples_need(monkeypatch, dtypes, width, stats):
    judge = ElementComparer(Tolerance(1e-3, 0.0), *dtypes, (width,), stats)
    ahead = second_process([judge], cores=2)._first
    made, make = [], linked._Links._make

    def note(self, need, address):
        made.append(need[:2])
        make(self, need, address)

    monkeypatch.setattr(linked._Links, "_make", note)
    for cell in linked._links._cells.values():
        monkeypatch.setattr(cell, "value", 0)
    ref, cand = (np.ones((2, width), dtype) for dtype in dtypes)
    judge.compare(ref, cand, np.arange(2), is_lazy=True)
    assert sorted(set(made) & set(ahead)) == sorted(ahead)
    by_others = {"add_any_products", "add_energies", "add_all_products", "add_rows_again"}
    assert {name for _, name in made} - by_others == {name for _, name in ahead}


def test_what_is_called_ahead_takes_what_failing_samples_do(monkeypatch):
    dtypes = ("float32", "float32")
    judge = ElementComparer(Tolerance(1e-3, 0.0), *dtypes, (3, 7), "full")
    ref, cand = (np.ones((4, 3, 7), dtype) for dtype in dtypes)
    cand[2:] = 5.0
    seen = []
    for module, name in ((looks, "find_worst"), (elements, "judge_floats"), (sums, "sum_errors")):
        monkeypatch.setattr(module, name, note_types(seen, name))
    _, detail = judge.compare(ref, cand, np.arange(4), is_lazy=True, in_order=True)
    judge.look_at(detail, np.arange(2, 4), ref, cand)
    gate = ElementComparer(Tolerance(1e-3, 0.0), *dtypes, (3, 7), "gate")
    gate.compare(ref, cand, np.arange(4))
    real = seen.copy()
    seen.clear()
    calls = second_process([judge, object()], cores=2)._calls
    for call in pickle.loads(dumps(calls)):
        call()
    assert seen == real
    assert [name for name, *_ in real] == ["find_worst", "judge_floats", "sum_errors"]


def note_types(seen, name):
    def called(*arguments):
        seen.append((name, *map(typeof, arguments)))
        return 0

    return called
