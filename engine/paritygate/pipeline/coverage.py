"""What a block exercises: values of its inputs, sizes of its dims and of its batches."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from paritygate.comparison.rows import Ints, SampleRows
from paritygate.core.dtypes import is_string, widened
from paritygate.core.plan import Plan
from paritygate.core.shapes import sample_axis
from paritygate.core.steps import least_at
from paritygate.core.tables import InputTable
from paritygate.core.tensors import Array, ColumnSpec
from paritygate.golden.evidence import Mask
from paritygate.pipeline.batches import Cut
from paritygate.pipeline.shape_contract import ShapeContract
from paritygate.runners.base import Runner
from paritygate.tally.coverage import Batches, CoverageTally, InputCover, Number, Span

_CHANNEL = "channel"


class Covering(Protocol):
    """What is known before the first block."""

    @property
    def shapes(self) -> ShapeContract:
        """Dims of the inputs whose shape has a name in it."""

    @property
    def watched(self) -> Mapping[str, int | None]:
        """Inputs whose values are looked at, with their channel axis."""

    @property
    def runners(self) -> Mapping[str, Runner]:
        """By name."""

    @property
    def synthetic(self) -> Mask | None:
        """`(samples of the pack,)` which are no acceptance evidence; None: none is."""


class Read(Protocol):
    """A block that has been read."""

    @property
    def samples(self) -> SampleRows:
        """Those that are run."""

    @property
    def inputs(self) -> Mapping[str, Array]:
        """Name -> `(n, *shape)`, with all inputs that are looked at."""

    @property
    def shapes(self) -> Mapping[str, Sequence[int]]:
        """Of one sample, of the inputs whose dims have a name."""


def watched_inputs(plan: Plan, inputs: Mapping[str, ColumnSpec]) -> dict[str, int | None]:
    """Inputs whose values are looked at, with the axis of one sample that their channels are on.

    Those with a range; all that aren't texts where the plan demands zeros or constant channels.
    """
    wanted = plan.table.require_coverage
    looks_at_all = wanted is not None and wanted.looks_at_inputs
    watched = {}
    for name, column in inputs.items():
        table = plan.table.inputs.get(name, InputTable())
        if not is_string(column.dtype) and (looks_at_all or table.range is not None):
            watched[name] = channel_axis(table, column)
    return watched


def range_ends(
    plan: Plan, inputs: Mapping[str, ColumnSpec]
) -> dict[str, list[tuple[Number, Number]]]:
    """Of each input with a range the smallest and largest number of its dtype in it.

    One pair for all of a sample, or one for each channel.
    """
    return {
        name: [
            (least_at(low, column.dtype, up=True), least_at(high, column.dtype, up=False))
            for low, high in range_pairs(table.range)
        ]
        for name, column in inputs.items()
        if (table := plan.table.inputs.get(name)) is not None and table.range is not None
    }


def range_pairs(given: Sequence[Any]) -> list[Sequence[Number]]:
    """The bounds of every channel, or the one pair that holds for all."""
    return list(given) if isinstance(given[0], list) else [given]


def channel_axis(table: InputTable, column: ColumnSpec) -> int | None:
    """The axis of one sample that has channels of its own; None: a sample is looked at as one."""
    if table.axes is not None and _CHANNEL in table.axes:
        axes, samples = list(table.axes), sample_axis(table.shape) if table.shape else 0
        own = axes if samples is None else [*axes[:samples], *axes[samples + 1 :]]
        axis = own.index(_CHANNEL)
    elif table.channels is not None or isinstance((table.range or [0])[0], list):
        axis = len(column.shape) - 1
    else:
        return None
    return axis if 0 <= axis < len(column.shape) and column.shape[axis] is not None else None


def cover_block(covering: Covering, read: Read, cuts: Mapping[str, Cut]) -> CoverageTally:
    """What the samples of a block that are run exercise.

    Args:
        covering: what is known before the first block.
        read: the block.
        cuts: how each runner's batches are cut.
    """
    samples = read.samples.count
    if not samples:
        return CoverageTally()
    marked, rows = covering.synthetic, read.samples.rows
    if marked is not None:
        marked = marked[rows.start : rows.stop] if isinstance(rows, range) else marked[rows]
    return CoverageTally(
        {
            name: found
            for name, axis in covering.watched.items()
            if (found := cover_input(read.inputs[name], axis)) is not None
        },
        cover_dims(covering.shapes.dims, read.shapes, samples),
        {
            (name, rows): batches
            for name in covering.runners
            for rows, batches in cover_batches(cuts[name], samples).items()
        },
        0 if marked is None else int(np.count_nonzero(marked)),
    )


def cover_batches(cut: Cut, samples: int) -> dict[int, Batches]:
    """The batches that a cut makes of so many samples, by their rows."""
    if cut.size is None or cut.padding is None:
        return {}
    whole, valid = divmod(samples, cut.size)
    found = {cut.size: Batches(whole)} if whole else {}
    if valid:
        rows = cut.padding.padded(valid, cut.size)
        tail = Batches(padded=1) if rows > valid else Batches(1)
        found[rows] = tail.merge(found[rows]) if rows in found else tail
    return found


def cover_dims(
    dims: Mapping[str, Sequence[int | str]], shapes: Mapping[str, Sequence[int]], samples: int
) -> dict[str, Span]:
    """The sizes of named dims in samples of one shape."""
    found = {}
    for name, shape in shapes.items():
        for dim, size in zip(dims[name], shape, strict=True):
            if isinstance(dim, str):
                found[dim] = Span(int(size), int(size), samples, samples)
    return found


def cover_input(array: Array, axis: int | None) -> InputCover | None:
    """Values of some samples of an input; None where they have no element.

    Args:
        array: `(n, *shape)` of any dtype but texts.
        axis: of one sample, that its channels are on; None: a sample is looked at as one.
    """
    from paritygate.kernels.coverage import channel_spans

    values = widened(array)
    if values.dtype == np.bool_:
        values = values.view(np.uint8)
    shape = values.shape[1:]
    channels = 1 if axis is None else shape[axis]
    outer = 1 if axis is None else math.prod(shape[:axis])
    each = math.prod(shape)
    if not each:
        return None
    flat = np.ascontiguousarray(values, values.dtype.newbyteorder("=")).reshape(-1)
    flat.flags.writeable = False
    lows, highs = _ends(flat.dtype, channels)
    counts: Ints = np.zeros(3 * channels, np.int64)
    zeros: Ints = np.zeros(1, np.int64)
    channel_spans(flat, outer, each // (outer * channels), lows, highs, counts, zeros)
    by_channel = counts.reshape(channels, 3).tolist()
    spans = [
        Span(_number(low), _number(high), at_low, at_high) if at_low and at_high else None
        for low, high, (at_low, at_high, _) in zip(
            lows.tolist(), highs.tolist(), by_channel, strict=True
        )
    ]
    several = len(values) if each > channels else 0
    constant = tuple(same if several else 0 for _, _, same in by_channel)
    return InputCover(len(values), int(zeros[0]), tuple(spans), several, constant)


def _ends(dtype: np.dtype[Any], channels: int) -> tuple[Array, Array]:
    """What every value lowers and raises, or is."""
    if dtype.kind == "f":
        return np.full(channels, np.inf, dtype), np.full(channels, -np.inf, dtype)
    limits = np.iinfo(dtype)
    return np.full(channels, limits.max, dtype), np.full(channels, limits.min, dtype)


def _number(value: Number) -> Number:
    """The same number, of both zeros the positive one, so that no order of merging shows."""
    return value + 0.0 if isinstance(value, float) else value
