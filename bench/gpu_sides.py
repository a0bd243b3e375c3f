"""Both sides of an output on a device, and a copy of one of them: what reading is held against.

A copy of one side reads it and writes as many bytes, so that it moves what a comparison reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from bench.make import Array
from bench.measure import Scale, in_turn, seconds

from paritygate.comparison.device_sides import stored
from paritygate.core.dtypes import numpy_dtype
from paritygate.core.policy import Tolerance
from paritygate.gpu.device import cuda

COPY = "copying one side on the device"
CHECKED = 1000  # samples
TILE_BYTES = 128 << 20  # of a side that are drawn; it is made of copies of them
BATCH_BYTES = 256 << 20
SECONDS, MOST_SECONDS = 6.0, 60.0  # that nine rounds of a case may take, and that three may
T = TypeVar("T")


@dataclass(frozen=True)
class DeviceScale(Scale):
    """How much to measure on a device.

    Attributes:
        is_tiny: sizes that a simulator is done with in a moment.
    """

    is_tiny: bool = False

    def pick(self, full: T, quick: T, tiny: T) -> T:
        """One of three sizes."""
        return tiny if self.is_tiny else quick if self.quick else full

    @property
    def side_bytes(self) -> int:
        """Of one side of an output."""
        return self.pick(1 << 30, 64 << 20, 64)


@dataclass(frozen=True)
class Sides:
    """An output of both sides.

    Attributes:
        ref: `(samples, *sample_shape)` on the device, as dtypes lie there.
        cand: the same of the candidate.
        few: some samples of both on the host.
        room: memory of the device of the size of one.
    """

    ref: Any
    cand: Any
    few: tuple[Array, Array]
    room: Any

    @staticmethod
    def of(ref: Array, cand: Array, name: str, side_bytes: int) -> Sides:
        """As many copies of these samples, of a dtype of that name, as a side has."""
        copies = max(1, side_bytes // ref.nbytes)
        left, right = (_repeated(stored(side, name), copies) for side in (ref, cand))
        few = slice(0, CHECKED)
        return Sides(left, right, (ref[few], cand[few]), cuda.device_array_like(left))

    def copy(self) -> None:
        """Copy one side."""
        self.room.copy_to_device(self.ref)
        cuda.synchronize()

    def batches(self, size: int = BATCH_BYTES) -> list[tuple[int, int]]:
        """First sample and end of each batch of so many bytes a side."""
        samples = len(self.ref)
        rows = max(1, size * samples // int(self.ref.nbytes))
        return [(at, min(at + rows, samples)) for at in range(0, samples, rows)]


def tile(samples: int, width: int, name: str, most: int) -> tuple[Array, Array]:
    """Both sides, `(samples, width)`, that are close to each other; of `most` bytes all are drawn.

    They are not to be changed: others of the same dtype are parts of the same values.
    """
    size = samples * width
    drawn = _drawn(max(size, min(most, TILE_BYTES) // numpy_dtype(name).itemsize), name)
    ref, cand = (side[:size].reshape(samples, width) for side in drawn)
    return ref, cand


def tolerance_of(name: str) -> Tolerance:
    """A tolerance that the sides of `tile` keep."""
    if numpy_dtype(name).kind in "iu":
        return Tolerance(atol=2.0, rtol=0.0)
    limit = 1e-6 if numpy_dtype(name).itemsize >= np.dtype(np.float32).itemsize else 1e-2
    return Tolerance(atol=limit, rtol=limit)


def tile_samples(width: int, name: str, side_bytes: int) -> int:
    """How many samples are drawn."""
    size = numpy_dtype(name).itemsize * width
    return max(1, min(side_bytes, TILE_BYTES) // size)


def paced(scale: DeviceScale, works: Mapping[str, Callable[[], float]]) -> dict[str, list[float]]:
    """As `in_turn`, in fewer rounds where they take long."""
    if scale.quick:
        return in_turn(scale, works)
    once = replace(scale, turns=9)
    in_turn(once, works, is_warm=True)
    taken = seconds(lambda: in_turn(once, works, is_warm=True))
    turns = 1 if 9 * taken <= SECONDS else 3 if 3 * taken <= MOST_SECONDS else 9
    return in_turn(replace(scale, turns=turns), works, is_warm=True)


def ns_each(found: Mapping[str, list[float]], elements: int) -> dict[str, list[float]]:
    """Seconds of a work as nanoseconds an element."""
    return {name: [1e9 * s / elements for s in values] for name, values in found.items()}


@lru_cache(maxsize=1)  # cases of one dtype follow each other
def _drawn(elements: int, name: str) -> tuple[Array, Array]:
    rng, dtype = np.random.default_rng(41), numpy_dtype(name)
    if dtype.kind in "iu":
        whole = rng.integers(-100, 101, elements, dtype)
        return whole, whole + np.resize(np.array([0, 1, -1, 2], dtype), elements)
    values = rng.standard_normal(elements, dtype=np.float32)
    noise = rng.random(elements, dtype=np.float32) - np.float32(0.5)
    noise *= np.float32(tolerance_of(name).rtol)
    return values.astype(dtype), (values * (1 + noise.astype(np.float64))).astype(dtype)


def _repeated(array: Array, copies: int) -> Any:
    drawn = cuda.to_device(array)
    found = cuda.device_array((copies * len(array), *array.shape[1:]), array.dtype)
    for number in range(copies):
        found[number * len(array) : (number + 1) * len(array)].copy_to_device(drawn)
    return found
