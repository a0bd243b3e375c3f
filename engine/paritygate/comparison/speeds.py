"""How fast outputs of the host are compared on the CPU and, sent there, on a GPU, as tried."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from paritygate.comparison.elements import ElementComparer
from paritygate.comparison.place import Place, is_simulated
from paritygate.comparison.sending import sent
from paritygate.core.dtypes import is_float, numpy_dtype, widened
from paritygate.core.policy import Tolerance
from paritygate.core.tensors import Stats

TRIED_BYTES = 32 << 20  # of a side
_BLOCK_BYTES = 16 << 20  # of a side, at most compared at once, as blocks of a run are
_SIMULATED_BYTES = 96
_ROUNDS = 3
_ROUNDS_S = 0.05  # of which no more is begun
_DISTINCT = 1 << 17  # values, which are repeated
_SEED = 20_262


class Part(NamedTuple):
    """Samples of both sides that are compared at once."""

    ref: Any
    cand: Any
    ordinals: npt.NDArray[np.int64]


class Trial:
    """An output of clean samples, made up, that several threads compare.

    Args:
        tolerance: of the output.
        dtypes: names of the reference's and the candidate's.
        shape: of one sample, which has an element.
        stats: "gate" or "full".
        threads: that compare at once.

    Attributes:
        seconds: that it took so far, without compiling.

    Raises:
        ValueError: as of `ElementComparer`; or samples that are too large to try several.
    """

    def __init__(
        self,
        tolerance: Tolerance,
        dtypes: tuple[str, str],
        shape: tuple[int, ...],
        stats: Stats,
        threads: int,
    ) -> None:
        begun = time.perf_counter()
        self._given = tolerance, *dtypes, shape, stats
        self._host = ElementComparer(*self._given)
        self._threads = threads
        item = max(dtype.itemsize for dtype in self._host.dtypes)
        size = _SIMULATED_BYTES if is_simulated() else TRIED_BYTES
        parts = max(threads, -(-size // _BLOCK_BYTES))
        rows = max(1, size // (parts * self._host.width * item))
        if rows * parts * self._host.width * item > 4 * size:
            raise ValueError(f"samples of {self._host.width * item:,} bytes are too large to try")
        sides = clean_sides(tolerance, dtypes, rows * parts * self._host.width)
        ref, cand = (side.reshape(rows * parts, *shape) for side in sides)
        ordinals = np.arange(rows * parts)
        self._parts = [
            Part(*(array[k : k + rows] for array in (ref, cand, ordinals)))
            for k in range(0, rows * parts, rows)
        ]
        self._bytes = ref.nbytes + cand.nbytes
        self.seconds = time.perf_counter() - begun

    def on_cpu(self) -> float:
        """Bytes of both sides a second that the CPU compares."""
        return self._speed(
            lambda part: self._host.compare(*part, is_lazy=True, in_order=True), self._threads
        )

    def sent(self, place: Place) -> float:
        """Bytes of both sides a second that reach the GPU: it compares no more."""

        def send(part: Part) -> None:
            count = len(part.ref)
            step = max(1, place.bytes_at_once(is_sent=True) * count // part.ref.nbytes)
            pieces = (
                (slice(k, k + step), part.ref[k : k + step], part.cand[k : k + step])
                for k in range(0, count, step)
            )
            with place.lane() as lane:
                for _ in sent(lane, pieces, self._host.dtypes):
                    pass
                lane.check()

        return self._speed(send, self._threads)

    def on_gpu(self, place: Place) -> float | None:
        """Bytes of both sides a second that are sent and compared; None: there is no room.

        Raises:
            ValueError: what isn't compared on a GPU.
            DeviceError: the GPU failed, or counts a known batch wrong.
        """
        from paritygate.comparison.placed import PlacedComparer

        comparer = PlacedComparer(place, "", "", *self._given)
        speed = self._speed(lambda part: comparer.compare(*part, is_lazy=True), self._threads)
        return None if any(counts["cpu"] for counts in place.samples.values()) else speed

    def _speed(self, compare: Callable[[Part], object], threads: int) -> float:
        best, started = math.inf, 0.0
        with ThreadPoolExecutor(threads) as pool:
            for turn in range(1 + _ROUNDS):
                begun = time.perf_counter()
                if turn > 1 and begun - started > _ROUNDS_S:
                    break
                list(pool.map(compare, self._parts))
                if turn == 0:  # compiles, and takes memory
                    started = time.perf_counter()
                else:
                    best = min(best, time.perf_counter() - begun)
        self.seconds += time.perf_counter() - started
        return self._bytes / best


def clean_sides(
    tolerance: Tolerance, dtypes: tuple[str, str], count: int
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """So many values of both sides that differ, where the dtypes can tell, within the tolerance."""
    left, right = map(numpy_dtype, dtypes)
    rng = np.random.default_rng(_SEED)
    distinct = min(count, _DISTINCT)
    if not is_float(dtypes[0]):
        whole = rng.integers(0, 2, distinct)
        return _repeated(whole.astype(left), count), _repeated(whole.astype(right), count)
    with np.errstate(all="ignore"):
        both = rng.normal(size=distinct).astype(left).astype(right)
        ref, cand = both.astype(left), both
        exact = widened(ref).astype(np.float64)
        allowed = tolerance.atol + tolerance.rtol * np.abs(exact)
        near = (exact + 0.25 * allowed).astype(right)
        is_good = np.abs(widened(near).astype(np.float64) - exact) <= allowed
    cand[is_good] = near[is_good]
    return _repeated(ref, count), _repeated(cand, count)


def _repeated(values: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
    bits = values.view(f"u{values.dtype.itemsize}")
    return np.resize(bits, count).view(values.dtype)
