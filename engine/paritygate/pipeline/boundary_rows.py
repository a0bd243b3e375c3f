"""Samples made without a model: zeros, constants, ends of ranges and dims, and what is beyond."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field

from paritygate.core.coverage import dims_of
from paritygate.core.dtypes import float_format, is_float, is_string, limits_of, numpy_dtype
from paritygate.core.plan import Plan
from paritygate.core.shapes import sample_dims
from paritygate.core.steps import step
from paritygate.core.tables import InputTable
from paritygate.core.tensors import Array, ColumnSpec
from paritygate.pipeline.boundary_eval import Sample
from paritygate.pipeline.coverage import channel_axis, range_ends
from paritygate.tally.coverage import Number

REJECT = "reject"
MOST_CHANNELS = 256
MOST_CORNERS = 16
MOST_BYTES = 64 << 20


class Row(Struct, frozen=True):
    """One sample of the pack: its id, what it is for, and whether it must be rejected.

    Attributes:
        others: values of labels and slices; those of made samples are none.
    """

    id: str
    purpose: str
    sample: Sample
    expect: str | None = None
    others: Mapping[str, Any] = field(default_factory=dict)


class Space(Struct, frozen=True):
    """What samples are made of.

    Attributes:
        plan: the plan.
        inputs: columns of the golden pack.
        base: a golden sample that satisfies the contract.
        notes: what was left out, and why.
    """

    plan: Plan
    inputs: Mapping[str, ColumnSpec]
    base: Sample
    notes: list[str] = field(default_factory=list)

    def table(self, name: str) -> InputTable:
        """The contract of an input; an empty one where the plan has none."""
        return self.plan.table.inputs.get(name, InputTable())

    def axis(self, name: str) -> int | None:
        """The axis of one sample that its channels are on."""
        return channel_axis(self.table(name), self.inputs[name])

    def ends(self, name: str) -> list[tuple[Number, Number]] | None:
        """Ends of its range, by channel where it has one for each; None without."""
        return range_ends(self.plan, {name: self.inputs[name]}).get(name)

    def limits(self, name: str) -> tuple[Array, Array]:
        """Smallest and largest value of every element of a sample shaped as the base."""
        column, shape = self.inputs[name], self.base[name].shape
        ends = self.ends(name) or [_widest(column.dtype)]
        laid: list[int] = [1] * len(shape)
        axis = self.axis(name)
        if len(ends) > 1 and axis is not None:
            laid[axis] = len(ends)
        low, high = (
            np.broadcast_to(_array([pair[at] for pair in ends], column.dtype).reshape(laid), shape)
            for at in (0, 1)
        )
        return low, high

    def numeric(self) -> list[str]:
        """Inputs that aren't texts."""
        return [name for name, column in self.inputs.items() if not is_string(column.dtype)]

    def with_input(self, name: str, array: Array) -> dict[str, Array]:
        """The base with another value of one input."""
        return {**self.base, name: np.ascontiguousarray(array)}


def extremes(space: Space) -> Iterator[Row]:
    """Zeros, constant channels, and the ends of ranges."""
    zeros = {
        name: np.zeros_like(space.base[name]) for name in space.numeric() if _zero(space, name)
    }
    if zeros:
        yield Row("zeros", f"all zero: {', '.join(zeros)}", {**space.base, **zeros})
    ruled_out = [name for name in space.numeric() if name not in zeros]
    if ruled_out:
        space.notes.append(f"zeros: not of {', '.join(ruled_out)}, whose range has no zero in it")
    for name in space.numeric():
        yield from _constants(space, name)
        yield from _range_ends(space, name)


def _zero(space: Space, name: str) -> bool:
    return all(low <= 0 <= high for low, high in space.ends(name) or ())


