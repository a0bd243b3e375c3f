"""Where the plan's tensors have their samples, and which runners can answer so."""

from __future__ import annotations

from collections.abc import Mapping

from paritygate.core.errors import PlanError, Problem
from paritygate.core.plan import Plan
from paritygate.core.shapes import sample_axis, sample_dims
from paritygate.runners.base import Runner
from paritygate.runners.layout import Axis, Layout


def plan_layout(plan: Plan) -> Layout:
    """Sample axes of the inputs and outputs whose shape the plan gives, where they aren't first."""
    return Layout(
        _axes({name: t.shape for name, t in plan.table.inputs.items()}),
        _axes({name: t.shape for name, t in plan.table.outputs.items()}),
        {n: sample_dims(t.shape) for n, t in plan.table.outputs.items() if t.shape is not None},
    )


def check_layouts(plan: Plan, runners: Mapping[str, Runner]) -> None:
    """Refuse batches of several samples where a tensor has no sample axis.

    Raises:
        PlanError: every runner whose batch size isn't 1 though it should be.
    """
    problems = []
    for name, runner in runners.items():
        sizes = runner.limits.batch_sizes
        paths = runner.layout.without_samples()
        if paths and sizes != (1,):
            found = f"is {max(sizes)}" if sizes else "isn't said"
            told = f'{", ".join(paths)}: no "batch" in the shape, so that it belongs to one sample'
            problems.append(
                Problem(f"runners.{name}.batch_size", f"{found}, but must be 1 ({told})")
            )
    if problems:
        raise PlanError(problems, plan.source)


def _axes(shapes: Mapping[str, list[int | str] | None]) -> dict[str, Axis]:
    axes = {name: sample_axis(shape) for name, shape in shapes.items() if shape is not None}
    return {name: axis for name, axis in axes.items() if axis != 0}
