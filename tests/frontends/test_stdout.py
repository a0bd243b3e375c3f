"""Whatever a model's code prints, standard output holds the report and nothing else."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from tests.frontends.command import execute, invoke
from tests.packs import write_pack

from paritygate_frontends.cli import stdout
from paritygate_frontends.cli.ending import output

NOISY = """
import atexit, ctypes, os, sys
from sys import stdout

def say(when):
    print("print", when)
    os.write(1, f"write {when}\\n".encode())
    stdout.write(f"kept {when}\\n")
    ctypes.CDLL(None).printf(f"libc {when}\\n".encode())

def f(d):
    say("at run")
    return {"y": d["x"] * 2}

def g(d):
    return {"y": d["x"] + d["x"] + d["x"] * 0}

def end(d):
    say("at run")
    sys.exit(0)

say("at import")
"""
AT_EXIT = 'atexit.register(say, "at exit")\n'
WAYS = ("print", "write", "kept", "libc")


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    write_pack(tmp_path / "g.arrow", np.arange(4), {"x": x})
    (tmp_path / "noisy.py").write_text(NOISY)
    text = (
        'golden = "g.arrow"\n'
        "[runners]\n"
        'ref = "noisy:f"\n'
        'cand = "noisy:g"\n'
        "[[stages]]\n"
        'reference = "ref"\n'
        'candidate = "cand"\n'
        "outputs.y = { atol = 0.0, rtol = 0.0 }\n"
    )
    path = tmp_path / "plan.toml"
    path.write_text(text)
    return path


def test_json_is_json(plan: Path) -> None:
    (plan.parent / "noisy.py").write_text(NOISY + AT_EXIT)
    done = execute("run", plan, "--json", cwd=plan.parent)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"] == "release"
    for way in WAYS:
        for when in ("at import", "at run", "at exit"):
            assert f"{way} {when}\n" in done.stderr


def test_a_report_is_the_report(plan: Path) -> None:
    done = execute("run", plan, cwd=plan.parent)
    assert done.returncode == 0
    assert done.stdout.startswith("RELEASE")
    assert not any(f"{way} at" in done.stdout for way in WAYS)


def test_a_check_is_the_check(plan: Path) -> None:
    done = execute("check", plan, cwd=plan.parent)
    assert done.returncode == 0
    assert not any(f"{way} at" in done.stdout for way in WAYS)
    assert "libc at import" in done.stderr


def test_a_function_that_ends_the_process_is_a_hold(plan: Path) -> None:
    plan.write_text(plan.read_text().replace("noisy:g", "noisy:end"))
    done = execute("run", plan, "--json", cwd=plan.parent)
    assert done.returncode == 1
    first = json.loads(done.stdout)["reasons"][0]["code"]
    assert first in ("evidence.empty", "runner.disagreement")
    assert "SystemExit: 0" in done.stdout


def test_an_unjudged_run_prints_json_too(plan: Path) -> None:
    (plan.parent / "noisy.py").write_text(NOISY + "raise SystemExit(0)\n")
    done = execute("run", plan, "--json", cwd=plan.parent)
    assert done.returncode == 2
    assert json.loads(done.stdout)["verdict"] == "unjudged"


def test_in_this_process_too(plan: Path) -> None:
    done = invoke("run", plan, "--json", "--out", plan.parent / "runs")
    assert json.loads(done.stdout)["verdict"] == "release"
    assert "print at run" in done.stderr


def test_the_streams_are_given_back(capfd: pytest.CaptureFixture[str]) -> None:
    stream = sys.stdout
    with suppress(ZeroDivisionError), stdout.set_aside():
        print("aside")
        with output():
            print("lent")
        print("again aside")
        raise ZeroDivisionError
    print("after")
    assert sys.stdout is stream
    out, err = capfd.readouterr()
    assert out == "lent\nafter\n"
    assert err == "aside\nagain aside\n"
