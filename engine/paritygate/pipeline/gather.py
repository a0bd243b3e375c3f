"""Put the answers of a block's batches together: one tensor an output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from paritygate.comparison.rows import Failure, SampleRows, Side, all_of, none_of
from paritygate.core.ragged import Ragged, Tensor, row_of
from paritygate.core.tensors import Array
from paritygate.gpu.tensor import DeviceTensor, Outputs, lying
from paritygate.runners.base import Lease

Mask = npt.NDArray[np.bool_]
Buffer = Callable[[str, int, Array], Array]


class _InPlace:
    """Answers that stay where they are: each goes on in memory where the one before it ended.

    Only for leases that last; a runner's own buffers are used again.
    """

    def __init__(self, first: Array, whole: Array) -> None:
        self._first = first
        self._whole = whole
        self._rows = len(first)
        self._start = _address(first)
        self._stop = self._start + first.nbytes

    @staticmethod
    def of(first: Array) -> _InPlace | None:
        """The first batch's answer, where it is a view of a larger array; else None."""
        whole = first.base
        if not isinstance(whole, np.ndarray) or not whole.flags.c_contiguous:
            return None
        is_plain = first.flags.c_contiguous and not first.dtype.hasobject and first.nbytes
        return _InPlace(first, whole) if is_plain else None

    def extend(self, at: int, tensor: Array) -> bool:
        """Take the answer of the samples from `at` on, if it goes on here."""
        first = self._first
        if (
            at != self._rows
            or tensor.base is not self._whole
            or not tensor.flags.c_contiguous
            or (tensor.dtype, tensor.shape[1:]) != (first.dtype, first.shape[1:])
            or _address(tensor) != self._stop
        ):
            return False
        self._rows += len(tensor)
        self._stop += tensor.nbytes
        return True

    def all(self) -> Array:
        """All answers so far; read-only."""
        begin = self._start - _address(self._whole)
        part = self._whole.reshape(-1).view(np.uint8)[begin : begin + self._stop - self._start]
        whole: Array = part.view(self._first.dtype).reshape(self._rows, *self._first.shape[1:])
        whole.flags.writeable = False
        return whole


def _changeable(mask: Mask) -> Mask:
    return mask if mask.flags.writeable else mask.copy()


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


