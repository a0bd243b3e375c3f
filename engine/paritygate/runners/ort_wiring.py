"""Match a model's inputs and outputs with the pack, the constants and the plan's names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from paritygate.core.dtypes import DTYPES, STRING, dtype_name
from paritygate.core.errors import RunnerLoadError
from paritygate.core.problems import did_you_mean
from paritygate.core.tensors import Array, ColumnSpec, TensorSpec
from paritygate.runners.base import PrepareContext
from paritygate.runners.layout import Axis, Layout, first_sample_axis
from paritygate.runners.ort_border import OutputForm, form_of
from paritygate.runners.ort_types import BRIDGED


class _Mapped(Protocol):
    """What the plan says of a model: its file, its batch, and names where they differ."""

    @property
    def model(self) -> str: ...
    @property
    def batch_size(self) -> int | None: ...
    @property
    def inputs(self) -> Mapping[str, str]: ...
    @property
    def outputs(self) -> Mapping[str, str]: ...


class _Loaded(Protocol):
    """A loaded model: a session that says what it takes and gives, as ONNX Runtime's does."""

    @property
    def session(self) -> Any: ...


class Wiring(Struct, frozen=True):
    """Which of our tensors is which of the model's.

    Attributes:
        inputs: our name -> what the model takes.
        outputs: our name -> what the model declares to answer.
        feeds: (ours, theirs) of each input that comes with a batch.
        fixed: theirs -> constant.
        fetches: (ours, theirs) of each output.
        fixed_batch: batch size that the model fixes; None: any.
        unproven: our names of outputs whose sample axis isn't declared to be the batch.
        layout: where the model's tensors have their samples; the specs have them first.
        forms: our name -> what the output is; one that is no tensor becomes one or several.
        is_bound: whether buffers can be bound: tensors alone come out, and no texts go in.
    """

    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]
    feeds: tuple[tuple[str, str], ...]
    fixed: Mapping[str, Array]
    fetches: tuple[tuple[str, str], ...]
    fixed_batch: int | None
    unproven: tuple[str, ...] = ()
    layout: Layout = field(default_factory=Layout)
    forms: Mapping[str, OutputForm] = field(default_factory=dict)
    is_bound: bool = True

    @property
    def declared(self) -> Mapping[str, TensorSpec] | None:
        """The outputs; None where names or columns are known from the first batch only."""
        is_known = all(form.form == "tensor" for form in self.forms.values())
        return self.outputs if is_known else None


def wire_model(runner: str, options: _Mapped, loaded: _Loaded, context: PrepareContext) -> Wiring:
    """Match a loaded model with what it will be fed.

    Raises:
        RunnerLoadError: every difference at once, as a fault of the plan; or an output of a type
            that can't be judged.
    """
    differences: list[str] = []
    takes = _renamed("inputs", loaded.session.get_inputs(), options.inputs, differences)
    gives = _renamed("outputs", loaded.session.get_outputs(), options.outputs, differences)
    items = [name for name in context.layout.outputs if name.rpartition(".")[0] in gives]
    layout = context.layout.only(takes, {**gives, **dict.fromkeys(items)})
    inputs, fixed, batches = _match_inputs(takes, context, layout, differences)
    fixed_batch = _fixed_batch(batches, options.batch_size, differences)
    outputs = {
        ours: _samples_first(_spec(ours, node), "outputs", layout.outputs, differences)
        for ours, node in gives.items()
    }
    fed = [spec for ours, spec in inputs.items() if ours in context.inputs]
    axis = _SampleAxis.of(fed, fixed_batch or options.batch_size, is_fixed=fixed_batch is not None)
    batched = [spec for ours, spec in outputs.items() if layout.outputs.get(ours, 0) is not None]
    differences += [told for spec in batched if (told := axis.contradiction(spec))]
    if differences:
        raise RunnerLoadError(
            runner,
            f"runner {runner!r} ({options.model}): the plan contradicts the model:\n"
            + "\n".join(f"  {d}" for d in differences),
            is_plan_fault=True,
        )
    forms = {ours: form for ours, node in gives.items() if (form := form_of(node.type))}
    is_bound = _can_bind(inputs.values(), forms.values())
    _refuse_unjudgeable(runner, options, gives, is_bound=is_bound)
    return Wiring(
        inputs=inputs,
        outputs=outputs,
        feeds=tuple((o, str(n.name)) for o, n in takes.items() if o in context.inputs),
        fixed=fixed,
        fetches=tuple((ours, str(node.name)) for ours, node in gives.items()),
        fixed_batch=fixed_batch,
        unproven=tuple(spec.name for spec in batched if not axis.is_proven(spec)),
        layout=layout,
        forms=forms,
        is_bound=is_bound,
    )


