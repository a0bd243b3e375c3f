"""Everything that happens before the first batch: open, scan, load, bind."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from paritygate.comparison.place import open_place
from paritygate.comparison.stage import StageComparer
from paritygate.core.dtypes import is_float, is_string, numpy_dtype, rounded, widened
from paritygate.core.errors import PlanError, Problem, RunnerLoadError, gathering
from paritygate.core.plan import Plan, Stage
from paritygate.core.problems import did_you_mean
from paritygate.core.shapes import has_names
from paritygate.core.tensors import (
    Array,
    Block,
    BlockSizes,
    CompareOn,
    Stats,
    cut_blocks,
)
from paritygate.golden.overlap import OverlapCheck
from paritygate.golden.pack import GoldenPack, open_pack
from paritygate.pipeline.block_sizes import bytes_of, cut_recorded, enlarged, most_samples
from paritygate.pipeline.buckets import bucket_blocks
from paritygate.pipeline.calibration import open_calibration
from paritygate.pipeline.contract import check_outputs, input_contracts
from paritygate.pipeline.coverage import watched_inputs
from paritygate.pipeline.expect import EXPECT, expect_column
from paritygate.pipeline.host_outputs import fixed
from paritygate.pipeline.impute import imputations
from paritygate.pipeline.layouts import check_layouts, plan_layout
from paritygate.pipeline.names import check_names
from paritygate.pipeline.shape_contract import ShapeContract
from paritygate.pipeline.sharing import shares_batches
from paritygate.pipeline.span import Prepared
from paritygate.pipeline.staying import Placing, let_stay, place_of
from paritygate.pipeline.threads import usable_cores
from paritygate.runners.base import PrepareContext, Runner
from paritygate.runners.recorded import RecordedRunner
from paritygate.runners.recorded_evidence import synthetic_samples
from paritygate.runners.registry import prepare_all

DEFAULT_LABEL = "label"


class CallableRunner(Struct, frozen=True):
    """A function object, or a program of torch, as a runner.

    Attributes:
        function: takes a dict of read-only arrays, returns a dict of arrays.
        outputs: names of its outputs, where it returns a plain array.
        is_program: it is an `nn.Module` or an `ExportedProgram`, which takes tensors.
    """

    function: Callable[..., Any]
    outputs: tuple[str, ...] = ()
    is_program: bool = False


class Preparation(Struct, frozen=True):
    """What stands ready, and what doesn't.

    Attributes:
        prepared: for the spans.
        selected: the stages that were asked for, in plan order.
        blocks: the blocks to run.
        load_failures: runner name -> why a candidate didn't load.
        resources: closes pack and runners.
        calibration: the golden pack beside the calibration pack, where the plan names one.
        placing: where outputs are compared.
    """

    prepared: Prepared
    selected: tuple[Stage, ...]
    blocks: Sequence[Block]
    load_failures: Mapping[str, RunnerLoadError] = field(default_factory=dict)
    resources: ExitStack = field(default_factory=ExitStack)
    calibration: OverlapCheck | None = None
    placing: Placing = field(default_factory=Placing)

    def runs(self, stage: Stage) -> bool:
        """Whether both sides of a stage loaded."""
        return not {stage.reference, stage.candidate} & set(self.load_failures)


def select_stages(plan: Plan, name: str | None) -> tuple[Stage, ...]:
    """The stages to run: all, or the one named.

    Raises:
        PlanError: no stage has this name.
    """
    if name is None:
        return plan.stages
    chosen = tuple(s for s in plan.stages if s.name == name)
    if not chosen:
        known = ", ".join(s.name for s in plan.stages)
        raise PlanError(
            [Problem("--stage", f"no stage is named {name!r}; known: {known}")], plan.source
        )
    return chosen


def prepare_plan(
    plan: Plan,
    *,
    stage: str | None = None,
    limit: int | None = None,
    stats: Stats = "full",
    cuts: Sequence[int] = (),
    callables: Mapping[str, CallableRunner] | None = None,
    rows: frozenset[int] | None = None,
    alone: str | None = None,
    compare_on: CompareOn = "cpu",
    threads: int | None = None,
) -> Preparation:
    """Open the pack, scan its ids, load every runner and bind every stage.

    Args:
        plan: a validated plan.
        stage: only this stage.
        limit: only the first samples of the pack.
        stats: tier of the statistics, "gate" or "full".
        cuts: samples of each block, one batch each; empty: blocks by the samples' size.
        callables: runner name -> function object that stands in for the plan's runner.
        rows: judge only these, in the blocks and batches that they are in; None: all.
        alone: make this runner ready and no other, for no stage.
        compare_on: where outputs are compared.
        threads: that will compare; None: as the plan says, or by cores.

    Raises:
        PlanError: the plan contradicts the pack or a model, or the limit is negative.
        GoldenError: the pack can't be used.
        RunnerLoadError: a reference that doesn't load, or this machine or plan is at fault.
        DeviceError: there is no GPU to compare on, or it fails.
    """
    if compare_on == "cuda":
        open_place(compare_on)  # nothing is read or loaded without one
    selected = select_stages(plan, stage) if alone is None else (_alone(plan, alone),)
    if limit is not None and limit < 0:
        raise PlanError([Problem("--limit", f"is {limit}; it must be 0 or more")], plan.source)
    with ExitStack() as stack:
        pack = open_golden(plan)
        stack.callback(pack.close)
        plan = _with_labels(plan, pack)
        calibration = open_calibration(plan)
        if calibration is not None:
            stack.callback(calibration.close)
        contracts = input_contracts(plan, pack.inputs)
        check_outputs(plan, pack.outputs)
        imputing = imputations(plan, pack.inputs)
        runners, failures = _load(plan, pack, selected, stack, callables or {})
        running = [s for s in selected if not {s.reference, s.candidate} & set(failures)]
        needed = {n for s in running for n in (s.reference, s.candidate)}
        active = {name: r for name, r in runners.items() if name in needed}
        if alone is None:
            _check_constants(plan, active)
        check_layouts(plan, active)
        samples = pack.samples if limit is None else min(limit, pack.samples)
        watched = watched_inputs(plan, pack.inputs)
        reads_inputs = bool(watched or imputing or not all(c.asks_nothing for c in contracts))
        blocks = _cut(cuts) if cuts else _blocks(plan, pack, active, samples, reads_inputs)
        size = max((block.samples for block in blocks), default=1)
        asked = threads or plan.table.threads or usable_cores()
        placing = place_of(compare_on, running, active, samples, stats, asked)
        place = placing.place
        if place is not None:
            stack.callback(place.close)
        comparers = [StageComparer(plan, s, stats, place) for s in running if alone is None]
        check_names(plan, running, active)
        problems: dict[Problem, None] = {}
        for comparer in comparers:
            _bind(comparer, active, problems)
        if problems:
            raise PlanError(list(problems), plan.source)
        let_stay(comparers, active)
        prepared = Prepared(
            plan=plan,
            pack=pack,
            runners=active,
            stages=comparers,
            samples=samples if rows is None else len(rows),
            block_samples=size,
            contracts=contracts,
            shapes=ShapeContract.of(plan),
            watched=watched,
            expect=expect_column(plan, pack),
            imputations=imputing,
            synthetic=synthetic_samples(pack, active.values()),
            label_columns=_label_columns(plan),
            only=rows,
        )
        if rows is not None:
            blocks = [b for b in blocks if not rows.isdisjoint(b.ordinals().tolist())]
        return Preparation(
            prepared,
            selected,
            blocks,
            failures,
            stack.pop_all(),
            calibration,
            placing,
        )
    raise AssertionError("unreachable")


def _alone(plan: Plan, runner: str) -> Stage:
    """A stage of which no comparison is made, both sides of which are this runner."""
    if runner not in plan.runners:
        problem = Problem(
            "RUNNER", f"no runner is named {runner!r}{did_you_mean(runner, plan.runners)}"
        )
        raise PlanError([problem], plan.source)
    return Stage(runner, runner, runner, {}, None, (), {}, is_self=True)


def _cut(cuts: Sequence[int]) -> list[Block]:
    stops = list(itertools.accumulate(cuts))
    starts = [0, *stops[:-1]]
    return [Block(0, i, *ends) for i, ends in enumerate(zip(starts, stops, strict=True))]


def open_golden(plan: Plan) -> GoldenPack:
    """Open the plan's golden pack and scan its ids and slices.

    Raises:
        GoldenError: the pack can't be used.
    """
    is_every_column = plan.table.outputs_from == "all"
    wanted = {name: t.column for name, t in plan.table.inputs.items() if t.column is not None}
    pack = open_pack(
        plan.golden,
        plan.folder,
        id_column=plan.table.id,
        label_column=_label_column(plan),
        extra_labels=_named_labels(plan),
        slices=list(plan.slices) + ([plan.table.expect] if plan.table.expect else []),
        slice_if_there=None if plan.table.expect or is_every_column else EXPECT,
        inputs=wanted,
        outputs_from=plan.table.outputs_from,
        varying=[name for name, table in plan.table.inputs.items() if has_names(table.shape)],
    )
    try:
        pack.scan_ids()
    except BaseException:
        pack.close()
        raise
    return pack


def prepare_context(plan: Plan, pack: GoldenPack) -> PrepareContext:
    """What the plan's runners are prepared against.

    Raises:
        PlanError: a constant that isn't of its dtype.
    """
    return PrepareContext(
        folder=plan.folder,
        pack=pack,
        inputs=pack.inputs,
        constants=constants(plan),
        id_column=plan.table.id,
        named_columns=(*_named_labels(plan), *plan.slices),
        layout=plan_layout(plan),
    )


def constants(plan: Plan) -> dict[str, Array]:
    """The plan's constants as arrays.

    Raises:
        PlanError: a value that isn't of its dtype.
    """
    arrays, problems = {}, []
    for name, table in plan.table.constants.items():
        try:
            arrays[name] = _constant(table.value, table.dtype)
        except (ValueError, TypeError, OverflowError) as e:
            path = f"constants.{name}.value"
            problems.append(Problem(path, f"isn't {table.dtype}: {e} (found {table.value!r})"))
    if problems:
        raise PlanError(problems, plan.source)
    return arrays


def _constant(value: object, dtype: str) -> Array:
    array = _text(value) if is_string(dtype) else _numbers(value, dtype)
    array.flags.writeable = False
    return array


def _text(value: object) -> Array:
    given = np.asarray(value, object)
    if not all(isinstance(item, str) for item in given.reshape(-1).tolist()):
        raise ValueError("write a text, or a list of them")
    return given


def _numbers(value: object, dtype: str) -> Array:
    given = np.asarray(value)
    if given.dtype.kind not in "bif":
        raise ValueError("write a number, a bool, or a list of them")
    if is_float(dtype):
        nearest = rounded(given, dtype)
        fits = np.isnan(given) | np.isfinite(nearest) | (nearest == given)
        array: Array = nearest.astype(numpy_dtype(dtype))
    else:
        array = given.astype(numpy_dtype(dtype))
        fits = widened(array) == given
    if not np.all(fits):
        raise ValueError("the value doesn't fit")
    return array


def _with_labels(plan: Plan, pack: GoldenPack) -> Plan:
    """Let decisions without a label column use the pack's default one, where there is one."""
    wanted = _label_column(plan)
    default = wanted if wanted in pack.labels_of else None
    rules = tuple(replace(d, label_column=d.label_column or default) for d in plan.decisions)
    return replace(plan, decisions=rules)


