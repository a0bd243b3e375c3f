"""Missing values of inputs: NaN replaced as the plan says, before any runner sees a sample.

A function is given one sample at a time, so that what it answers depends on no other sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from paritygate.core.dtypes import dtype_name, is_float, numpy_dtype, rounded, widened
from paritygate.core.errors import ImputeError, PlanError, Problem, RunnerLoadError
from paritygate.core.plan import Plan
from paritygate.core.tables import ImputeTable, InputTable
from paritygate.core.tensors import Array, ColumnSpec
from paritygate.golden.pack import GoldenPack
from paritygate.pipeline.meaning import channel_axis
from paritygate.runners.python_identity import digest_of_module
from paritygate.runners.python_import import ONE_AT_A_TIME, find_function, is_interrupt, tell_error

Counts = npt.NDArray[np.int64]
Call = Any


class Imputation(Struct, frozen=True):
    """What the NaN of an input are replaced by.

    Attributes:
        name: input.
        table: as the plan has it.
        fill: given one sample with NaN, `(*shape)`, and where they are; gives it without.
    """

    name: str
    table: ImputeTable
    fill: Call

    def apply(self, array: Array) -> tuple[Array, Counts]:
        """`(n, *shape)` with its NaN replaced, and how many were in each sample.

        Raises:
            ImputeError: the function raised, or changed anything else.
        """
        missing = np.isnan(widened(array))
        counts: Counts = np.sum(missing.reshape(len(array), -1), axis=1, dtype=np.int64)
        if not counts.any():
            return array, counts
        filled = np.array(array, order="C", copy=True)
        for row in np.flatnonzero(counts).tolist():
            filled[row, ...] = self.fill(array[row, ...], missing[row, ...])
        return filled, counts


class Imputed(Struct, frozen=True):
    """What was replaced in an input: samples, and elements of them."""

    samples: int = 0
    elements: int = 0

    @staticmethod
    def of(counts: Counts) -> Imputed:
        """Of samples with so many each."""
        return Imputed(int(np.count_nonzero(counts)), int(counts.sum()))

    def merge(self, other: Imputed) -> Imputed:
        """Both together."""
        return Imputed(self.samples + other.samples, self.elements + other.elements)


def imputations(plan: Plan, inputs: Mapping[str, ColumnSpec]) -> list[Imputation]:
    """The imputations of the plan's inputs, which the pack is known to have.

    Raises:
        PlanError: a dtype without NaN, a value that doesn't fit, no such function, or another
            digest than the plan's.
    """
    found, problems = [], []
    for name, table in plan.table.inputs.items():
        if not isinstance(table.missing, ImputeTable):
            continue
        path, column = f"inputs.{name}.missing", inputs[name]
        try:
            if not is_float(column.dtype):
                raise _Unusable("", f"{column.dtype} has no NaN, so nothing can be missing")
            fill = _fill(path, plan, table, table.missing, column)
        except _Unusable as e:
            problems.append(Problem(f"{path}{e.key}", str(e)))
            continue
        found.append(Imputation(name, table.missing, fill))
    if problems:
        raise PlanError(problems, plan.source)
    return found


def impute_inputs(
    some: Sequence[Imputation], pack: GoldenPack, ordinals: Counts, inputs: Mapping[str, Array]
) -> tuple[dict[str, Array], dict[str, Counts]]:
    """Inputs without NaN where the plan says how, and how many were in each sample.

    Args:
        some: the imputations.
        pack: read for inputs that haven't been.
        ordinals: `(n,)` samples of one shape.
        inputs: name -> `(n, *shape)`, as far as they have been read.

    Raises:
        ImputeError: a function raised, or changed anything else.
    """
    filled, counts = dict(inputs), {}
    for one in some:
        array = filled.get(one.name)
        if array is None:
            array = pack.take_input(one.name, ordinals)
        filled[one.name], counts[one.name] = one.apply(array)
    return filled, counts


def describe_imputed(
    some: Sequence[Imputation], found: Mapping[str, Imputed]
) -> dict[str, dict[str, Any]]:
    """What was replaced, by input, for the summary."""
    return {
        one.name: {
            **{k: v for k, v in one.table.model_dump().items() if v is not None},
            "samples": found.get(one.name, Imputed()).samples,
            "elements": found.get(one.name, Imputed()).elements,
        }
        for one in some
    }


def note_imputed(some: Sequence[Imputation], found: Mapping[str, Imputed]) -> list[str]:
    """Sentences on what was replaced, which nobody compared."""
    told = []
    for one in some:
        count = found.get(one.name, Imputed())
        by = one.table.impute
        if one.table.digest is not None:
            by += f" ({one.table.digest[:19]})"
        told.append(
            f"inputs: {count.elements} NaN in {count.samples} samples of {one.name} were imputed "
            f"by {by}, approved by {one.table.approved_by}; both sides were given the same"
        )
    return told


class _Unusable(Exception):  # noqa: N818 - becomes a problem of the plan
    def __init__(self, key: str, told: str) -> None:
        super().__init__(told)
        self.key = key


def _fill(
    path: str, plan: Plan, input_: InputTable, table: ImputeTable, column: ColumnSpec
) -> Call:
    if table.impute == "constant":
        return _constant(input_, table, column)
    try:
        found = find_function("missing", f"{path}.impute", table.impute, plan.folder)
    except RunnerLoadError as e:
        raise _Unusable(".impute", str(e).removeprefix(f"{path}.impute: ")) from None
    digest = digest_of_module(found.module)
    if digest is None:
        raise _Unusable(".impute", "its module has no file that could be digested")
    if f"sha256:{digest}" != table.digest:
        raise _Unusable(
            ".digest",
            f"is {table.digest}, but {found.module.__file__} is sha256:{digest}; who approves the "
            "code approves what it is now, or restore it",
        )
    return partial(_called, path, table.impute, found.function)


def _constant(input_: InputTable, table: ImputeTable, column: ColumnSpec) -> Call:
    given = table.value if isinstance(table.value, list) else [table.value]
    values = rounded(np.array(given, np.float64), column.dtype)
    if not np.isfinite(values).all():
        raise _Unusable(".value", f"doesn't fit {column.dtype} (found {table.value})")
    kind = numpy_dtype(column.dtype)
    axis = channel_axis(input_, column)
    if not isinstance(table.value, list) or (axis is None and len(values) == 1):
        return partial(_put, values.astype(kind)[0])
    channels = column.shape[axis] if axis is not None else 1
    if channels != len(values) or axis is None:
        count = f"{len(values)} number{'' if len(values) == 1 else 's'}"
        told = f"has {count} for {'?' if channels is None else channels} channels"
        raise _Unusable(".value", f"{told}; give one each, or one for all without brackets")
    shape = [1] * len(column.shape)
    shape[axis] = len(values)
    return partial(_put, values.astype(kind).reshape(shape))


def _put(value: Any, sample: Array, missing: npt.NDArray[np.bool_]) -> Array:
    filled: Array = np.where(missing, value, sample)
    return filled


def _called(
    path: str, name: str, function: Call, sample: Array, missing: npt.NDArray[np.bool_]
) -> Array:
    given = np.array(sample, order="C", copy=True)
    given.flags.writeable = False
    try:
        with ONE_AT_A_TIME:
            answer = np.asarray(function(given))
    except BaseException as e:  # whatever a user's function raises
        if is_interrupt(e):
            raise
        raise ImputeError(f"{path}: {name}: {tell_error(e)}") from None
    if (answer.dtype, answer.shape) != (sample.dtype, sample.shape):
        raise ImputeError(
            f"{path}: {name} answered {dtype_name(answer.dtype)}{list(answer.shape)} for "
            f"{dtype_name(sample.dtype)}{list(sample.shape)}; give one sample of the same dtype "
            "and shape"
        )
    kept: Any = np.where(missing, sample, answer)
    if kept.tobytes() != sample.tobytes():
        raise ImputeError(f"{path}: {name} changed values that are not missing; replace NaN alone")
    return answer
