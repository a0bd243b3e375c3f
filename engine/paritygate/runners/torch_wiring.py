"""Match what a program takes and answers with the pack, the constants and the plan's names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from paritygate.core.dtypes import DTYPES, STRING, dtype_name
from paritygate.core.errors import RunnerLoadError
from paritygate.core.tensors import Array
from paritygate.runners.base import DEFAULT_BATCH_SIZE, PrepareContext
from paritygate.runners.ort_types import ONNX_NAMES
from paritygate.runners.ort_wiring import Wiring, wire_model
from paritygate.runners.torch_arrays import KNOWN, AnswerError, rename
from paritygate.runners.torch_options import Options
from paritygate.runners.torch_program import Parameter, Program, ProgramError

_SCALARS = {"int": "int64", "float": "float64", "bool": "bool", "str": STRING}


class Fed(Struct, frozen=True):
    """What one parameter is given.

    Attributes:
        parameter: of the program.
        ours: our name.
        constant: for all batches; None: it comes with the batch.
    """

    parameter: Parameter
    ours: str
    constant: Array | None

    @property
    def is_scalar(self) -> bool:
        """Whether it is passed as a number or text of Python."""
        return self.constant is not None and self.parameter.takes in _SCALARS


class TorchWiring(Struct, frozen=True):
    """Which of our tensors is which of the program's.

    Attributes:
        base: inputs, outputs, layout and batch, as of any model.
        fed: what is given, in the order of the parameters.
        given: parameter -> value, where the program fixes it.
        left_out: optional parameters that are left to their defaults.
        names: outputs in the order of the answer, or our name -> the answer's.
        batch_size: rows of a batch.
    """

    base: Wiring
    fed: tuple[Fed, ...]
    given: Mapping[str, object]
    left_out: tuple[str, ...]
    names: Mapping[str, str] | tuple[str, ...]
    batch_size: int


class _Node(Struct, frozen=True):
    name: str
    type: str
    shape: list[Any]


class _Signature(Struct, frozen=True):
    """A program's inputs and outputs as those of a model."""

    takes: list[_Node]
    gives: list[_Node]

    @property
    def session(self) -> _Signature:
        return self

    def get_inputs(self) -> list[_Node]:
        return self.takes

    def get_outputs(self) -> list[_Node]:
        return self.gives


class _Mapping(Struct, frozen=True):
    model: str
    batch_size: int | None
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


def wire_program(
    runner: str, what: str, options: Options, program: Program, context: PrepareContext
) -> TorchWiring:
    """Match a program with what it will be fed.

    Args:
        runner: its name.
        what: what the program is, for errors.
        options: the runner's.
        program: loaded.
        context: pack, constants and layout.

    Raises:
        RunnerLoadError: every difference at once, as a fault of the plan.
        ProgramError: outputs that the plan names otherwise than the program.
    """
    theirs_of = options.inputs
    ours_of = {theirs: ours for ours, theirs in theirs_of.items()}
    used, given, left_out = [], {}, []
    for parameter in program.parameters:
        ours = ours_of.get(parameter.name, parameter.name)
        is_fed = ours in context.inputs or ours in context.constants
        if parameter.fixed and not is_fed:
            given[parameter.name] = parameter.fixed[0]
        elif parameter.is_optional and not is_fed and parameter.name not in ours_of:
            left_out.append(parameter.name)
        else:
            used.append((ours, parameter))
    names = _output_names(options, program)
    answers = program.answers or ()
    own = [answer.name for answer in answers]
    renamed = names if isinstance(names, Mapping) else dict(zip(names, own, strict=False))
    signature = _Signature(
        [_node_of(ours, parameter, context) for ours, parameter in used],
        [_Node(a.name, _onnx_type(a.dtype), list(a.shape)) for a in answers],
    )
    unused = {o: t for o, t in theirs_of.items() if t in [p.name for _, p in used]}
    unknown = {o: t for o, t in theirs_of.items() if t not in [p.name for p in program.parameters]}
    size = options.batch_size or _largest(program, options, context)
    mapping = _Mapping(what, options.batch_size, {**unused, **unknown}, renamed if answers else {})
    base = wire_model(runner, mapping, signature, context)
    if program.answers is None:  # then any of the plan's outputs may be one of its
        base = replace(base, layout=replace(base.layout, outputs=context.layout.outputs))
    fed = tuple(Fed(p, ours, context.constants.get(ours)) for ours, p in used)
    _check_fixed(runner, what, fed)
    _check_dtypes(runner, fed, context)
    return TorchWiring(
        base=base,
        fed=fed,
        given=given,
        left_out=tuple(left_out),
        names=names,
        batch_size=base.fixed_batch or size,
    )


