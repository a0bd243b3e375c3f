"""Recorded packs in the page cache, compared on a device, and what their bytes go through.

The blocks (`timing.blocks_s`) of `compare_on = "cuda"` are held against the slower of two ways that
each byte has to go: both mapped files read by as many threads as there are cores, and as many bytes
copied to the device from pinned memory. Beside it stands the same comparison on the CPU.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bench.gpu_elements import TIERS
from bench.gpu_libraries import Tier
from bench.gpu_report import Missing
from bench.gpu_sides import DeviceScale, paced
from bench.measure import Row, seconds
from bench.recorded import timed, write
from bench.recorded_children import LIMIT

import paritygate
from paritygate.gpu.device import cuda

WIDTH = 1000
OF_LIMIT = 1 / 0.7
PIECE_BYTES = 64 << 20
CORES = len(os.sched_getaffinity(0))
GIB = 1 << 30


@dataclass(frozen=True)
class RecordedOnDevice:
    """`compare` of two packs whose values aren't on the device."""

    samples: int = 200_000
    name: str = f"recorded on a device, x {WIDTH}"

    @property
    def labels(self) -> tuple[str, ...]:
        whats = ("limit", "the CPU")
        return tuple(f"{self.name}, {tier}, {what}" for tier in TIERS for what in whats)

    def measure(self, scale: DeviceScale) -> list[Row | Missing]:
        samples = scale.pick(self.samples, 20_000, 3)
        paths = [scale.folder / f"{side}.arrow" for side in ("ref", "cand")]
        for path, noise in zip(paths, (0.0, 1e-6), strict=True):
            write(path, samples, scale.pick(WIDTH, WIDTH, 8), noise)
        if not scale.quick:
            time.sleep(2.5)  # digests of files that are that new aren't kept
        sending = _sending(scale)
        size = sum(path.stat().st_size for path in paths)
        works = {
            "read": lambda: timed(LIMIT, str(CORES), *paths)[1],
            "sent": lambda: sending() * size,
        }
        for tier in TIERS:
            for on in ("cuda", "cpu"):
                works[f"{tier} {on}"] = lambda t=tier, o=on: _blocks(paths, t, o)
        found = paced(scale, works)
        slower = [max(both) for both in zip(found["read"], found["sent"], strict=True)]
        rows: list[Row | Missing] = []
        for tier in TIERS:
            ours, label = found[f"{tier} cuda"], f"{self.name}, {tier}"
            what = "the slower of both files read and sent"
            limit = OF_LIMIT if tier == "gate" else None
            rows.append(Row.against(f"{label}, limit", ours, "s", slower, what, limit=limit))
            on_cpu = found[f"{tier} cpu"]
            rows.append(Row.against(f"{label}, the CPU", ours, "s", on_cpu, "on the CPU"))
        return rows


@dataclass(frozen=True)
class Ways:
    """How fast bytes go, by each of the ways that a recorded pack's bytes may take."""

    name: str = "bytes"

    @property
    def labels(self) -> tuple[str, ...]:
        whats = (
            "copied on the device", "to the device, pinned", "to the device, pageable",
            "from the device, pinned", "copied on the host, 1 thread",
            f"copied on the host, {CORES} threads",
        )  # fmt: skip
        return tuple(f"{self.name}, {what}" for what in whats)

    def measure(self, scale: DeviceScale) -> list[Row | Missing]:
        size = scale.pick(GIB, PIECE_BYTES, 1 << 10)
        left, right = (cuda.device_array(size, np.uint8) for _ in range(2))
        pageable = np.random.default_rng(44).integers(0, 256, size, np.uint8)
        pinned = cuda.pinned_array(size, np.uint8)
        pinned[:] = pageable
        left.copy_to_device(pinned)

        def copy() -> None:
            right.copy_to_device(left)
            cuda.synchronize()

        works: tuple[Callable[[], object], ...] = (
            copy,
            lambda: right.copy_to_device(pinned),
            lambda: right.copy_to_device(pageable),
            lambda: right.copy_to_host(pinned),
            lambda: np.copyto(pinned, pageable),
            lambda: _copied(pinned, pageable),
        )
        named = {
            label: (lambda work=work: seconds(work))
            for label, work in zip(self.labels, works, strict=True)
        }
        found = paced(scale, named)
        return [
            Row.of(label, [1e3 * s * GIB / size for s in taken], "ms/GiB")
            for label, taken in found.items()
        ]


def _copied(to: Any, given: Any) -> None:
    cuts = [slice(len(given) * k // CORES, len(given) * (k + 1) // CORES) for k in range(CORES)]
    with ThreadPoolExecutor(CORES) as pool:
        list(pool.map(lambda cut: np.copyto(to[cut], given[cut]), cuts))


def _sending(scale: DeviceScale) -> Callable[[], float]:
    """Seconds that a byte takes from pinned memory to the device."""
    size = scale.pick(4 * PIECE_BYTES, PIECE_BYTES, 1 << 10)
    pinned, there = cuda.pinned_array(size, np.uint8), cuda.device_array(size, np.uint8)
    pinned[:] = 1

    def send() -> None:
        there.copy_to_device(pinned)
        cuda.synchronize()

    return lambda: seconds(send) / size


def _blocks(paths: Sequence[Path], tier: Tier, on: Any) -> float:
    result = paritygate.compare(*paths, atol=1e-4, rtol=1e-4, out=None, stats=tier, compare_on=on)
    result.raise_for_hold()
    assert result.summary["comparison"]["on"] == on
    return float(result.summary["timing"]["blocks_s"])
