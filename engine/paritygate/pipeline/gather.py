"""Put the answers of a block's batches together: one tensor an output."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from paritygate.comparison.rows import SampleRows, Side
from paritygate.core.ragged import Ragged, Tensor, row_of
from paritygate.core.tensors import Array
from paritygate.runners.base import Lease
from paritygate.tally.stage import FirstError

Mask = npt.NDArray[np.bool_]
Buffer = Callable[[str, int, Array], Array]


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
        self._answered: Mask = np.ones(samples.count, np.bool_)
        self._missing: Mask = np.zeros(samples.count, np.bool_)
        self._error: FirstError | None = None

    def fail(self, at: int, valid: int, text: str) -> None:
        """A batch that raised costs its samples."""
        error = FirstError(int(self._samples.ordinals[at]), text, valid)
        self._error = error if self._error is None else self._error.merge(error)
        self._answered[at : at + valid] = False

    def take(self, at: int, valid: int, lease: Lease, *, is_whole: bool) -> None:
        """Keep a batch's answers: the leased arrays as they are for a whole block, else copies."""
        for name, tensor in lease.outputs.items():
            if is_whole:
                self._outputs[name] = tensor[:valid]
            else:
                self._copy(name, at, valid, tensor)
        if lease.present is not None:
            self._answered[at : at + valid] = lease.present
            self._missing[at : at + valid] = ~lease.present

    def _copy(self, name: str, at: int, valid: int, tensor: Tensor) -> None:
        held = self._outputs.get(name)
        if not isinstance(tensor, Ragged) and not isinstance(held, Ragged):
            if held is None:
                held = self._outputs[name] = self._buffer(name, self._samples.count, tensor)[
                    : self._samples.count
                ]
            if held.shape[1:] == tensor.shape[1:]:
                held[at : at + valid] = tensor[:valid]
                return
        ragged = self._outputs[name] = self._loosened(held, tensor)
        ragged.arrays[at : at + valid] = [row_of(tensor, i).copy() for i in range(valid)]

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
        return Side(self._outputs, self._answered, self._missing, self._error, batch_size)
