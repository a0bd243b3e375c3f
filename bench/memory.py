"""Peak memory of a run that compares two recordings, at two sizes.

`VmHWM` is the peak of everything resident, mapped files included. The peak of `RssAnon`, what the
process can't give back, isn't kept by the kernel and is sampled every 5 ms.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from bench.make import close_to, pack, random_values
from bench.measure import Row, Scale

ROUNDS = 3
WIDTH = 10
LIMIT = 1.2
RUN = """
import json, re, sys, threading, time
import paritygate

def status(name):
    with open("/proc/self/status") as file:
        return int(re.search(rf"^{name}:\\s+(\\d+) kB", file.read(), re.M)[1])

def watch():
    while True:
        peak[0] = max(peak[0], status("RssAnon"))
        time.sleep(0.005)

peak = [0]
threading.Thread(target=watch, daemon=True).start()
plan = {
    "golden": sys.argv[1],
    "runners": {"ref": "recorded", "cand": sys.argv[2]},
    "stages": [
        {"reference": "ref", "candidate": "cand", "outputs": {"y": {"atol": 1e-5, "rtol": 1e-5}}}
    ],
}
result = paritygate.run(plan, out=sys.argv[3])
assert result.verdict == sys.argv[4], result.explain()
print(json.dumps({"VmHWM": status("VmHWM"), "RssAnon": peak[0]}))
"""


@dataclass(frozen=True)
class Memory:
    """Two recordings of float32 x 10, joined by id."""

    order: Literal["same order", "shuffled", "all failing"]
    sizes: tuple[int, int] = (400_000, 4_000_000)

    @property
    def name(self) -> str:
        return f"memory, {self.order}"

    @property
    def labels(self) -> tuple[str, ...]:
        return (f"{self.name}, peak resident", f"{self.name}, peak anonymous")

    def measure(self, scale: Scale) -> list[Row]:
        sizes = (2_000, 20_000) if scale.quick else self.sizes
        small, large = ([self._peaks(n, scale) for _ in range(self._rounds(scale))] for n in sizes)
        rows = []
        for label, key in zip(self.labels, ("VmHWM", "RssAnon"), strict=True):
            mib = [[peaks[key] / 1024 for peaks in rounds] for rounds in (large, small)]
            rows.append(
                Row.against(
                    label, mib[0], f"MiB, {sizes[1]}", mib[1], f"{sizes[0]} samples", limit=LIMIT
                )
            )
        return rows

    @property
    def _verdict(self) -> str:
        return "hold" if self.order == "all failing" else "release"

    def _rounds(self, scale: Scale) -> int:
        return 1 if scale.quick else ROUNDS

    def _peaks(self, samples: int, scale: Scale) -> dict[str, int]:
        paths, runs = self._packs(samples, scale.folder), scale.folder / "memory-runs"
        done = subprocess.run(
            [sys.executable, "-c", RUN, *map(str, paths), str(runs), self._verdict],
            check=True,
            capture_output=True,
            text=True,
        )
        shutil.rmtree(runs)
        for path in paths:
            path.unlink()
        found: dict[str, int] = json.loads(done.stdout)
        return found

    def _packs(self, samples: int, folder: Path) -> tuple[Path, Path]:
        y = random_values(samples, (WIDTH,))
        ids = np.arange(samples)
        ref = pack(folder / "memory-ref.arrow", ids, outputs={"y": y})
        order = ids
        if self.order == "shuffled":
            order = np.random.default_rng(27).permutation(samples)
        near = y + np.float32(1) if self.order == "all failing" else close_to(y)[order]
        return ref, pack(folder / "memory-cand.arrow", order, outputs={"y": near})
