"""Parts of a pack that are run again: consecutive samples, in the batches that they would have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from paritygate.comparison.rows import Ints, SampleRows
from paritygate.core.ragged import row_of
from paritygate.core.tables import BatchDim
from paritygate.core.tensors import Array, Block
from paritygate.pipeline.batches import Cut, ask
from paritygate.pipeline.span import Prepared, read_block
from paritygate.runners.base import Runner, RunnerSession
from paritygate.tally.stage import Hits

ANY_SIZE = 256  # samples of a window for runners that take any number

Answers = Mapping[str, Sequence[Array]]


class Window(Struct, frozen=True):
    """Consecutive samples that are run again, as they were read."""

    block: Block
    samples: SampleRows
    inputs: Mapping[str, Array]

    def only(self, places: Sequence[int]) -> SampleRows:
        """Some of the samples."""
        at = np.array(places, np.int64)
        return replace(self.samples, rows=self.samples.ordinals[at], named=self.samples.ids[at])

    def in_order(self, order: Ints) -> Window:
        """The same samples in another order."""
        inputs = {name: array[order] for name, array in self.inputs.items()}
        for array in inputs.values():
            array.flags.writeable = False
        samples = replace(
            self.samples, rows=self.samples.ordinals[order], named=self.samples.ids[order]
        )
        return replace(self, samples=samples, inputs=inputs)


def windows(
    prepared: Prepared, blocks: Sequence[Block], length: int, wanted: int
) -> Iterator[Window]:
    """Windows of `length` samples, `wanted` in all, spread evenly over the blocks, in order."""
    ends = np.cumsum([block.samples for block in blocks])
    total = int(ends[-1])
    count = -(-min(wanted, total) // length)
    starts = [number * total // count for number in range(count)]
    for at in sorted({int(np.searchsorted(ends, start, side="right")) for start in starts}):
        block = blocks[at]
        read = read_block(prepared, block)
        begin = int(ends[at]) - block.samples
        free = 0
        for start in starts:
            if not begin <= start < int(ends[at]):
                continue
            low = max(free, min(start - begin, read.samples.count - length))
            free = high = min(low + length, read.samples.count)
            if low < high:
                inputs = {name: array[low:high] for name, array in read.inputs.items()}
                yield Window(block, _rows(read.samples, low, high), inputs)
        if read.samples.count:
            ordinals = read.samples.ordinals
            prepared.pack.done_with(int(ordinals[0]), int(ordinals[-1]) + 1)


def answers_of(
    prepared: Prepared,
    runner: Runner,
    session: RunnerSession,
    window: Window,
    size: int | None = None,
) -> Answers:
    """Each output's answers to a window, one array a sample.

    Args:
        prepared: the plan.
        runner: whose batches they are.
        session: a session of it, or of one that is like it.
        window: the samples.
        size: rows of a batch; None: as in a run.

    Raises:
        RunnerError: the runner raised.
    """
    cut = _cut(prepared, runner, size)
    answers: dict[str, list[Array]] = {}
    for batch in cut.batches(window.block, window.samples, window.inputs):
        with session.run(batch) as lease:
            for name, array in lease.outputs.items():
                kept = answers.setdefault(name, [])
                kept += [np.array(row_of(array, at)) for at in range(batch.valid)]
    return answers


class Tried(Struct, frozen=True):
    """Answers of a window of which some samples, or all, may have none.

    Attributes:
        answers: output -> place in the window -> answer.
        without: places of the samples that have none.
        error: why the first of them has none that nothing excuses; "" where all are excused.
    """

    answers: Mapping[str, Mapping[int, Array]]
    without: frozenset[int]
    error: str


def try_answers(
    prepared: Prepared,
    runner: Runner,
    session: RunnerSession,
    window: Window,
    size: int | None = None,
    excused: frozenset[int] = frozenset(),
) -> Tried:
    """As `answers_of`, but what one batch raises costs that batch only.

    Args:
        prepared: the plan.
        runner: whose batches they are.
        session: a session of it, or of one that is like it.
        window: the samples.
        size: rows of a batch; None: as in a run.
        excused: places of samples that have no answer anyhow, nor need those beside them one.
    """
    answers: dict[str, dict[int, Array]] = {}
    without: set[int] = set()
    error, at = "", 0
    batches = _cut(prepared, runner, size).batches(window.block, window.samples, window.inputs)
    for batch in batches:
        lease, failures = ask(session, batch)
        lacks = {at + row: failure for rows, failure in failures for row in rows}
        whole = excused.intersection(range(at, at + batch.valid)) if lease is None else ()
        for place, failure in lacks.items():
            if not whole and place not in excused:
                error = error or failure.text
        without.update(lacks)
        if lease is not None:
            with lease:
                for name, tensor in lease.outputs.items():
                    kept = answers.setdefault(name, {})
                    for row in range(batch.valid):
                        if at + row not in lacks:
                            kept[at + row] = np.array(row_of(tensor, row))
        at += batch.valid
    return Tried(answers, frozenset(without), error)


def rows_of(
    prepared: Prepared, runner: Runner, window: Window, size: int | None = None
) -> list[tuple[int, int]]:
    """Samples and rows of each batch in which `answers_of` would run a window."""
    batches = _cut(prepared, runner, size).batches(window.block, window.samples, window.inputs)
    return [(batch.valid, batch.size) for batch in batches]


def _cut(prepared: Prepared, runner: Runner, size: int | None) -> Cut:
    cut = Cut.of(runner, prepared.plan.table.dims.batch)
    if size is not None and size != cut.size:
        return replace(cut, size=size, padding=BatchDim(sizes=[size]))
    return cut


def _rows(samples: SampleRows, low: int, high: int) -> SampleRows:
    part = slice(low, high)
    return SampleRows(samples.place, samples.ordinals[part], samples.ids[part], {}, {}, Hits())
