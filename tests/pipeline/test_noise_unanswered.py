"""Samples of a reference that have no answer: noise is measured over all others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.packs import write_pack

import paritygate
from paritygate.api.plans import load_plan

CODE = """
import os
import numpy as np

def good(d):
    y = d['x'].sum(1, keepdims=True, dtype=np.float64)
    return {'y': y + 0.25 * len(d['x'])}

def crashes(d):
    if (d['x'] == 999).any():
        os.abort()
    return good(d)

def raises(d):
    if (d['x'] == 999).any():
        raise ValueError('no')
    return good(d)

calls = 0

def tires(d):
    global calls
    calls += 1
    if calls > 7:
        raise ValueError('tired')
    return good(d)
"""


def run(folder: Path, call: str, isolate: object) -> paritygate.RunResult:
    (folder / "side.py").write_text(CODE)
    x = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    x[5, 0] = 999
    write_pack(folder / "g.arrow", np.arange(40), {"x": x})
    plan: dict[str, Any] = {
        "golden": str(folder / "g.arrow"),
        "runners": {
            "ref": {"call": f"side:{call}", "batch_size": 8, "isolate": isolate},
            "cand": {"call": "side:good", "batch_size": 8},
        },
        "stages": [{"reference": "ref", "candidate": "cand", "default": {"atol": 9, "rtol": 0}}],
        "noise": {"vary": ["repetition", "batch_size", "position"], "samples": 40},
    }
    return paritygate.run(load_plan(plan, folder=folder), out=None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "isolate", "code", "without"),
    [
        ("crashes", "process", "runner.crashed", 1),
        ("raises", "process", "runner.disagreement", 8),
        ("raises", False, "runner.disagreement", 8),
    ],
)
def test_they_are_left_out_and_nothing_else_is_said_of_them(
    tmp_path: Path, call: str, isolate: object, code: str, without: int
) -> None:
    result = run(tmp_path, call, isolate)
    assert [(r.code, r.count) for r in result.reasons] == [(code, without)], result.explain()
    noise = result.summary["noise"]["ref"]
    assert (noise["samples"], noise["left_out"]) == (40 - without, without)
    floor = result.summary["stages"][0]["outputs"]["y"]["noise"]
    assert (floor["floor"], floor["cause"]) == (0.25 * 7, "batch size 1, not 8")
    for told in noise["stages"].values():
        for cause in ("batch size 1, not 8", "batches in reverse order"):
            assert told[cause]["outputs"]["y"]["samples"] == 40 - without
    note = f"noise: ref: {without} samples are left out of it"
    assert any(note in line for line in result.not_judged)


def test_what_raises_for_what_it_answered_before_is_told_as_that(tmp_path: Path) -> None:
    result = run(tmp_path, "tires", False)
    texts = [r.message for r in result.reasons if r.code == "runner.error"]
    assert sum("answered in the run, but raised when it was run again" in t for t in texts) == 1
    assert sum("and then raised for it (run 2 on the same batches)" in t for t in texts) <= 1
    assert all("tired" in text for text in texts)
