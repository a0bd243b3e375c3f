"""Kinds of decisions as they are launched: threads a row, and what each kernel is given."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from paritygate.core.errors import DeviceError
from paritygate.gpu import argmax, bands, topk
from paritygate.gpu.decide import Batch, Found
from paritygate.gpu.device import SIMULATED, THREADS, cuda
from paritygate.gpu.slab import Arrays, Slab

Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_WARP = THREADS if SIMULATED else 32
_SCRATCH = 1 << 26  # bytes for the first places of all teams


class Sides(NamedTuple):
    """Scores of both sides on the device, flat, row after row.

    Attributes:
        ref: as they are compared.
        cand: the same.
        other_ref: as the other `compare_as` has them.
        other_cand: the same.
        has_other: whether these may decide otherwise.
    """

    ref: Any
    cand: Any
    other_ref: Any
    other_cand: Any
    has_other: bool


class Launch(NamedTuple):
    """What a kernel is given beside the scores."""

    ordinals: Any
    truth: Any
    batch: Batch
    found: Found


class Bands:
    """Bands of scores.

    Args:
        edges: `(2, k)` as they are compared, and as the other `compare_as` has them.
        tie_up: `(k,)` whether a score equal to the edge falls into the upper band.
    """

    places, team = 1, 1
    bytes_held = 0  # beside a slab

    def __init__(self, edges: Doubles, tie_up: Flags) -> None:
        count = edges.shape[1]
        self.codes = count + 1
        self._given = np.ascontiguousarray(edges), tie_up.astype(np.uint8)

    def begin(self) -> dict[str, npt.NDArray[Any]]:
        """What arrays of a slab begin with."""
        edges, tie_up = self._given
        ends = np.empty((2, self.codes), np.int64)
        ends[0], ends[1] = bands.HIGHEST, bands.LOWEST
        on = np.zeros(self.codes - 1, np.int64)
        return {"edges": edges, "tie_up": tie_up, "on": on, "ends": ends}

    def bind(self, slab: Slab) -> None:
        """Decide by these arrays of the device."""
        self._edges, self._tie_up = slab["edges"], slab["tie_up"]
        self._on, self._ends = slab["on"], slab["ends"]

    def launch(self, blocks: int, sides: Sides, given: Launch) -> int:
        """Decide a batch by at most so many blocks; how many they were."""
        cast(Any, bands.decide_bands)[blocks, THREADS](
            sides.ref, sides.cand, sides.other_cand, self._edges, self._tie_up,
            int(sides.has_other), *given, self._on, self._ends,
        )  # fmt: skip
        return blocks

    def read(self, found: Arrays) -> tuple[Ints, Doubles]:
        """Reference scores that equal each edge; and the lowest and highest of each band.

        Of `(2, bands)` scores, which are on no edge, NaN stands where a band has none.

        Raises:
            DeviceError: the device had other edges than it was given.
        """
        edges, tie_up = self._given
        is_same = np.array_equal(found["edges"], edges)
        if not is_same or not np.array_equal(found["tie_up"], tie_up):
            raise DeviceError("it decided by other edges than it was given")
        keys = found["ends"]
        is_none = keys[0] > keys[1]
        bits = np.where(keys >= 0, keys, keys ^ bands.HIGHEST)
        scores = bits.view(np.float64)
        scores[:, is_none] = np.nan
        return found["on"], scores


class _Ranks:
    """What has no arrays of its own in a slab."""

    @property
    def bytes_held(self) -> int:
        """Memory of the device that this takes."""
        own = (array for array in vars(self).values() if hasattr(array, "copy_to_host"))
        return sum(int(array.nbytes) for array in own)

    def begin(self) -> dict[str, npt.NDArray[Any]]:
        """None."""
        return {}

    def bind(self, slab: Slab) -> None:
        """Nothing."""

    def read(self, found: Arrays) -> None:
        """Nothing."""


class Argmax(_Ranks):
    """Largest classes of rows.

    Args:
        width: classes in a row, at least 2.
        stride: from one class of a row to the next.
        renamed: the reference's code of each class of the candidate; empty if both are the same.
    """

    places = 1

    def __init__(self, width: int, stride: int, renamed: Ints) -> None:
        self.codes = width
        self.team = _team(width, stride)
        self._own = width, stride, self.team
        self._renamed = _codes(renamed)

    def launch(self, blocks: int, sides: Sides, given: Launch) -> int:
        """Decide a batch by at most so many blocks; how many they were."""
        *scores, has_other = sides
        cast(Any, argmax.decide_argmax)[blocks, THREADS](
            *scores, *self._own, self._renamed, int(has_other), *given
        )
        return blocks


class Topk(_Ranks):
    """First k classes of rows; arguments as of `Argmax`, and whether their order counts."""

    def __init__(self, width: int, stride: int, renamed: Ints, k: int, *, is_ranked: bool) -> None:
        self.codes, self.places = width, k
        self.team = _team(width, stride)
        self._own = width, stride, self.team, k, int(is_ranked)
        self._renamed = _codes(renamed)
        self._room = 4, min(k + 1, width)
        self._best: Any = None

    def launch(self, blocks: int, sides: Sides, given: Launch) -> int:
        """Decide a batch by at most so many blocks; how many they were."""
        *scores, has_other = sides
        teams = THREADS // self.team
        blocks = min(blocks, max(1, _SCRATCH // (4 * teams * self._room[0] * self._room[1])))
        if self._best is None or self._best.shape[0] < blocks * teams:
            self._best = cuda.device_array((blocks * teams, *self._room), np.int32)
        cast(Any, topk.decide_topk)[blocks, THREADS](
            *scores, *self._own, self._renamed, int(has_other), *given, self._best
        )
        return blocks


AnyKind = Bands | Argmax | Topk


def _team(width: int, stride: int) -> int:
    """Threads that look at a row, each at two classes or more; rows side by side take one each."""
    team = 1
    while stride == 1 and 4 * team <= width and team < _WARP:
        team *= 2
    return team


def _codes(renamed: Ints) -> Any:
    """Codes on the device; one where there are none, as a kernel is given no empty array."""
    return cuda.to_device(np.ascontiguousarray(renamed if renamed.size else [0], np.int64))
