"""Elements compared: both tiers against plain NumPy that computes the same statistics.

The second baseline is the limit that memory sets, one pass that reads both arrays; both on two
threads, as a run has them. Each array is four times as large as a last-level cache of
32 MiB.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from bench.make import Array, close_to, random_values
from bench.measure import Row, Scale, in_turn, seconds, shared

from paritygate.comparison.elements import ElementComparer
from paritygate.core.policy import Tolerance
from paritygate.kernels.grids import PIECE
from paritygate.kernels.scan import scan_floats
from paritygate.kernels.sums import CHUNKS

SIDE_BYTES = 128 << 20
BLOCK_BYTES = 16 << 20
NUMPY_ELEMENTS = 32_768
CACHED, GUESS = 65_536, -17  # 512 KiB of both sides, whose errors lie below 2^-17
IN_CACHE_NS = 0.5  # 2.0 G elements/s
RANKED_WIDTH = 16
ALLOWED = {"gate": 1.25, "full": 4.0}  # times reading, of floats


@dataclass(frozen=True)
class Elements:
    """One output of one dtype and width, in blocks of 16 MiB; good samples aren't looked at."""

    tier: Literal["gate", "full"]
    dtype: str
    width: int

    @property
    def name(self) -> str:
        return f"elements {self.tier}, {self.dtype} x {self.width}"

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.name, f"{self.name}, limit")

    def measure(self, scale: Scale) -> list[Row]:
        samples = max(
            1, scale.size(SIDE_BYTES // np.dtype(self.dtype).itemsize, 4_000) // self.width
        )
        ref = random_values(samples, (self.width,), self.dtype)
        cand = close_to(ref)
        tolerance = Tolerance(atol=1e-6, rtol=1e-6) if ref.dtype.kind == "f" else Tolerance(atol=2)
        comparer = ElementComparer(tolerance, self.dtype, self.dtype, (self.width,), self.tier)
        ordinals = np.arange(samples)
        rows = max(1, BLOCK_BYTES // (ref.itemsize * self.width))
        cuts = [slice(at, min(at + rows, samples)) for at in range(0, samples, rows)]
        _check_same(comparer, tolerance, ref[cuts[0]], cand[cuts[0]], ordinals[cuts[0]])

        def ours(cuts: Sequence[slice]) -> None:
            for cut in cuts:
                comparer.compare(ref[cut], cand[cut], ordinals[cut], is_lazy=True, in_order=True)

        few = cuts[: max(1, len(cuts) // 8)]
        few_by_numpy = numpy_cuts(few, self.width)
        measured = sum(ref[cut].size for cut in few)

        def with_numpy() -> None:
            for cut in few_by_numpy:
                numpy_statistics(ref[cut], cand[cut], tolerance, self.tier)

        def read(cuts: Sequence[slice]) -> None:
            for cut in cuts:
                for array in (ref[cut], cand[cut]):
                    array.view(np.int32).max()

        works = {
            "ours": lambda: shared(ours, cuts) / ref.size,
            "read": lambda: shared(read, cuts) / ref.size,
            "one": lambda: seconds(lambda: ours(few)) / measured,
            "numpy": lambda: seconds(with_numpy) / measured,
        }
        found = in_turn(scale, works)
        ns = {name: [1e9 * s for s in values] for name, values in found.items()}
        unit, what = "ns/element", "reading both arrays"
        limit = ALLOWED[self.tier] if ref.dtype.kind == "f" else None
        return [
            Row.against(self.labels[0], ns["one"], unit, ns["numpy"], "NumPy, same statistics"),
            Row.against(self.labels[1], ns["ours"], unit, ns["read"], what, limit=limit),
        ]


@dataclass(frozen=True)
class InCache:
    """The scan of the gate tier by itself, over float32 that one core's cache holds."""

    @property
    def name(self) -> str:
        return "scan gate, float32, in L2"

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.name,)

    def measure(self, scale: Scale) -> list[Row]:
        ref = random_values(CACHED, (1,)).reshape(-1)
        cand = close_to(ref)
        for side in (ref, cand):
            side.setflags(write=False)
        stretches = CACHED // PIECE
        states = np.empty(stretches, np.uint8)
        room = np.zeros((5, CHUNKS), np.int64), np.empty((2, 1), np.int64)
        best = np.zeros((2, 2), np.int64), np.ones(2), np.ones(1)

        def scanned() -> int:
            return scan_floats(ref, cand, PIECE, 1e-6, 1e-6, math.inf, *best, GUESS, *room, states)

        assert scanned() == CACHED
        assert not states.any()
        calls = scale.size(2000, 2)

        def ours() -> None:
            for _ in range(calls):
                scanned()

        found = in_turn(scale, {"ours": lambda: seconds(ours) / (calls * CACHED)})
        return [Row.of(self.name, [1e9 * s for s in found["ours"]], "ns/element", IN_CACHE_NS)]


def numpy_statistics(ref: Array, cand: Array, tolerance: Tolerance, tier: str) -> dict[str, Any]:
    """What `ElementComparer` finds out lazily, written with whole arrays.

    The worst element is looked for in samples that fail, and classes where something isn't finite.
    """
    is_float = ref.dtype.kind == "f"
    wide = np.float64 if is_float else np.int64
    r, c = ref.astype(wide), cand.astype(wide)
    signed, allowed = c - r, tolerance.atol + tolerance.rtol * np.abs(r)
    error = np.abs(signed)
    failing = ~(error <= allowed)
    found: dict[str, Any] = {"classes": np.array([ref.size, *[0] * 15])}
    is_finite = not is_float or bool(np.isfinite(signed).all())
    if not is_finite:
        classes = [_classes(values) for values in (r, c)]
        found["classes"] = np.bincount((classes[0] * 4 + classes[1]).reshape(-1), minlength=16)
        signed = np.where((classes[0] == 0) & (classes[1] == 0), signed, np.nan)
        error = np.abs(signed)
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = np.where(error == 0, 0.0, error / allowed)
    found |= {
        "failing_elements": int(failing.sum()),
        "max_error": _most(error, is_finite),
        "max_excess": _most(excess, is_finite),
        "sums": [_sum(error, is_finite), _sum(signed, is_finite)],
        "failing": np.zeros(len(r), np.int64),
    }
    if found["failing_elements"]:
        found["failing"] = failing.sum(axis=1)
    rows = np.flatnonzero(found["failing"])
    known = np.where(np.isnan(excess[rows]), -1.0, excess[rows])
    worst, at = known.argmax(axis=1), np.arange(len(rows))
    found["worst"] = rows, worst, known[at, worst], error[rows, worst]
    if tier == "full":
        found |= _full_tier(r, signed, error, cand, is_float)
    return found


def numpy_cuts(cuts: Sequence[slice], width: int) -> list[slice]:
    """The samples of some cuts, cut so that NumPy's temporaries stay in a core's caches."""
    rows, first, last = max(1, NUMPY_ELEMENTS // width), cuts[0].start, cuts[-1].stop
    return [slice(at, min(at + rows, last)) for at in range(first, last, rows)]


def _most(values: Any, is_finite: bool) -> tuple[int, float]:
    at = int(values.argmax() if is_finite else np.nanargmax(values))
    return at, float(values.reshape(-1)[at])


def _sum(values: Any, is_finite: bool) -> float:
    return float(values.sum() if is_finite else np.nansum(values))


def _full_tier(r: Any, signed: Any, error: Any, cand: Array, is_float: bool) -> dict[str, Any]:
    e = signed.astype(np.float64)
    magnitude = np.abs(e).reshape(-1)
    magnitude = magnitude[~np.isnan(magnitude)]
    bins = np.where(magnitude == 0, 0, 1 + (magnitude.view(np.int64) >> 49))
    found: dict[str, Any] = {"histogram": np.bincount(bins, minlength=16_378)}
    found["squared_errors"] = float(np.nansum(e * e))
    if not is_float:
        return found
    valid = ~np.isnan(e)
    found["squared_refs"] = float((r * r)[valid].sum())
    found["ref_errors"] = float((r * e)[valid].sum())
    steps = _ulp_steps(r.astype(cand.dtype), cand)
    far = np.where(np.abs(r) >= 1e-6, steps, 0)
    found["ulp"] = [(int(s.argmax()), int(s.max())) for s in (steps, far)]
    if r.shape[1] >= RANKED_WIDTH:
        energy, noise = np.nansum(r * r, axis=1), np.nansum(e * e, axis=1)
        cross = np.nansum(r * e, axis=1)
        length = np.sqrt(energy * (energy + 2 * cross + noise))
        apart = (energy * noise - cross * cross) / (length * (length + energy + cross))
        found["ranks"] = [
            (int(figure.argmax()), float(figure.max())) for figure in (noise / energy, apart)
        ]
    return found


def _classes(values: Any) -> Any:
    classes = np.zeros(values.shape, np.int8)
    classes[np.isnan(values)] = 1
    classes[values == np.inf] = 2
    classes[values == -np.inf] = 3
    return classes


def _ulp_steps(ref: Array, cand: Array) -> Any:
    whole = np.int32 if ref.dtype == np.float32 else np.int64
    lowest = np.int64(np.iinfo(whole).min)
    bits = [values.view(whole).astype(np.int64) for values in (ref, cand)]
    places = [np.where(b >= 0, b, lowest - b) for b in bits]
    return np.abs(places[0] - places[1])


def _check_same(
    comparer: ElementComparer, tolerance: Tolerance, ref: Array, cand: Array, ordinals: Any
) -> None:
    """Both sides of the measurement must have found the same."""
    tally, detail = comparer.compare(ref, cand, ordinals)
    found = numpy_statistics(ref, cand, tolerance, comparer.stats)
    assert tally.max_abs_error is not None
    assert tally.max_excess is not None
    assert tally.failing_elements == found["failing_elements"]
    assert np.array_equal(detail.failing_elements, found["failing"])
    rows, worst, _, _ = found["worst"]
    assert np.array_equal(detail.worst_index[rows], worst)
    assert float(tally.max_abs_error.value) == found["max_error"][1]
    assert float(tally.max_excess.value) == found["max_excess"][1]
    if comparer.stats == "full":
        assert np.array_equal(tally.histogram.all_counts(), found["histogram"])
    if comparer.stats == "full" and not comparer.integer:
        assert tally.max_ulp is not None
        assert int(tally.max_ulp.value) == found["ulp"][0][1]
