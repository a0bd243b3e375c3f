"""Elements compared on a device, in both tiers, against a copy, CuPy and torch.

A side is 1 GiB, in batches of 256 MiB whose tallies stay there; how many samples failed is read
between batches that have more samples than there is room for (64 MiB: 1.4 million, unless a batch
has more). Where all samples fail a side is 64 MiB, since every one of them is told. Each comparison
is checked against the CPU's on its first samples before it is measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from bench.gpu_libraries import (
    NAMES,
    LackingError,
    Library,
    Tier,
    check_same,
    library,
    statistics,
    steps,
)
from bench.gpu_report import Missing
from bench.gpu_sides import (
    COPY,
    DeviceScale,
    Sides,
    ns_each,
    paced,
    tile,
    tile_samples,
    tolerance_of,
)
from bench.measure import Row, seconds

from paritygate.comparison.elements import ElementComparer
from paritygate.comparison.on_device import DeviceComparer
from paritygate.core.dtypes import is_float
from paritygate.tally.output import OutputTally

ALLOWED = {"gate": 1.25, "full": 2.5}  # times a copy, on chips with half-rate FP64
HELD = ("float32", "float64")  # compared as they lie; others are widened first
FAILING = {"clean": 0.0, "1 % failing": 0.01, "all failing": 1.0}
TIERS: tuple[Tier, ...] = ("gate", "full")
UNIT = "ns/element"
Compared = Callable[[], OutputTally]


@dataclass(frozen=True)
class OnDevice:
    """One output of one dtype and width, of which a share of samples fails by one element.

    Attributes:
        has_others: CuPy and torch are measured too.
    """

    dtype: str
    width: int
    failing: str = "clean"
    has_others: bool = False

    @property
    def name(self) -> str:
        return f"on a device, {self.dtype} x {self.width}, {self.failing}"

    @property
    def labels(self) -> tuple[str, ...]:
        others = [f"{tier}, {name}" for tier in TIERS for name in NAMES if self.has_others]
        return tuple(f"{self.name}, {what}" for what in (*TIERS, *others))

    def measure(self, scale: DeviceScale) -> list[Row | Missing]:
        sides = self.sides(scale)
        judges = {tier: self.judge(DeviceComparer, tier) for tier in TIERS}
        for tier, device in judges.items():
            self._check(device, self.judge(ElementComparer, tier), sides)
        libraries, rows = self._libraries(sides)
        works = {tier: _comparing(judge, sides) for tier, judge in judges.items()}
        works |= {
            f"{tier}, {lib.name}": self._plain(lib, tier, sides)
            for lib in libraries
            for tier in TIERS
        }
        timed = {name: (lambda work=work: seconds(work)) for name, work in works.items()}
        found = paced(scale, {**timed, "copy": lambda: seconds(sides.copy)})
        ns = ns_each(found, int(sides.ref.size))
        limits = ALLOWED if self.failing == "clean" and self.dtype in HELD else {}
        for tier in TIERS:
            label = f"{self.name}, {tier}"
            given = label, ns[tier], UNIT, ns["copy"], COPY
            rows.append(Row.against(*given, limit=limits.get(tier)))
            for lib in libraries:
                other = f"{tier}, {lib.name}"
                what = f"{lib.name}, same statistics"
                rows.append(Row.against(f"{self.name}, {other}", ns[tier], UNIT, ns[other], what))
        return sorted(rows, key=lambda row: self.labels.index(row.label))

    def sides(self, scale: DeviceScale) -> Sides:
        """Both sides, of which that share fails."""
        share = FAILING[self.failing]
        size = scale.side_bytes // (16 if share == 1 and not scale.is_tiny else 1)
        samples = tile_samples(self.width, self.dtype, size)
        ref, cand = tile(samples, self.width, self.dtype, scale.side_bytes)
        if share:
            cand = cand.copy()
            bad = np.random.default_rng(42).random(len(cand)) < share
            cand[bad, 0] += np.array(1 if is_float(self.dtype) else 5, cand.dtype)
        return Sides.of(ref, cand, self.dtype, size)

    def judge(self, kind: Any, tier: Tier) -> Any:
        """What compares them, of that kind of comparer."""
        return kind(tolerance_of(self.dtype), self.dtype, self.dtype, (self.width,), tier)

    def _check(self, device: Any, host: Any, sides: Sides) -> None:
        ordinals = np.arange(len(sides.few[0]))
        assert device.compare(*sides.few, ordinals)[0] == host.compare(*sides.few, ordinals)[0]

    def _libraries(self, sides: Sides) -> tuple[list[Library], list[Row | Missing]]:
        """Those that are there and find the same, and rows that say why others aren't measured."""
        found: list[Library] = []
        missing: list[Row | Missing] = []
        for name in NAMES if self.has_others else ():
            try:
                lib = library(name)
                few = slice(0, len(sides.few[0]))
                own = [lib.taken(side[few], self.dtype) for side in (sides.ref, sides.cand)]
                for tier in TIERS:
                    tally, _ = self.judge(ElementComparer, tier).compare(
                        *sides.few, np.arange(few.stop)
                    )
                    check_same(tally, lib, self._counted(lib, *own, tier))
            except LackingError as e:
                missing += [Missing(f"{self.name}, {tier}, {name}", str(e)) for tier in TIERS]
            else:
                found.append(lib)
        return found, missing

    def _plain(self, lib: Library, tier: Tier, sides: Sides) -> Callable[[], object]:
        ref, cand = (lib.taken(side, self.dtype) for side in (sides.ref, sides.cand))
        cuts = sides.batches()

        def work() -> None:
            found = [self._counted(lib, ref[a:b], cand[a:b], tier) for a, b in cuts]
            for part in found:
                for value in part.values():
                    lib.host(value)

        return work

    def _counted(self, lib: Library, ref: Any, cand: Any, tier: Tier) -> dict[str, Any]:
        found = statistics(lib, ref, cand, tolerance_of(self.dtype), tier)
        if tier == "full" and is_float(self.dtype):
            found |= steps(lib, ref, cand)
        return found


@dataclass(frozen=True)
class Batched:
    """Batches of other sizes: what launching the kernels costs beside them."""

    sizes_mib: tuple[int, ...] = (1, 16, 64)
    name: str = "on a device, float32 x 1000, clean, in batches"

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(f"{self.name} of {size} MiB" for size in self.sizes_mib)

    def measure(self, scale: DeviceScale) -> list[Row | Missing]:
        case = OnDevice("float32", 1000)
        sides, judge = case.sides(scale), case.judge(DeviceComparer, "gate")
        works = {
            label: _comparing(judge, sides, size << 20)
            for label, size in zip(self.labels, self.sizes_mib, strict=True)
        }
        timed = {label: (lambda work=work: seconds(work)) for label, work in works.items()}
        found = paced(scale, {**timed, "copy": lambda: seconds(sides.copy)})
        ns = ns_each(found, int(sides.ref.size))
        return [Row.against(label, ns[label], UNIT, ns["copy"], COPY) for label in self.labels]


def _comparing(judge: Any, sides: Sides, *size: int) -> Callable[[], object]:
    cuts = sides.batches(*size)

    def work() -> None:
        comparison = judge.begin()
        for start, stop in cuts:
            comparison.add(sides.ref[start:stop], sides.cand[start:stop], range(start, stop))
        comparison.finish()

    return work
