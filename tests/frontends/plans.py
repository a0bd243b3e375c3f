"""Small plans on real models and packs, for the commands' end-to-end tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.models import scale_model
from tests.packs import write_pack

SAMPLES = 20
FLIPPED = 5  # the score 0.5 of this sample is exactly on the edge


def scores() -> np.ndarray:
    """`(20, 1)` float32, from 0.25 to 0.5 to 1.2."""
    values = np.linspace(0.25, 1.2, SAMPLES, dtype=np.float32)
    values[FLIPPED] = 0.5
    return values[:, None]


def make_models(folder: Path, factor: float = 1.0) -> Path:
    """Write `ref.onnx`, `cand.onnx` (`factor` times the reference) and `golden.arrow`."""
    folder.mkdir(parents=True, exist_ok=True)
    scale_model(folder / "ref.onnx", 1.0, width=1)
    scale_model(folder / "cand.onnx", factor, width=1)
    write_pack(folder / "golden.arrow", np.arange(100, 100 + SAMPLES), {"x": scores()})
    return folder


def make_plan(folder: Path, factor: float = 1.0) -> Path:
    """Write models, pack and a plan with a band rule; any factor but 1 flips one sample."""
    make_models(folder, factor)
    plan = folder / "plan.toml"
    plan.write_text(
        """\
name = "scaled"
golden = "golden.arrow"
[runners]
float = { model = "ref.onnx" }
other = { model = "cand.onnx" }
[[stages]]
name = "only"
reference = "float"
candidate = "other"
outputs.y = { atol = 1e-3, rtol = 1e-3 }
[decisions.gate]
output = "y"
bands = "low < 0.5 <= high"
"""
    )
    return plan


def make_recordings(folder: Path, change: float = 0.0) -> tuple[Path, Path]:
    """Write two packs of recorded scores, the candidate's in reverse order."""
    ids = np.arange(SAMPLES)
    ref = write_pack(folder / "ref.arrow", ids, outputs={"score": scores()})
    cand = scores()
    cand[FLIPPED] += np.float32(change)
    return ref, write_pack(folder / "cand.arrow", ids[::-1], outputs={"score": cand[::-1].copy()})
