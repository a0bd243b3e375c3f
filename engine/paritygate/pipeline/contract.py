"""The input contracts of a plan, held against the columns of a golden pack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paritygate.core.dtypes import is_string
from paritygate.core.errors import PlanError, Problem
from paritygate.core.plan import Plan
from paritygate.core.shapes import BATCH, sample_axis, sample_dims
from paritygate.core.tables import InputTable
from paritygate.core.tensors import ColumnSpec
from paritygate.golden.meaning import CHANNEL
from paritygate.pipeline.input_contract import Bound, InputContract, bounds_of
from paritygate.pipeline.meaning import Table, channel_axis, meaning_problems, own_axes


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
            contracts.append(make_contract(name, table, column))
    if problems:
        raise PlanError(problems, plan.source)
    return contracts


def check_outputs(plan: Plan, outputs: Mapping[str, ColumnSpec]) -> None:
    """Hold the plan's `[outputs]` against the outputs that a pack has recorded.

    Raises:
        PlanError: other axes, channels or units, or another number of them.
    """
    problems = []
    for name, table in plan.table.outputs.items():
        if name in outputs:
            path, column = f"outputs.{name}", outputs[name]
            problems += _channel_problems(path, table, column)
            problems += meaning_problems(path, table, column)
    if problems:
        raise PlanError(problems, plan.source)


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
    return [
        *problems,
        *_channel_problems(path, table, column),
        *meaning_problems(path, table, column),
    ]


def _channel_problems(path: str, table: Table, column: ColumnSpec) -> list[Problem]:
    """What is said once a channel must be said as often as there are channels."""
    axes = table.axes
    if axes is not None and len(axes) != len(_batched(table, column)):
        told = f"names {len(axes)} axes, but the pack's is {_batched(table, column)}"
        return [Problem(f"{path}.axes", told)]
    if axes is not None and (
        len(set(axes)) != len(axes) or (CHANNEL in axes and CHANNEL not in own_axes(table))
    ):
        told = "names every axis once, the samples first"
        if table.shape is not None:
            told = "names every axis once, in the order of shape"
        return [Problem(f"{path}.axes", f"{told} (found {axes})")]
    counts = {
        "channels": (len(table.channels), "names") if table.channels is not None else None,
        "units": (len(table.units), "units") if isinstance(table.units, list) else None,
        "range": (
            (len(_pairs(table)), "pairs")
            if isinstance(table, InputTable) and _is_per_channel(table)
            else None
        ),
    }
    said = {key: count for key, count in counts.items() if count is not None}
    if axes is not None and CHANNEL not in axes:
        told = f"has no {CHANNEL!r}, of which {' and '.join(said)} speak"
        return [Problem(f"{path}.axes", f"{told} (found {axes})")] if said else []
    axis = channel_axis(table, column)
    size = 1 if axis is None else column.shape[axis]
    where = "last axis" if axes is None else f"axis {CHANNEL!r}"
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


def _batched(table: Table, column: ColumnSpec) -> list[int | str]:
    """The pack's shape as the plan would write it: with the samples where the plan has them."""
    dims: list[int | str] = ["?" if dim is None else dim for dim in column.shape]
    axis = sample_axis(table.shape) if table.shape is not None else 0
    if axis is not None:
        dims.insert(axis, BATCH)
    return dims


def _is_per_channel(table: InputTable) -> bool:
    return bool(table.range) and isinstance((table.range or [0])[0], list)


def _pairs(table: InputTable) -> list[Any]:
    """The bounds of every channel, or the one pair that holds for all."""
    return list(table.range or []) if _is_per_channel(table) else [table.range]


def make_contract(name: str, table: InputTable, column: ColumnSpec) -> InputContract:
    """The contract of an input, where its table agrees with the pack's column."""
    pairs: list[tuple[Bound, Bound]] = []
    if table.range is not None:
        pairs = [(low, high) for low, high in _pairs(table)]
    low, high = bounds_of(pairs, column.dtype)
    units = [table.units] if isinstance(table.units, str) else table.units or []
    return InputContract(
        name=name,
        dtype=column.dtype,
        pairs=tuple(pairs),
        low=low,
        high=high,
        axis=channel_axis(table, column),
        channels=tuple(table.channels or ()),
        units=tuple(units),
    )
