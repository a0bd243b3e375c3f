"""Cut a pack whose inputs vary in shape: blocks of samples of one shape, window by window.

Which samples share a block, and so a batch, depends on the plan and the pack only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from paritygate.core.dtypes import element_bytes
from paritygate.core.tensors import Block
from paritygate.golden.pack import GoldenPack

WINDOW_SAMPLES = 65_536
WINDOW_BYTES = 256 << 20

Shapes = npt.NDArray[np.int64]
BlockSize = Callable[[int], int]


def bucket_blocks(
    pack: GoldenPack, names: Sequence[str], samples: int, block_size: BlockSize
) -> list[Block]:
    """Blocks of the first `samples` samples, one shape of all inputs in each.

    Windows follow one another in pack order; within one, buckets stand in order of first
    appearance, and the samples of a bucket in pack order.

    Args:
        pack: an open pack whose ids have been scanned.
        names: inputs that vary in shape, at least one.
        samples: samples to cut.
        block_size: bytes of the varying inputs of a sample -> samples in a block.
    """
    itemsizes = [element_bytes(pack.inputs[name].dtype) for name in names]
    blocks: list[Block] = []
    buckets: dict[tuple[int, ...], int] = {}
    for start, shapes in _windows(pack, names, itemsizes, samples):
        stop = start + len(shapes)
        for key, rows in _groups(shapes):
            bucket = buckets.setdefault(key, len(buckets))
            size = block_size(int(_bytes(pack, names, itemsizes, shapes[rows[:1]])[0]))
            for at in range(0, len(rows), size):
                part = rows[at : at + size]
                blocks.append(_block(bucket, len(blocks), start, part))
        last = blocks[-1]
        blocks[-1] = Block(last.bucket, last.number, last.start, last.stop, last.offsets, stop)
    return blocks


def _block(bucket: int, number: int, window: int, rows: Shapes) -> Block:
    first, last = int(rows[0]), int(rows[-1])
    offsets = None if last - first == len(rows) - 1 else (rows - first).astype(np.uint16)
    return Block(bucket, number, window + first, window + last + 1, offsets, window)


def _windows(
    pack: GoldenPack, names: Sequence[str], itemsizes: Sequence[int], samples: int
) -> Iterator[tuple[int, Shapes]]:
    """First sample of each window, and the shapes of all inputs of its samples side by side."""
    start = 0
    while start < samples:
        stop = min(start + WINDOW_SAMPLES, samples)
        parts = [pack.input_shapes(name, start, stop) for name in names]
        shapes = np.concatenate(parts, axis=1)
        total = np.cumsum(_bytes(pack, names, itemsizes, shapes))
        rows = max(1, int(np.searchsorted(total, WINDOW_BYTES, side="right")))
        yield start, shapes[:rows]
        pack.done_until(start)
        start += rows


def _bytes(
    pack: GoldenPack, names: Sequence[str], itemsizes: Sequence[int], shapes: Shapes
) -> Shapes:
    total: Shapes = np.zeros(len(shapes), np.int64)
    at = 0
    for name, itemsize in zip(names, itemsizes, strict=True):
        dims = len(pack.inputs[name].shape)
        total += itemsize * shapes[:, at : at + dims].prod(axis=1)
        at += dims
    return total


def _groups(shapes: Shapes) -> Iterator[tuple[tuple[int, ...], Shapes]]:
    """Shapes by first appearance, each with its rows, which ascend."""
    keys, first, inverse = np.unique(shapes, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(inverse.reshape(-1), kind="stable")
    ends = np.cumsum(np.bincount(inverse.reshape(-1), minlength=len(keys)))
    rows = np.split(order, ends[:-1])
    for group in np.argsort(first, kind="stable").tolist():
        yield tuple(keys[group].tolist()), rows[group]
