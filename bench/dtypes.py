"""Elements of every other dtype against reading them, on two threads; integers against NumPy too.

Sides are too large for the processor's caches, since of a byte an element much fits into these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from bench.elements import BLOCK_BYTES, SIDE_BYTES, numpy_statistics
from bench.make import Array
from bench.measure import Row, Scale, in_turn, seconds, shared

from paritygate.comparison.elements import ElementComparer
from paritygate.core.dtypes import NARROW_FLOATS, float_format, numpy_dtype
from paritygate.core.policy import Tolerance

NUMPY_ROWS = 32  # whose temporaries stay in a core's caches
WIDTH = 1000


@dataclass(frozen=True)
class Dtype:
    """One output of 1000 elements a sample.

    Attributes:
        tier: of statistics.
        dtype: of both sides.
        kind: "equal" sides judged exactly, or sides that differ by steps, judged by an absolute
            tolerance ("atol") or by a relative one too ("rtol").
        allowed: largest multiple of reading both arrays.
    """

    tier: Literal["gate", "full"]
    dtype: str
    kind: Literal["equal", "atol", "rtol"]
    allowed: float | None = None

    @property
    def name(self) -> str:
        return f"{self.dtype} {self.tier}, {self.kind}"

    @property
    def labels(self) -> tuple[str, ...]:
        limit = f"{self.name}, limit"
        return (limit,) if self.dtype in NARROW_FLOATS else (limit, f"{self.name}, NumPy")

    def measure(self, scale: Scale) -> list[Row]:
        ref, cand = _sides(self, scale.size(SIDE_BYTES, 40_000))
        tolerance = _tolerance(self)
        comparer = ElementComparer(tolerance, self.dtype, self.dtype, (WIDTH,), self.tier)
        ordinals = np.arange(len(ref))
        rows = max(1, BLOCK_BYTES // (ref.itemsize * WIDTH))
        cuts = [slice(at, min(at + rows, len(ref))) for at in range(0, len(ref), rows)]
        tally, _ = comparer.compare(ref, cand, ordinals, is_lazy=True)
        assert tally.failing_samples == 0
        whole = np.uint32 if ref.itemsize < np.dtype(np.int64).itemsize else np.uint64

        def ours(cuts: Sequence[slice]) -> None:
            for cut in cuts:
                comparer.compare(ref[cut], cand[cut], ordinals[cut], is_lazy=True, in_order=True)

        def read(cuts: Sequence[slice]) -> None:
            for cut in cuts:
                for array in (ref[cut], cand[cut]):
                    array.view(whole).max()

        few = slice(0, NUMPY_ROWS)

        def with_numpy() -> None:
            numpy_statistics(ref[few], cand[few], tolerance, self.tier)

        works = {
            "ours": lambda: shared(ours, cuts) / ref.size,
            "read": lambda: shared(read, cuts) / ref.size,
        }
        if self.dtype not in NARROW_FLOATS:
            works["one"] = lambda: seconds(lambda: ours(cuts)) / ref.size
            works["numpy"] = lambda: seconds(with_numpy) / ref[few].size
        found = in_turn(scale, works)
        ns = {name: [1e9 * s for s in values] for name, values in found.items()}
        unit, numpy_too = "ns/element", "NumPy, same statistics"
        limit = Row.against(
            self.labels[0], ns["ours"], unit, ns["read"], "reading both arrays", limit=self.allowed
        )
        if "numpy" not in ns:
            return [limit]
        return [limit, Row.against(self.labels[1], ns["one"], unit, ns["numpy"], numpy_too)]


def _sides(case: Dtype, size: int) -> tuple[Array, Array]:
    dtype = numpy_dtype(case.dtype)
    rng = np.random.default_rng(24)
    shape = (size // dtype.itemsize // WIDTH, WIDTH)
    steps = rng.integers(-1, 2, size=shape, dtype=np.int8)
    if case.kind == "equal":
        steps[:] = 0
    if case.dtype in NARROW_FLOATS:
        values = rng.standard_normal(shape, dtype=np.float32)
        ref = values.astype(dtype)
        step = np.float32(2.0 ** -float_format(case.dtype).mantissa)
        return ref, (ref.astype(np.float32) * (1 + steps * step)).astype(dtype)
    ref = rng.integers(-100, 100, size=shape, dtype=dtype)
    return ref, ref + steps.astype(dtype)


def _tolerance(case: Dtype) -> Tolerance:
    if case.kind == "equal":
        return Tolerance(0.0, 0.0)
    absolute, relative = 2.0, 0.02
    if case.dtype in NARROW_FLOATS:
        absolute = relative = 2.0 * 2.0 ** -float_format(case.dtype).mantissa
    return Tolerance(absolute, 0.0 if case.kind == "atol" else relative)


GATE: tuple[tuple[str, Literal["equal", "atol", "rtol"], float], ...] = (
    ("float16", "rtol", 1 / 0.50),
    ("bfloat16", "rtol", 1 / 0.50),
    ("float8_e4m3fn", "rtol", 1 / 0.15),
    ("int8", "equal", 1 / 0.85),
    ("int8", "atol", 1 / 0.85),
    ("int8", "rtol", 1 / 0.30),
    ("int32", "rtol", 1 / 0.50),
    ("int64", "equal", 1 / 0.90),
)
DTYPES = (
    *(Dtype("gate", dtype, kind, allowed) for dtype, kind, allowed in GATE),
    *(Dtype("full", dtype, kind) for dtype, kind, _ in GATE),
)
