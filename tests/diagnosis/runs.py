"""Runs of small real models under ONNX Runtime, for what explains and replays them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from onnx import helper
from tests.models import FLOAT, linear_softmax, save_model
from tests.packs import write_pack

import paritygate

SEED = 5
TOLERANCE = {"atol": 1e-5, "rtol": 1e-5}


def inputs(n: int = 40, features: int = 4) -> np.ndarray:
    return np.random.default_rng(SEED).standard_normal((n, features)).astype(np.float32)


def ids(n: int = 40) -> list[str]:
    return [f"s{i:03d}" for i in range(n)]


def run_pair(folder: Path, ref: Any, cand: Any, **plan: Any) -> paritygate.RunResult:
    """Run two models over `inputs()`; the run folder lies in `folder / "runs"`."""
    golden = folder / "golden.arrow"
    if not golden.exists():
        write_pack(golden, ids(), {"x": inputs()})
    stage = {"name": "only", "reference": "ref", "candidate": "cand", "default": TOLERANCE}
    whole: Mapping[str, Any] = {
        "name": "pair",
        "golden": str(golden),
        "runners": {"ref": ref, "cand": cand},
        "stages": [stage],
        **plan,
    }
    result = paritygate.run(whole, out=folder / "runs")
    assert result.folder is not None
    return result


def classifiers(folder: Path, order: list[int]) -> tuple[str, str]:
    """Two classifiers; the second one lists its classes in another order."""
    weight = np.random.default_rng(1).standard_normal((4, len(order))).astype(np.float32)
    ref = linear_softmax(folder / "ref.onnx", weight)
    cand = linear_softmax(folder / "cand.onnx", weight[:, order])
    return str(ref), str(cand)


def square(path: Path, *, transposed: bool) -> str:
    """`y = outer(x, x * w)` as `(batch, 4, 4)`, or its transpose."""
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["xw"]),
        helper.make_node("Unsqueeze", ["x", "last"], ["column"]),
        helper.make_node("Unsqueeze", ["xw", "middle"], ["row"]),
        helper.make_node("MatMul", ["column", "row"], ["outer"]),
        helper.make_node(
            "Transpose", ["outer"], ["y"], perm=[0, 2, 1] if transposed else [0, 1, 2]
        ),
    ]
    constants = {
        "w": np.array([1.0, 2.0, 3.0, 4.0], np.float32),
        "last": np.array([2], np.int64),
        "middle": np.array([1], np.int64),
    }
    shapes = {"x": (FLOAT, ["batch", 4])}, {"y": (FLOAT, ["batch", 4, 4])}
    return str(save_model(path, nodes, *shapes, constants))
