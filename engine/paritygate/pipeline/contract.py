"""The input contract as far as it is checked per sample: range and missing values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from paritygate.core.dtypes import (
    INTEGERS,
    is_float,
    is_string,
    limits_of,
    widened,
    worked_in,
)
from paritygate.core.errors import PlanError, Problem
from paritygate.core.plan import Plan
from paritygate.core.shapes import BATCH, sample_axis, sample_dims
from paritygate.core.tables import InputTable
from paritygate.core.tensors import ColumnSpec

_CHANNEL = "channel"


@dataclass(frozen=True)
class InputContract:
    """What a sample's input must satisfy.

    Attributes:
        name: input.
        low, high: bounds, both inclusive, broadcast against one sample; None: unbounded. Of the
            input's own dtype where that is an integer, so that nothing is rounded; else float64.
        is_float: whether NaN and infinities can occur, which are rejected.
    """

    name: str
    low: npt.NDArray[Any] | None
    high: npt.NDArray[Any] | None
    is_float: bool

    def violations(self, array: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """`(n,)` whether a sample of `(n, *shape)` breaks the contract."""
        good = self._good(array).reshape(len(array), -1)
        bad: npt.NDArray[np.bool_] = np.logical_not(np.all(good, axis=1))
        return bad

    def _good(self, values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        array = widened(values)
        good: npt.NDArray[np.bool_] = np.ones(array.shape, np.bool_)
        if self.is_float:
            good &= np.isfinite(array)
        if self.low is not None and self.high is not None:
            good &= (array >= self.low) & (array <= self.high)
        return good

    def describe(self, sample: npt.NDArray[Any]) -> Violation | None:
        """The first element of one sample that breaks the contract; None if none does."""
        good = self._good(sample[None]).reshape(-1)
        if good.all():
            return None
        index = int(np.argmin(good))
        value = float(sample.reshape(-1)[index])
        low = _bounds(self.low, sample.shape, -math.inf)
        high = _bounds(self.high, sample.shape, math.inf)
        code = "contract.range" if math.isfinite(value) else "contract.missing"
        return Violation(code, self.name, index, value, float(low[index]), float(high[index]))


@dataclass(frozen=True)
class Violation:
    """Why a sample was rejected: code, input, flat index, value and the bounds there."""

    code: str
    input: str
    index: int
    value: float
    low: float
    high: float


def input_contracts(plan: Plan, inputs: Mapping[str, ColumnSpec]) -> list[InputContract]:
    """Contracts of the plan's `[inputs]`, checked against the pack's columns.

    Raises:
        PlanError: an input that the pack lacks, or another dtype, shape or number of channels.
    """
    problems, contracts = [], []
    for name, table in plan.table.inputs.items():
        path = f"inputs.{name}"
        column = inputs.get(name)
        if column is None:
            known = ", ".join(inputs) or "none"
            problems.append(Problem(path, f"the golden pack has no such input (it has: {known})"))
            continue
        found = _differences(path, table, column)
        problems += found
        if not found:
            contracts.append(_contract(name, table, column))
    if problems:
        raise PlanError(problems, plan.source)
    return contracts


def _differences(path: str, table: InputTable, column: ColumnSpec) -> list[Problem]:
    problems = []
    if table.dtype is not None and table.dtype != column.dtype:
        problems.append(
            Problem(f"{path}.dtype", f"is {table.dtype}, but the pack's column is {column.dtype}")
        )
    if table.range is not None and is_string(column.dtype):
        problems.append(Problem(f"{path}.range", "texts have no range; leave it out"))
    if table.shape is not None and not _may_be(sample_dims(table.shape), column):
        found = f"is {table.shape}, but the pack's is {_batched(table, column)}"
        problems.append(Problem(f"{path}.shape", found))
    return [*problems, *_channel_problems(path, table, column)]


def _channel_problems(path: str, table: InputTable, column: ColumnSpec) -> list[Problem]:
    """What is said once a channel must be said as often as there are channels."""
    axes = table.axes
    if axes is not None and len(axes) != len(_batched(table, column)):
        told = f"names {len(axes)} axes, but the pack's is {_batched(table, column)}"
        return [Problem(f"{path}.axes", told)]
    if axes is not None and (
        len(set(axes)) != len(axes) or (_CHANNEL in axes and _CHANNEL not in _own_axes(table))
    ):
        told = "names every axis once, the samples first"
        if table.shape is not None:
            told = "names every axis once, in the order of shape"
        return [Problem(f"{path}.axes", f"{told} (found {axes})")]
    counts = {
        "channels": (len(table.channels), "names") if table.channels is not None else None,
        "units": (len(table.units), "units") if isinstance(table.units, list) else None,
        "range": (len(_pairs(table)), "pairs") if _is_per_channel(table) else None,
    }
    said = {key: count for key, count in counts.items() if count is not None}
    if axes is not None and _CHANNEL not in axes:
        told = f"has no {_CHANNEL!r}, of which {' and '.join(said)} speak"
        return [Problem(f"{path}.axes", f"{told} (found {axes})")] if said else []
    axis = _channel_axis(table, column)
    size = 1 if axis is None else column.shape[axis]
    where = "last axis" if axes is None else f"axis {_CHANNEL!r}"
    return [
        Problem(f"{path}.{key}", f"has {count} {what} for {size} channels ({where})")
        for key, (count, what) in said.items()
        if count != size
    ]


def _may_be(dims: list[int | str], column: ColumnSpec) -> bool:
    """Whether the plan's dims are the pack's; what has a name is looked at sample by sample."""
    return len(dims) == len(column.shape) and all(
        isinstance(want, str) or want == have for want, have in zip(dims, column.shape, strict=True)
    )


def _batched(table: InputTable, column: ColumnSpec) -> list[int | str]:
    """The pack's shape as the plan would write it: with the samples where the plan has them."""
    dims: list[int | str] = ["?" if dim is None else dim for dim in column.shape]
    axis = sample_axis(table.shape) if table.shape is not None else 0
    if axis is not None:
        dims.insert(axis, BATCH)
    return dims