def _label_column(plan: Plan) -> str | None:
    """The label column that the plan names; else the default one, where a decision would use it."""
    if plan.table.label is not None:
        return plan.table.label
    return DEFAULT_LABEL if any(d.label_column is None for d in plan.decisions) else None


def _named_labels(plan: Plan) -> tuple[str, ...]:
    """Label columns that the plan names itself; these must be there."""
    named = [plan.table.label, *(d.label_column for d in plan.table.decisions.values())]
    return tuple(dict.fromkeys(name for name in named if name is not None))


def _label_columns(plan: Plan) -> list[str]:
    return list(dict.fromkeys(d.label_column for d in plan.decisions if d.label_column))


def _load(
    plan: Plan,
    pack: GoldenPack,
    selected: Sequence[Stage],
    stack: ExitStack,
    callables: Mapping[str, CallableRunner],
) -> tuple[dict[str, Runner], dict[str, RunnerLoadError]]:
    """Prepare each distinct runner once; a candidate that doesn't load is told, not raised."""
    context = prepare_context(plan, pack)
    candidates = {s.candidate for s in selected}
    names = dict.fromkeys(n for s in selected for n in (s.reference, s.candidate))
    specs = [plan.runners[n] for n in names if n not in callables]
    runners, failed = prepare_all(specs, context)
    for name in names:
        if name in callables:
            try:
                runners[name] = _callable_runner(name, callables[name], plan, context)
            except RunnerLoadError as e:
                failed.append(e)
    for runner in runners.values():
        stack.callback(runner.close)
    raise_together([e for e in failed if e.is_plan_fault or e.runner not in candidates])
    return runners, {error.runner: error for error in failed}


