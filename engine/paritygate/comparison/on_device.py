"""Elements of arrays that lie on a GPU: the same rules, tallies and samples as of `elements`."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from paritygate.comparison.adds_up import what_is_not_listed
from paritygate.comparison.details import NOT_LOOKED, SampleDetail, Worst
from paritygate.comparison.device_sides import side_of, stored, taken, wide_of
from paritygate.comparison.device_tally import tally_of
from paritygate.comparison.elements import ElementComparer
from paritygate.core.dtypes import float_format, numpy_dtype
from paritygate.core.errors import DeviceError
from paritygate.core.policy import Tolerance
from paritygate.gpu.device import cuda
from paritygate.gpu.full import FullTally
from paritygate.gpu.measures import Steps
from paritygate.gpu.sides import Sides
from paritygate.gpu.tally import MOST, Counted, DeviceTally
from paritygate.gpu.tensor import DeviceTensor
from paritygate.gpu.whole_tally import WholeTally
from paritygate.kernels.scalar import place_on_grid
from paritygate.tally.output import MIN_RANKED_WIDTH, OutputTally

Ints = npt.NDArray[np.int64]

_SIDES = "reference", "candidate"
_TWO_TO_64 = 2.0**64
_DEFAULT_STREAM = 1  # what is made on it is done before what is launched here


class DeviceComparer(ElementComparer):
    """Compares one output element by element, on the current device.

    Args:
        tolerance: what is tolerated.
        ref_dtype: dtype name of the reference.
        cand_dtype: dtype name of the candidate.
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
        self.wide = wide_of(ref_dtype, cand_dtype)
        if self.width == 0:
            raise ValueError("a sample without elements is compared on the CPU")
        self._names = ref_dtype, cand_dtype
        self._sides = side_of(ref_dtype), side_of(cand_dtype)

    def begin(self) -> Comparison:
        """A comparison of batches, whose tally stays on the device until it is asked for."""
        tally = self._make_tally()
        return Comparison(self, Sides(self._sides, self.wide, self._rule.beyond, tally.ends), tally)

    def _make_tally(self) -> DeviceTally:
        is_full = self.stats == "full"
        if self.wide.kind != "f":
            return WholeTally(self.width, self._rule, self.wide, is_full=is_full)
        full = FullTally(self._steps(), is_ranked=self.is_ranked) if is_full else None
        return DeviceTally(self.width, self._rule, self._largest(), full)

    @property
    def is_ranked(self) -> bool:
        """Whether samples have an SQNR of their own."""
        return self.width >= MIN_RANKED_WIDTH and not self.integer

    def _largest(self) -> float:
        """A number that no finite reference is above."""
        return _TWO_TO_64 if self.integer else float_format(self._names[0]).largest

    def _steps(self) -> Steps:
        if self.integer:
            return Steps(0, 0, 0, 0, is_counted=0, has_products=2)
        form = float_format(self._names[1])
        is_double, products = self._names[1] == "float64", not self.is_ranked
        top = 0
        if not is_double:
            top = int(place_on_grid(form.largest, form.mantissa, form.min_exponent))
        return Steps(
            int(is_double), form.mantissa, form.min_exponent, top, 1, has_products=int(products)
        )

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
            own, other = (
                _picked(array, left, name)
                for array, name in zip((ref, cand), self._names, strict=True)
            )
            detail.looked_at(self.worst_among(left, own, other))

    def flat(self, number: int, array: Any, samples: int) -> Any:
        """Flat values of the reference, 0, or the candidate, 1, on the device, as stored there.

        Raises:
            ValueError: another dtype or shape than declared, not C-contiguous, or too large.
        """
        side, own, declared = _SIDES[number], self._sides[number].stored, self.dtypes[number]
        found = on_device(_as_stored(array, self._names[number]))
        shape = (samples, *self.sample_shape)
        if found.dtype not in (own, declared) or tuple(found.shape) != shape:
            raise ValueError(
                f"{side}: found {found.dtype.name}{list(found.shape)}, this comparison is of "
                f"{declared.name}{list(shape)}; pass arrays as they were declared"
            )
        if found.size > MOST:
            raise ValueError(
                f"{side}: found a batch of {found.size:,} elements, at most {MOST:,} are compared "
                f"at once; cut it into smaller ones"
            )
        if samples and not found.is_c_contiguous():
            raise ValueError(f"{side}: found an array that isn't C-contiguous; copy it first")
        return found.reshape(found.size).view(own) if samples else found


class Comparison:
    """Batches that are compared on a device."""

    def __init__(self, comparer: DeviceComparer, sides: Sides, tally: DeviceTally) -> None:
        self._comparer, self._sides, self._tally = comparer, sides, tally

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
        left, right = (self._comparer.flat(k, side, samples) for k, side in enumerate((ref, cand)))
        if not samples:
            return
        for own, other, first, last in self._sides.pieces(left, right, self._comparer.width):
            self._tally.add(own, other, ordinals[first:last])

    @property
    def bytes_held(self) -> int:
        """Memory of the device that this takes, beside the batches."""
        return self._tally.bytes_held + self._sides.bytes_held

    def clear(self) -> None:
        """Compare anew, in the same memory; nothing is waited for."""
        self._tally.clear()

    def finish(self) -> tuple[OutputTally, SampleDetail]:
        """The tally of all batches, and the result of each sample, numbered as they were added.

        Raises:
            DeviceError: failing elements were counted that no sample is listed with, or others.
        """
        counted = self._tally.read()
        detail = SampleDetail(counted.samples, counted.rows, counted.rules, counted.elements)
        detail.looked_at(
            Worst(counted.rows, counted.worst_at, counted.worst_excess, counted.worst_error)
        )
        tally = self._tally_of(counted)
        problem = what_is_not_listed(self._comparer.rule, tally, counted.over)
        if problem:
            raise DeviceError(problem)
        return tally, detail

    def _tally_of(self, counted: Counted) -> OutputTally:
        comparer = self._comparer
        tally = tally_of(counted, is_integer=comparer.integer, is_ranked=comparer.is_ranked)
        *at_limits, below, above = counted.ends.tolist()
        return replace(tally, at_limits=tuple(at_limits), ref_beyond_cand_range=below + above)


def on_device(array: Any) -> Any:
    """An array of the device as Numba takes it; one of the host is copied there."""
    if hasattr(array, "copy_to_host"):
        return array
    described = getattr(array, "__cuda_array_interface__", None)
    if described is not None:
        is_ordered = described.get("stream") in (None, _DEFAULT_STREAM)
        return cuda.as_cuda_array(array, sync=not is_ordered)
    return cuda.to_device(np.ascontiguousarray(array))


def _as_stored(array: Any, name: str) -> Any:
    """An array of a dtype as a device has it, where the host has it."""
    is_ours = isinstance(array, np.ndarray) and array.dtype.newbyteorder("=") == numpy_dtype(name)
    return stored(array, name) if is_ours else array


def _picked(array: Any, rows: Ints, name: str) -> npt.NDArray[Any]:
    """Some samples, on the host."""
    if isinstance(array, np.ndarray):
        return array[rows]
    found = on_device(array)
    return taken(DeviceTensor([found]).picked(rows), name)
