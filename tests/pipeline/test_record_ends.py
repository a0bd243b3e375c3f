"""Recordings of runners that end their process: the reasons say so, as those of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.packs import write_pack

import paritygate
from paritygate.api.plans import load_plan

CODE = """
import os, time

def f(d):
    act = int(d['x'][:, 0].max())
    if act == 1: os.abort()
    if act == 2: time.sleep(60)
    if act == 3: raise ValueError('no')
    return {'y': d['x'] * 2}
"""


@pytest.mark.slow
def test_a_recording_tells_ends_from_what_was_raised(tmp_path: Path) -> None:
    (tmp_path / "side.py").write_text(CODE)
    x = np.zeros((20, 2), np.float32)
    x[[3, 9, 12, 13], 0] = 1, 3, 2, 3
    write_pack(tmp_path / "g.arrow", np.arange(20), {"x": x})
    isolate = {"batch_timeout_s": 1.5}
    plan: dict[str, Any] = {
        "golden": str(tmp_path / "g.arrow"),
        "runners": {"b": {"call": "side:f", "batch_size": 1, "isolate": isolate}, "c": "side:f"},
        "stages": [{"reference": "b", "candidate": "c", "default": {"atol": 0, "rtol": 0}}],
    }
    result = paritygate.record(load_plan(plan, folder=tmp_path), "b", out=tmp_path / "r.arrow")
    told = {reason.code: reason for reason in result.reasons}
    assert list(told) == ["runner.crashed", "runner.timeout", "runner.error"]
    assert [reason.count for reason in result.reasons] == [1, 1, 2]
    assert "runner 'b' ended its process for 1 of 20 samples" in told["runner.crashed"].message
    assert "SIGABRT" in told["runner.crashed"].message
    assert "missed its deadline for 1 of 20 samples" in told["runner.timeout"].message
    assert "runner 'b' raised for 2 of 20 samples" in told["runner.error"].message
    assert "debugger" in told["runner.crashed"].next
    assert result.summary["recording"]["samples"]["raised"] == 4
    assert "SIGABRT" in result.summary["recording"]["first_error"]
