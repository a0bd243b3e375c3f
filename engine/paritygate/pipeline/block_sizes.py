"""How large blocks may be; where every side is recorded, they follow the record batches."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

from paritygate.core.dtypes import is_string, numpy_dtype
from paritygate.core.tensors import MAX_BATCHED_BLOCK, MAX_BLOCK, Block, BlockSizes, ColumnSpec
from paritygate.golden.pack import GoldenPack
from paritygate.pipeline.host_outputs import fixed
from paritygate.runners.base import Runner
from paritygate.runners.recorded import RecordedRunner

_BATCHES = 16
_LEAST_BYTES, _JOINED_BYTES, _MOST_BYTES = 2 << 20, 4 << 20, 16 << 20
_MOST_NUMBERS = 1 << 20


def cut_along(samples: int, sizes: BlockSizes, joined: int, bounds: Sequence[int]) -> list[Block]:
    """Cut consecutive samples into blocks that lie within one record batch, where those are large.

    Such a block is compared as it lies in the file; one of several record batches is copied, which
    costs less than to compare each of them by itself.

    Args:
        samples: how many there are.
        sizes: of the blocks.
        joined: the most samples of a block of several record batches.
        bounds: ascending, where record batches begin, the first one at 0.
    """
    blocks: list[Block] = []
    start = 0
    while start < samples:
        size = sizes.next(samples - start)
        stop = _stop(start, size, min(size, joined), samples, bounds)
        blocks.append(Block(0, len(blocks), start, stop, place=start))
        start = stop
    return blocks


def _stop(start: int, size: int, joined: int, samples: int, bounds: Sequence[int]) -> int:
    at = bisect_right(bounds, start)
    own = min([samples, *bounds[at : at + 1]]) - start  # what is left of this record batch
    if own > size:
        return start + -(-own // -(-own // size))  # in equal parts
    if 2 * own >= joined:
        return start + own
    if samples - start <= joined:
        return samples
    return bounds[bisect_right(bounds, start + joined) - 1]


def cut_recorded(
    packs: Iterable[GoldenPack], samples: int, sample_bytes: int, *, only_numbers: bool
) -> list[Block]:
    """Blocks of the first samples of packs that are compared with each other.

    Args:
        packs: that are read; where they are in the same order, no sample of most blocks is copied.
        samples: how many.
        sample_bytes: of what is read of one sample in one pack.
        only_numbers: nothing is kept or decided of each sample, so that there may be more of them.
    """
    firsts = {low for pack in packs for low, _ in pack.batch_spans(max(1, pack.samples))}
    most = _MOST_NUMBERS if only_numbers else MAX_BATCHED_BLOCK
    least, joined, size = (
        max(1, min(cap, limit // max(1, sample_bytes)))
        for cap, limit in (
            (most // 4 if only_numbers else MAX_BLOCK, _LEAST_BYTES),
            (most, _JOINED_BYTES),
            (most, _MOST_BYTES),
        )
    )
    return cut_along(samples, BlockSizes(least, size), joined, sorted(firsts))


def bytes_of(columns: Mapping[str, ColumnSpec]) -> int:
    """Bytes of one sample in all of these columns."""
    return sum(column.sample_bytes for column in columns.values())


def most_samples(runners: Mapping[str, Runner]) -> int:
    """The most samples of a block of these runners: more where their batches are large.

    What has no batches is given a block as one, and a block of many batches is slow to come back.
    """
    asked = [runner for runner in runners.values() if not isinstance(runner, RecordedRunner)]
    sizes = [max(runner.limits.batch_sizes or (0,)) for runner in asked]
    return min(MAX_BATCHED_BLOCK, max(MAX_BLOCK, _BATCHES * min(sizes, default=0)))


def enlarged(
    blocks: BlockSizes, sample_bytes: int, sizes: Sequence[int], runners: Iterable[Runner]
) -> BlockSizes:
    """Larger blocks of samples that are run in batches, where their answers are known to be small.

    Args:
        blocks: sizes that do for answers of any size.
        sample_bytes: of what is read of one sample.
        sizes: of the batches.
        runners: that answer them.
    """
    answers = [_answer_bytes(runner) for runner in runners]
    known = [found for found in answers if found is not None]
    if len(known) < len(answers):
        return blocks
    wide = BlockSizes.of(sample_bytes + max(known), sizes, MAX_BATCHED_BLOCK, _MOST_BYTES)
    return wide if wide.most > blocks.most else blocks


def _answer_bytes(runner: Runner) -> int | None:
    """Bytes that a runner declares to answer for a sample; None: it doesn't say."""
    if not runner.outputs:
        return None
    total = 0
    for spec in runner.outputs.values():
        answer = fixed(spec)
        if answer is None or is_string(answer[0]):
            return None
        dtype, shape = answer
        total += math.prod(shape) * numpy_dtype(dtype).itemsize
    return total
