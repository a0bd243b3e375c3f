"""The input contract as far as it is checked per sample: range and missing values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from paritygate.core.errors import PlanError, Problem
from paritygate.core.plan import InputTable, Plan
from paritygate.core.tensors import ColumnSpec, is_float


@dataclass(frozen=True)
class InputContract:
    """What a sample's input must satisfy.

    Attributes:
        name: input.
        low, high: bounds, both inclusive, broadcast against one sample; None: unbounded.
        is_float: whether NaN and infinities can occur, which are rejected.
    """

    name: str
    low: npt.NDArray[np.float64] | None
    high: npt.NDArray[np.float64] | None
    is_float: bool

    def violations(self, array: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """`(n,)` whether a sample of `(n, *shape)` breaks the contract."""
        good: npt.NDArray[np.bool_] = np.ones(array.shape, np.bool_)
        if self.is_float:
            good &= np.isfinite(array)
        if self.low is not None and self.high is not None:
            good &= (array >= self.low) & (array <= self.high)
        bad: npt.NDArray[np.bool_] = np.logical_not(np.all(good.reshape(len(array), -1), axis=1))
        return bad

    def describe(self, sample: npt.NDArray[Any]) -> Violation | None:
        """The first element of one sample that breaks the contract; None if none does."""
        if not self.violations(sample[None])[0]:
            return None
        values = sample.reshape(-1).astype(np.float64)
        good = np.isfinite(values)
        low = _bounds(self.low, sample.shape, -math.inf)
        high = _bounds(self.high, sample.shape, math.inf)
        index = int(np.argmin(good & (values >= low) & (values <= high)))
        code = "contract.range" if good[index] else "contract.missing"
        return Violation(
            code, self.name, index, float(values[index]), float(low[index]), float(high[index])
        )


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
    if table.shape is not None and table.shape[1:] != list(column.shape):
        shape = ["batch", *column.shape]
        problems.append(Problem(f"{path}.shape", f"is {table.shape}, but the pack's is {shape}"))
    pairs = table.range
    if pairs and isinstance(pairs[0], list):
        last = column.shape[-1] if column.shape else 1
        if len(pairs) != last:
            problems.append(
                Problem(f"{path}.range", f"has {len(pairs)} pairs for {last} channels (last axis)")
            )
    return problems


def _contract(name: str, table: InputTable, column: ColumnSpec) -> InputContract:
    low = high = None
    if table.range is not None:
        bounds = np.asarray(table.range, np.float64)
        low, high = bounds[..., 0], bounds[..., 1]
    return InputContract(name, low, high, is_float(column.dtype))


def _bounds(
    bound: npt.NDArray[np.float64] | None, shape: tuple[int, ...], without: float
) -> npt.NDArray[np.float64]:
    """A bound for every element of a sample, `without` where there is none."""
    every: npt.NDArray[np.float64] = np.full(shape, without)
    if bound is not None:
        every[...] = bound
    return every.reshape(-1)
