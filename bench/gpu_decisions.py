"""Decisions made on a GPU, against a device-to-device copy that moves as many bytes.

`bench/gpu.py` runs it. Scores lie on the device, in batches whose tallies stay there; one row in a
hundred flips. Each is checked against the CPU's on its first samples before it is measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from bench.decisions import BANDS, TOLERANCE
from bench.make import Array
from bench.measure import Row, Scale, in_turn, seconds

from paritygate.comparison.decisions import DecisionComparer
from paritygate.comparison.decisions_on_device import DeviceDecisions
from paritygate.core.bands import parse_bands
from paritygate.core.policy import DecisionRule
from paritygate.gpu.device import cuda

BATCH_BYTES = 64 << 20
CHECKED = 1000  # samples
FLIPPED = 0.01
Kind = Literal["2 edges", "4 edges", "argmax", "top 5"]


@dataclass(frozen=True)
class DecidedOnDevice:
    """One decision of one width of float32, in one tier."""

    kind: Kind
    width: int
    tier: Literal["gate", "full"]
    elements: int

    @property
    def name(self) -> str:
        return f"on a device, decision {self.kind} x {self.width}, {self.tier}"

    def measure(self, scale: Scale) -> list[Row]:
        ref, cand = self._sides()
        given = self._rule(), TOLERANCE, "float32", "float32", ref.shape[1:], self.tier
        device, host = DeviceDecisions(*given), DecisionComparer(*given)
        few = slice(0, CHECKED)
        ordinals = np.arange(len(ref[few]))
        found, _ = device.compare_lazily(ref[few], cand[few], ordinals)
        assert found == host.compare(ref[few], cand[few], ordinals)[0]

        left, right = cuda.to_device(ref), cuda.to_device(cand)
        room = cuda.device_array_like(left)
        rows = max(1, BATCH_BYTES // (4 * self.width))
        cuts = [(at, min(at + rows, len(ref))) for at in range(0, len(ref), rows)]

        def ours() -> None:
            deciding = device.begin()
            for start, stop in cuts:
                deciding.add(left[start:stop], right[start:stop], range(start, stop))
            deciding.finish()

        def copy() -> None:
            room.copy_to_device(left)
            cuda.synchronize()

        works = {"ours": lambda: seconds(ours), "copy": lambda: seconds(copy)}
        times = {
            name: [1e9 * s / ref.size for s in of] for name, of in in_turn(scale, works).items()
        }
        what = "copying one side on the device"
        return [Row.against(self.name, times["ours"], "ns/element", times["copy"], what)]

    def _sides(self) -> tuple[Array, Array]:
        samples = max(1, self.elements // self.width)
        shape: tuple[int, ...] = (samples,) if self.width == 1 else (samples, self.width)
        rng = np.random.default_rng(31)
        ref = rng.random(shape, dtype=np.float32)
        cand = ref.copy()
        flipped = rng.random(samples) < FLIPPED
        cand[flipped] = 1 - cand[flipped]
        return ref, cand

    def _rule(self) -> DecisionRule:
        given: dict[str, Any] = {"topk": 5}
        if self.kind in BANDS:
            given = {"bands": parse_bands(BANDS[self.kind])}
        elif self.kind == "argmax":
            given = {"argmax": True}
        return DecisionRule("d", "s", **given)


def cases(elements: int) -> list[DecidedOnDevice]:
    """What is measured, of so many elements a side."""
    kinds: list[tuple[Kind, int]] = [("2 edges", 1), ("4 edges", 1)]
    kinds += [("argmax", 10), ("argmax", 1000), ("top 5", 1000)]
    gates = [DecidedOnDevice(kind, width, "gate", elements) for kind, width in kinds]
    fulls = [DecidedOnDevice(kind, width, "full", elements) for kind, width in kinds[::2]]
    return [*gates, *fulls]
