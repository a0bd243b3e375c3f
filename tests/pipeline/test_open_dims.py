"""What a graph leaves open stands in the summary with what the plan allows, and no more is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from onnx import TensorProto, helper
from tests.models import save_model, scale_model
from tests.packs import write_pack

import paritygate

FLOAT = TensorProto.FLOAT


def plan_of(folder: Path, models: dict[str, Path], **more: Any) -> dict[str, Any]:
    return {
        "golden": str(folder / "g.arrow"),
        "runners": {name: str(path) for name, path in models.items()},
        "stages": [{"reference": "a", "candidate": "b", "default": {"atol": 0, "rtol": 0}}],
        **more,
    }


def open_model(path: Path, dims: list[Any]) -> Path:
    node = helper.make_node("Relu", ["x"], ["y"], name=path.stem)
    return save_model(path, [node], {"x": (FLOAT, dims)}, {"y": (FLOAT, dims)})


@pytest.mark.parametrize(
    ("batch", "allowed"),
    [
        ({"sizes": [1, 4]}, {"sizes": [1, 4]}),
        ({"min": 1, "max": 8}, {"min": 1, "max": 8}),
        (None, {"sizes": [256]}),
    ],
)
def test_open_dims_and_their_bounds(
    tmp_path: Path, batch: dict[str, Any] | None, allowed: dict[str, Any]
) -> None:
    x = pa.array([[[1.0, 2.0]] * n for n in (2, 3, 9)], pa.list_(pa.list_(pa.float32())))
    write_pack(tmp_path / "g.arrow", range(3), columns={"in.x": x})
    models = {
        "a": open_model(tmp_path / "a.onnx", ["n", "seq", "wide"]),
        "b": open_model(tmp_path / "b.onnx", ["n", "seq", 2]),
    }
    dims = {"len": {"min": 1, "max": 8}} | ({"batch": batch} if batch else {})
    inputs = {"x": {"shape": ["batch", "len", 2]}}
    result = paritygate.run(plan_of(tmp_path, models, dims=dims, inputs=inputs), out=None)
    found = result.summary["dims"]
    assert found["a"] == [
        {"input": "x", "dim": "batch", "name": "n", "allowed": allowed},
        {"input": "x", "dim": 0, "name": "seq", "allowed": {"min": 1, "max": 8}},
        {"input": "x", "dim": 1, "name": "wide", "allowed": {"min": 2, "max": 2}},
    ]
    assert [d["dim"] for d in found["b"]] == ["batch", 0]
    assert {r.code for r in result.reasons} >= {"sample.rejected"}
    assert result.summary["stages"][0]["samples"]["rejected"] == 1


def test_a_pack_of_one_size_bounds_what_the_plan_does_not(tmp_path: Path) -> None:
    write_pack(tmp_path / "g.arrow", range(3), {"x": np.ones((3, 4), np.float32)})
    models = {
        "a": open_model(tmp_path / "a.onnx", ["n", "wide"]),
        "b": scale_model(tmp_path / "b.onnx", fixed_batch=1),
    }
    found = paritygate.run(plan_of(tmp_path, models), out=None).summary["dims"]
    assert found == {
        "a": [
            {"input": "x", "dim": "batch", "name": "n", "allowed": {"sizes": [256]}},
            {"input": "x", "dim": 0, "name": "wide", "allowed": {"min": 4, "max": 4}},
        ]
    }
