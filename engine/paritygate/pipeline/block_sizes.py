"""How large blocks may be; where every side is recorded, they follow the record batches."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

from paritygate.core.tensors import MAX_BATCHED_BLOCK, MAX_BLOCK, Block, BlockSizes
from paritygate.golden.pack import GoldenPack
from paritygate.runners.base import Runner
from paritygate.runners.recorded import RecordedRunner

_BATCHES = 16


def cut_along(samples: int, sizes: BlockSizes, bounds: Sequence[int]) -> list[Block]:
    """Cut consecutive samples into blocks that end where a record batch does, where one does.

    A block within one record batch is compared as it lies in the file; over two it is copied.

    Args:
        samples: how many there are.
        sizes: of the blocks; one that ends with a record batch has at least half of that.
        bounds: ascending, where record batches begin.
    """
    blocks: list[Block] = []
    start = 0
    while start < samples:
        size = sizes.next(samples - start)
        stop = min(start + size, samples)
        bound = bounds[bisect_right(bounds, stop) - 1] if bounds else 0
        if stop < samples and 2 * (bound - start) >= size:
            stop = bound
        blocks.append(Block(0, len(blocks), start, stop, place=start))
        start = stop
    return blocks


def cut_recorded(packs: Iterable[GoldenPack], samples: int, sample_bytes: int) -> list[Block]:
    """Blocks of the first samples of packs that are compared with each other.

    Args:
        packs: the golden pack and the recordings; where they are in the same order, no sample of
            most blocks is copied.
        samples: how many.
        sample_bytes: of one sample in one pack.
    """
    firsts = {low for pack in packs for low, _ in pack.batch_spans(max(1, pack.samples))}
    sizes = BlockSizes.of(sample_bytes, (), MAX_BATCHED_BLOCK)
    return cut_along(samples, sizes, sorted(firsts))


def most_samples(runners: Mapping[str, Runner]) -> int:
    """The most samples of a block of these runners: more where their batches are large.

    What has no batches is given a block as one, and a block of many batches is slow to come back.
    """
    asked = [runner for runner in runners.values() if not isinstance(runner, RecordedRunner)]
    sizes = [max(runner.limits.batch_sizes or (0,)) for runner in asked]
    return min(MAX_BATCHED_BLOCK, max(MAX_BLOCK, _BATCHES * min(sizes, default=0)))
