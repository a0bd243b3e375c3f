"""What the harness costs: with null runners only reading, comparing and counting is left.

The reference and the candidate both repeat the input. The baseline is what would be written by
hand: a loop over the same batches that calls `np.allclose`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
from bench.make import Array, pack, random_values
from bench.measure import Row, Scale, in_turn, run_seconds, seconds

LIMIT_US = 150.0
BYTES = 768 << 20
MOST_BATCHES = 10_000


@dataclass(frozen=True)
class NullRun:
    """A run of two null runners with batches of one size, in one thread."""

    batch: int
    width: int

    @property
    def name(self) -> str:
        return f"null batch {self.batch} x {self.width}"

    @property
    def labels(self) -> tuple[str, ...]:
        return (f"{self.name}, harness", f"{self.name}, with elements")

    def measure(self, scale: Scale) -> list[Row]:
        batches = max(100, min(MOST_BATCHES, BYTES // (4 * self.batch * self.width)))
        batches = scale.size(batches, 3)
        x = random_values(batches * self.batch, (self.width,))
        path = scale.folder / f"null-{self.batch}-{self.width}.arrow"
        plan = _plan(str(pack(path, np.arange(len(x)), {"x": x})), self.batch)
        elements: list[float] = []

        def run() -> float:
            with _element_seconds() as spent:
                whole, result = run_seconds(plan, threads=1)
            assert result.verdict.value == "release", result.explain()
            elements.append(spent[0])
            return whole

        def loop() -> float:
            return seconds(lambda: _allclose(x, self.batch))

        found = in_turn(scale, {"run": run, "loop": loop})
        path.unlink()
        whole = [1e6 * s / batches for s in found["run"]]
        base = [1e6 * s / batches for s in found["loop"]]
        spent = elements[-scale.rounds :]
        rest = [w - 1e6 * s / batches for w, s in zip(whole, spent, strict=True)]
        what = "np.allclose loop"
        return [
            Row.against(
                self.labels[0], rest, "µs/batch", base, what, limit=LIMIT_US, limited="ours"
            ),
            Row.against(self.labels[1], whole, "µs/batch", base, what),
        ]


def _plan(golden: str, batch: int) -> dict[str, Any]:
    runner = {"kind": "null", "echo": {"y": "x"}, "batch_size": batch}
    return {
        "golden": golden,
        "dims": {"batch": {"sizes": [batch]}},
        "runners": {"ref": runner, "cand": runner},
        "stages": [
            {
                "reference": "ref",
                "candidate": "cand",
                "self": True,
                "outputs": {"y": {"atol": 1e-6, "rtol": 1e-6}},
            }
        ],
    }


def _allclose(x: Array, batch: int) -> bool:
    good = True
    for at in range(0, len(x), batch):
        good &= np.allclose(x[at : at + batch], x[at : at + batch], atol=1e-6, rtol=1e-6)
    return good


@contextmanager
def _element_seconds() -> Iterator[list[float]]:
    """Time spent in the comparison of elements proper, which isn't the harness."""
    from paritygate.comparison.elements import ElementComparer

    compare, spent = ElementComparer.compare, [0.0]

    def timed(self: ElementComparer, *args: Any, **how: Any) -> Any:
        started = time.perf_counter()
        try:
            return compare(self, *args, **how)
        finally:
            spent[0] += time.perf_counter() - started

    with mock.patch.object(ElementComparer, "compare", timed):
        yield spent
