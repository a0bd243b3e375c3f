"""Which answer is the first doesn't depend on threads, so no count does."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.packs import write_pack

from paritygate.api.plans import load_plan
from paritygate.pipeline.execute import Options, execute

BLOCKS, ROWS = 12, 4
# Blocks before `first` raise; that of `first` is the slowest and has a layout of its own.
SOURCE = """
import time

def ref(d):
    block = int(d["x"][0, 0])
    if block <= {first}:
        time.sleep(0.2)
    if block < {first}:
        raise ValueError("not yet")
    return {{"y": d["x"][:, : 1 if block == {first} else 2]}}

def cand(d):
    return {{"y": d["x"][:, :1] * 1}}
"""


@pytest.mark.parametrize("first", [0, 2, BLOCKS])
@pytest.mark.parametrize("thread_safe", [True, False])
@pytest.mark.parametrize("is_cut", [True, False])
def test_the_first_answer_is_that_of_the_first_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int, thread_safe: bool, is_cut: bool
) -> None:
    """Of its first batch, where all are one block that threads share."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "side.py").write_text(SOURCE.format(first=first))
    x = np.repeat(np.arange(BLOCKS, dtype=np.float32), ROWS)[:, None].repeat(2, 1)
    write_pack(tmp_path / "g.arrow", np.arange(len(x)), {"x": x})
    plan = {
        "golden": str(tmp_path / "g.arrow"),
        "runners": {
            name: {"call": f"side:{name}", "batch_size": ROWS, "thread_safe": thread_safe}
            for name in ("ref", "cand")
        },
        "stages": [
            {"reference": "ref", "candidate": "cand", "outputs": {"y": {"atol": 0.0, "rtol": 0.0}}}
        ],
    }
    options = Options(threads=4, cuts=(ROWS,) * BLOCKS if is_cut else ())
    stage: dict[str, Any] = execute(load_plan(plan), options).summary["stages"][0]
    compared = ROWS if first < BLOCKS else 0
    assert stage["samples"]["compared"] == compared
    assert stage["samples"]["errors"] == len(x) - compared
    text = stage["errors"]["reference"]["first"]
    assert ("float32[2] a sample but was float32[1]" in text) == (first == 0)


def test_after_the_first_answer_blocks_run_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two blocks that wait for each other can only end if they run at once."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "side.py").write_text(
        "import threading\n"
        "both = threading.Barrier(2)\n"
        "def ref(d):\n"
        "    if d['x'][0, 0] > 0: both.wait(timeout=30)\n"
        "    return {'y': d['x']}\n"
        "def cand(d): return {'y': d['x'] * 1}\n"
    )
    x = np.repeat(np.arange(3, dtype=np.float32), ROWS)[:, None]
    write_pack(tmp_path / "g.arrow", np.arange(len(x)), {"x": x})
    plan = {
        "golden": str(tmp_path / "g.arrow"),
        "runners": {
            name: {"call": f"side:{name}", "batch_size": ROWS, "thread_safe": True}
            for name in ("ref", "cand")
        },
        "stages": [
            {"reference": "ref", "candidate": "cand", "outputs": {"y": {"atol": 0.0, "rtol": 0.0}}}
        ],
    }
    outcome = execute(load_plan(plan), Options(threads=2, cuts=(ROWS,) * 3))
    assert outcome.judgement.verdict.value == "release"


ORDER = """
ASKED = []

def ref(d):
    ASKED.append(("ref", int(d["x"][0, 0])))
    return {"y": d["x"] * 1}

def cand(d):
    ASKED.append(("cand", int(d["x"][0, 0])))
    return {"y": d["x"] * 1}
"""


@pytest.mark.parametrize("thread_safe", [True, False])
def test_runners_of_the_first_block_answer_once_before_any_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, thread_safe: bool
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"order_{thread_safe}".lower()
    (tmp_path / f"{name}.py").write_text(ORDER)
    x = np.repeat(np.arange(6, dtype=np.float32), ROWS)[:, None]
    write_pack(tmp_path / "g.arrow", np.arange(len(x)), {"x": x})
    plan = {
        "golden": str(tmp_path / "g.arrow"),
        "batch_coupling": {},
        "runners": {
            side: {"call": f"{name}:{side}", "batch_size": ROWS, "thread_safe": thread_safe}
            for side in ("ref", "cand")
        },
        "stages": [
            {"reference": "ref", "candidate": "cand", "outputs": {"y": {"atol": 0.0, "rtol": 0.0}}}
        ],
    }
    result = execute(load_plan(plan), Options(threads=1))  # others would help
    assert result.judgement.verdict.value == "release"
    asked = importlib.import_module(name).ASKED[:12]
    one_after_the_other = [(side, batch) for side in ("ref", "cand") for batch in range(6)]
    firsts = [("ref", 0), ("cand", 0)]
    others = [pair for pair in one_after_the_other if pair not in firsts]
    assert asked == (firsts + others if thread_safe else one_after_the_other)
