"""Decisions made on a device, against a copy, CuPy and torch.

Scores lie there, 1 GiB a side in batches of 256 MiB whose tallies stay there; one row in a hundred
flips. Each is checked against the CPU's on its first samples before it is measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from bench.decisions import BANDS, TOLERANCE, Decisions, Kind
from bench.gpu_libraries import NAMES, LackingError, Library, Tier, flips, library
from bench.gpu_report import Missing
from bench.gpu_sides import COPY, DeviceScale, Sides, ns_each, paced, tile_samples
from bench.measure import Row, seconds

from paritygate.comparison.decisions import DecisionComparer
from paritygate.comparison.decisions_on_device import DeviceDecisions
from paritygate.core.bands import parse_bands

FLIPPED = 0.01
UNIT = "ns/score"


@dataclass(frozen=True)
class DecidedOnDevice:
    """One decision of one width of float32, in one tier."""

    kind: Kind
    width: int
    tier: Tier

    @property
    def name(self) -> str:
        return f"on a device, decision {self.kind} x {self.width}, {self.tier}"

    @property
    def labels(self) -> tuple[str, ...]:
        others = [f"{self.name}, {name}" for name in NAMES if self.tier == "gate"]
        return (self.name, *others)

    def measure(self, scale: DeviceScale) -> list[Row | Missing]:
        sides = Sides.of(*self._scores(scale.side_bytes), "float32", scale.side_bytes)
        device = self._check(sides)
        cuts = sides.batches()

        def ours() -> None:
            deciding = device.begin()
            for a, b in cuts:
                deciding.add(sides.ref[a:b], sides.cand[a:b], range(a, b))
            deciding.finish()

        works = {"ours": ours, "copy": sides.copy}
        rows: list[Row | Missing] = []
        for name in NAMES if self.tier == "gate" else ():
            try:
                works[name] = self._flips(library(name), sides)
            except LackingError as e:
                rows.append(Missing(f"{self.name}, {name}", str(e)))
        timed = {name: (lambda work=work: seconds(work)) for name, work in works.items()}
        ns = ns_each(paced(scale, timed), int(sides.ref.size))
        rows.append(Row.against(self.name, ns["ours"], UNIT, ns["copy"], COPY))
        rows += [
            Row.against(f"{self.name}, {name}", ns["ours"], UNIT, ns[name], f"{name}, flips alone")
            for name in NAMES
            if name in ns
        ]
        return sorted(rows, key=lambda row: self.labels.index(row.label))

    def _check(self, sides: Sides) -> Any:
        """What decides on the device, which decides the first samples as the CPU does."""
        rule = Decisions(self.kind, self.width, self.tier).rule()
        given = rule, TOLERANCE, "float32", "float32", sides.few[0].shape[1:], self.tier
        device, ordinals = DeviceDecisions(*given), np.arange(len(sides.few[0]))
        found, _ = device.compare_lazily(*sides.few, ordinals)
        assert found == DecisionComparer(*given).compare(*sides.few, ordinals)[0]
        return device

    def _flips(self, lib: Library, sides: Sides) -> Callable[[], object]:
        ref, cand = (lib.taken(side, "float32") for side in (sides.ref, sides.cand))
        edges = parse_bands(BANDS[self.kind]).edges if self.kind in BANDS else ()
        cuts = sides.batches()

        def work() -> int:
            found = [flips(lib, ref[a:b], cand[a:b], self.kind, edges) for a, b in cuts]
            return sum(int(lib.host(part)) for part in found)

        return work

    def _scores(self, side_bytes: int) -> tuple[Any, Any]:
        samples = tile_samples(self.width, "float32", side_bytes)
        shape: tuple[int, ...] = (samples,) if self.width == 1 else (samples, self.width)
        rng = np.random.default_rng(31)
        ref = rng.random(shape, dtype=np.float32)
        cand = ref.copy()
        flipped = rng.random(samples) < FLIPPED
        cand[flipped] = 1 - cand[flipped]
        return ref, cand


def cases() -> list[DecidedOnDevice]:
    """What is measured."""
    kinds: list[tuple[Kind, int]] = [("2 edges", 1), ("4 edges", 1)]
    kinds += [("argmax", 10), ("argmax", 1000), ("top 5", 1000)]
    gates = [DecidedOnDevice(kind, width, "gate") for kind, width in kinds]
    fulls = [DecidedOnDevice(kind, width, "full") for kind, width in kinds[::2]]
    return [*gates, *fulls]
