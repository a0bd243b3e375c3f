"""Peak memory of a recording, mapped pages included, doesn't grow with the pack."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.frontends.command import environment

RECORD = """
import json, sys
from pathlib import Path
import paritygate

runner = {"kind": "null", "echo": {"y": "x"}, "batch_size": 64}
plan = {
    "golden": sys.argv[1],
    "runners": {"a": runner, "b": runner},
    "stages": [{"reference": "a", "candidate": "b", "default": {"atol": 0.0, "rtol": 0.0}}],
}
made = paritygate.record(plan, "a", out=sys.argv[2], threads=1)
lines = Path("/proc/self/status").read_text().splitlines()
peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024
print(json.dumps([peak, made.exit_code, made.summary["recording"]["bytes"]]))
"""


def write_large(path: Path, samples: int) -> Path:
    """4 KiB a sample, written piece by piece."""
    kind = pa.fixed_shape_tensor(pa.float32(), (1024,))
    schema = pa.schema({"sample_id": pa.int64(), "in.x": kind})
    with pa.ipc.new_file(path, schema) as writer:
        for start in range(0, samples, 1_000):
            ids = pa.array(range(start, start + 1_000))
            tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(
                np.full((1_000, 1024), start, np.float32)
            )
            writer.write_batch(pa.record_batch([ids, tensors], schema=schema))
    return path


def peak_of(folder: Path, samples: int) -> float:
    golden = write_large(folder / f"{samples}.arrow", samples)
    out = folder / f"{samples}-recorded.arrow"
    done = subprocess.run(
        [sys.executable, "-c", RECORD, str(golden), str(out)],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    peak, code, size = json.loads(done.stdout)
    assert (code, size) == (0, out.stat().st_size)
    assert size > 4096 * samples
    golden.unlink()
    out.unlink()
    return float(peak)


@pytest.mark.slow
def test_peak_memory_is_bounded(tmp_path: Path) -> None:
    small, large = (peak_of(tmp_path, samples) for samples in (60_000, 180_000))
    assert large - small < 100, (small, large)  # the packs are of 240 and 720 MiB
