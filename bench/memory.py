"""Peak memory of a comparison of two recordings, at two sizes.

`VmHWM` is the peak of everything resident, mapped files included. The peak of `RssAnon`, what the
process can't give back, isn't kept by the kernel and is sampled every 5 ms.
"""

from __future__ import annotations

import json
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
COMPARE = """
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
result = paritygate.compare(sys.argv[1], sys.argv[2], atol=1e-5, rtol=1e-5, out=None)
result.raise_for_hold()
print(json.dumps({"VmHWM": status("VmHWM"), "RssAnon": peak[0]}))
"""


@dataclass(frozen=True)
class Memory:
    """Two recordings of float32 x 10, joined by id."""

    order: Literal["same order", "shuffled"]
    sizes: tuple[int, int] = (200_000, 2_000_000)

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
                Row.against(label, mib[0], f"MiB, {sizes[1]}", mib[1], f"{sizes[0]} samples")
            )
        return rows

    def _rounds(self, scale: Scale) -> int:
        return 1 if scale.quick else ROUNDS

    def _peaks(self, samples: int, scale: Scale) -> dict[str, int]:
        paths = self._packs(samples, scale.folder)
        done = subprocess.run(
            [sys.executable, "-c", COMPARE, *map(str, paths)],
            check=True,
            capture_output=True,
            text=True,
        )
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
        near = close_to(y)[order]
        return ref, pack(folder / "memory-cand.arrow", order, outputs={"y": near})