class Gather:
    """Collects answers into block-sized arrays, or into one array a sample where shapes differ.

    Args:
        samples: the block's samples.
        buffer: output, rows and an array like its answers -> an array with room for them.
    """

    def __init__(self, samples: SampleRows, buffer: Buffer) -> None:
        self._samples = samples
        self._buffer = buffer
        self._outputs: dict[str, Tensor] = {}
        self._answered = all_of(samples.count)
        self._missing = none_of(samples.count)
        self._in_place: dict[str, _InPlace] = {}
        self._failures: list[Failure] = []
        self._lying: dict[str, DeviceTensor] = {}
        self._may_lie = self._may_stay = True
        self._order: tuple[str, ...] = ()
        self._is_answered = False

    def fail(self, rows: Sequence[int], text: str, rule: str) -> None:
        """What was raised costs these samples."""
        self._land()
        at = np.array(rows, np.int64)
        self._failures.append(Failure(at, rule, text))
        self._answered = _changeable(self._answered)
        self._answered[at] = False

    def room(self, answers: Mapping[str, Array]) -> Mapping[str, Array] | None:
        """The block's arrays for answers like these, as by now; None: they go elsewhere.

        Args:
            answers: of all outputs, to one batch.
        """
        if self._lying or self._in_place:
            return None
        if not self._outputs:
            for name, like in answers.items():
                self._outputs[name] = self._make(name, like)
        room: dict[str, Array] = {}
        for name, like in answers.items():
            tensor = self._outputs.get(name)
            if not isinstance(tensor, np.ndarray) or not tensor.flags.writeable:
                return None
            if (tensor.dtype, tensor.shape[1:]) != (like.dtype, like.shape[1:]):
                return None
            room[name] = tensor
        return room if len(room) == len(self._outputs) else None

    def filled(self, room: Mapping[str, Array]) -> bool:
        """Say that answers were written to such arrays; False: the block has others by now."""
        outputs = self._outputs
        is_held = all(outputs.get(name) is array for name, array in room.items())
        self._is_answered |= is_held
        return is_held

    def scatter(self) -> None:
        """From now on answers come in any order: they are copied to their places."""
        self._may_stay = False
        self._land()

    def take(self, at: int, valid: int, lease: Lease, *, is_whole: bool) -> bool:
        """Keep a batch's answers, as they are where that can be, else copies.

        Returns:
            Whether the leased arrays must last as long as the block.
        """
        is_kept = is_whole and not lease.is_lasting
        if lease.present is not None:
            self._land()
        self._is_answered = True
        self._order = self._order or tuple(lease.outputs)
        for name, tensor in lying(lease.outputs).items():
            if isinstance(tensor, DeviceTensor):
                is_kept |= self._stays_there(name, at, tensor[:valid])
            elif is_whole:
                self._outputs[name] = tensor[:valid]
            elif not (lease.is_lasting and self._stays(name, at, tensor[:valid])):
                self._copy(name, at, valid, tensor)
        if lease.present is not None:
            self._answered, self._missing = map(_changeable, (self._answered, self._missing))
            self._answered[at : at + valid] = lease.present
            self._missing[at : at + valid] = ~lease.present
        return is_kept

    def _stays_there(self, name: str, at: int, tensor: DeviceTensor) -> bool:
        """Keep an answer on the GPU, if all before it are there too; else a copy of it."""
        held = self._lying.get(name)
        if not self._may_lie or at != (0 if held is None else len(held)):
            self._copy(name, at, len(tensor), tensor.host())
            return False
        self._lying[name] = tensor if held is None else held.joined(tensor)
        return True

    def _land(self) -> None:
        """Copy what lies on a GPU to the host, now and from now on."""
        self._may_lie = False
        while self._lying:
            name, held = self._lying.popitem()
            self._copy(name, 0, len(held), held.host())

    def _stays(self, name: str, at: int, tensor: Tensor) -> bool:
        if isinstance(tensor, Ragged) or not self._may_stay:
            return False
        if at:
            held = self._in_place.get(name)
            return held is not None and held.extend(at, tensor)
        held = _InPlace.of(tensor)
        if held is None or name in self._outputs:
            return False
        self._in_place[name] = held
        self._outputs[name] = tensor
        return True

    def _copy(self, name: str, at: int, valid: int, tensor: Tensor) -> None:
        if name in self._lying:
            self._land()
        stayed = self._in_place.pop(name, None)
        if stayed is not None:
            del self._outputs[name]
            before = stayed.all()
            self._copy(name, 0, len(before), before)
        held = self._outputs.get(name)
        if not isinstance(tensor, Ragged) and not isinstance(held, Ragged):
            if held is None:
                held = self._outputs[name] = self._make(name, tensor)
            if held.shape[1:] == tensor.shape[1:]:
                held[at : at + valid] = tensor[:valid]
                return
        ragged = self._outputs[name] = self._loosened(held, tensor)
        ragged.arrays[at : at + valid] = [row_of(tensor, i).copy() for i in range(valid)]

    def _make(self, name: str, like: Array) -> Array:
        """An array with room for all answers."""
        count = self._samples.count
        return self._buffer(name, count, like)[:count]

    def _loosened(self, held: Tensor | None, like: Tensor) -> Ragged:
        """What is held so far as one array a sample; samples without an answer are empty."""
        if isinstance(held, Ragged):
            return held
        rows: list[Array] = [np.empty((0,) * (like.ndim - 1), like.dtype)] * self._samples.count
        if held is not None:
            rows = [row_of(held, i) for i in range(len(held))]
        return Ragged(rows, like.dtype, like.ndim - 1)

    def side(self, batch_size: int) -> Side:
        """All of the block's answers."""
        if not self._is_answered:
            self._outputs = {}  # room that nothing was written to
        outputs: Mapping[str, Any] = self._outputs | {
            name: held.all() for name, held in self._in_place.items()
        }
        if self._lying:
            lie = {**outputs, **self._lying}
            outputs = Outputs({name: lie[name] for name in self._order})
        failures = sorted(self._failures, key=lambda failure: int(failure.rows[0]))
        return Side(outputs, self._answered, self._missing, failures, batch_size)
