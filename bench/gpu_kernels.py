"""The kernels of a clean comparison by themselves, as the device's own clock says.

A comparison also makes room on the device before its first batch and reads its tally after the
last one, which `bench/gpu_elements.py` counts. Here both lie outside: all batches are compared a
second time by a comparison that has its room, each counted anew as a block of a run is, so that
nothing is read between them. A copy is timed in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.gpu_elements import ALLOWED, TIERS, UNIT, OnDevice
from bench.gpu_report import Missing
from bench.gpu_sides import COPY, DeviceScale, Sides, ns_each, paced
from bench.measure import Row, seconds

from paritygate.comparison.on_device import DeviceComparer
from paritygate.gpu.device import SIMULATED, cuda

ADDED = "histogram and what else full adds"


@dataclass(frozen=True)
class Kernels:
    """Of one dtype and width."""

    dtype: str
    width: int

    @property
    def name(self) -> str:
        return f"kernels on a device, {self.dtype} x {self.width}"

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(f"{self.name}, {what}" for what in (*TIERS, ADDED))

    def measure(self, scale: DeviceScale) -> list[Row | Missing]:
        case = OnDevice(self.dtype, self.width)
        sides = case.sides(scale)
        works = {tier: _second_pass(case.judge(DeviceComparer, tier), sides) for tier in TIERS}
        works[ADDED] = _added(case.judge(DeviceComparer, "full"), sides)
        works[COPY] = lambda: sides.room.copy_to_device(sides.ref)
        timed = {name: (lambda work=work: device_seconds(work)) for name, work in works.items()}
        ns = ns_each(paced(scale, timed), int(sides.ref.size))
        limits = {**ALLOWED, ADDED: ALLOWED["full"]}
        return [
            Row.against(f"{self.name}, {what}", ns[what], UNIT, ns[COPY], COPY, limit=limit)
            for what, limit in limits.items()
        ]


def device_seconds(work: Callable[[], object]) -> float:
    """Seconds from the first to the last of what a work gives the device to do."""
    if SIMULATED:
        return seconds(work)
    start, end = cuda.event(), cuda.event()
    start.record()
    work()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3


class _Seen:
    """Passes on what is measured in the tier "full", and keeps what it was asked with."""

    def __init__(self, full: Any) -> None:
        self.full = full
        self.asked: list[tuple[Any, ...]] = []

    def add(self, *given: Any) -> None:
        self.asked.append(given)
        self.full.add(*given)


def _second_pass(judge: Any, sides: Sides) -> Callable[[], object]:
    comparison = judge.begin()

    def work() -> None:
        for start, stop in sides.batches():
            comparison.clear()
            comparison.add(sides.ref[start:stop], sides.cand[start:stop], range(start, stop))

    work()
    return work


def _added(judge: Any, sides: Sides) -> Callable[[], object]:
    comparison = judge.begin()
    seen = _Seen(comparison._tally._full)
    comparison._tally._full = seen
    for start, stop in sides.batches():
        comparison.add(sides.ref[start:stop], sides.cand[start:stop], range(start, stop))

    def work() -> None:
        for given in seen.asked:
            seen.full.add(*given)

    return work
