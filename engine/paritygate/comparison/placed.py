"""Elements of an output, compared on a GPU where its memory has room, else on the CPU.

What a GPU answers is believed only where it adds up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from paritygate.comparison.adds_up import (
    Found,
    what_is_listed_wrong,
    what_is_wrong,
    what_was_not_sent,
)
from paritygate.comparison.canary import check_device
from paritygate.comparison.details import NOT_LOOKED, SampleDetail
from paritygate.comparison.device_pool import Pool, RoomError
from paritygate.comparison.elements import ElementComparer, Ints
from paritygate.comparison.on_device import Comparison, DeviceComparer
from paritygate.comparison.place import Place, is_simulated
from paritygate.comparison.sending import sent
from paritygate.core.errors import DeviceError, ParityError
from paritygate.core.policy import Tolerance
from paritygate.gpu.tensor import DeviceTensor, on_host, picked_of, pieces

if TYPE_CHECKING:
    from paritygate.comparison.sent_decisions import SentDecisions

_SMALL = 1 << 16  # elements that are judged one by one: what scans them needn't be compiled
_LABEL_BYTES = 4  # of a label that is sent with both sides, for each of them
_OUT_OF_MEMORY = 2  # of the driver's error codes
_MEMORY_TEXTS = "CUDA_ERROR_OUT_OF_MEMORY", "cudaErrorMemoryAllocation"  # of errors without a code


class PlacedComparer(ElementComparer):
    """Compares one output of a stage, on a GPU where it can.

    Args:
        place: the GPU.
        stage: name of the stage.
        output: name of the output.
        tolerance: as of `ElementComparer`, and so are the others.
        ref_dtype: dtype name of the reference.
        cand_dtype: dtype name of the candidate.
        sample_shape: shape of one sample.
        stats: "gate" or "full".

    Raises:
        ValueError: as of `ElementComparer`, or what isn't compared on a GPU.
        DeviceError: the GPU failed, or counts a known batch wrong.
    """

    def __init__(
        self,
        place: Place,
        stage: str,
        output: str,
        tolerance: Tolerance,
        ref_dtype: str,
        cand_dtype: str,
        sample_shape: tuple[int, ...],
        stats: Literal["gate", "full"],
    ) -> None:
        super().__init__(tolerance, ref_dtype, cand_dtype, sample_shape, stats)
        self._host = ElementComparer(tolerance, ref_dtype, cand_dtype, sample_shape, "gate")
        self._place, self._names = place, (stage, output)
        self._sample_bytes = self.width * max(dtype.itemsize for dtype in self.dtypes)
        self._device: DeviceComparer | None = None
        self.takes_device = self.width > 0
        if self.width:
            self._device = DeviceComparer(tolerance, ref_dtype, cand_dtype, sample_shape, stats)
            self._pool = Pool(place, self._device.begin)
            self._try_out(self._device, (ref_dtype, cand_dtype))

    def compare(
        self,
        ref: Any,
        cand: Any,
        ordinals: Ints,
        *,
        is_lazy: bool = False,
        in_order: bool = False,
        along: Sequence[SentDecisions] = (),
    ) -> Found:
        """Compare samples; as of `ElementComparer`, of arrays or of tensors on a GPU.

        Args:
            ref: as of `ElementComparer`, or a tensor on the GPU.
            cand: the same.
            ordinals: as of `ElementComparer`.
            is_lazy: the same.
            in_order: the same.
            along: decisions of these samples, which are made where the GPU compares them.

        Raises:
            ValueError: as of `ElementComparer`.
            DenormalError: the same.
            DeviceError: the GPU failed, or what it counted doesn't add up.
        """
        found = None
        if is_lazy and self._device is not None and len(ordinals):
            found = self._on_device(ref, cand, ordinals, along)
        self._place.count(*self._names, "cpu" if found is None else "cuda", len(ordinals))
        if found is None:
            ref, cand = on_host(ref), on_host(cand)
            return super().compare(ref, cand, ordinals, is_lazy=is_lazy, in_order=in_order)
        return found

    def begin(self, ref: Any, cand: Any, ordinals: Ints) -> Callable[[], Found] | None:
        """Have a GPU compare samples that lie there, without waiting for it.

        Returns:
            What waits, and answers as `compare`; None where that is to be asked instead.

        Raises:
            ValueError: as of `compare`.
            DeviceError: the same.
        """
        both = isinstance(ref, DeviceTensor) and isinstance(cand, DeviceTensor)
        if self._device is None or self._place.is_given_up or not (both and len(ordinals)):
            return None
        most = self._place.bytes_at_once(self._names, is_sent=False)
        step = max(1, most // self._sample_bytes)
        numbers, use = consecutive(ordinals), ExitStack()
        try:
            with ExitStack() as failing:
                comparison = failing.enter_context(self._pool.lent())
                for rows, ours, theirs in pieces(ref, cand, step):
                    comparison.add(ours, theirs, numbers[rows])
                use = failing.pop_all()
        except Exception as e:
            if not is_out_of_memory(e):
                raise self._failed(e) from e
            self._place.drop_idle()
            return None
        return partial(self._finish, use, comparison, ref, cand, ordinals)

    def _finish(
        self, use: ExitStack, comparison: Comparison, ref: Any, cand: Any, ordinals: Ints
    ) -> Found:
        try:
            with use:
                found = comparison.finish()
        except Exception as e:
            if not is_out_of_memory(e):
                raise self._failed(e) from e
            self._place.drop_idle()
            return self.compare(ref, cand, ordinals, is_lazy=True, in_order=True)
        self._check(found, ref, cand, ordinals)
        self._place.count(*self._names, "cuda", len(ordinals))
        return found

    def _check(self, found: Found, ref: Any, cand: Any, ordinals: Ints) -> None:
        problem = what_is_wrong(self, found, ordinals)
        problem = problem or what_was_not_sent(self, found, (ref, cand), ordinals)
        if problem:
            raise self._failed(problem)

    def look_at(self, detail: SampleDetail, rows: Ints, ref: Any, cand: Any) -> None:
        """Look for worst elements; as of `ElementComparer`."""
        left = rows[detail.worst.of(rows).index == NOT_LOOKED]
        if left.size:
            own, other = picked_of(ref, left), picked_of(cand, left)
            detail.looked_at(self.worst_among(left, own, other))

    def confirm(self, detail: SampleDetail, rows: Ints, ref: Any, cand: Any) -> None:
        """Hold what a GPU lists of samples against their values; as of `ElementComparer`.

        Raises:
            DeviceError: the GPU lists something else than the CPU finds, or gave back other values.
        """
        own, other = picked_of(ref, rows), picked_of(cand, rows)
        is_small = len(rows) * self.width <= _SMALL
        _, found = self._host.compare(own, other, rows, is_lazy=not is_small, in_order=True)
        if not (is_small or self.integer):
            self._host.look_at(found, np.arange(len(rows)), own, other)
        problem = what_is_listed_wrong(detail, rows, found)
        if problem:
            raise self._failed(problem)

    def _try_out(self, device: DeviceComparer, dtypes: tuple[str, str]) -> None:
        for is_last in (False, True):
            try:
                check_device(device, dtypes, is_simulated=is_simulated())
                return
            except ParityError:
                raise
            except Exception as e:
                if not is_out_of_memory(e):
                    raise self._failed(e) from e
                if not self._place.drop_idle() or is_last:
                    break
        self._place.give_up("had no room for a first small batch")

    def _on_device(
        self, ref: Any, cand: Any, ordinals: Ints, along: Sequence[SentDecisions]
    ) -> Found | None:
        """What the GPU counts; None where its memory is too small."""
        both = isinstance(ref, DeviceTensor) and isinstance(cand, DeviceTensor)
        labels = sum(one.truth is not None for one in along)
        size = self._sample_bytes + _LABEL_BYTES * labels
        again = 0  # samples a piece that were tried once more
        while not (self._place.is_given_up or self._device is None):
            most = self._place.bytes_at_once(self._names, is_sent=not both)
            step = min(max(1, most // size), len(ordinals))
            try:
                found = self._in_pieces(ref, cand, consecutive(ordinals), step, along)
            except RoomError:
                continue
            except FailedError:  # of what is decided along
                raise
            except Exception as e:
                if not is_out_of_memory(e):
                    raise self._failed(e) from e
                if self._place.drop_idle() and step != again:
                    again = step
                elif step == 1:
                    self._give_up()
                else:
                    self._place.shrink(*self._names, step * size)
                continue
            self._check(found, ref, cand, ordinals)
            return found
        return None

    def _give_up(self) -> None:
        """Compare this output on the CPU from now on."""
        self._device = None
        stage, output = self._names
        self._place.note(
            f"stage {stage!r}, output {output!r}: the GPU had no room for a sample of "
            f"{self._sample_bytes:,} bytes a side; what followed was compared on the CPU"
        )

    def _in_pieces(
        self,
        ref: Any,
        cand: Any,
        ordinals: Ints | range,
        step: int,
        along: Sequence[SentDecisions],
    ) -> Found:
        rows: slice
        labels = [one.truth for one in along if one.truth is not None]
        dtypes = *self.dtypes, *(label.dtype for label in labels)
        parts = (
            (rows, *sides, *(label[rows] for label in labels))
            for rows, *sides in pieces(ref, cand, step)
        )
        with self._place.lane() as lane, self._pool.lent() as comparison, ExitStack() as deciding:
            for one in along:
                deciding.enter_context(one.begun())
            for rows, ours, theirs, *truths in sent(lane, parts, dtypes):
                comparison.add(ours, theirs, ordinals[rows])
                left = iter(truths)
                for one in along:
                    one.add(rows, ours, theirs, None if one.truth is None else next(left))
            found = comparison.finish()
            for one in along:
                one.finish()
            lane.check()
        return found

    def _failed(self, why: object) -> DeviceError:
        stage, output = self._names
        return device_failed(f"stage {stage!r}, output {output!r}", self._place, why)


class FailedError(DeviceError):
    """A GPU failed, or counted what can't be; it says of what."""


def device_failed(where: str, place: Place, why: object) -> FailedError:
    """What is raised where a GPU failed, or counted what can't be."""
    told = " ".join(str(why).split()) or type(why).__name__
    return FailedError(
        f"{where}: the GPU ({place.chip.name}) failed: {told}; nothing that it counted is used: "
        "run again, or with --compare-on cpu"
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that the memory of a device, or memory that it reads, was too small."""
    if isinstance(error, MemoryError):
        return True
    code = getattr(error, "code", None)
    if isinstance(code, int):
        return int(code) == _OUT_OF_MEMORY
    return any(text in str(error) for text in _MEMORY_TEXTS)


def consecutive(ordinals: Ints) -> Ints | range:
    """Ascending ordinals without a gap as a range, which takes no copy to the device."""
    first, count = int(ordinals[0]), len(ordinals)
    is_gapless = int(ordinals[-1]) - first == count - 1 and bool(np.all(np.diff(ordinals) == 1))
    return range(first, first + count) if is_gapless else ordinals
