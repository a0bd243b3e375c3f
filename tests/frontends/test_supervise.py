"""Whatever ends the process that runs models: no exit code 0, a sentence, nothing left behind."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.frontends.command import COMMAND, environment, execute, on_terminal
from tests.models import scale_model
from tests.packs import write_pack

from paritygate.core.errors import GoldenError
from paritygate_frontends.cli import supervise

FUNCTIONS = """\
import concurrent.futures, ctypes, os, signal, sys, threading, time

def ref(d):
    return {"y": d["x"] + 0}

def cand(d):
    return {"y": d["x"] * 1}

def leave(d):
    os._exit(0)

def segfault(d):
    ctypes.string_at(0)

def killed(d):
    os.kill(os.getpid(), signal.SIGKILL)

def deaf(d):
    os.closerange(3, 256)
    os._exit(0)

def forked(d):
    child = os.fork()
    if child == 0:
        threading.Timer(60, int).run()
        os._exit(0)
    os._exit(0)

def divided(d):
    os.fork()
    return cand(d)

def pooling(d):
    sys.pool = concurrent.futures.ThreadPoolExecutor(1)
    sys.pool.submit(int).result()
    return cand(d)

def ignoring(d):
    ctypes.CDLL(None).signal(signal.SIGTERM, ctypes.c_void_p(1))
    waiting(d)

def obeying(d):
    ctypes.CDLL(None).signal(signal.SIGTERM, ctypes.CDLL(None)._exit)
    waiting(d)

def waiting(d):
    open("started-" + str(os.getpid()), "w").close()
    time.sleep(120)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_pack(tmp_path / "g.arrow", np.arange(6), {"x": np.ones((6, 2), np.float32)})
    (tmp_path / "fns.py").write_text(FUNCTIONS)
    return tmp_path


def plan(folder: Path, function: str) -> str:
    (folder / f"{function}.toml").write_text(
        'golden = "g.arrow"\n'
        f'[runners]\nref = "fns:ref"\ncand = "fns:{function}"\n'
        '[[stages]]\nreference = "ref"\ncandidate = "cand"\noutputs.y = { atol = 0, rtol = 0 }\n'
    )
    return f"{function}.toml"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("leave", "with status 0 while models ran"),
        ("segfault", "by SIGSEGV while models ran"),
        ("killed", "by SIGKILL while models ran: most often the machine ran out of memory"),
        ("deaf", "with status 0 while models ran"),
    ],
)
def test_a_process_that_ends_without_a_verdict_is_unjudged(
    folder: Path, function: str, says: str
) -> None:
    done = execute("run", plan(folder, function), "--json", cwd=folder)
    assert done.returncode == 2
    assert done.stderr.startswith("UNJUDGED  runner.crashed\n")
    assert says in done.stderr
    summary = json.loads(done.stdout)
    assert summary["verdict"] == "unjudged"
    (reason,) = summary["reasons"]
    assert reason["code"] == "runner.crashed"
    assert says in reason["message"]
    assert not (folder / "runs").exists()