def raise_together(errors: Sequence[RunnerLoadError]) -> None:
    """Raise what keeps a plan from being judged: of several runners all at once.

    Raises:
        RunnerLoadError: the first one, with what is to be said of the others too.
    """
    if len(errors) == 1:
        raise errors[0]
    if errors:
        told = "\n".join(str(error) for error in errors)
        fault = any(error.is_plan_fault for error in errors)
        raise RunnerLoadError(errors[0].runner, told, is_plan_fault=fault, code=errors[0].code)


def _check_constants(plan: Plan, runners: Mapping[str, Runner]) -> None:
    """Refuse a constant that no runner takes; a runner that doesn't say may take any."""
    takes = [r.constant_names for r in runners.values()]
    if not takes or any(names is None for names in takes):
        return
    taken = {name for names in takes if names is not None for name in names}
    problems = [
        Problem(f"constants.{name}", "no runner takes an input of this name")
        for name in plan.table.constants
        if name not in taken
    ]
    if problems:
        raise PlanError(problems, plan.source)


def _callable_runner(
    name: str, given: CallableRunner, plan: Plan, context: PrepareContext
) -> Runner:
    dim = plan.table.dims.batch
    if given.is_program:
        from paritygate.runners.torch import runner_of_object

        size = dim.largest if dim is not None else None
        return runner_of_object(name, given.function, given.outputs, size, context)
    from paritygate.runners.python import PythonRunner

    return PythonRunner.from_callable(
        name,
        given.function,
        outputs=given.outputs,
        batch_size=dim.largest if dim is not None else None,
        constants=context.constants,
        layout=context.layout,
    )


