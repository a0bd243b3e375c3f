"""Decisions of both sides, counted: against NumPy that finds the same flips, and against reading.

One decision a sample, no flips, float32, in blocks of 16 MiB a side. Reading, and what
stands beside it, is on two threads; NumPy, and what stands beside that, on one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from bench.elements import BLOCK_BYTES, SIDE_BYTES
from bench.make import Array
from bench.measure import Row, Scale, in_turn, seconds, shared

from paritygate.comparison.decisions import DecisionComparer
from paritygate.core.bands import parse_bands
from paritygate.core.policy import DecisionRule, Tolerance

TOLERANCE = Tolerance(atol=1e-6, rtol=1e-6)
Kind = Literal["2 edges", "4 edges", "argmax", "top 5"]
BANDS = {
    "2 edges": "accept < 0.2 <= review <= 0.8 < reject",
    "4 edges": "a < 0.2 <= b < 0.4 <= c <= 0.6 < d <= 0.8 < e",
}


@dataclass(frozen=True)
class Decisions:
    """One decision of one width in one tier.

    Attributes:
        allowed: largest ratio to reading both arrays; None: nothing is said of it.
    """

    kind: Kind
    width: int
    tier: Literal["gate", "full"]
    allowed: float | None = None

    @property
    def name(self) -> str:
        return f"decision {self.kind} x {self.width}, {self.tier}"

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.name, f"{self.name}, limit")

    def measure(self, scale: Scale) -> list[Row]:
        samples = scale.size(SIDE_BYTES // 4, 40_000) // self.width
        shape = () if self.width == 1 else (self.width,)
        ref = np.random.default_rng(31).random((samples, *shape), dtype=np.float32)
        noise = np.random.default_rng(32).uniform(-1e-7, 1e-7, size=ref.shape)
        cand = np.where(self._is_clear(ref, shape), ref + noise.astype(np.float32), ref)
        comparer = DecisionComparer(self.rule(), TOLERANCE, "float32", "float32", shape, self.tier)
        ordinals = np.arange(samples)
        rows = max(1, BLOCK_BYTES // (4 * self.width))
        cuts = [slice(at, min(at + rows, samples)) for at in range(0, samples, rows)]

        def ours(cuts: Sequence[slice]) -> int:
            found = (comparer.compare_lazily(ref[c], cand[c], ordinals[c]) for c in cuts)
            return sum(tally.flips for tally, _ in found)

        with_numpy = self._numpy()

        few = cuts[: max(1, len(cuts) // 8)]
        measured = sum(ref[cut].size for cut in few)

        def theirs() -> int:
            return sum(with_numpy(ref[c], cand[c]) for c in few)

        def read(cuts: Sequence[slice]) -> None:
            for cut in cuts:
                for array in (ref[cut], cand[cut]):
                    array.view(np.int32).max()

        assert ours(cuts) == 0
        assert theirs() == 0
        works = {
            "ours": lambda: shared(ours, cuts) / ref.size,
            "read": lambda: shared(read, cuts) / ref.size,
            "one": lambda: seconds(lambda: ours(few)) / measured,
            "numpy": lambda: seconds(theirs) / measured,
        }
        found = in_turn(scale, works)
        ns = {name: [1e9 * s for s in values] for name, values in found.items()}
        unit = "ns/score"
        return [
            Row.against(self.labels[0], ns["one"], unit, ns["numpy"], "NumPy, flips alone"),
            Row.against(
                self.labels[1], ns["ours"], unit, ns["read"], "reading both arrays",
                limit=self.allowed,
            ),
        ]  # fmt: skip

    def rule(self) -> DecisionRule:
        if self.kind in BANDS:
            return DecisionRule("d", "s", bands=parse_bands(BANDS[self.kind]))
        if self.kind == "argmax":
            return DecisionRule("d", "s", argmax=True)
        return DecisionRule("d", "s", topk=5)

    def _is_clear(self, ref: Array, shape: tuple[int, ...]) -> Any:
        """Scores that the noise takes over no edge, and rows in which it changes no place."""
        if not shape:
            edges = np.array(parse_bands(BANDS[self.kind]).edges)
            return np.abs(ref[:, None] - edges.astype(np.float32)).min(axis=1) > 1e-6
        last = np.sort(ref, axis=1)[:, -7:]
        return (np.diff(last, axis=1).min(axis=1) > 1e-6)[:, None]

    def _numpy(self) -> Callable[[Array, Array], int]:
        if self.kind in BANDS:
            edges = np.array(parse_bands(BANDS[self.kind]).edges).astype(np.float32)
            return lambda r, c: int((np.digitize(r, edges) != np.digitize(c, edges)).sum())
        if self.kind == "argmax":
            return lambda r, c: int((r.argmax(axis=1) != c.argmax(axis=1)).sum())
        return _numpy_top


def _numpy_top(ref: Array, cand: Array) -> int:
    sides = [np.sort(np.argpartition(side, -5, axis=1)[:, -5:], axis=1) for side in (ref, cand)]
    return int((sides[0] != sides[1]).any(axis=1).sum())


# Shares of the limit that the design asks for, as the most that a comparison may take.
DECISIONS = (
    Decisions("2 edges", 1, "gate", 1.67),
    Decisions("4 edges", 1, "gate", 2.22),
    Decisions("argmax", 10, "gate"),
    Decisions("argmax", 100, "gate", 2.22),
    Decisions("argmax", 1000, "gate", 1.54),
    Decisions("top 5", 1000, "gate"),
    Decisions("2 edges", 1, "full"),
    Decisions("argmax", 1000, "full"),
)