def _output_names(options: Options, program: Program) -> Mapping[str, str] | tuple[str, ...]:
    """The plan's names, held against what the program declares to answer."""
    if program.answers is not None:
        try:
            rename({a.name: a for a in program.answers}, options.outputs)
        except AnswerError as e:
            raise ProgramError(f"outputs: the program {e}", is_plan_fault=True) from None
    return options.outputs


def _node_of(ours: str, parameter: Parameter, context: PrepareContext) -> _Node:
    column, constant = context.inputs.get(ours), context.constants.get(ours)
    name = parameter.name
    if parameter.takes in _SCALARS:
        return _Node(name, _onnx_type(_SCALARS[parameter.takes]), [])
    if parameter.dtype is not None:
        return _Node(name, _onnx_type(parameter.dtype), list(parameter.shape or ()))
    if column is not None:
        axes = 1 + len(column.shape) - (context.layout.inputs.get(ours, 0) is None)
        return _Node(name, _onnx_type(column.dtype), [None] * axes)
    if constant is not None:
        return _Node(name, _onnx_type(dtype_name(constant.dtype)), [None] * constant.ndim)
    return _Node(name, "tensor", ["..."])


def _onnx_type(dtype: str) -> str:
    return f"tensor({ONNX_NAMES.get(dtype, dtype)})"


def _largest(program: Program, options: Options, context: PrepareContext) -> int:
    """The usual batch, or the largest that the program's own bounds allow."""
    ours_of = {theirs: ours for ours, theirs in options.inputs.items()}
    size = DEFAULT_BATCH_SIZE
    for parameter in program.parameters:
        axis = context.layout.inputs.get(ours_of.get(parameter.name, parameter.name), 0)
        if parameter.shape and axis is not None and axis < len(parameter.shape):
            bounds = program.bounds.get(str(parameter.shape[axis]))
            size = min(size, bounds[1]) if bounds is not None else size
    return max(size, 1)


def _check_fixed(runner: str, what: str, fed: Sequence[Fed]) -> None:
    """A value that the program was exported with must be the plan's."""
    for one in fed:
        fixed = one.parameter.fixed
        if not fixed:
            continue
        found = one.constant.item() if one.constant is not None and not one.constant.ndim else None
        if one.constant is None or type(found) is not type(fixed[0]) or found != fixed[0]:
            told = "a column of the pack" if one.constant is None else repr(one.constant.tolist())
            raise RunnerLoadError(
                runner,
                f"runner {runner!r} ({what}): input {one.ours!r} is {fixed[0]!r} for good in the "
                f"program, the plan gives {told}; leave it out, or export the program for it",
                is_plan_fault=True,
            )


def _check_dtypes(runner: str, fed: Sequence[Fed], context: PrepareContext) -> None:
    """Refuse what torch has no tensors of."""
    for one in fed:
        column = context.inputs.get(one.ours)
        if one.constant is not None:
            dtype = dtype_name(one.constant.dtype)
        else:
            dtype = column.dtype if column is not None else ""
        if dtype not in KNOWN and not one.is_scalar:
            known = ", ".join(d for d in DTYPES if d in KNOWN)
            raise RunnerLoadError(
                runner,
                f"runner {runner!r}: input {one.ours!r} is {dtype}, of which torch has no tensors; "
                f"known: {known}",
                is_plan_fault=True,
            )


def described_inputs(wiring: TorchWiring) -> Iterator[str]:
    """What is given to each parameter, for the summary."""
    for one in wiring.fed:
        source = "constant" if one.constant is not None else "batch"
        yield f"{one.parameter.name}: {one.ours} ({source})"
