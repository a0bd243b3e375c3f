"""An output that is itself an input of the graph: no node writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from tests import models
from tests.packs import write_pack

import paritygate


@pytest.mark.parametrize("level", ["disable", "all"])
@pytest.mark.parametrize("shift", [0.0, 100.0])
def test_every_batch_of_a_passed_through_output_is_its_own(
    tmp_path: Path, level: str, shift: float
) -> None:
    n = 40
    a = np.arange(n * 2, dtype=np.float32).reshape(-1, 2)
    b = a.copy()
    b[n // 2 :] += shift
    write_pack(tmp_path / "g.arrow", np.arange(n), {"a": a, "b": b})
    for name in "ab":
        dims = (TensorProto.FLOAT, ["batch", 2])
        models.save_model(
            tmp_path / f"{name}.onnx",
            [helper.make_node("Add", [name, name], ["u"])],
            {name: dims},
            {name: dims, "u": dims},
        )
    runners: dict[str, Any] = {
        name: {
            "model": str(tmp_path / f"{name}.onnx"),
            "graph_optimization_level": level,
            "outputs": {"state": name, "u": "u"},
        }
        for name in "ab"
    }
    plan = {
        "golden": str(tmp_path / "g.arrow"),
        "dims": {"batch": {"sizes": [8]}},
        "runners": runners,
        "stages": [
            {
                "name": "s",
                "reference": "a",
                "candidate": "b",
                "outputs": {
                    "state": {"atol": 0.0, "rtol": 0.0},
                    "u": {"atol": 1e9, "rtol": 0.0},
                },
            }
        ],
    }
    result = paritygate.run(plan, out=None)
    state = result.summary["stages"][0]["outputs"]["state"]
    assert state["failing_samples"] == (n // 2 if shift else 0)
    assert result.verdict == ("hold" if shift else "release")
