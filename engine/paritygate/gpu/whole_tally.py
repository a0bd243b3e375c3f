"""What is counted of an output of 64-bit integers stays on the device until it is read."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from paritygate.gpu import failing, measures
from paritygate.gpu.device import THREADS
from paritygate.gpu.full import Measured
from paritygate.gpu.rules import BINS
from paritygate.gpu.scan import Batch
from paritygate.gpu.slab import Arrays, Slab
from paritygate.gpu.tally import DeviceTally, Number
from paritygate.gpu.whole import scan_whole
from paritygate.kernels.elements import Rule

_LARGEST = 2.0**64
_HALF = 1 << 63


class WholeTally(DeviceTally):
    """Counts batches of one output of 64-bit integers, as `DeviceTally`.

    Args:
        width: elements a sample, at least 1.
        rule: what is tolerated.
        dtype: int64 or uint64, of both sides.
        is_full: whether errors are counted and squared, too.
    """

    _kept_as = np.int64

    def __init__(self, width: int, rule: Rule, dtype: np.dtype[Any], *, is_full: bool) -> None:
        self._dtype, self._is_full = dtype, is_full
        super().__init__(width, rule, _LARGEST)

    def _begin(self) -> dict[str, npt.NDArray[Any]]:
        bins = np.zeros(BINS if self._is_full else 1, np.int64)
        return self._counting(self._dtype, is_full=self._is_full) | {"bins": bins}

    def _bind(self, slab: Slab) -> None:
        super()._bind(slab)
        self._bins = slab["bins"]

    def _scan(
        self, ref: Any, cand: Any, numbers: Any, batch: Batch, blocks: int, dirty: Any
    ) -> None:
        cast(Any, scan_whole)[blocks, THREADS](
            ref, cand, numbers, batch, self._counts, self._chunks, self._bins,
            self._tops, self._at, dirty,
        )  # fmt: skip

    def _keeper(self) -> Any:
        return failing.keep_failing_whole

    def _best_of(self, best: npt.NDArray[Any]) -> tuple[Number, Number, Number]:
        return int(best[0]) + _HALF, float(best[1:].view(np.float64)[0]), int(best[2]) + _HALF

    def _measured(self, found: Arrays) -> Measured | None:
        if not self._is_full:
            return None
        none = np.full((2, 2), -1)
        return Measured(
            found["bins"], np.zeros(measures.NO_SQNR - measures.LOST, np.int64), 0,
            np.zeros(2, np.int64), np.zeros(2, np.uint64), none, np.zeros((2, 2)),
            np.zeros((2, 3)), none[0],
        )  # fmt: skip
