"""What the tier "full" measures of an output stays on the device, too, until it is read."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from paritygate.gpu import measures, ranks
from paritygate.gpu.device import THREADS, cuda
from paritygate.gpu.fold import fold_full
from paritygate.gpu.rules import BINS
from paritygate.gpu.scan import Batch
from paritygate.gpu.slab import Arrays, Slab

Ints = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]


class Measured(NamedTuple):
    """What was measured, as arrays of the host.

    Attributes:
        bins: `(BINS,)` counts of |e|.
        lost: `(3,)` terms of the sums of e^2, r^2 and r*e that are not finite.
        ulp_undefined: pairs without a distance.
        unranked: `(2,)` samples without a noise over signal, and without a cosine.
        steps: `(2,)` uint64 largest distance of all elements, and of those with |ref| >= atol.
        places: `(2, 2)` ordinal and index of both, -1 where there is none.
        values: `(2, 2)` of the reference and the candidate there.
        ranks: `(2, 3)` the worst figure, and its sample's sums of r^2 and e^2.
        ordinals: `(2,)` of these samples, -1 where there is none.
    """

    bins: Ints
    lost: Ints
    ulp_undefined: int
    unranked: Ints
    steps: npt.NDArray[np.uint64]
    places: Ints
    values: Doubles
    ranks: Doubles
    ordinals: Ints


class FullTally:
    """Measures batches of one output on the current device.

    Args:
        steps: what is measured of each element.
        is_ranked: whether samples are ranked.
    """

    def __init__(self, steps: measures.Steps, *, is_ranked: bool) -> None:
        self._steps, self._is_ranked = steps, is_ranked
        self._blocks = 0
        self._room: tuple[Any, ...] = ()

    def begin(self) -> dict[str, npt.NDArray[Any]]:
        """What arrays of a slab begin with, in which batches are measured."""
        return {
            "bins": np.zeros(BINS, np.int64),
            "extra": np.zeros(measures.EXTRA, np.int64),
            "furthest": np.zeros(2, np.uint64),
            "furthest_places": np.full((2, 2), -1, np.int64),
            "furthest_values": np.zeros((2, 2)),
            "noisiest": np.zeros(6),
            "noisiest_samples": np.full(2, -1, np.int64),
        }

    def bind(self, slab: Slab) -> None:
        """Measure in these arrays of the device."""
        self._bins, self._extra = slab["bins"], slab["extra"]
        self._furthest, self._places = slab["furthest"], slab["furthest_places"]
        self._values = slab["furthest_values"]
        self._noisiest, self._samples = slab["noisiest"], slab["noisiest_samples"]

    @property
    def bytes_held(self) -> int:
        """Memory of the device that this takes, beside the slab."""
        return sum(int(array.nbytes) for array in self._room)

    def add(
        self, ref: Any, cand: Any, ordinals: Any, batch: Batch, blocks: int, chunks: Any
    ) -> None:
        """Measure a batch, as `scan` is given it; `chunks` are added to."""
        if blocks > self._blocks:
            self._blocks = blocks
            self._room = (
                cuda.device_array((2, blocks), np.uint64),
                cuda.device_array((2, blocks), np.int64),
                cuda.device_array((6, blocks), np.float64),
                cuda.to_device(np.full((2, blocks), -1, np.int64)),
            )
        steps, steps_at, own, own_at = self._room
        cast(Any, measures.measure)[blocks, THREADS](
            ref, cand, ordinals, batch, self._steps, self._bins, chunks, self._extra,
            steps, steps_at,
        )  # fmt: skip
        if self._is_ranked:
            cast(Any, ranks.rank)[blocks, THREADS](
                ref, cand, ordinals, batch, ref.size // batch.width, chunks, self._extra,
                own, own_at,
            )  # fmt: skip
        cast(Any, fold_full)[1, THREADS](
            ref, cand, ordinals, batch, steps, steps_at, own, own_at, blocks,
            self._furthest, self._places, self._values, self._noisiest, self._samples,
        )  # fmt: skip

    @staticmethod
    def measured(found: Arrays) -> Measured:
        """What was measured, of the arrays of a slab that were read."""
        extra = found["extra"]
        return Measured(
            found["bins"],
            extra[measures.LOST : measures.NO_SQNR],
            int(extra[measures.ULP_UNDEFINED]),
            extra[measures.NO_SQNR :],
            found["furthest"],
            found["furthest_places"],
            found["furthest_values"],
            found["noisiest"].reshape(2, 3),
            found["noisiest_samples"],
        )
