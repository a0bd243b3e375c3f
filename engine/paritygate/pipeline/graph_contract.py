"""The plan's `[outputs]` against what runners declare to answer, before anything is run.

Inputs are held against pack and model when a runner is made ready; a run judges the answers
themselves, so that here is told in advance what it would find.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from paritygate.core.plan import Plan
from paritygate.core.problems import did_you_mean
from paritygate.core.shapes import sample_dims
from paritygate.core.tables import OutputTable
from paritygate.core.tensors import TensorSpec
from paritygate.runners.base import Runner


def output_differences(plan: Plan, name: str, runner: Runner) -> Iterator[str]:
    """Each difference between the plan's `[outputs]` and what a runner declares.

    Args:
        plan: whose outputs count, where a stage of the runner doesn't ignore them.
        name: of the runner in the plan.
        runner: one that says what it answers, or nothing is known.
    """
    for output, table in plan.table.outputs.items():
        spec = (runner.outputs or {}).get(output)
        stages = [s for s in plan.stages if name in (s.reference, s.candidate)]
        if spec is None or all(output in stage.ignore for stage in stages):
            continue
        yield from _dtype(plan, name, table, spec)
        yield from _dims(plan, table, spec)


def note_unanswered(plan: Plan, runners: Mapping[str, Runner]) -> Iterator[str]:
    """Outputs that the plan has a contract for and no runner answers."""
    declared = [runner.outputs for runner in runners.values()]
    if not declared or any(outputs is None for outputs in declared):
        return
    known = sorted({name for outputs in declared for name in outputs or ()})
    for output in plan.table.outputs:
        if output not in known:
            yield f"outputs.{output}: no runner answers it{did_you_mean(output, known)}"


def _dtype(plan: Plan, name: str, table: OutputTable, spec: TensorSpec) -> Iterator[str]:
    if table.dtype is None:
        return
    declared = {
        tolerance.candidate_dtype
        for stage in plan.stages
        if stage.candidate == name
        and (tolerance := stage.tolerance(spec.name, is_float=True)) is not None
    }
    if spec.dtype not in {table.dtype, *declared}:
        yield f"outputs.{spec.name}.dtype is {table.dtype}, it answers {spec.dtype}"


def _dims(plan: Plan, table: OutputTable, spec: TensorSpec) -> Iterator[str]:
    if table.shape is None or not spec.shape:
        return
    path, wanted, found = f"outputs.{spec.name}.shape", sample_dims(table.shape), spec.shape[1:]
    if len(wanted) != len(found):
        yield (
            f"{path} has {len(wanted)} dims a sample, it answers {len(found)}: {wanted} against "
            f"{_text(found)}"
        )
        return
    bounds = plan.table.dims.bounds()
    for axis, (want, have) in enumerate(zip(wanted, found, strict=True)):
        if not isinstance(have, int):
            continue
        low, high = bounds[want] if isinstance(want, str) else (want, want)
        if not low <= have <= high:
            told = want if isinstance(want, int) else f"{want!r}, from {low} to {high}"
            yield f"{path}: dim {axis} of a sample is {told}, it answers {have}"


def _text(dims: tuple[int | str | None, ...]) -> str:
    return f"[{', '.join('?' if dim is None else str(dim) for dim in dims)}]"
