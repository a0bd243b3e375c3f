"""Elements and decisions compared on a GPU, against a device-to-device copy of as many bytes.

    python -m bench.gpu [--quick] [--elements N]

It stands beside `bench/run.py`, in an environment with numba-cuda (`make gpu` makes one) on a
machine with a CUDA device; elsewhere it says that there is none and measures nothing. No figure of
it has been recorded so far. Sides lie on the device, 1 GiB each, in batches of 64 MiB whose tallies
stay there. Each comparison is checked against the CPU's on its first samples before it is measured.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from bench import gpu_decisions
from bench.make import close_to, random_values
from bench.measure import Row, Scale, in_turn, seconds
from bench.run import HEAD, cells, line, rule

from paritygate.comparison.elements import ElementComparer
from paritygate.comparison.on_device import DeviceComparer
from paritygate.core.policy import Tolerance
from paritygate.gpu.device import SIMULATED, cuda

SIDE_BYTES, BATCH_BYTES = 1 << 30, 64 << 20
ALLOWED = {"gate": 1.25, "full": 2.5}  # times a copy, on chips with half-rate FP64
CHECKED = 1000  # samples
TOLERANCE = Tolerance(atol=1e-6, rtol=1e-6)
OF_INTEGERS = Tolerance(atol=2.0, rtol=0.0)
FAILING = {"clean": 0.0, "1 % failing": 0.01, "all failing": 1.0}
DTYPES = ("float32", "float64")  # compared as they lie; others are widened first


@dataclass(frozen=True)
class OnDevice:
    """One output of one dtype and width, of which a share of samples fails by one element."""

    dtype: str
    width: int
    failing: str
    elements: int
    stats: Literal["gate", "full"] = "gate"

    @property
    def name(self) -> str:
        tier = "" if self.stats == "gate" else ", full tier"
        return f"on a device, {self.dtype} x {self.width}, {self.failing}{tier}"

    def measure(self, scale: Scale) -> list[Row]:
        samples = max(1, self.elements // self.width)
        ref = random_values(samples, (self.width,), self.dtype)
        cand = close_to(ref)
        share = FAILING[self.failing]
        bad = np.random.default_rng(1).random(samples) < share
        tolerance = TOLERANCE if ref.dtype.kind == "f" else OF_INTEGERS
        cand[bad, 0] += 1 if ref.dtype.kind == "f" else 5
        judges = (
            kind(tolerance, self.dtype, self.dtype, (self.width,), self.stats)
            for kind in (DeviceComparer, ElementComparer)
        )
        device, host = judges
        assert isinstance(device, DeviceComparer)
        few, ordinals = slice(0, CHECKED), np.arange(min(CHECKED, samples))
        found, _ = device.compare(ref[few], cand[few], ordinals)
        assert found == host.compare(ref[few], cand[few], ordinals)[0]

        left, right = cuda.to_device(ref), cuda.to_device(cand)
        room = cuda.device_array_like(left)
        rows = max(1, BATCH_BYTES // (ref.itemsize * self.width))
        cuts = [(at, min(at + rows, samples)) for at in range(0, samples, rows)]

        def ours() -> None:
            comparison = device.begin()
            for start, stop in cuts:
                comparison.add(left[start:stop], right[start:stop], range(start, stop))
            comparison.finish()

        def copy() -> None:
            room.copy_to_device(left)
            cuda.synchronize()

        works = {"ours": lambda: seconds(ours), "copy": lambda: seconds(copy)}
        times = {
            name: [1e9 * s / ref.size for s in of] for name, of in in_turn(scale, works).items()
        }
        limit = ALLOWED[self.stats] if share == 0 and self.dtype in DTYPES else None
        return [
            Row.against(
                self.name, times["ours"], "ns/element", times["copy"],
                "copying one side on the device", limit=limit,
            )
        ]  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; 2 where there is no device, 1 if more than allowed was taken."""
    parser = argparse.ArgumentParser(description="Measure comparisons on a GPU.")
    parser.add_argument("--quick", action="store_true", help="once; judges nothing")
    parser.add_argument("--elements", type=int, metavar="N", help="of a side, instead of 1 GiB")
    args = parser.parse_args(argv)
    if not cuda.is_available():
        print("there is no CUDA device here: nothing was measured", file=sys.stderr)
        return 2
    chip = "simulated" if SIMULATED else cuda.get_current_device().name
    print(f"device: {chip}\n\n{line(HEAD)}\n{rule()}", flush=True)
    missed: list[Any] = []
    decisions = gpu_decisions.cases(args.elements or SIDE_BYTES // 4)
    with tempfile.TemporaryDirectory() as folder:
        for case in [*of_elements(args.elements), *decisions]:
            for row in case.measure(Scale(Path(folder), args.quick)):
                print(line(cells(row)), flush=True)
                missed += [] if row.is_met or args.quick else [row]
    return 1 if missed else 0


def of_elements(elements: int | None) -> list[OnDevice]:
    """What is measured, of so many elements a side or of 1 GiB."""

    def of(dtype: str, *rest: Any, **more: Any) -> OnDevice:
        return OnDevice(dtype, *rest, elements or SIDE_BYTES // np.dtype(dtype).itemsize, **more)

    widths = (1, 10, 1000)
    return [
        *(of(dtype, width, failing) for dtype in DTYPES for width in widths for failing in FAILING),
        *(of("float32", width, "clean", stats="full") for width in widths),
        *(of(dtype, 1000, "clean") for dtype in ("float16", "int32", "int64")),
    ]


if __name__ == "__main__":
    sys.exit(main())
