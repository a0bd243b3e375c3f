"""Dims that models leave open, and what the plan allows of each: no sample beyond it is run."""

from __future__ import annotations

from typing import Any

from paritygate.core.plan import Plan
from paritygate.core.shapes import BATCH, sample_dims
from paritygate.core.tensors import ColumnSpec
from paritygate.pipeline.prepare import Preparation
from paritygate.runners.base import Runner


def describe_dims(ready: Preparation) -> dict[str, list[dict[str, Any]]]:
    """Of each runner that says what it takes: input, dim, its name in the model, what is allowed.

    A dim is "batch", or its place in one sample.
    """
    prepared = ready.prepared
    found = {}
    for name, runner in prepared.runners.items():
        columns = prepared.pack.inputs
        given = {n: s for n, s in (runner.inputs or {}).items() if n in columns}
        dims = [
            {
                "input": input_,
                "dim": BATCH if axis == 0 else axis - 1,
                "name": dim,
                "allowed": _of_batch(prepared.plan, runner)
                if axis == 0
                else _of_sample(prepared.plan, input_, axis - 1, columns[input_]),
            }
            for input_, spec in given.items()
            for axis, dim in enumerate(spec.shape)
            if not isinstance(dim, int)
        ]
        if dims:
            found[name] = dims
    return found


def _of_batch(plan: Plan, runner: Runner) -> dict[str, Any]:
    approved = plan.table.dims.batch
    if approved is not None:
        sizes = approved.model_dump(include={"sizes", "min", "max"}, exclude_none=True)
        return dict(sizes)
    own = runner.limits.batch_sizes
    return {"sizes": list(own)} if own else {}


def _of_sample(plan: Plan, input_: str, at: int, column: ColumnSpec) -> dict[str, Any]:
    """Of a dim that the plan doesn't name, the size that all samples of the pack have."""
    table = plan.table.inputs.get(input_)
    dims = sample_dims(table.shape) if table is not None and table.shape is not None else []
    dim = dims[at] if at < len(dims) else column.shape[at] if at < len(column.shape) else None
    if dim is None:
        return {}
    low, high = plan.table.dims.bounds()[dim] if isinstance(dim, str) else (dim, dim)
    return {"min": low, "max": high}