def _blocks(
    plan: Plan,
    pack: GoldenPack,
    runners: Mapping[str, Runner],
    samples: int,
    reads_inputs: bool,
) -> list[Block]:
    """Blocks of the first samples, each of one shape of all inputs."""
    sizes = sorted({max(r.limits.batch_sizes) for r in runners.values() if r.limits.batch_sizes})
    varying = [name for name, column in pack.inputs.items() if not column.is_fixed]
    fixed = [column for name, column in pack.inputs.items() if name not in varying]
    others = sum(column.sample_bytes for column in [*fixed, *pack.outputs.values()])
    recorded = [runner for runner in runners.values() if isinstance(runner, RecordedRunner)]
    if not varying and len(recorded) == len(runners):
        packs = list(dict.fromkeys(runner.recording for runner in recorded))
        most = max((bytes_of(one.outputs) for one in packs), default=0)
        if reads_inputs:
            packs, most = [pack, *packs], max(most, others)
        is_plain = not (plan.decisions or plan.slices) and all(r.answers_runs for r in recorded)
        return cut_recorded(packs, samples, most, only_numbers=is_plain)
    if not varying:
        blocks = BlockSizes.of(others, sizes, most_samples(runners))
        live = [runner for runner in runners.values() if not isinstance(runner, RecordedRunner)]
        if live and all(map(shares_batches, live)):
            return cut_blocks(samples, enlarged(blocks, others, sizes, live).even(samples))
        return cut_blocks(samples, blocks.of_batches() if sizes else blocks)
    return bucket_blocks(
        pack, varying, samples, lambda bytes_: BlockSizes.of(others + bytes_, sizes).least
    )


def _bind(
    comparer: StageComparer, runners: Mapping[str, Runner], problems: dict[Problem, None]
) -> None:
    """Bind what both sides declare with fixed shapes; the rest is bound at the first block."""
    stage = comparer.stage
    ref = runners[stage.reference].outputs
    cand = runners[stage.candidate].outputs
    if ref is None or cand is None:
        return
    for output in ref:
        if output in cand and output not in stage.ignore:
            sides = fixed(ref[output]), fixed(cand[output])
            if sides[0] is not None and sides[1] is not None:
                with gathering(problems):
                    comparer.bind(output, sides[0], sides[1])
