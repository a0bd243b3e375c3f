"""Two recorded packs compared, each time by a process of its own, its kernels in their cache.

The packs lie in the page cache, ids in the same order, 16 MB of values or 65 536 samples a record
batch. What is compared with what, as each process measures it:

- the blocks: `timing.blocks_s`, from the first block to the last merged tally, reading included;
- the limit: both mapped files read and added up by two threads;
- the loop: what would be written by hand, NumPy over record batches without a copy, one thread. It
  checks that both sides have the same ids and that they ascend, which no pair of them repeats.

All else that our process does, from launch to end, is told in seconds: start, kernels read from
their cache, ids checked, digests (known from the run before, as of any file that hasn't changed),
the run folder.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from bench.measure import Row, Scale, in_turn

BATCH_BYTES, BATCH_ROWS = 16 << 20, 65_536
REST_LIMIT_S = 0.8
SEED = 31
RUN = """
import json, sys
import paritygate
ref, cand, out, stats = sys.argv[1:]
result = paritygate.compare(ref, cand, atol=1e-4, rtol=1e-4, out=out, stats=stats)
result.raise_for_hold()
print(json.dumps(result.summary["timing"]["blocks_s"]))
"""
LIMIT = """
import json, mmap, sys, threading, time
import numpy as np

STEP = 1 << 19
maps = []
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        maps.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

def read(part):
    for mapped in maps:
        words = np.frombuffer(mapped, np.uint64, len(mapped) // 8)
        low, high = (len(words) * at // 2 for at in (part, part + 1))
        for at in range(low, high, STEP):
            words[at : min(at + STEP, high)].sum()

threads = [threading.Thread(target=read, args=(part,)) for part in range(2)]
started = time.perf_counter()
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps(time.perf_counter() - started))
"""
LOOP = """
import json, sys, time
import numpy as np
import pyarrow as pa

def values(column):
    if isinstance(column, pa.ExtensionArray):
        column = column.storage.flatten()
    return column.to_numpy()

pa.array([0]).to_numpy()  # imports what else would be a part of the first batch
started = time.perf_counter()
fails = nonfinite = 0
worst = total = signed = 0.0
last = -1
with pa.memory_map(sys.argv[1]) as left, pa.memory_map(sys.argv[2]) as right:
    files = pa.ipc.open_file(left), pa.ipc.open_file(right)
    for number in range(files[0].num_record_batches):
        batches = [file.get_batch(number) for file in files]
        ids, others = (batch.column("sample_id").to_numpy() for batch in batches)
        assert np.array_equal(ids, others) and ids[0] > last and (np.diff(ids) > 0).all()
        last = ids[-1]
        ref, cand = (values(batch.column("out.y")).astype(np.float64) for batch in batches)
        error = cand - ref
        size = np.abs(error)
        fails += np.count_nonzero(~(size <= 1e-4 + 1e-4 * np.abs(ref)))
        nonfinite += np.count_nonzero(~(np.isfinite(ref) & np.isfinite(cand)))
        worst = max(worst, size.max())
        total += size.sum()
        signed += error.sum()
print(json.dumps(time.perf_counter() - started))
assert (fails, nonfinite) == (0, 0)
"""


@dataclass(frozen=True)
class Compared:
    """`compare` of two packs.

    Attributes:
        samples: in each.
        width: float32 values of a sample.
        of_limit: the largest ratio to the limit that is allowed, by tier; without one: none.
        of_loop: the largest ratio to the loop, gate tier.
    """

    samples: int
    width: int
    of_limit: tuple[float | None, float | None]
    of_loop: float

    @property
    def name(self) -> str:
        return f"recorded, {self.samples} x {self.width}"

    @property
    def labels(self) -> tuple[str, ...]:
        tiers = [f"{self.name}, {t}, {b}" for t in ("gate", "full") for b in ("limit", "loop")]
        return (*tiers, f"{self.name}, gate, the rest")

    def measure(self, scale: Scale) -> list[Row]:
        samples = scale.size(self.samples, 3_000)
        paths = [scale.folder / f"{side}.arrow" for side in ("ref", "cand")]
        for path, noise in zip(paths, (0.0, 1e-6), strict=True):
            write(path, samples, self.width, noise)
        out = str(scale.folder / "recorded-runs")
        if not scale.quick:
            time.sleep(2.5)  # digests of files that are that new aren't kept
        rest: list[float] = []

        def gate() -> float:
            whole, blocks = _timed(RUN, *paths, out, "gate")
            rest.append(whole - blocks)
            return blocks

        found = in_turn(
            scale,
            {
                "gate": gate,
                "limit": lambda: _timed(LIMIT, *paths)[1],
                "full": lambda: _timed(RUN, *paths, out, "full")[1],
                "loop": lambda: _timed(LOOP, *paths)[1],
            },
        )
        for path in paths:
            path.unlink()
        rows = []
        for tier, limit in zip(("gate", "full"), self.of_limit, strict=True):
            labels = [label for label in self.labels if f", {tier}, " in label]
            ours = found[tier]
            rows.append(
                Row.against(labels[0], ours, "s", found["limit"], "both files read", limit=limit)
            )
            allowed = self.of_loop if tier == "gate" else None
            rows.append(
                Row.against(labels[1], ours, "s", found["loop"], "NumPy loop", limit=allowed)
            )
        kept = rest[-scale.rounds :]
        return [*rows, Row.of(self.labels[-1], kept, "s", REST_LIMIT_S)]


COMPARED = (
    Compared(400_000, 1000, (1 / 0.70, None), 1 / 8),
    Compared(20_000_000, 1, (None, None), 1 / 3),
)


def write(path: Path, samples: int, width: int, noise: float) -> None:
    """A pack of ids that ascend and values that are drawn batch by batch, disturbed by `noise`."""
    rng, disturb = np.random.default_rng(SEED), np.random.default_rng(SEED + 1)
    kind = pa.float32() if width == 1 else pa.fixed_shape_tensor(pa.float32(), (width,))
    schema = pa.schema([("sample_id", pa.int64()), ("out.y", kind)])
    step = min(BATCH_ROWS, BATCH_BYTES // (4 * width))
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        for start in range(0, samples, step):
            rows = min(step, samples - start)
            values = rng.standard_normal((rows, width), dtype=np.float32)
            values += np.float32(noise) * disturb.standard_normal(values.shape, dtype=np.float32)
            ids = pa.array(np.arange(start, start + rows))
            writer.write(pa.record_batch([ids, _column(values)], schema=schema))


def _column(values: Any) -> Any:
    if values.shape[1] == 1:
        return pa.array(values[:, 0])
    return pa.FixedShapeTensorArray.from_numpy_ndarray(values)


def _timed(code: str, *args: Path | str) -> tuple[float, float]:
    """Wall time of a process, and the seconds that it printed."""
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, args)], check=True, capture_output=True, text=True
    )
    return time.perf_counter() - started, float(json.loads(done.stdout))
