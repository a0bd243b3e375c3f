"""What a process does before the device counts its first sample: from empty caches, and again.

The parts follow each other in one process: the library that compiles is imported and the driver
asked; a context is made; the kernels of one output are compiled or loaded, and compare a small
batch that is known. The whole is a process that compares two small recordings.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.gpu_elements import TIERS
from bench.gpu_libraries import LackingError, Tier
from bench.gpu_recorded import CORES, GIB
from bench.gpu_report import Missing
from bench.gpu_sides import DeviceScale, tolerance_of
from bench.measure import Row, seconds
from bench.recorded import write

from paritygate.comparison.place import Place, find_place
from paritygate.comparison.speeds import Trial

ROUNDS = 3
PARTS = """
import json, sys, time
at = [time.perf_counter()]
def part():
    at.append(time.perf_counter())
from paritygate.comparison.place import find_place
place = find_place()
from paritygate.comparison.placed import PlacedComparer
part()
from paritygate.core.policy import Tolerance
from paritygate.gpu.device import cuda
cuda.synchronize()
part()
for tier in ("gate", "full"):
    PlacedComparer(place, "s", "y", Tolerance(1e-4, 1e-4), "float32", "float32", (8,), tier)
    part()
    assert not place.is_given_up, place.notes
print(json.dumps([b - a for a, b in zip(at, at[1:])]))
"""
WHOLE = """
import sys, paritygate
ref, cand, on = sys.argv[1:]
paritygate.compare(
    ref, cand, atol=1e-4, rtol=1e-4, out=None, stats="gate", compare_on=on
).raise_for_hold()
"""
NAMES = ("imports and driver", "context", "kernels, float32 gate", "kernels, float32 full too")
CACHES = ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "CUDA_CACHE_PATH", "CUPY_CACHE_DIR")
SAMPLES, WIDTH = 2_000, 8
TRIED_WIDTH = 1000


@dataclass(frozen=True)
class Tried:
    """Where large outputs of the host are compared sooner, as a run tries it."""

    name: str = f"tried at the start, float32 x {TRIED_WIDTH}"

    @property
    def labels(self) -> tuple[str, ...]:
        whats = ("sent", "sent and compared", "seconds")
        return tuple(f"{self.name}, {tier}, {what}" for tier in TIERS for what in whats)

    def measure(self, scale: DeviceScale) -> list[Row | Missing]:
        place, threads = find_place(), scale.pick(CORES, CORES, 1)
        rows: list[Row | Missing] = []
        for tier in TIERS:
            found = [_tried(place, tier, threads) for _ in range(1 if scale.quick else ROUNDS)]
            on_cpu, sent, on_gpu, taken = zip(*found, strict=True)
            what = "compared on the CPU"
            for name, ours in (("sent", sent), ("sent and compared", on_gpu)):
                label = f"{self.name}, {tier}, {name}"
                rows.append(Row.against(label, ours, "ms/GiB", on_cpu, what))
            rows.append(Row.of(f"{self.name}, {tier}, seconds", taken, "s"))
        return rows


def _tried(place: Place, tier: Tier, threads: int) -> tuple[float, float, float, float]:
    """Milliseconds a GiB of both sides on the CPU, sent, and sent and compared; seconds of all."""
    given = tolerance_of("float32"), ("float32", "float32"), (TRIED_WIDTH,), tier
    trial = Trial(*given, threads)
    with place.for_trials() as tried:
        on_gpu = trial.on_gpu(tried)
        if on_gpu is None:
            raise LackingError(f"the GPU has no room: {'; '.join(tried.notes)}")
        speeds = trial.on_cpu(), trial.sent(tried), on_gpu
    on_cpu, sent, on_gpu = (1e3 * GIB / speed for speed in speeds)
    return on_cpu, sent, on_gpu, trial.seconds


@dataclass(frozen=True)
class Start:
    """Parts of the start, and a whole process beside one that compares on the CPU."""

    name: str = "start on a device"

    @property
    def labels(self) -> tuple[str, ...]:
        parts = [f"{self.name}, {part}" for part in NAMES]
        return tuple(
            f"{label}, {caches}"
            for label in (*parts, f"{self.name}, whole process")
            for caches in ("cold caches", "warm caches")
        )

    def measure(self, scale: DeviceScale) -> list[Row | Missing]:
        paths = [scale.folder / f"start-{side}.arrow" for side in ("ref", "cand")]
        for path, noise in zip(paths, (0.0, 1e-6), strict=True):
            write(path, scale.pick(SAMPLES, SAMPLES, 3), WIDTH, noise)
        times = 1 if scale.quick else ROUNDS
        cold, *warm = _parts(scale.folder, times)
        first, on_gpu, on_cpu = _wholes(scale.folder, paths, times)
        rows: list[Row | Missing] = []
        for k, base in enumerate(cold):
            ours = [found[k] for found in warm]
            given = self.labels[2 * k + 1], ours, "s", [base] * times, "cold caches"
            rows += [Row.of(self.labels[2 * k], [base], "s"), Row.against(*given)]
        what = "comparing on the CPU"
        rows.append(Row.of(self.labels[-2], [first], "s"))
        return [*rows, Row.against(self.labels[-1], on_gpu, "s", on_cpu, what)]


def _parts(parent: Path, times: int) -> list[list[float]]:
    """Seconds of the parts with cold caches, then so many times with warm ones."""
    with tempfile.TemporaryDirectory(dir=parent) as caches:
        return [json.loads(_python(caches, PARTS)) for _ in range(times + 1)]


def _wholes(
    parent: Path, paths: Sequence[Path], times: int
) -> tuple[float, list[float], list[float]]:
    """Seconds of a process with cold caches; with warm ones on the device, and on the CPU."""
    with tempfile.TemporaryDirectory(dir=parent) as caches:

        def whole(on: str) -> float:
            return seconds(lambda: _python(caches, WHOLE, *map(str, paths), on))

        first = whole("cuda")
        whole("cpu")
        rounds = [(whole("cuda"), whole("cpu")) for _ in range(times)]
    on_gpu, on_cpu = zip(*rounds, strict=True)
    return first, list(on_gpu), list(on_cpu)


def _python(caches: str, code: str, *args: str) -> bytes:
    env = {**os.environ, **dict.fromkeys(CACHES, caches)}
    done = subprocess.run(
        [sys.executable, "-c", code, *args], check=True, stdout=subprocess.PIPE, env=env
    )
    return done.stdout