@pytest.mark.slow
def test_a_process_that_ends_while_models_are_loaded(folder: Path) -> None:
    (folder / "fns.py").write_text(FUNCTIONS + "\nos._exit(0)\n")
    done = execute("run", plan(folder, "cand"), cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "with status 0 before the first batch" in done.stderr


@pytest.mark.slow
def test_check_of_a_module_that_ends_the_process_is_no_success(folder: Path) -> None:
    (folder / "gone.py").write_text("import os\nos._exit(0)\n")
    path = Path(plan(folder, "cand"))
    (folder / path).write_text((folder / path).read_text().replace("fns:cand", "gone:cand"))
    done = execute("check", str(path), cwd=folder)
    assert done.returncode == 2
    assert "runner.crashed" in done.stderr


@pytest.mark.slow
def test_a_pack_that_is_checked_by_a_function_that_ends_the_process(folder: Path) -> None:
    x = np.array([[0.2, np.nan]], np.float32)
    write_pack(folder / "g.arrow", np.arange(1), {"x": x})
    (folder / "fill.py").write_text("import os\n\ndef leave(a):\n    os._exit(0)\n")
    digest = hashlib.sha256((folder / "fill.py").read_bytes()).hexdigest()
    path = folder / plan(folder, "cand")
    impute = f'{{ impute = "fill:leave", digest = "sha256:{digest}", approved_by = "me" }}'
    path.write_text(f"{path.read_text()}\n[inputs.x]\nmissing = {impute}\n")
    done = execute("pack", "check", "g.arrow", "--plan", path, cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "with status 0" in done.stderr


@pytest.mark.slow
def test_a_process_that_crashes_after_its_verdict_keeps_it(folder: Path) -> None:
    at_exit = "\nimport atexit\natexit.register(ctypes.string_at, 0)\n"
    (folder / "fns.py").write_text(FUNCTIONS + at_exit)
    done = execute("run", plan(folder, "cand"), cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("RELEASE")


@pytest.mark.slow
def test_a_terminal_has_its_cursor_back(folder: Path) -> None:
    code, drawn = on_terminal("run", plan(folder, "leave"), cwd=folder)
    assert code == 2
    assert drawn.rindex("\x1b[?25h") > drawn.rindex("\x1b[?25l")
    assert "UNJUDGED  runner.crashed" in drawn


def start(folder: Path, function: str, *options: str) -> subprocess.Popen[str]:
    """Run a plan as the head of a process group, and wait until its function runs."""
    return start_with(folder, "run", plan(folder, function), *options)


def start_with(folder: Path, *args: str) -> subprocess.Popen[str]:
    """The same of any command."""
    process = subprocess.Popen(
        [*COMMAND, *args],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    pause = threading.Event()
    while not list(folder.glob("started-*")) and process.poll() is None:
        pause.wait(0.05)
    return process


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_being_told_to_end_ends_the_child_too(folder: Path, number: signal.Signals) -> None:
    process = start(folder, "waiting", "--json")
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == {"SIGTERM": 143, "SIGHUP": 129}[number.name]
    assert err == f"stopped from outside by {number.name}; no verdict\n"
    assert json.loads(out)["reasons"][0]["code"] == "run.interrupted"
    assert not (folder / "runs").exists()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("is_there", [False, True])
def test_of_the_folders_for_runs_those_go_that_the_run_made(
    folder: Path, number: signal.Signals, is_there: bool
) -> None:
    if is_there:
        (folder / "a" / "b").mkdir(parents=True)
    process = start(folder, "waiting", "--out", "a/b/runs")
    assert list((folder / "a" / "b" / "runs").glob("*.partial"))
    process.send_signal(number)
    if number == signal.SIGINT:
        assert process.stderr is not None
        process.stderr.readline()  # it waits for the batch
        process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert [p.name for p in folder.rglob("*") if p.is_dir() and p.name in "ab"] == (
        ["a", "b"] if is_there else []
    )
    assert not list(folder.rglob("runs"))


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["record", "replay"])
def test_folders_go_that_were_made_before_models_were_loaded(folder: Path, verb: str) -> None:
    path = plan(folder, "cand")
    if verb == "replay":
        (folder / "fns.py").write_text(FUNCTIONS.replace('d["x"] * 1', 'd["x"] * 2'))
        assert execute("run", path, cwd=folder).returncode == 1
        (run,) = (folder / "runs").iterdir()
        args = ["replay", str(run), "--changed", "--out", "new/out"]
    else:
        args = ["record", path, "cand", "--out", "new/out/cand.arrow"]
    with (folder / "fns.py").open("a") as file:
        file.write("\nwaiting({})\n")
    process = start_with(folder, *args)
    assert (folder / "new").exists()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (143, "stopped from outside by SIGTERM; no verdict\n")
    assert not (folder / "new").exists()


@pytest.mark.slow
def test_a_function_that_ignores_being_told_is_ended_when_it_is_told_again(folder: Path) -> None:
    process = start(folder, "ignoring", "--json")
    process.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=1)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (143, "stopped from outside by SIGTERM; no verdict\n")
    assert json.loads(out)["verdict"] == "unjudged"


@pytest.mark.slow
def test_a_function_that_exits_when_it_is_told_to_end_was_stopped_from_outside(
    folder: Path,
) -> None:
    process = start(folder, "obeying")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (143, "stopped from outside by SIGTERM; no verdict\n")


@pytest.mark.slow
def test_no_child_outlives_its_parent(folder: Path) -> None:
    process = start(folder, "waiting")
    (mark,) = folder.glob("started-*")
    assert mark.name != f"started-{process.pid}"
    process.kill()
    process.communicate(timeout=60)  # ends only once nobody holds the other end of the pipes


@pytest.mark.slow
def test_what_a_function_leaves_running_delays_nothing(folder: Path) -> None:
    process = start(folder, "forked")
    try:
        assert process.wait(timeout=50) == 2
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.slow
def test_a_process_that_a_function_forks_runs_nothing_to_its_end(folder: Path) -> None:
    write_pack(folder / "g.arrow", np.arange(64), {"x": np.ones((64, 2), np.float32)})
    scale_model(folder / "scale.onnx", width=2)
    text = (folder / plan(folder, "divided")).read_text()
    text = text.replace('"fns:ref"', '"scale.onnx"').replace(
        '"fns:divided"', '{ call = "fns:divided", batch_size = 8 }'
    )
    (folder / "divided.toml").write_text(text)
    done = execute("run", "divided.toml", cwd=folder)  # it ends once nobody holds the pipes
    assert (done.returncode, len(list((folder / "runs").iterdir()))) == (0, 1), done.stderr


@pytest.mark.slow
def test_a_pool_of_threads_that_a_function_leaves_ends_with_the_run(folder: Path) -> None:
    done = execute("run", plan(folder, "pooling"), cwd=folder)
    assert done.returncode == 0, done.stderr


def test_where_all_is_recorded_the_packs_are_named_and_no_model() -> None:
    cut = supervise._describe_recorded(signal.SIGBUS, ["a.arrow", "b.arrow"])
    assert isinstance(cut, GoldenError)
    assert str(cut).startswith("a.arrow, b.arrow: one of these files was cut or changed")
    crashed = str(supervise._describe_recorded(signal.SIGSEGV, ["a", "b", "c", "d", "e"]))
    assert "by SIGSEGV while a, b, c and 2 more were compared" in crashed
    assert "model" not in f"{cut}{crashed}"


@pytest.mark.slow
def test_a_recording_that_is_cut_while_it_is_compared(tmp_path: Path) -> None:
    for name in ("a.arrow", "b.arrow"):
        write_pack(tmp_path / name, np.arange(600), None, {"y": np.ones((600, 900), np.float32)})
    cutting = (
        "import os, sys; from paritygate.pipeline import execute; from paritygate_frontends.cli "
        "import main; real = execute._drive; execute._drive = lambda *a: (os.truncate('b.arrow', "
        "4096), real(*a))[1]; sys.argv = ['paritygate', 'compare', 'a.arrow', 'b.arrow']; "
        "main.main()"
    )
    done = subprocess.run(
        [COMMAND[0], "-c", cutting], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.startswith("UNJUDGED  golden.unreadable\na.arrow, b.arrow: one of these")
    assert not (tmp_path / "runs").exists()


ENDING = """
import atexit, os, sys
from paritygate_frontends.cli import main

def noted():
    atexit.register(lambda: print("handled"))
    return run()

def at_once(code):
    print("at once", code, file=sys.stderr, flush=True)
    leave(code)

run, leave = main._run, os._exit
main._run, os._exit = noted, at_once
main.main()
"""
PLAN = """
golden = "a.arrow"
runners = { ref = { kind = "recorded" }, cand = { kind = "recorded", path = "b.arrow" } }
stages = [{ reference = "ref", candidate = "cand", default = { atol = ATOL, rtol = 0.0 } }]
"""


@pytest.mark.slow
@pytest.mark.parametrize(("atol", "code"), [("2.0", 0), ("0.5", 1)])
@pytest.mark.parametrize("verb", ["compare", "run"])
def test_only_a_comparison_ends_without_taking_modules_apart(
    tmp_path: Path, verb: str, atol: str, code: int
) -> None:
    y = np.arange(6, dtype=np.float32)
    for name, values in (("a", y), ("b", y + 1)):
        write_pack(tmp_path / f"{name}.arrow", list(range(6)), {"x": y}, {"y": values})
    (tmp_path / "plan.toml").write_text(PLAN.replace("ATOL", atol))
    packs = ("a.arrow", "b.arrow", "--atol", atol, "--rtol", "0")
    given = packs if verb == "compare" else ("plan.toml",)
    done = subprocess.run(
        [sys.executable, "-c", ENDING, verb, *given],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert ("release" if code == 0 else "hold") in done.stdout.lower()
    ends = [f"at once {code}"] if verb == "compare" else []
    assert sorted(done.stderr.splitlines()) == [*ends, "handled"]