def _constants(space: Space, name: str) -> Iterator[Row]:
    base, axis = space.base[name], space.axis(name)
    if axis is None:
        if base.size > 1:
            made = np.full_like(base, base.reshape(-1)[0])
            if _is_within(space, name, made):
                purpose = f"input {name}: all elements the same"
                yield Row(f"constant-{name}", purpose, space.with_input(name, made))
        return
    channels = base.shape[axis]
    if base.size <= channels:
        return
    for c in range(_bounded(space, f"constant channels of {name}", channels)):
        made = np.array(base)
        part = np.moveaxis(made, axis, 0)
        part[c] = part[c].reshape(-1)[0]
        told = _channel(space, name, c)
        yield Row(
            f"constant-{name}-{told}",
            f"input {name}: channel {told} the same all over",
            space.with_input(name, made),
        )


def _range_ends(space: Space, name: str) -> Iterator[Row]:
    ends = space.ends(name)
    if ends is None or not space.base[name].size:
        return
    for at, (word, what) in enumerate((("min", "minimum"), ("max", "maximum"))):
        bound = space.limits(name)[at]
        if len(ends) == 1:
            purpose = f"input {name}: {what} {ends[0][at]:.9g} of its range"
            yield Row(f"{word}-{name}", purpose, space.with_input(name, np.array(bound)))
            continue
        axis = space.axis(name) or 0
        for c in range(_bounded(space, f"{what} of channels of {name}", len(ends))):
            made = np.array(space.base[name])
            np.moveaxis(made, axis, 0)[c] = np.moveaxis(bound, axis, 0)[c]
            told = _channel(space, name, c)
            purpose = f"input {name}: {what} {ends[c][at]:.9g} of channel {told}"
            yield Row(f"{word}-{name}-{told}", purpose, space.with_input(name, made))


def dim_rows(space: Space) -> Iterator[Row]:
    """Samples with the smallest and largest size of each dim, in every combination if few."""
    bounds = space.plan.table.dims.bounds()
    names = dims_of(space.plan.table.inputs)
    if not names:
        return
    if 2 ** len(names) <= MOST_CORNERS:
        corners = [
            dict(zip(names, sizes, strict=True))
            for sizes in itertools.product(*(bounds[name] for name in names))
        ]
    else:
        corners = [{name: size} for name in names for size in bounds[name]]
        space.notes.append(
            f"dims: {2 ** len(names)} combinations of their extremes, so that each is varied alone"
        )
    told: set[str] = set()
    for corner in corners:
        text = ",".join(f"{name}={size}" for name, size in corner.items())
        sample = _resized(space, corner)
        if sample is None:
            space.notes.append(f"dims: no sample of {text}: more than {MOST_BYTES >> 20} MiB")
        elif text not in told:
            told.add(text)
            yield Row(f"dims-{text}", f"dims {text}", sample)


def reject_rows(space: Space) -> Iterator[Row]:
    """Samples that the contract must reject."""
    for name, table in space.plan.table.inputs.items():
        if name in space.inputs and space.base[name].size:
            yield from _nonfinite(space, name, table)
            yield from _outside(space, name)
    bounds = space.plan.table.dims.bounds()
    for dim in dims_of(space.plan.table.inputs):
        for size in (bounds[dim][0] - 1, bounds[dim][1] + 1):
            if size < 0:
                continue
            sample = _resized(space, {dim: size})
            if sample is None:
                space.notes.append(f"rejects: no sample of {dim}={size}: too large")
                continue
            purpose = f"must be rejected: {dim} is {size}"
            yield Row(f"reject-dims-{dim}={size}", purpose, sample, REJECT)


def _nonfinite(space: Space, name: str, table: InputTable) -> Iterator[Row]:
    if not is_float(space.inputs[name].dtype):
        return
    for word, value in (("nan", math.nan), ("inf", math.inf), ("-inf", -math.inf)):
        if word == "nan" and table.missing != REJECT:
            continue  # it is imputed
        made = np.array(space.base[name])
        with np.errstate(invalid="ignore", over="ignore"):
            made.reshape(-1)[-1] = np.asarray(value).astype(made.dtype)
        if np.isfinite(made.reshape(-1)[-1:].astype(np.float64)[0]):
            continue  # a dtype without infinities
        purpose = f"must be rejected: {word} in input {name}"
        yield Row(f"reject-{word}-{name}", purpose, space.with_input(name, made), REJECT)


