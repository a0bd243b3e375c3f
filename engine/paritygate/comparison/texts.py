"""Texts: two arrays of strings in, equal or not out; a text has no error that could be measured."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from paritygate.comparison.details import SampleDetail
from paritygate.comparison.pairs import check_dtypes, check_exact, check_tolerance
from paritygate.core.dtypes import STRING, dtype_name
from paritygate.core.policy import Tolerance
from paritygate.core.tensors import Array, Stats
from paritygate.tally.output import RULE_BITS, OutputTally
from paritygate.tally.texts import Difference

Ints = npt.NDArray[np.int64]


class TextComparer:
    """Compares one output of texts code point by code point; stateless, threads may share it.

    Args:
        tolerance: must be exact.
        ref_dtype: dtype name of the reference.
        cand_dtype: dtype name of the candidate.
        sample_shape: shape of one sample.
        stats: tier of the tally.

    Raises:
        ValueError: a tolerance that texts can't have, or another pair of dtypes.
    """

    takes_device = False

    def __init__(
        self,
        tolerance: Tolerance,
        ref_dtype: str,
        cand_dtype: str,
        sample_shape: tuple[int, ...],
        stats: Stats,
    ) -> None:
        check_tolerance(tolerance)
        check_dtypes(ref_dtype, cand_dtype)
        check_exact(tolerance, ref_dtype)
        self.sample_shape = sample_shape
        self.width = math.prod(sample_shape)
        self.stats = stats

    def compare(self, ref: Array, cand: Array, ordinals: Ints) -> tuple[OutputTally, SampleDetail]:
        """Compare samples.

        Args:
            ref: `(samples, *sample_shape)` object array of str, of the reference.
            cand: the same of the candidate.
            ordinals: `(samples,)` int64, row of each sample over all golden files.

        Raises:
            ValueError: an array of another dtype or shape than declared.
        """
        samples = len(ordinals)
        left, right = self._flat("reference", ref, samples), self._flat("candidate", cand, samples)
        same = np.fromiter(map(_are_equal, left, right), np.bool_, len(left))
        differs = ~same.reshape(samples, self.width)
        detail = _detail(differs)
        return self._tally(differs, detail, left, right, ordinals), detail

    def _flat(self, side: str, array: Array, samples: int) -> list[Any]:
        shape = (samples, *self.sample_shape)
        found = dtype_name(array.dtype)
        if found != STRING or array.shape != shape:
            raise ValueError(
                f"{side}: found {found}{list(array.shape)}, this comparison is of "
                f"{STRING}{list(shape)}; pass arrays as they were declared"
            )
        flat: list[Any] = array.reshape(-1).tolist()
        return flat

    def _tally(
        self,
        differs: npt.NDArray[np.bool_],
        detail: SampleDetail,
        ref: list[Any],
        cand: list[Any],
        ordinals: Ints,
    ) -> OutputTally:
        samples, failing = len(ordinals), len(detail.rows)
        return OutputTally(
            tier=self.stats,
            text=True,
            samples=samples,
            failing_samples=failing,
            empty_samples=samples if self.width == 0 else 0,
            rule_samples=(failing, *(0,) * (len(RULE_BITS) - 1)),
            classes=(differs.size, *(0,) * 15),
            failing_elements=int(np.count_nonzero(differs)),
            difference=self._first(detail, ref, cand, ordinals),
        )

    def _first(
        self, detail: SampleDetail, ref: list[Any], cand: list[Any], ordinals: Ints
    ) -> Difference | None:
        if not detail.rows.size:
            return None
        sample = int(detail.rows[np.argmin(ordinals[detail.rows])])
        index = int(detail.worst.index[sample])
        at = sample * self.width + index
        return Difference.of(int(ordinals[sample]), index, str(ref[at]), str(cand[at]))


def _are_equal(ref: object, cand: object) -> bool:
    """Whether both are texts and the same; anything else is not proved good."""
    return isinstance(ref, str) and isinstance(cand, str) and ref == cand


def _detail(differs: npt.NDArray[np.bool_]) -> SampleDetail:
    samples, width = differs.shape
    failing = np.count_nonzero(differs, axis=1).astype(np.int64)
    is_bad = failing > 0
    first = np.argmax(differs, axis=1) if width else np.full(samples, -1)
    infinite = np.where(is_bad, np.inf, 0.0)
    return SampleDetail.of_all(
        rules=np.where(is_bad, RULE_BITS[0], 0).astype(np.int64),
        failing=failing,
        index=first.astype(np.int64),
        excess=infinite,
        error=infinite.copy(),
    )
