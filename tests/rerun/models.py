"""A dynamically quantised model, whose samples depend on the others of their batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from onnx import TensorProto, helper
from tests.diagnosis.runs import run_pair
from tests.models import FLOAT, save_model
from tests.packs import write_pack


def failing(folder: Path | None, stage: str = "only") -> list[Any]:
    assert folder is not None
    shard = folder / "failures" / f"{stage}-00000.arrow"
    return list(pa.ipc.open_file(shard).read_all()["sample_id"].to_pylist())


def dynamic_models(folder: Path) -> tuple[str, str]:
    """`y = x @ w` in float32, and quantised with a scale made of the whole batch."""
    weight = np.random.default_rng(2).standard_normal((4, 3)).astype(np.float32)
    scale = np.float32(np.abs(weight).max() / 127)
    whole = np.round(weight / scale).astype(np.int8)
    shapes = {"x": (FLOAT, ["batch", 4])}, {"y": (FLOAT, ["batch", 3])}
    plain = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    ref = save_model(folder / "ref.onnx", plain, *shapes, {"w": weight})
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("MatMulInteger", ["q", "w", "z"], ["i"]),
        helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["s", "ws"], ["scale"]),
        helper.make_node("Mul", ["f", "scale"], ["y"]),
    ]
    constants = {"w": whole, "ws": scale}
    return str(ref), str(save_model(folder / "cand.onnx", nodes, *shapes, constants))


def coupled_run(folder: Path) -> Path:
    """A run in which samples fail because of an outlier in their batch; the tail is 3 of 8."""
    x = np.random.default_rng(0).uniform(0.5, 1.0, (43, 4)).astype(np.float32)
    x[10] *= 50
    x[42] *= 50
    write_pack(folder / "golden.arrow", [f"n{i}" for i in range(43)], {"x": x})
    result = run_pair(
        folder,
        *dynamic_models(folder),
        dims={"batch": {"sizes": [8]}},
        stages=[
            {
                "name": "only",
                "reference": "ref",
                "candidate": "cand",
                "default": {"atol": 0.05, "rtol": 0.0},
            }
        ],
    )
    assert result.folder is not None
    found = set(failing(result.folder))
    assert found & {"n8", "n9", "n11", "n12"}
    assert found & {"n40", "n41"}
    assert not found & {f"n{i}" for i in range(8)}
    return result.folder


def neighbours_of_outliers(run: Path) -> list[str]:
    """Failing samples that are none of the outliers."""
    return [i for i in failing(run) if i not in ("n10", "n42")]
