"""Two recorded packs compared, each time by a process of its own, its kernels in their cache.

The packs lie in the page cache, ids in the same order, 16 MB of values or 65 536 samples a record
batch. What is compared with what, as each process measures it:

- the blocks: `timing.blocks_s`, from the first block to the last merged tally, reading included;
- the limit: both mapped files read and added up by two threads;
- the loop: what would be written by hand, NumPy over record batches without a copy, one thread, of
  the statistics of the gate tier, which are held against ours once. It checks that both sides have
  the same ids and that they ascend, which no pair of them repeats;
- the light loop: the same without classes, failing samples, excess and places.

All else that a process of ours does, from launch to end, is told in seconds: start, kernels read
from their cache, ids checked, digests (known from the run before, as of any file that hasn't
changed), the run folder; of the command `paritygate compare` also the report. "The rest" is that of
the command, with all that a user waits for. Beside it stands a process that imports NumPy, Numba
and pyarrow and ends, which says how fast the machine is, and that of a script that calls
`paritygate.compare`, of which a seventh is the interpreter's own end.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from bench.measure import Row, Scale, in_turn
from bench.recorded_children import LIGHT_LOOP, LIMIT, LOOP, RUN

BATCH_BYTES, BATCH_ROWS = 16 << 20, 65_536
REST_LIMIT_S = 0.8
SEED = 31


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
        more = ("light loop", "the rest", "the rest of a script")
        return (*tiers, *(f"{self.name}, gate, {label}" for label in more))

    def measure(self, scale: Scale) -> list[Row]:
        samples = scale.size(self.samples, 3_000)
        paths = [scale.folder / f"{side}.arrow" for side in ("ref", "cand")]
        for path, noise in zip(paths, (0.0, 1e-6), strict=True):
            write(path, samples, self.width, noise)
        out = str(scale.folder / "recorded-runs")
        if not scale.quick:
            time.sleep(2.5)  # digests of files that are that new aren't kept
        rest: list[float] = []
        figures: dict[str, Any] = {}

        def gate() -> float:
            whole, blocks, figures["ours"] = timed(RUN, *paths, out, "gate")
            rest.append(whole - blocks)
            return blocks

        def loop() -> float:
            _, taken, figures["loop"] = timed(LOOP, *paths)
            return taken

        found = in_turn(
            scale,
            {
                "gate": gate,
                "limit": lambda: timed(LIMIT, "2", *paths)[1],
                "full": lambda: timed(RUN, *paths, out, "full")[1],
                "loop": loop,
                "light": lambda: timed(LIGHT_LOOP, *paths)[1],
                "rest": lambda: _rest_of_command(paths, scale.folder / "command-runs"),
                "imports": _import_libraries,
            },
        )
        _check_same(figures["ours"], figures["loop"])
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
        light, command, script = self.labels[-3:]
        rows.append(Row.against(light, found["gate"], "s", found["light"], "NumPy, less of it"))
        imported = found["imports"], "NumPy, Numba, pyarrow imported"
        whole = Row.against(
            command, found["rest"], "s", *imported, limit=REST_LIMIT_S, limited="ours"
        )
        rows.append(whole)
        return [*rows, Row.of(script, rest[-scale.rounds :], "s")]


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


def _check_same(ours: dict[str, Any], loop: dict[str, Any]) -> None:
    """Counts, extremes and their places are the same; sums are as near as NumPy's rounding."""
    for name in ("failing_samples", "failing_elements", "finite_pairs", "nonfinite"):
        assert ours[name] == loop[name], (name, ours[name], loop[name])
    for name in ("max_abs_error", "max_excess"):
        found = [ours[name][part] for part in ("value", "ordinal", "index")]
        assert found == loop[name], (name, found, loop[name])
    for name in ("mean_error", "mean_abs_error"):
        assert math.isclose(ours[name], loop[name], rel_tol=1e-6, abs_tol=1e-15), name


def _rest_of_command(paths: list[Path], out: Path) -> float:
    """Wall time of `paritygate compare`, less that of the blocks."""
    command = [sys.executable, "-m", "paritygate_frontends", "compare", *map(str, paths)]
    options = ["--atol", "1e-4", "--rtol", "1e-4", "--stats", "gate", "--out", str(out)]
    started = time.perf_counter()
    subprocess.run([*command, *options], check=True, capture_output=True)
    wall = time.perf_counter() - started
    (summary,) = out.glob("*/summary.json")
    blocks = float(json.loads(summary.read_text())["timing"]["blocks_s"])
    shutil.rmtree(out)
    return wall - blocks


def _import_libraries() -> float:
    """Wall time of a process that imports what any program would that does this."""
    started = time.perf_counter()
    command = [sys.executable, "-c", "import numpy, numba, pyarrow"]
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


def timed(code: str, *args: Path | str) -> tuple[float, float, dict[str, Any]]:
    """Wall time of a process, the seconds that it printed, and what it found."""
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, args)], check=True, capture_output=True, text=True
    )
    wall = time.perf_counter() - started
    told = json.loads(done.stdout)
    return wall, float(told["seconds"]), told