class _SampleAxis(Struct, frozen=True):
    """What the fed inputs declare of their first axis, which the outputs' must be too.

    Attributes:
        symbols: its names.
        others: names of the inputs' other dims.
        size: rows of a batch, where known.
        is_fixed: whether the model fixes that size.
    """

    symbols: frozenset[str]
    others: frozenset[str]
    size: int | None
    is_fixed: bool

    @staticmethod
    def of(fed: Sequence[TensorSpec], size: int | None, *, is_fixed: bool) -> _SampleAxis:
        symbols = {spec.shape[0] for spec in fed if spec.shape}
        others = {dim for spec in fed for dim in spec.shape[1:]}
        return _SampleAxis(
            frozenset(d for d in symbols if isinstance(d, str) and d),
            frozenset(d for d in others if isinstance(d, str) and d),
            size,
            is_fixed,
        )

    def is_proven(self, spec: TensorSpec) -> bool:
        """Whether an output's declaration says that its first axis is the batch."""
        if self.is_fixed:
            return True
        first = spec.shape[0] if spec.shape else None
        return isinstance(first, int) or first in self.symbols - self.others

    def contradiction(self, spec: TensorSpec) -> str | None:
        """Why an output's first axis can't be the batch; None where it can."""
        first = spec.shape[0] if spec.shape else None
        if isinstance(first, int):
            may_be = (self.size,) if self.is_fixed else (1,) if self.size == 1 else ()
            if first in may_be:
                return None
            takes = f"always {self.size}" if self.is_fixed else "free"
            what = f"is always {first}, but the batch of its inputs is {takes}"
        elif first in self.others - self.symbols:
            what = f"is {first!r}, which isn't the first of any input"
        else:
            return None
        return (
            f"output {spec}: the first axis must be the samples, but it {what}; say where they "
            f'are (outputs.{spec.name}.shape = [..., "batch", ...]; without "batch" the output '
            "belongs to one sample and batch_size is 1), or remove the output from the model"
        )


def _renamed(
    what: str, nodes: list[Any], mapping: Mapping[str, str], differences: list[str]
) -> dict[str, Any]:
    """The model's inputs or outputs under our names."""
    by_name = {str(node.name): node for node in nodes}
    ours_of = {theirs: ours for ours, theirs in mapping.items()}
    for theirs, ours in ours_of.items():
        if theirs not in by_name:
            differences.append(
                f"{what}.{ours}: the model has no {what[:-1]} {theirs!r}"
                + did_you_mean(theirs, by_name)
            )
    renamed: dict[str, Any] = {}
    for theirs, node in by_name.items():
        ours = ours_of.get(theirs, theirs)
        if ours in renamed:
            differences.append(f"{what}.{ours}: the model has another {what[:-1]} of this name")
        renamed[ours] = node
    return renamed


def _samples_first(
    spec: TensorSpec, where: str, axes: Mapping[str, Axis], differences: list[str]
) -> TensorSpec:
    """The spec as all others see it; the plan's axis may not be there."""
    moved = first_sample_axis(spec, axes.get(spec.name, 0)) if spec.name in axes else spec
    if moved is None:
        differences.append(
            f"{where}.{spec.name}.shape has the samples on axis {axes[spec.name]}, the model has "
            f"{spec}"
        )
    return moved or spec


def _match_inputs(
    takes: Mapping[str, Any], context: PrepareContext, layout: Layout, differences: list[str]
) -> tuple[dict[str, TensorSpec], dict[str, Array], dict[str, int]]:
    inputs, fixed, batches = {}, {}, {}
    for ours, node in takes.items():
        column, constant = context.inputs.get(ours), context.constants.get(ours)
        spec = _spec(ours, node)
        if column is not None:
            spec = _samples_first(spec, "inputs", layout.inputs, differences)
        inputs[ours] = spec
        if column is not None and constant is not None:
            differences.append(f"input {ours!r} is both in the pack and in [constants]; keep one")
        elif column is not None:
            differences += _against_column(spec, column, str(node.name))
            if spec.shape and isinstance(spec.shape[0], int):
                batches[ours] = spec.shape[0]
        elif constant is not None:
            differences += _against_constant(replace(spec, name=str(node.name)), constant)
            fixed[str(node.name)] = constant
        else:
            differences.append(_unfed(ours, str(node.name), spec, context))
    return inputs, fixed, batches


