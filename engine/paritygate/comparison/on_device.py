"""Elements of arrays that lie on a GPU: the same rules, tallies and samples as of `elements`."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from paritygate.comparison.details import NOT_LOOKED, SampleDetail, Worst
from paritygate.comparison.elements import ElementComparer
from paritygate.comparison.looks import worst_floats
from paritygate.comparison.work import samples_by_rule
from paritygate.core.dtypes import float_format
from paritygate.core.policy import Tolerance
from paritygate.gpu.device import cuda
from paritygate.gpu.full import FullTally, Measured
from paritygate.gpu.measures import Steps
from paritygate.gpu.tally import MOST, Counted, DeviceTally
from paritygate.kernels.scalar import place_on_grid
from paritygate.tally.exact import ExactSum
from paritygate.tally.extremes import Extreme, Number
from paritygate.tally.histogram import Histogram
from paritygate.tally.output import MIN_RANKED_WIDTH, OutputTally

Ints = npt.NDArray[np.int64]

_DTYPES = ("float32", "float64")
_DEFAULT_STREAM = 1  # what is made on it is done before what is launched here


class DeviceComparer(ElementComparer):
    """Compares one output of two floats of one dtype, on the current device.

    Args:
        tolerance: what is tolerated.
        ref_dtype: dtype name of the reference, float32 or float64.
        cand_dtype: the same name.
        sample_shape: shape of one sample, which has an element.
        stats: "gate", or "full" for all statistics.

    Raises:
        ValueError: as of `ElementComparer`, or what isn't compared on a device.
    """

    def __init__(
        self,
        tolerance: Tolerance,
        ref_dtype: str,
        cand_dtype: str,
        sample_shape: tuple[int, ...],
        stats: Literal["gate", "full"],
    ) -> None:
        super().__init__(tolerance, ref_dtype, cand_dtype, sample_shape, stats)
        if ref_dtype != cand_dtype or ref_dtype not in _DTYPES:
            raise ValueError(
                f"a device compares float32 with float32 and float64 with float64: found "
                f"{ref_dtype} against {cand_dtype}; compare them on the CPU"
            )
        if self.width == 0:
            raise ValueError("a sample without elements is compared on the CPU")

    def begin(self) -> Comparison:
        """A comparison of batches, whose tally stays on the device until it is asked for."""
        form = float_format(self.dtypes[0].name)
        full = None
        if self.stats == "full":
            full = FullTally(self._steps(), is_ranked=self._is_ranked)
        return Comparison(self, DeviceTally(self.width, self._rule, form.largest, full))

    @property
    def _is_ranked(self) -> bool:
        return self.width >= MIN_RANKED_WIDTH

    def _steps(self) -> Steps:
        form = float_format(self.dtypes[1].name)
        is_double = int(self.dtypes[1] == np.float64)
        top = 0
        if not is_double:
            top = int(place_on_grid(form.largest, form.mantissa, form.min_exponent))
        products = 0 if self._is_ranked else 1
        return Steps(is_double, form.mantissa, form.min_exponent, top, 1, products)

    def compare(
        self,
        ref: Any,
        cand: Any,
        ordinals: Ints | range,
        *,
        is_lazy: bool = True,
        in_order: bool = False,
    ) -> tuple[OutputTally, SampleDetail]:
        """Compare samples; as `begin`, one batch and `finish`.

        Samples without failing elements are left without their worst element; see `look_at`.

        Raises:
            ValueError: as of `Comparison.add`.
        """
        del is_lazy, in_order
        comparison = self.begin()
        comparison.add(ref, cand, ordinals)
        return comparison.finish()

    def look_at(self, detail: SampleDetail, rows: Ints, ref: Any, cand: Any) -> None:
        """Look for the worst elements of samples that were left without.

        Args:
            detail: of all samples; completed.
            rows: samples that may be wanted; their values come to the host.
            ref: as given to `compare`.
            cand: as given to `compare`.
        """
        left = rows[detail.worst.of(rows).index == NOT_LOOKED]
        if left.size:
            own, other = (_picked(on_device(side), left) for side in (ref, cand))
            found = worst_floats(np.arange(len(left)), own, other, self._rule)
            detail.looked_at(Worst(left, found.index, found.excess, found.error))

    def flat(self, side: str, array: Any, samples: int) -> Any:
        """Flat values of an array of the device, or of a copy there of one of the host.

        Raises:
            ValueError: another dtype or shape than declared, not C-contiguous, or too large.
        """
        found = on_device(array)
        shape = (samples, *self.sample_shape)
        if found.dtype != self.dtypes[0] or tuple(found.shape) != shape:
            raise ValueError(
                f"{side}: found {found.dtype.name}{list(found.shape)}, this comparison is of "
                f"{self.dtypes[0].name}{list(shape)}; pass arrays as they were declared"
            )
        if found.size > MOST:
            raise ValueError(
                f"{side}: found a batch of {found.size:,} elements, at most {MOST:,} are compared "
                f"at once; cut it into smaller ones"
            )
        if samples and not found.is_c_contiguous():
            raise ValueError(f"{side}: found an array that isn't C-contiguous; copy it first")
        return found.reshape(found.size) if samples else found


class Comparison:
    """Batches that are compared on a device."""

    def __init__(self, comparer: DeviceComparer, tally: DeviceTally) -> None:
        self._comparer, self._tally = comparer, tally

    def add(self, ref: Any, cand: Any, ordinals: Ints | range) -> None:
        """Compare a batch; nothing is waited for.

        Args:
            ref: `(samples, *sample_shape)` of the reference: what has `__cuda_array_interface__`,
                not to be changed until the device is done; or a NumPy array, which is copied.
            cand: the same of the candidate.
            ordinals: `(samples,)` int64, row of each sample over all golden files; or a range of
                step 1.

        Raises:
            ValueError: as of `DeviceComparer.flat`, or a range of another step.
        """
        if isinstance(ordinals, range) and ordinals.step != 1:
            raise ValueError(f"ordinals: found {ordinals}, allowed is a range of step 1")
        if not isinstance(ordinals, range):
            ordinals = np.ascontiguousarray(ordinals, np.int64)
        samples = len(ordinals)
        left = self._comparer.flat("reference", ref, samples)
        right = self._comparer.flat("candidate", cand, samples)
        if samples:
            self._tally.add(left, right, ordinals)

    @property
    def bytes_held(self) -> int:
        """Memory of the device that this takes, beside the batches."""
        return self._tally.bytes_held

    def finish(self) -> tuple[OutputTally, SampleDetail]:
        """The tally of all batches, and the result of each sample, numbered as they were added."""
        counted = self._tally.read()
        detail = SampleDetail(counted.samples, counted.rows, counted.rules, counted.elements)
        detail.looked_at(
            Worst(counted.rows, counted.worst_at, counted.worst_excess, counted.worst_error)
        )
        return _tally_of(counted, self._comparer.width), detail


def on_device(array: Any) -> Any:
    """An array of the device as Numba takes it; one of the host is copied there."""
    if hasattr(array, "copy_to_host"):
        return array
    described = getattr(array, "__cuda_array_interface__", None)
    if described is not None:
        is_ordered = described.get("stream") in (None, _DEFAULT_STREAM)
        return cuda.as_cuda_array(array, sync=not is_ordered)
    return cuda.to_device(np.ascontiguousarray(array))


def _picked(array: Any, rows: Ints) -> npt.NDArray[Any]:
    return np.stack([array[row].copy_to_host() for row in rows.tolist()])


def _tally_of(counted: Counted, width: int) -> OutputTally:
    e, abs_e = (ExactSum.from_chunks(row, counted.lost) for row in counted.chunks[:2])
    error, excess, excess_error = counted.best.tolist()
    return OutputTally(
        tier="gate" if counted.measured is None else "full",
        samples=counted.samples,
        failing_samples=int(np.count_nonzero(counted.rules)),
        rule_samples=samples_by_rule(counted.rules),
        classes=tuple(counted.classes.tolist()),
        failing_elements=int(counted.elements.sum()),
        max_abs_error=_extreme(counted.places[0], counted.values[0], error),
        max_excess=_extreme(counted.places[1], counted.values[1], excess, excess_error),
        abs_errors=abs_e,
        errors=e,
        **({} if counted.measured is None else _full_tier(counted, counted.measured, width)),
    )


def _full_tier(counted: Counted, found: Measured, width: int) -> dict[str, Any]:
    ee, rr, re = (
        ExactSum.from_chunks(row, lost)
        for row, lost in zip(counted.chunks[2:], found.lost.tolist(), strict=True)
    )
    steps = found.steps.tolist()
    return {
        "squared_errors": ee,
        "histogram": Histogram.from_counts(found.bins),
        "squared_refs": rr,
        "ref_errors": re,
        "max_ulp": _extreme(found.places[0], found.values[0], steps[0]),
        "max_ulp_above_atol": _extreme(found.places[1], found.values[1], steps[1]),
        "ulp_undefined": found.ulp_undefined,
        "ranked_samples": counted.samples if width >= MIN_RANKED_WIDTH else 0,
        "worst_sqnr": _worst_sample(found, 0),
        "worst_cosine": _worst_sample(found, 1),
        "sqnr_undefined": int(found.unranked[0]),
        "cosine_undefined": int(found.unranked[1]),
    }


def _extreme(place: Ints, values: npt.NDArray[np.float64], *keys: Number) -> Extreme | None:
    ordinal, index = place.tolist()
    if ordinal < 0:
        return None
    ref, cand = values.tolist()
    return Extreme(keys, ordinal, index, ref, cand)


def _worst_sample(found: Measured, row: int) -> Extreme | None:
    ordinal = int(found.ordinals[row])
    if ordinal < 0:
        return None
    figure, signal, noise = found.ranks[row].tolist()
    return Extreme((figure,), ordinal, -1, signal, noise)
