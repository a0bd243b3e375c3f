"""Elements: two arrays of one output in, its tally and each sample's result out."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from paritygate.comparison.arrays import frozen
from paritygate.comparison.details import NOT_LOOKED, SampleDetail, Worst
from paritygate.comparison.left import picked
from paritygate.comparison.looks import worst_floats
from paritygate.comparison.pairs import check_dtypes, check_exact, check_tolerance
from paritygate.comparison.scans import scan_of
from paritygate.comparison.work import Work
from paritygate.core.dtypes import (
    INTEGERS,
    NARROW_FLOATS,
    float_format,
    is_float,
    is_string,
    limits_of,
    numpy_dtype,
)
from paritygate.core.errors import DenormalError
from paritygate.core.policy import Tolerance
from paritygate.core.tensors import Array
from paritygate.kernels import elements
from paritygate.tally.output import RULE_BITS, OutputTally

Ints = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]

_TILE = 1 << 17  # elements handled at once, so that their errors stay in the processor's cache
_SINGLE_DENORMAL = np.array([1e-40], np.float32)
_NARROW_BYTES = 2
_DOUBLE_DENORMAL = np.array([1e-310], np.float64)


class ElementComparer:
    """Compares one output element by element; stateless, so that threads may share it.

    Args:
        tolerance: what is tolerated.
        ref_dtype: dtype name of the reference.
        cand_dtype: dtype name of the candidate.
        sample_shape: shape of one sample.
        stats: "gate", or "full" for all statistics.

    Raises:
        ValueError: a tolerance out of its range, or a pair of dtypes that can't be compared.
    """

    takes_device = False  # compares tensors that lie on a GPU, too

    def __init__(
        self,
        tolerance: Tolerance,
        ref_dtype: str,
        cand_dtype: str,
        sample_shape: tuple[int, ...],
        stats: Literal["gate", "full"],
    ) -> None:
        check_tolerance(tolerance)
        check_dtypes(ref_dtype, cand_dtype)
        check_exact(tolerance, ref_dtype)
        if is_string(ref_dtype):
            raise ValueError("texts have no errors to measure; compare them with TextComparer")
        if stats not in ("gate", "full"):
            raise ValueError(f"stats: found {stats!r}, allowed are 'gate' and 'full'")
        self.tolerance = tolerance
        self.dtypes = (numpy_dtype(ref_dtype), numpy_dtype(cand_dtype))
        self.sample_shape = sample_shape
        self.width = math.prod(sample_shape)
        self.stats = stats
        self.integer = not is_float(ref_dtype)
        self.narrow_format = float_format(cand_dtype) if cand_dtype in NARROW_FLOATS else None
        self.limits = tuple(_limits(dtype) for dtype in (ref_dtype, cand_dtype))
        self._rule = self._make_rule(ref_dtype, cand_dtype)

    @property
    def rule(self) -> elements.Rule:
        """What is tolerated, as kernels take it."""
        return self._rule

    def _make_rule(self, ref_dtype: str, cand_dtype: str) -> elements.Rule:
        beyond = math.inf
        if not self.integer:
            overflow = float_format(cand_dtype).overflow
            beyond = overflow if float_format(ref_dtype).largest >= overflow else math.inf
        exceeded, hard_cap, candidate, reference, mismatch = RULE_BITS
        return elements.Rule(
            atol=float(self.tolerance.atol),
            rtol=float(self.tolerance.rtol),
            cap=math.inf if self.tolerance.max_abs is None else float(self.tolerance.max_abs),
            outliers=self.tolerance.outliers_allowed(self.width),
            match=self.tolerance.nonfinite == "match",
            beyond=beyond,
            bits=(exceeded, hard_cap, candidate, reference, mismatch),
        )

    def compare(
        self,
        ref: Array,
        cand: Array,
        ordinals: Ints,
        *,
        is_lazy: bool = False,
        in_order: bool = False,
    ) -> tuple[OutputTally, SampleDetail]:
        """Compare samples.

        Args:
            ref: `(samples, *sample_shape)` of the reference.
            cand: the same of the candidate.
            ordinals: `(samples,)` int64, row of each sample over all golden files.
            is_lazy: good samples may be left without their worst element, which is faster; see
                `look_at`.
            in_order: ordinals are known to ascend.

        Raises:
            ValueError: an array of another dtype or shape than declared.
            DenormalError: this thread flushes denormals to zero.
        """
        _check_denormals()
        samples = len(ordinals)
        return self._judge(
            self._flat("reference", ref, self.dtypes[0], samples),
            self._flat("candidate", cand, self.dtypes[1], samples),
            frozen(np.asarray(ordinals, dtype=np.int64)),
            is_lazy=is_lazy,
            in_order=in_order,
        )

    def _judge(
        self,
        ref: Array,
        cand: Array,
        ordinals: Ints,
        *,
        is_lazy: bool,
        in_order: bool,
        may_scan: bool = True,
        is_part: bool = False,
    ) -> tuple[OutputTally, SampleDetail]:
        work = Work(self, ref, cand, ordinals, self._rule, is_lazy=is_lazy)
        if is_lazy and may_scan:
            work.scan = scan_of(work, work.full, in_order=in_order)
        samples = len(ordinals)
        tile = _TILE if work.scan is None else _TILE * work.scan.tiles
        for start in range(0, samples, step := max(1, tile // max(1, self.width))):
            work.add(start, min(start + step, samples))
        detail = work.detail()
        tally = work.tally(detail)
        if work.left.samples:
            tally, detail = self._judge_left(work, tally, detail, can_split=not is_part)
        return tally, detail

    def _judge_left(
        self, work: Work, tally: OutputTally, detail: SampleDetail, *, can_split: bool
    ) -> tuple[OutputTally, SampleDetail]:
        """Judge what the scan left: first whatever can be scanned without its neighbours."""
        left = work.left
        parts = left.split(work.ref, work.cand, self._rule) if can_split else left.whole()
        for rows, may_scan in parts:
            part, found = self._judge(
                picked(work.ref, rows, self.width),
                picked(work.cand, rows, self.width),
                frozen(work.ordinals[rows]),
                is_lazy=True,
                in_order=True,
                may_scan=may_scan,
                is_part=True,
            )
            tally, detail = tally.merge(part), detail.beside(rows, found)
        return tally, detail

    def look_at(self, detail: SampleDetail, rows: Ints, ref: Array, cand: Array) -> None:
        """Look for the worst elements of samples that were left without.

        Args:
            detail: of all samples; completed.
            rows: samples that may be wanted.
            ref: as given to `compare`.
            cand: as given to `compare`.
        """
        left = rows
        if detail.worst.rows.size:
            left = rows[detail.worst.of(rows).index == NOT_LOOKED]
        if left.size:
            detail.looked_at(self._worst_of(left, ref, cand))

    def _worst_of(self, rows: Ints, ref: Array, cand: Array) -> Worst:
        if self.width and not self.integer:
            return worst_floats(rows, ref, cand, self._rule)
        return self.worst_among(rows, ref[rows], cand[rows])

    def worst_among(self, rows: Ints, ref: Array, cand: Array) -> Worst:
        """Worst elements of samples, of which these are all values."""
        if self.width and not self.integer:
            found = worst_floats(np.arange(len(rows)), ref, cand, self._rule)
        else:
            found = ElementComparer.compare(self, ref, cand, rows)[1].worst
        return Worst(rows, found.index, found.excess, found.error)

    def confirm(self, detail: SampleDetail, rows: Ints, ref: Array, cand: Array) -> None:
        """Hold what was found of samples against their values, where a GPU has found it.

        Args:
            detail: of all samples; those that are asked for were looked at.
            rows: which, ascending.
            ref: as given to `compare`.
            cand: as given to `compare`.

        Raises:
            DeviceError: it is another result.
        """

    def _flat(self, side: str, array: Array, dtype: np.dtype[Any], samples: int) -> Array:
        shape = (samples, *self.sample_shape)
        if array.dtype.newbyteorder("=") != dtype or array.shape != shape:
            raise ValueError(
                f"{side}: found {array.dtype.name}{list(array.shape)}, this comparison is of "
                f"{dtype.name}{list(shape)}; pass arrays as they were declared"
            )
        if dtype == np.bool_:
            return frozen((array.view(np.uint8) != 0).view(np.uint8))
        return frozen(np.asarray(array, dtype=dtype))


def _limits(dtype: str) -> tuple[int, ...]:
    """Smallest and largest number of a dtype that quantised values come in; else nothing."""
    is_narrow = dtype in INTEGERS and numpy_dtype(dtype).itemsize <= _NARROW_BYTES
    return limits_of(dtype) if is_narrow else ()


def _check_denormals() -> None:
    if not elements.denormals_survive(_SINGLE_DENORMAL, _DOUBLE_DENORMAL):
        raise DenormalError(
            "this thread flushes denormal numbers to zero, so that 1e-40 and 2e-40 would compare "
            "equal; a runtime option such as 'set_denormal_as_zero' or a library built with fast "
            "math switched it on: turn the option off, or run that runner in its own process"
        )
