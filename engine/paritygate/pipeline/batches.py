"""Cut a block's samples into the batches of one runner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import overload

import numpy as np
from msgspec import Struct

from paritygate.comparison.rows import SampleRows
from paritygate.core.errors import RunnerError
from paritygate.core.tables import BatchDim
from paritygate.core.tensors import Array, Batch, Block
from paritygate.runners.base import Lease, Runner, RunnerSession
from paritygate.runners.failures import PartialError, SampleFailure


class Cut(Struct, frozen=True):
    """How a runner's batches are cut; the same for every block.

    Attributes:
        names: inputs that the runner is given; None: all.
        size: rows of a batch that isn't a tail; None: any number of samples is one batch.
        padding: what a tail is padded to.
    """

    names: tuple[str, ...] | None
    size: int | None
    padding: BatchDim | None

    @staticmethod
    def of(runner: Runner, dim: BatchDim | None) -> Cut:
        """The cut for a runner: a tail is padded to an approved size, else to the runner's own."""
        names = None if runner.inputs is None else tuple(runner.inputs)
        sizes = runner.limits.batch_sizes
        if sizes is None:
            return Cut(names, None, None)
        size = max(sizes)
        may_choose = dim is not None and dim.approves(size) and not runner.limits.is_fixed
        approved = dim if dim is not None and may_choose else BatchDim(sizes=list(sizes))
        return Cut(names, size, approved)

    def batches(self, block: Block, samples: SampleRows, inputs: Mapping[str, Array]) -> Batches:
        """The batches of a block's samples, in pack order.

        Args:
            block: the block.
            samples: those of its samples that are run; at least one.
            inputs: name -> `(n, *sample_shape)` of these samples, read-only.
        """
        return Batches(self, block, samples, inputs)


class Batches(Sequence[Batch]):
    """The batches of a block's samples; each is made when it is asked for.

    Attributes:
        inputs: what the runner is given of all of these samples.
        rows: of a batch that isn't a tail.
    """

    def __init__(
        self, cut: Cut, block: Block, samples: SampleRows, inputs: Mapping[str, Array]
    ) -> None:
        names = inputs if cut.names is None else cut.names
        self.inputs = {name: inputs[name] for name in names if name in inputs}
        self.rows = cut.size or samples.count
        self._padding = cut.padding
        self._bucket = block.bucket
        self._samples = samples
        self._starts = samples.ordinals[:: self.rows].tolist()
        lasts = samples.ordinals[self.rows - 1 :: self.rows].tolist()
        self._lasts = [*lasts, int(samples.ordinals[-1])]

    def __len__(self) -> int:
        """How many there are."""
        return len(self._starts)

    @property
    def whole(self) -> int:
        """How many of them are no tail."""
        return self._samples.count // self.rows

    def valid(self, number: int) -> int:
        """Samples of a batch that count."""
        return min(self.rows, self._samples.count - number * self.rows)

    def samples(self, numbers: range) -> int:
        """Samples of consecutive batches that count."""
        start, stop = (
            min(at * self.rows, self._samples.count) for at in (numbers.start, numbers.stop)
        )
        return max(0, stop - start)

    @overload
    def __getitem__(self, at: int) -> Batch: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Batch]: ...

    def __getitem__(self, at: int | slice) -> Batch | Sequence[Batch]:
        """A batch by its number, or several."""
        if isinstance(at, slice):
            return [self[number] for number in range(len(self))[at]]
        number = range(len(self))[at]
        valid, start = self.valid(number), number * self.rows
        stop = start + valid
        parts = {name: array[start:stop] for name, array in self.inputs.items()}
        rows = valid
        if valid < self.rows and self._padding is not None:
            rows = self._padding.padded(valid, self.rows)
        if rows > valid:
            parts = {name: _pad(part, rows) for name, part in parts.items()}
        ids, first, last = self._samples.ids[start:stop], self._starts[number], self._lasts[number]
        return Batch(self._bucket, number, first, valid, rows, ids, parts, last)


def ask(
    session: RunnerSession, batch: Batch, following: Batch | None = None
) -> tuple[Lease | None, list[tuple[Sequence[int], SampleFailure]]]:
    """The answer to a batch, if any, and the samples without one with the reason.

    Args:
        session: what is asked.
        batch: the batch.
        following: the batch that it is asked next, if any.
    """
    try:
        return session.run(batch, following), []
    except PartialError as e:
        return e.lease, [([row], failure) for row, failure in e.failures.items()]
    except RunnerError as e:
        return None, [(range(batch.valid), SampleFailure(e.rule, str(e)))]


def _pad(array: Array, size: int) -> Array:
    """Repeat the last row up to `size` rows; read-only."""
    padded: Array = np.empty((size, *array.shape[1:]), array.dtype)
    padded[: len(array)] = array
    padded[len(array) :] = array[-1]
    padded.flags.writeable = False
    return padded
