"""`paritygate pack boundary`: what is said, and what is there afterwards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.frontends.command import invoke
from tests.models import sigmoid_score
from tests.packs import write_pack

PLAN = """
golden = "g.arrow"
[runners]
a = "m.onnx"
b = "m.onnx"
[[stages]]
reference = "a"
candidate = "b"
self = true
outputs.score = { atol = 1e-6, rtol = 0.0 }
[decisions.d]
output = "score"
bands = "low < 0.5 <= high"
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    sigmoid_score(tmp_path / "m.onnx", (1.0, 0.5), 0.1)
    write_pack(tmp_path / "g.arrow", [1, 2], {"x": np.float32([[1, 1], [-1, -1]])})
    path = tmp_path / "p.toml"
    path.write_text(PLAN)
    return path


def test_what_was_reached_is_said(plan: Path) -> None:
    pack = plan.parent / "b.arrow"
    result = invoke("pack", "boundary", plan, "-o", pack, "--per-side", "2")
    assert result.exit_code == 0, result.output
    told = [line for line in result.stdout.splitlines() if "edge d-0.5: below" in line]
    assert len(told) == 1
    assert "content digest" in result.stdout
    checked = invoke("pack", "check", pack)
    assert checked.exit_code == 0, checked.output


def test_a_plan_that_is_none_leaves_nothing(plan: Path) -> None:
    plan.write_text(PLAN.replace("0.5 <=", "0.5 <"))
    pack = plan.parent / "b.arrow"
    result = invoke("pack", "boundary", plan, "-o", pack)
    assert result.exit_code == 2
    assert "belongs to neither side" in result.output
    assert not pack.exists()
