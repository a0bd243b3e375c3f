"""Samples that fail: what the comparison costs where one in a hundred does, and where all do.

The first baseline is plain NumPy that computes the same statistics. The second is the limit that
memory sets, one pass that reads both arrays, on two threads like what stands beside it: the counts
of each failing sample. The third row looks for the worst element of every failing sample too, as a
run does that keeps the worst of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from bench.elements import BLOCK_BYTES, SIDE_BYTES, numpy_cuts, numpy_statistics
from bench.make import Array, close_to, random_values
from bench.measure import Row, Scale, in_turn, seconds, shared

from paritygate.comparison.elements import ElementComparer
from paritygate.core.policy import Tolerance

_TOLERANCE = Tolerance(atol=1e-6, rtol=1e-6)
_WIDE = {"1 %": 1000, "all": 100}  # elements a sample from which more is demanded
_ALLOWED = {"1 %": (1 / 0.50, 1 / 0.80), "all": (1 / 0.15, 1 / 0.30)}


@dataclass(frozen=True)
class Failing:
    """One float32 output in blocks of 16 MiB, of which some samples or all fail."""

    tier: Literal["gate", "full"]
    share: Literal["1 %", "all"]
    width: int

    @property
    def name(self) -> str:
        return f"failing {self.tier}, {self.share}, float32 x {self.width}"

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.name, f"{self.name}, limit", f"{self.name}, worst elements, limit")

    @property
    def allowed(self) -> float | None:
        """Times what reading both arrays takes; nothing is demanded of the tier "full"."""
        below, above = _ALLOWED[self.share]
        if self.tier == "full":
            return None
        return above if self.width >= _WIDE[self.share] else below

    def measure(self, scale: Scale) -> list[Row]:
        samples = max(1, scale.size(SIDE_BYTES // 4, 4_000) // self.width)
        ref = random_values(samples, (self.width,))
        cand = self._spoilt(close_to(ref))
        comparer = ElementComparer(_TOLERANCE, "float32", "float32", (self.width,), self.tier)
        ordinals = np.arange(samples)
        rows = max(1, BLOCK_BYTES // (ref.itemsize * self.width))
        cuts = [slice(at, min(at + rows, samples)) for at in range(0, samples, rows)]
        _check_same(comparer, ref[cuts[0]], cand[cuts[0]])

        def ours(cuts: Sequence[slice], *, is_looked_at: bool = False) -> None:
            for cut in cuts:
                _, detail = comparer.compare(
                    ref[cut], cand[cut], ordinals[cut], is_lazy=True, in_order=True
                )
                if is_looked_at:
                    comparer.look_at(detail, detail.failed()[0], ref[cut], cand[cut])

        few = cuts[: max(1, len(cuts) // 8)]
        few_by_numpy = numpy_cuts(few, self.width)
        measured = sum(ref[cut].size for cut in few)

        def with_numpy() -> None:
            for cut in few_by_numpy:
                numpy_statistics(ref[cut], cand[cut], _TOLERANCE, self.tier)

        def read(cuts: Sequence[slice]) -> None:
            for cut in cuts:
                for array in (ref[cut], cand[cut]):
                    array.view(np.int32).max()

        looking = partial(ours, is_looked_at=True)
        works = {
            "ours": lambda: shared(ours, cuts) / ref.size,
            "looked at": lambda: shared(looking, cuts) / ref.size,
            "read": lambda: shared(read, cuts) / ref.size,
            "one": lambda: seconds(lambda: looking(few)) / measured,
            "numpy": lambda: seconds(with_numpy) / measured,
        }
        found = in_turn(scale, works)
        ns = {name: [1e9 * s for s in values] for name, values in found.items()}
        unit, limit, what = "ns/element", self.allowed, "reading both arrays"
        numpy_too = "NumPy, same statistics"
        return [
            Row.against(self.labels[0], ns["one"], unit, ns["numpy"], numpy_too),
            Row.against(self.labels[1], ns["ours"], unit, ns["read"], what, limit=limit),
            Row.against(self.labels[2], ns["looked at"], unit, ns["read"], what),
        ]

    def _spoilt(self, cand: Array) -> Array:
        """The candidate, with one element beyond its bound in samples that are to fail, or all."""
        rng = np.random.default_rng(22)
        if self.share == "all":
            noise: Array = cand + rng.uniform(0.01, 0.1, size=cand.shape).astype(np.float32)
            return noise
        bad = np.flatnonzero(rng.random(len(cand)) < 0.01)
        cand[bad, rng.integers(0, self.width, len(bad))] += np.float32(0.1)
        return cand


def _check_same(comparer: ElementComparer, ref: Array, cand: Array) -> None:
    """Both sides of the measurement must have found the same."""
    tally, detail = comparer.compare(ref, cand, np.arange(len(ref)), is_lazy=True)
    rows, _ = detail.failed()
    comparer.look_at(detail, rows, ref, cand)
    found = numpy_statistics(ref, cand, _TOLERANCE, comparer.stats)
    assert tally.failing_elements == found["failing_elements"]
    assert np.array_equal(detail.failing_elements, found["failing"])
    theirs, worst, excess, _ = found["worst"]
    assert np.array_equal(rows, theirs)
    assert np.array_equal(detail.worst_index[rows], worst)
    assert np.array_equal(detail.worst_excess[rows], excess)