def _own_axes(table: InputTable) -> list[str]:
    """Names of the axes of one sample."""
    axes = list(table.axes or [])
    axis = sample_axis(table.shape) if table.shape is not None else 0
    return axes if axis is None else [*axes[:axis], *axes[axis + 1 :]]


def _channel_axis(table: InputTable, column: ColumnSpec) -> int | None:
    """The axis of one sample that the channels are on: the one of that name, or the last."""
    if table.axes is not None and _CHANNEL in table.axes:
        return _own_axes(table).index(_CHANNEL)
    return len(column.shape) - 1 if column.shape else None


def _is_per_channel(table: InputTable) -> bool:
    return bool(table.range) and isinstance((table.range or [0])[0], list)


def _pairs(table: InputTable) -> list[Any]:
    """The bounds of every channel, or the one pair that holds for all."""
    return list(table.range or []) if _is_per_channel(table) else [table.range]


def _contract(name: str, table: InputTable, column: ColumnSpec) -> InputContract:
    if table.range is None:
        return InputContract(name, None, None, is_float(column.dtype))
    pairs = [_within(low, high, column.dtype) for low, high in _pairs(table)]
    shape, axis = [1] * len(column.shape), _channel_axis(table, column)
    if axis is not None:
        shape[axis] = len(pairs)
    dtype = worked_in(column.dtype) if column.dtype in INTEGERS else np.dtype(np.float64)
    low, high = (np.array(bounds, dtype).reshape(shape) for bounds in zip(*pairs, strict=True))
    return InputContract(name, low, high, is_float(column.dtype))


def _within(low: float, high: float, dtype: str) -> tuple[float, float]:
    """The bounds as the dtype can hold them, so that the same integers lie between them."""
    if dtype not in INTEGERS:
        return low, high
    least, most = limits_of(dtype)
    first, last = max(math.ceil(low), least), min(math.floor(high), most)
    return (first, last) if first <= last else (most, least)


def _bounds(
    bound: npt.NDArray[Any] | None, shape: tuple[int, ...], without: float
) -> npt.NDArray[np.float64]:
    """A bound for every element of a sample, `without` where there is none."""
    every: npt.NDArray[np.float64] = np.full(shape, without)
    if bound is not None:
        every[...] = bound
    return every.reshape(-1)
