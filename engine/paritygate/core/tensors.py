"""Tensors, batches and blocks: the units of data that every layer passes on."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field
from msgspec.structs import replace

from paritygate.core.dtypes import DTYPES as DTYPES
from paritygate.core.dtypes import FLOATS as FLOATS
from paritygate.core.dtypes import INTEGERS as INTEGERS
from paritygate.core.dtypes import element_bytes
from paritygate.core.dtypes import is_float as is_float

Array = npt.NDArray[np.generic]
Dim = int | str | None
Shape = tuple[int, ...]
Stats = Literal["gate", "full"]
CompareOn = Literal["cpu", "cuda", "auto"]


class TensorSpec(Struct, frozen=True):
    """Name, dtype and dims of a tensor; the sample axis, where there is one, is axis 0.

    A dim is an int where fixed, a name where symbolic, None where unknown.
    """

    name: str
    dtype: str
    shape: tuple[Dim, ...]

    def __str__(self) -> str:
        dims = ", ".join("?" if d is None else str(d) for d in self.shape)
        return f"{self.name}: {self.dtype}[{dims}]"


class ColumnSpec(Struct, frozen=True):
    """A tensor column of a pack: dtype and the shape of one sample, None where a dim varies.

    Attributes:
        typical_elements: of a sample whose shape varies.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...]
    metadata: Mapping[str, str] = field(default_factory=dict)
    typical_elements: int = 0

    @property
    def is_fixed(self) -> bool:
        """Whether all samples have one shape."""
        return None not in self.shape

    @property
    def fixed_shape(self) -> Shape:
        """The shape of every sample, where it doesn't vary."""
        return tuple(dim for dim in self.shape if dim is not None)

    @property
    def sample_bytes(self) -> int:
        """Bytes of one sample; about so many where its shape varies."""
        elements = math.prod(self.fixed_shape) if self.is_fixed else self.typical_elements
        return elements * element_bytes(self.dtype)

    def __str__(self) -> str:
        dims = ["?" if dim is None else str(dim) for dim in self.shape]
        return f"{self.name}: {self.dtype}[{', '.join(['batch', *dims])}]"


class Batch(Struct, frozen=True):
    """What a runner is given: consecutive samples of one bucket, padded to an approved size.

    Attributes:
        bucket: number of the shape bucket.
        number: position among the batches of its bucket.
        start: ordinal of the first sample (its row over all golden files).
        valid: samples that count; further rows repeat the last one and are dropped.
        ids: `(valid,)` int64, or object holding str.
        inputs: name -> `(size, *sample_shape)`, C-contiguous, read-only.
        size: rows in each input.
        last: ordinal of the last sample that counts; -1: whoever made the batch doesn't say.
    """

    bucket: int
    number: int
    start: int
    valid: int
    size: int
    ids: npt.NDArray[np.int64] | npt.NDArray[np.object_]
    inputs: Mapping[str, Array]
    last: int = -1


@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    """Samples of one bucket in pack order: the unit of work and checkpoints.

    Attributes:
        bucket: number of the shape bucket.
        number: position among all blocks.
        start, stop: first sample, and the one after the last.
        offsets: of its samples from `start`, ascending; None: all of `[start, stop)`.
        let_go: the samples before it are in no later block; -1: those before `stop`.
        place: samples before it, where all of them are in whole batches; -1: not so.
    """

    bucket: int
    number: int
    start: int
    stop: int
    offsets: npt.NDArray[np.uint16] | None = dataclasses.field(default=None, compare=False)
    let_go: int = -1
    place: int = -1

    @property
    def samples(self) -> int:
        """Samples in the block."""
        return self.stop - self.start if self.offsets is None else len(self.offsets)

    @property
    def done_until(self) -> int:
        """The samples before it are in no later block."""
        return self.stop if self.let_go < 0 else self.let_go

    def ordinals(self) -> npt.NDArray[np.int64]:
        """Rows of its samples over all golden files."""
        if self.offsets is None:
            return np.arange(self.start, self.stop, dtype=np.int64)
        return self.start + self.offsets.astype(np.int64)


BLOCK_BYTES = 1 << 20, 8 << 20
MAX_BLOCK = 8_192
MAX_BATCHED_BLOCK = 65_536  # of samples that no runner is given all at once
_SHARE = 8  # a block is at most this part of what is left of the pack


class BlockSizes(Struct, frozen=True):
    """How many samples a block may have.

    Attributes:
        least: towards the end of a pack, so that all threads end at about the same time.
        most: elsewhere, so that what a block costs besides its elements is spread over many.
        step: both are multiples of it, and every block but a pack's last one.
        is_whole: a block, but for a pack's last one, is whole batches of every size.
    """

    least: int
    most: int
    step: int = 1
    is_whole: bool = True

    @staticmethod
    def of(
        sample_bytes: int,
        batch_sizes: Sequence[int],
        max_samples: int = MAX_BLOCK,
        max_bytes: int = BLOCK_BYTES[1],
    ) -> BlockSizes:
        """Sizes from the sample's size and the plan's batch sizes only.

        About 1 MiB to `max_bytes` of tensors, powers of two; rounded up to a common multiple of the
        batch sizes so that only the last block of a pack has a padded tail. Where that multiple
        would be more than four times the least, every block is cut into batches by itself.
        """
        least, most = (
            _power_of_two(min(cap, limit // max(1, sample_bytes)))
            for cap, limit in ((MAX_BLOCK, BLOCK_BYTES[0]), (max_samples, max_bytes))
        )
        common = math.lcm(*batch_sizes) if batch_sizes else 1
        step = common if common <= 4 * least else max(batch_sizes)
        return BlockSizes(_round_up(least, step), _round_up(most, step), step, step == common)

    def of_batches(self) -> BlockSizes:
        """The same of what is run in batches, with a finer end.

        What takes long must be shared out in small parts at last, or one thread ends far before
        another one: there the least is an eighth of the most, if that is less.
        """
        share = self.most // _SHARE // self.step * self.step
        return replace(self, least=max(self.step, min(self.least, share)))

    def even(self, samples: int) -> BlockSizes:
        """One size for all blocks of so many samples, where threads share the last of them.

        It is at most an eighth of them, and at least as `of_batches`.
        """
        share = samples // _SHARE // self.step * self.step
        size = min(self.most, max(self.of_batches().least, share))
        return replace(self, least=size, most=size)

    def next(self, left: int) -> int:
        """Samples of the next block where `left` are left; the last one may have fewer."""
        share = left // _SHARE // self.step * self.step
        return min(self.most, max(self.least, share))


def _power_of_two(samples: int) -> int:
    return 1 << (max(1, samples).bit_length() - 1)


def _round_up(samples: int, step: int) -> int:
    return -(-samples // step) * step


def cut_blocks(samples: int, sizes: BlockSizes) -> list[Block]:
    """Cut `samples` consecutive samples into blocks, which get smaller towards the end."""
    blocks: list[Block] = []
    start = 0
    while start < samples:
        stop = min(start + sizes.next(samples - start), samples)
        place = start if sizes.is_whole else -1
        blocks.append(Block(0, len(blocks), start, stop, place=place))
        start = stop
    return blocks
