"""Cut a block's samples into the batches of one runner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from paritygate.comparison.rows import SampleRows
from paritygate.core.errors import RunnerError
from paritygate.core.tables import BatchDim
from paritygate.core.tensors import Array, Batch, Block
from paritygate.runners.base import Lease, Runner, RunnerSession
from paritygate.runners.failures import PartialError, SampleFailure


@dataclass(frozen=True)
class Cut:
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

    def batches(
        self, block: Block, samples: SampleRows, inputs: Mapping[str, Array]
    ) -> Iterator[Batch]:
        """The batches of a block's samples, in pack order.

        Args:
            block: the block.
            samples: those of its samples that are run; at least one.
            inputs: name -> `(n, *sample_shape)` of these samples, read-only.
        """
        names = inputs if self.names is None else self.names
        taken = [(name, inputs[name]) for name in names if name in inputs]
        count, ids = samples.count, samples.ids
        size = self.size or count
        starts = samples.ordinals[::size].tolist()
        lasts = [*samples.ordinals[size - 1 :: size].tolist(), int(samples.ordinals[-1])]
        for number, at in enumerate(range(0, count, size)):
            valid = min(size, count - at)
            stop = at + valid
            parts = {name: array[at:stop] for name, array in taken}
            rows = valid
            if valid < size and self.padding is not None:
                rows = self.padding.padded(valid, size)
            if rows > valid:
                parts = {name: _pad(part, rows) for name, part in parts.items()}
            of, first, last = ids[at:stop], starts[number], lasts[number]
            yield Batch(block.bucket, number, first, valid, rows, of, parts, last)


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


def with_following(batches: Iterator[Batch]) -> Iterator[tuple[Batch, Batch | None]]:
    """Each batch with the one after it."""
    batch = next(batches, None)
    while batch is not None:
        following = next(batches, None)
        yield batch, following
        batch = following


def _pad(array: Array, size: int) -> Array:
    """Repeat the last row up to `size` rows; read-only."""
    padded: Array = np.empty((size, *array.shape[1:]), array.dtype)
    padded[: len(array)] = array
    padded[len(array) :] = array[-1]
    padded.flags.writeable = False
    return padded
