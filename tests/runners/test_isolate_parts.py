"""A batch that is answered in parts: each part is held to what any batch is held to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.packs import write_pack

from paritygate.api.plans import load_plan
from paritygate.pipeline.execute import Options, Outcome, execute

CODE = """
import os

def good(d):
    return {'y': d['x'][:, 1:4], 'k': d['x'][:, :1]}

def odd(d):
    x = d['x']
    if (x[:, 4] == 1).any():
        os.abort()
    return good(d) if x[0, 0] < 4 else %s
"""
ODD = {
    "shape": "{'y': x[:, 1:3], 'k': x[:, :1]}",
    "dtype": "{'y': x[:, 1:4].astype('float64'), 'k': x[:, :1]}",
    "output": "{'y': x[:, 1:4]}",
}


def run(folder: Path, odd: str, crashing: tuple[int, ...], isolate: Any) -> Outcome:
    (folder / "side.py").write_text(CODE % ODD[odd])
    x = np.arange(40, dtype=np.float32).reshape(8, 5)
    x[:, 0], x[:, 4] = np.arange(8), 0
    x[list(crashing), 4] = 1
    write_pack(folder / "g.arrow", np.arange(8), {"x": x})
    plan: dict[str, Any] = {
        "golden": "g.arrow",
        "runners": {
            "a": {"call": "side:good", "batch_size": 8},
            "b": {"call": "side:odd", "batch_size": 8, "isolate": isolate},
        },
        "stages": [{"reference": "a", "candidate": "b", "default": {"atol": 0, "rtol": 0}}],
    }
    return execute(load_plan(plan, folder=folder), Options())


@pytest.mark.slow
@pytest.mark.parametrize("odd", ODD)
def test_a_part_that_is_unlike_the_others_fails_alone(tmp_path: Path, odd: str) -> None:
    whole = run(tmp_path, odd, (), False)
    assert whole.judgement.verdict == "release"  # in one batch all are alike
    outcome = run(tmp_path, odd, (5,), "process")
    codes = {r.code: r for r in outcome.judgement.reasons}
    assert set(codes) == {"runner.crashed", "runner.error"}
    assert codes["runner.crashed"].ids == (5,)
    assert codes["runner.error"].ids == (4, 6, 7)
    samples = outcome.summary["stages"][0]["samples"]
    assert (samples["compared"], samples["errors"]) == (4, 4)
    assert outcome.summary["runners"]["b"]["isolation"]["failed_samples"] == 1
