"""The models that fuzzing starts from: `python -m tests.fuzz.models` writes them anew."""

from __future__ import annotations

import json
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import onnx
from tests import models
from tests.admission.test_quantization import qdq
from tests.admission.test_semantic import rich

MODELS = Path(__file__).parent / "models"


def exported(path: Path) -> Path:
    """What torch.export.save might write, of one operator."""
    graph = {"graph_module": {"graph": {"nodes": [{"target": "torch.ops.aten.relu.default"}]}}}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("m/archive_format"), b"pt2")
        archive.writestr(zipfile.ZipInfo("m/models/model.json"), json.dumps(graph))
    return path


def main() -> None:
    """Write all of them; each is small, so that bytes that are worth changing are many."""
    MODELS.mkdir(exist_ok=True)
    onnx.save(rich(), MODELS / "good-rich")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        qdq(path, np.full(4, 0.1, np.float32))
        (MODELS / "good-quantised").write_bytes(path.read_bytes())
        models.external_data_model(path)
        (MODELS / "bad-external").write_bytes(path.read_bytes())
        (MODELS / "good-archive").write_bytes(exported(path).read_bytes())
        (MODELS / "bad-cut").write_bytes((MODELS / "good-rich").read_bytes()[:-7])


if __name__ == "__main__":
    main()