def _unfed(ours: str, theirs: str, spec: TensorSpec, context: PrepareContext) -> str:
    known = [*context.inputs, *context.constants]
    hint = did_you_mean(ours, known) if known else "; both are empty"
    if ours != theirs:
        return (
            f"inputs.{ours} = {theirs!r}: {ours!r} is neither in the pack nor in [constants]{hint}"
            "; the plan's name stands on the left, the model's on the right"
        )
    told = f"the model takes {spec}, which is neither in the pack nor in [constants]{hint}"
    return f"{told}; or map it: inputs = {{ NAME = {theirs!r} }}"


def _against_column(spec: TensorSpec, column: ColumnSpec, model_name: str) -> list[str]:
    if spec.dtype != column.dtype:
        told = f"input {spec.name!r}: the model takes {spec.dtype}, the pack has {column.dtype}"
        own = "where the other side needs it as it is, add a column and say inputs = { COLUMN = "
        mend = f"write the column as {spec.dtype}, for nothing is cast; {own}{model_name!r} }}"
        return [f"{told}; {mend}"]
    if not spec.shape:
        mend = f"make it a constant, or say inputs.{spec.name}.shape = [] and batch_size = 1"
        told = f"input {spec.name!r}: the model takes one scalar, the pack has one a sample; {mend}"
        return [told]
    same = len(spec.shape) == 1 + len(column.shape) and all(
        want == have
        for want, have in zip(spec.shape[1:], column.shape, strict=True)
        if isinstance(want, int)
    )
    takes = replace(spec, name=model_name)
    return [] if same else [f"the model takes {takes}, the pack has {column}"]


def _against_constant(spec: TensorSpec, constant: Array) -> list[str]:
    same = len(spec.shape) == constant.ndim and all(
        want == have
        for want, have in zip(spec.shape, constant.shape, strict=True)
        if isinstance(want, int)
    )
    dtype = dtype_name(constant.dtype)
    if same and spec.dtype == dtype:
        return []
    have = f"{dtype}{list(constant.shape)}"
    return [f"the model takes {spec}, the constant is {have}"]


def _fixed_batch(
    batches: Mapping[str, int], batch_size: int | None, differences: list[str]
) -> int | None:
    sizes = set(batches.values())
    told = ", ".join(f"{name}: {size}" for name, size in batches.items())
    if len(sizes) > 1:
        differences.append(
            f"the model fixes different batch sizes for its inputs ({told}); if their samples "
            "aren't on the first axis, say where they are: inputs.NAME.shape"
        )
        return None
    fixed = next(iter(sizes), None)
    if fixed is not None and fixed < 1:
        differences.append(f"the model fixes a batch of {fixed} samples")
    elif fixed is not None and batch_size not in (None, fixed):
        differences.append(
            f"batch_size is {batch_size} but the model fixes batches of {fixed}; set batch_size = "
            f"{fixed}, export the model with a free batch dimension, or say on which axis the "
            f"samples are: inputs.NAME.shape ({told})"
        )
    return fixed


def _can_bind(inputs: Iterable[TensorSpec], forms: Iterable[OutputForm]) -> bool:
    takes_text = any(spec.dtype == STRING for spec in inputs)
    return not takes_text and all(form.is_tensor for form in forms)


def _refuse_unjudgeable(
    runner: str, options: _Mapped, gives: Mapping[str, Any], *, is_bound: bool
) -> None:
    bad = [f"{ours!r} is {n.type}" for ours, n in gives.items() if form_of(n.type) is None]
    told = f"dtypes that can: {', '.join(DTYPES)}. Export the model without it or with a cast"
    if not bad and not is_bound:
        bad = [
            f"{ours!r} is {n.type}"
            for ours, n in gives.items()
            if (form := form_of(n.type)) is not None and form.dtype in BRIDGED
        ]
        told = (
            "ONNX Runtime gives it to nobody from a model that takes texts or answers sequences, "
            "maps or optional values. Export the model without these, or cast the output"
        )
    if bad:
        raise RunnerLoadError(
            runner,
            f"runner {runner!r} ({options.model}): output {', output '.join(bad)}, which can't be "
            f"judged; {told}",
        )


def _spec(name: str, node: Any) -> TensorSpec:
    shape = tuple(d if isinstance(d, int | str) else None for d in node.shape)
    form = form_of(node.type)
    if form is None:
        return TensorSpec(name, str(node.type), shape)
    return TensorSpec(name, form.dtype, (None, None) if form.form == "maps" else shape)
