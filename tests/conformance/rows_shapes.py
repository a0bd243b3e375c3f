"""Rows about shapes: which axis the samples are on, answers of varying shape, empty samples."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from onnx import helper
from tests import models
from tests.conformance.case import RELEASE, Case, Expected, hold
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

VARYING = {
    "outputs": {"y": {"shape": ["batch", "n", 2]}},
    "dims": {"n": {"min": 0, "max": 8}},
}
BOXES = """
def boxes(x, less=0):
    return [np.full((max(0, int(v[0]) - less), 2), v[1], np.float32) for v in x]

def ref(g):
    return {'y': boxes(g['x'])}
"""
COUNTS = np.array([[2, 0.5], [0, 1], [3, 2], [0, 0], [2, 1], [1, 4]], np.float32)


def _boxes(
    name: str, cand: str, expected: Expected, says: tuple[str, ...] = (), **more: Any
) -> Case:
    source = f"{BOXES}\ndef cand(g):\n    return {{'y': {cand}}}\n"
    ids = more.pop("ids", ())
    given = Functions(source, more.pop("x", COUNTS), plan=more.pop("plan", VARYING))
    return Case("layout", name, given, expected, says, ids)


ROWS = [
    _boxes("other numbers of boxes, the same on both sides", "boxes(g['x'])", RELEASE),
    _boxes(
        "one box fewer where there are any",
        "boxes(g['x'], 1)",
        hold("shape.mismatch", "evidence.empty"),
        ("[batch, 3, 2]", "[batch, 2, 2]", "4 of 6 samples"),
        ids=(0, 2, 4, 5),
    ),
    _boxes(
        "as many boxes, one of them elsewhere",
        "[b + 1 if len(b) == 3 else b for b in boxes(g['x'])]",
        hold("tolerance.exceeded"),
        ("1 of 6 samples",),
        ids=(2,),
    ),
    _boxes(
        "as many boxes, one of them NaN",
        "[b * np.nan if len(b) == 3 else b for b in boxes(g['x'])]",
        hold("nonfinite.candidate"),
        ids=(2,),
    ),
    _boxes(
        "no boxes in any sample, on both sides",
        "boxes(g['x'])",
        hold("evidence.empty"),
        x=np.zeros((4, 2), np.float32),
    ),
    _boxes(
        "boxes in all samples, none on the candidate's side",
        "[b[:0] for b in boxes(g['x'])]",
        hold("shape.mismatch"),
        x=np.ones((4, 2), np.float32),
        ids=(0, 1, 2, 3),
    ),
    _boxes(
        "more boxes than the plan allows, the same on both sides",
        "boxes(g['x'])",
        hold("shape.mismatch"),
        ("[batch, n, 2]",),
        plan=VARYING | {"dims": {"n": {"min": 0, "max": 2}}},
        ids=(2,),
    ),
    _boxes(
        "other numbers of boxes, which the plan doesn't mention",
        "boxes(g['x'])",
        hold("runner.error", "evidence.empty"),
        ("name it: outputs.y.shape",),
        plan={},
    ),
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
