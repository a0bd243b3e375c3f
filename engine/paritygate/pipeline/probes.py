"""Probes against the contract, which must refuse each, and against every runner, by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from paritygate.core.dtypes import dtype_name
from paritygate.core.errors import PlanError, RunnerLoadError
from paritygate.core.probes import ProbeResult, Probes, Tried
from paritygate.core.tables import BatchDim
from paritygate.core.tensors import Array, ColumnSpec, TensorSpec
from paritygate.pipeline.contract import input_contracts
from paritygate.pipeline.prepare import Preparation, prepare_context
from paritygate.pipeline.probe_inputs import Probe, make_probes
from paritygate.pipeline.shape_contract import ShapeContract
from paritygate.pipeline.span import Prepared, read_block
from paritygate.runners.base import Runner
from paritygate.runners.isolate.settings import NEVER
from paritygate.runners.isolate.trial import Trial

_COMPUTE_NOTHING = (*NEVER, "null")


def run_probes(ready: Preparation, callables: Mapping[str, object]) -> Probes:
    """Try what the plan's `[probes]` asks for; nothing where it asks for none.

    Args:
        ready: what stands ready; the run itself is over.
        callables: runners that are function objects of this process, which no other can call.
    """
    prepared = ready.prepared
    table = prepared.plan.table.probes
    if table is None:
        return Probes()
    sample = _sample(ready)
    if sample is None:
        return Probes(True, left_out={"all": "no sample of the pack keeps the contract"})
    probes, left_out = make_probes(prepared.plan, sample, _size(prepared), _largest(prepared))
    said = [_ask_contract(prepared, probe) for probe in probes]
    tried: list[dict[str, Tried]] = [{} for _ in probes]
    for name, runner in prepared.runners.items():
        if runner.kind in _COMPUTE_NOTHING:
            continue
        if name in callables:
            left_out[f"runner {name}"] = "a function object of the process that called verify"
            continue
        try:
            trial = Trial(
                prepared.plan.runners[name],
                prepare_context(prepared.plan, prepared.pack),
                table.timeout_s,
            )
        except RunnerLoadError as e:
            left_out[f"runner {name}"] = f"it doesn't load in a process of its own: {e}"
            continue
        try:
            for found, probe in zip(tried, probes, strict=True):
                found[name] = trial.give(_taken(runner, probe), probe.size)
        finally:
            trial.close()
    results = zip(probes, said, tried, strict=True)
    return Probes(True, tuple(ProbeResult(p.name, p.what, s, t) for p, s, t in results), left_out)


def _sample(ready: Preparation) -> dict[str, Array] | None:
    """The inputs of the first sample that the contract admits, each `(1, *shape)`."""
    for block in ready.blocks:
        read = read_block(ready.prepared, block)
        if read.samples.count:
            row = read.samples.ordinals[:1]
            pack = ready.prepared.pack
            return {name: np.array(pack.take_input(name, row)) for name in pack.inputs}
    return None


def _size(prepared: Prepared) -> int:
    """A batch size that every runner takes: a model's own, else the smallest that is approved."""
    for runner in prepared.runners.values():
        if runner.limits.is_fixed and runner.limits.batch_sizes:
            return max(runner.limits.batch_sizes)
    dim = prepared.plan.table.dims.batch
    return 1 if dim is None else min(dim.sizes or [dim.min or 1])


def _largest(prepared: Prepared) -> int | None:
    """The largest batch that may be: what the plan approves, else what models fix."""
    dim = prepared.plan.table.dims.batch
    if dim is not None:
        return dim.largest
    fixed = [
        max(r.limits.batch_sizes or (0,)) for r in prepared.runners.values() if r.limits.is_fixed
    ]
    return max(fixed, default=None)


def _taken(runner: Runner, probe: Probe) -> dict[str, Array]:
    """What of a probe is meant for a runner: inputs of the pack that it doesn't take are not."""
    if runner.inputs is None:
        return dict(probe.inputs)
    names = {*runner.inputs, *(f"{name}_" for name in runner.inputs)}
    return {name: array for name, array in probe.inputs.items() if name in names}


def _ask_contract(prepared: Prepared, probe: Probe) -> Tried:
    """What keeps a probe from every runner, if anything does."""
    refusal = next(_refusals(prepared, probe), None)
    if refusal is None:
        return Tried("accepted", "neither the plan nor what the runners declare rules it out")
    return Tried("refused", refusal)


def _refusals(prepared: Prepared, probe: Probe) -> Iterator[str]:
    plan = prepared.plan
    for name, runner in prepared.runners.items():
        sizes = runner.limits.batch_sizes
        dim = plan.table.dims.batch or (BatchDim(sizes=list(sizes)) if sizes else None)
        if probe.size < 1 or (
            dim is not None and probe.name == "batch_over" and not dim.approves(probe.size)
        ):
            yield f"{name} is given no batch of {probe.size} samples"
    specs = {
        name: ColumnSpec(name, dtype_name(array.dtype), array.shape[1:])
        for name, array in probe.inputs.items()
    }
    try:
        input_contracts(plan, specs)
    except PlanError as e:
        yield "; ".join(str(problem) for problem in e.problems)
    else:
        shapes = {name: array.shape[1:] for name, array in probe.inputs.items()}
        found = ShapeContract.of(plan).violation(shapes)
        if found is not None:
            where = f"{found.input}, axis {found.index}"
            allowed = f"allowed {found.low:g} to {found.high:g}"
            yield f"{found.code}: {where} is {found.value:g}, {allowed}"
    for name, runner in prepared.runners.items():
        for input_, spec in (runner.inputs or {}).items():
            if input_ in prepared.pack.inputs and (told := _differs(spec, specs.get(input_))):
                yield f"{name} takes {spec}, which {told}"


def _differs(spec: TensorSpec, found: ColumnSpec | None) -> str:
    """Why an input isn't what a runner declares to take; empty where it is."""
    if found is None:
        return "isn't there"
    dims = spec.shape[1:]
    fits = len(dims) == len(found.shape) and all(
        want == have for want, have in zip(dims, found.shape, strict=True) if isinstance(want, int)
    )
    is_same = found.dtype == spec.dtype and (fits or not spec.shape)
    return "" if is_same else f"isn't {found.dtype}{list(found.shape)} a sample"
