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

BLOCK_BYTES = 16 << 20  # of a side, compared at once, as large blocks of a run are
_MOST_BYTES = 128 << 20  # of a side
_SIMULATED_BYTES = 96
_WARMING = 8  # a part of so many warms up
_ROUNDS = 3
_ROUNDS_S = 0.05  # after which no other is begun
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
        sample = self._host.width * item
        size = min(BLOCK_BYTES, _MOST_BYTES // threads)
        rows = max(1, (_SIMULATED_BYTES if is_simulated() else size) // sample)
        if rows * sample > 4 * size:
            raise ValueError(f"samples of {sample:,} bytes are too large to try")
        count = rows * threads
        sides = clean_sides(tolerance, dtypes, count * self._host.width)
        ref, cand = (side.reshape(count, *shape) for side in sides)
        self._parts = [_part(ref, cand, k, k + rows) for k in range(0, count, rows)]
        self._bytes = ref.nbytes + cand.nbytes
        self.seconds = time.perf_counter() - begun

    def on_cpu(self) -> float:
        """Bytes of both sides a second that the CPU compares."""

        def compare(part: Part) -> None:
            self._host.compare(*part, is_lazy=True, in_order=True)

        return self._speed(compare, 1)

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

        return self._speed(send, 2)

    def on_gpu(self, place: Place) -> float | None:
        """Bytes of both sides a second that are sent and compared; None: there is no room.

        Raises:
            ValueError: what isn't compared on a GPU.
            DeviceError: the GPU failed, or counts a known batch wrong.
        """
        from paritygate.comparison.placed import PlacedComparer

        comparer = PlacedComparer(place, "", "", *self._given)
        speed = self._speed(lambda part: comparer.compare(*part, is_lazy=True), 2)
        return None if any(counts["cpu"] for counts in place.samples.values()) else speed

    def _speed(self, compare: Callable[[Part], object], least: int) -> float:
        """By all threads at once: the best of at least so many rounds."""
        few = [_part(*part[:2], 0, -(-len(part.ref) // _WARMING)) for part in self._parts]
        best = math.inf
        with ThreadPoolExecutor(self._threads) as pool:
            list(pool.map(compare, few))  # which compiles, and takes memory
            started = begun = time.perf_counter()
            for turn in range(_ROUNDS):
                if turn >= least and begun - started > _ROUNDS_S:
                    break
                list(pool.map(compare, self._parts))
                ended = time.perf_counter()
                best, begun = min(best, ended - begun), ended
        self.seconds += time.perf_counter() - started
        return self._bytes / best


def _part(ref: Any, cand: Any, start: int, stop: int) -> Part:
    return Part(ref[start:stop], cand[start:stop], np.arange(start, stop))


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
        cap = math.inf if tolerance.max_abs is None else tolerance.max_abs
        allowed = np.minimum(tolerance.atol + tolerance.rtol * np.abs(exact), cap)
        near = (exact + 0.25 * allowed).astype(right)
        is_good = np.abs(widened(near).astype(np.float64) - exact) <= allowed
    cand[is_good] = near[is_good]
    return _repeated(ref, count), _repeated(cand, count)


def _repeated(values: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
    bits = values.view(f"u{values.dtype.itemsize}")
    return np.resize(bits, count).view(values.dtype)
