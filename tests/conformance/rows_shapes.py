"""Rows about shapes: which axis the samples are on, answers of varying shape, empty samples."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from onnx import helper
from tests import models
from tests.conformance.case import RELEASE, Case, hold
from tests.conformance.live import Functions, Models

X = np.linspace(-2, 2, 32, dtype=np.float32).reshape(8, 4) ** 3


def turned(folder: Path, batch: int | str, op: str = "Transpose") -> Path:
    """A square output whose first axis is as long as a batch, and isn't one."""
    return models.save_model(
        folder / "m.onnx",
        [helper.make_node(op, ["x"], ["y"])],
        {"x": (models.FLOAT, [batch, 4])},
        {"y": (models.FLOAT, [batch, 4] if op == "Identity" else [4, batch])},
    )


TURNED: dict[str, Any] = {"stage": {"self": True}}
STATE = "    return {'y': np.stack([g['x'], 2 * g['x']])}\n"
ON_AXIS_1 = {"outputs": {"y": {"shape": [2, "batch", 4]}}}

ROWS = [
    Case(
        "layout",
        "a fixed batch of 4, an output that is transposed and so has 4 rows too",
        Models(partial(turned, batch=4), None, X, **TURNED),
        hold("runner.error", "evidence.empty"),
        ("doesn't follow the batch", "in another order"),
    ),
    Case(
        "layout",
        "a fixed batch of 4 and an output that follows it",
        Models(partial(turned, batch=4, op="Identity"), None, X, **TURNED),
        RELEASE,
    ),
    Case(
        "layout",
        "a state [2, batch, 4], declared so",
        Functions(f"def ref(g):\n{STATE}\ndef cand(g):\n{STATE}", X, batch_size=2, plan=ON_AXIS_1),
        RELEASE,
    ),
    Case(
        "layout",
        "a state [2, batch, 4] in batches of 2, declared as it isn't",
        Functions(
            f"def ref(g):\n{STATE}\ndef cand(g):\n    return {{'y': g['x']}}\n", X, batch_size=2
        ),
        hold("shape.mismatch"),
        ("[batch, 2, 4]", "[batch, 4]"),
    ),
]
