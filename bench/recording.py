"""What recording costs: a null runner that repeats its input, kept as a pack.

The baseline is what would be written by hand: pyarrow writes the same answers, in the same number
of rows a batch, and makes sure that they are on the disk.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from bench.make import Array, pack, random_values
from bench.measure import Row, Scale, in_turn, seconds

import paritygate

BYTES = 512 << 20
ROWS = 2_048  # of a batch
LIMIT = 3.0
EXACT = {"atol": 0.0, "rtol": 0.0}


@dataclass(frozen=True)
class Recorded:
    """A recording of one float32 output."""

    width: int

    @property
    def name(self) -> str:
        return f"recording, {self.width} a sample"

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.name,)

    def measure(self, scale: Scale) -> list[Row]:
        samples = scale.size(BYTES // (4 * self.width), 3_000)
        x = random_values(samples, (self.width,))
        golden = pack(scale.folder / f"recorded-{self.width}.arrow", np.arange(samples), {"x": x})
        ours, theirs = scale.folder / "ours.arrow", scale.folder / "theirs.arrow"
        runner = {"kind": "null", "echo": {"y": "x"}, "batch_size": 256}
        plan = {
            "golden": str(golden),
            "runners": {"one": runner, "other": runner},
            "stages": [{"reference": "one", "candidate": "other", "default": EXACT}],
        }

        def record() -> float:
            ours.unlink(missing_ok=True)
            started = time.perf_counter()
            made = paritygate.record(plan, "one", out=ours, threads=1)
            whole = time.perf_counter() - started
            assert made.exit_code == 0, made.reasons
            return whole - float(made.summary["timing"]["startup_s"])

        found = in_turn(
            scale, {"record": record, "pyarrow": lambda: seconds(lambda: by_hand(theirs, x))}
        )
        for path in (golden, ours, theirs):
            path.unlink()
        cost = {name: [1e9 * taken / x.nbytes for taken in times] for name, times in found.items()}
        what = "pyarrow by hand"
        return [Row.against(self.name, cost["record"], "s/GB", cost["pyarrow"], what, limit=LIMIT)]


def by_hand(path: Path, x: Array) -> None:
    """Write ids and tensors, batch by batch."""
    kind = pa.fixed_shape_tensor(pa.float32(), x.shape[1:])
    schema = pa.schema([("sample_id", pa.int64()), ("out.y", kind)])
    with path.open("wb") as file:
        with pa.ipc.new_file(file, schema) as writer:
            for start in range(0, len(x), ROWS):
                part = np.array(x[start : start + ROWS])
                ids = pa.array(np.arange(start, start + len(part)))
                tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(part)
                writer.write(pa.record_batch([ids, tensors], schema=schema))
        file.flush()
        os.fsync(file.fileno())