def _outside(space: Space, name: str) -> Iterator[Row]:
    """One step beyond either end of every range."""
    ends = space.ends(name)
    if ends is None:
        return
    dtype, axis = space.inputs[name].dtype, space.axis(name) or 0
    held = []
    for c in range(_bounded(space, f"samples out of range of {name}", len(ends))):
        for at, word in enumerate(("below", "above")):
            beyond = _beyond(ends[c][at], dtype, up=at == 1)
            if beyond is None:
                held.append(word)
                continue
            made = np.array(space.base[name])
            part = made if len(ends) == 1 else np.moveaxis(made, axis, 0)[c]
            place = tuple(0 for _ in part.shape)
            told = "" if len(ends) == 1 else f"-{_channel(space, name, c)}"
            if len(ends) == 1:
                made[place] = beyond
            else:
                np.moveaxis(made, axis, 0)[(c, *place)] = beyond
            purpose = f"must be rejected: {beyond} in input {name}{told}, just {word} its range"
            yield Row(f"reject-{word}-{name}{told}", purpose, space.with_input(name, made), REJECT)
    if held:
        space.notes.append(
            f"rejects: {len(held)} ends of ranges of {name} are ends of {dtype}, beyond which "
            "there is no number"
        )


def _beyond(end: Number, dtype: str, *, up: bool) -> Any | None:
    """The next number of the dtype outside of a range; None where there is none."""
    kind = numpy_dtype(dtype)
    if is_float(dtype):
        here = np.asarray([end], np.float64).astype(kind)
        next_ = step(here, up=up)[0]
        return None if next_ == here[0] else next_
    low, high = (0, 1) if dtype == "bool" else limits_of(dtype)
    moved = int(end) + (1 if up else -1)
    return np.array(moved).astype(kind)[()] if low <= moved <= high else None


def _resized(space: Space, sizes: Mapping[str, int]) -> Sample | None:
    """The base with other sizes of its named dims, its values repeated; None: too large."""
    made: dict[str, Array] = {}
    for name, array in space.base.items():
        dims = sample_dims(space.table(name).shape or ())
        if not any(isinstance(dim, str) and dim in sizes for dim in dims):
            made[name] = array
            continue
        shape = [
            sizes.get(dim, have) if isinstance(dim, str) else have
            for dim, have in zip(dims, array.shape, strict=True)
        ]
        if math.prod(shape) * array.dtype.itemsize > MOST_BYTES:
            return None
        for axis, size in enumerate(shape):
            if array.shape[axis] == size:
                continue
            if not array.shape[axis]:
                array = np.zeros((*array.shape[:axis], 1, *array.shape[axis + 1 :]), array.dtype)
            array = np.take(array, np.arange(size) % array.shape[axis], axis)
        made[name] = np.ascontiguousarray(array)
    return made


def _is_within(space: Space, name: str, made: Array) -> bool:
    low, high = space.limits(name)
    return bool(np.all(np.greater_equal(made, low)) and np.all(np.less_equal(made, high)))


def _bounded(space: Space, what: str, count: int) -> int:
    if count > MOST_CHANNELS:
        space.notes.append(f"{what}: of the first {MOST_CHANNELS} of {count} channels")
    return min(count, MOST_CHANNELS)


def _channel(space: Space, name: str, c: int) -> str:
    names: Sequence[str] = space.table(name).channels or ()
    return names[c] if c < len(names) else str(c)


def _widest(dtype: str) -> tuple[Number, Number]:
    if dtype == "bool":
        return 0, 1
    if is_float(dtype):
        largest = float_format(dtype).largest
        return -largest, largest
    return limits_of(dtype)


def _array(values: Sequence[Number], dtype: str) -> Array:
    kind = np.float64 if is_float(dtype) else object
    wide: Any = np.array(values, kind)
    if dtype in ("int4", "uint4"):
        wide = wide.astype(np.int8)
    made: Array = wide.astype(numpy_dtype(dtype))
    return made
