"""Models over 2 GiB: judged without being loaded into memory, and told apart by their last byte."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests import models

GIB = 1 << 30
WIDTH = 1024

_RUN = """
import json, sys
from pathlib import Path
import numpy as np
import paritygate

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))

def ref(given):
    last = np.arange(1024, dtype=np.float32)
    return {"y": np.where(given["x"][:, None] == rows - 1, last, np.float32(0))}

model, rows = sys.argv[1], int(sys.argv[2])
x = np.array([0, 1, rows // 2, rows - 1])
result = paritygate.verify(ref, model, {"x": x}, atol=0, rtol=0)
candidate = result.summary["runners"]["candidate"]
print(json.dumps({
    "verdict": result.verdict,
    "peak": peak(),
    "staging": candidate["staging"],
    "digest": candidate["model"]["digest"],
}))
"""


def big_model(path: Path, rows: int) -> int:
    """`y = table[x]` with a table of zeros but for its last row; its file has holes."""
    models.save_model(
        path,
        [helper.make_node("Gather", ["table", "x"], ["y"], axis=0)],
        {"x": (TensorProto.INT64, ["batch"])},
        {"y": (models.FLOAT, ["batch", WIDTH])},
        {"table": np.zeros((1, WIDTH), np.float32)},
    )
    model = onnx.load(path)
    table = model.graph.initializer[0]
    table.dims[0] = rows
    size = rows * WIDTH * 4
    models.set_external(table, "table.bin", size)
    path.write_bytes(model.SerializeToString())
    with path.with_name("table.bin").open("wb") as file:
        file.truncate(size)
        file.seek(size - WIDTH * 4)
        file.write(np.arange(WIDTH, dtype=np.float32).tobytes())
    return size


def judge(folder: Path, size: float) -> tuple[dict[str, object], int]:
    folder.mkdir()
    rows = int(size * GIB) // (WIDTH * 4)
    written = big_model(folder / "m.onnx", rows)
    command = [sys.executable, "-c", _RUN, str(folder / "m.onnx"), str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), written


@pytest.mark.slow
def test_memory_doesnt_grow_with_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.disk_usage(tmp_path).free < 4 * GIB:
        pytest.skip("there are no 4 GiB free for models and their copies")
    (tmp_path / "staging").mkdir()
    monkeypatch.setenv("PARITYGATE_STAGING", str(tmp_path / "staging"))
    judge(tmp_path / "first", 0.01)  # compiles kernels, which takes memory too
    small, _ = judge(tmp_path / "small", 0.3)
    large, written = judge(tmp_path / "large", 2.2)
    assert small["verdict"] == large["verdict"] == "release"
    assert written > 2 * GIB
    assert large["staging"]["bytes"] > written  # type: ignore[index]
    assert small["digest"] != large["digest"]
    assert abs(int(large["peak"]) - int(small["peak"])) < GIB // 16  # type: ignore[call-overload]
    assert list((tmp_path / "staging").iterdir()) == []
