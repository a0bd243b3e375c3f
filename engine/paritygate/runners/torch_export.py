"""Exported programs (`torch.export`): loaded, and what they take and answer."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from paritygate.core.tensors import Dim
from paritygate.runners.torch_arrays import name_of, named
from paritygate.runners.torch_export_check import RefusedError, check_archive
from paritygate.runners.torch_program import (
    Answer,
    Parameter,
    Program,
    ProgramError,
    describe_precision,
)

_LOADING = threading.Lock()  # torch keeps what it is loading for the process, not for a thread
_TRAINS = "train"
_ANSWERS = frozenset({"USER_OUTPUT"})
_GIVEN = frozenset({"USER_INPUT", "PARAMETER", "BUFFER", "CONSTANT_TENSOR"})
# Functions of Python on sizes, and on answers of several tensors.
_PLAIN = frozenset(
    {
        *("getitem", "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "neg", "pos"),
        *("eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "not_", "abs"),
        *("floor", "ceil", "trunc", "sqrt"),
    }
)


def load_exported(path: Path) -> Program:
    """Load an exported program from a file whose content is known to be harmless.

    Raises:
        ProgramError: it isn't, or torch doesn't load it.
    """
    import torch

    text = str(path)
    loggers = [logging.getLogger(name) for name in ("torch.export", "torch._export")]
    try:
        check_archive(text)
        with _LOADING:
            levels = [logger.level for logger in loggers]
            for logger in loggers:
                logger.setLevel(logging.ERROR)
            try:
                program = torch.export.load(text)
            finally:
                for logger, level in zip(loggers, levels, strict=True):
                    logger.setLevel(level)
    except RefusedError as e:
        raise ProgramError(f"the exported program {e}", code="admission.unsafe_model") from None
    except ProgramError:
        raise
    except Exception as e:  # of many kinds, those of JSON and zip among them
        told = " ".join(str(e).split())[:500]
        message = f"torch {torch.__version__} doesn't load the exported program: {told}"
        raise ProgramError(message) from None
    return describe_exported(program)


def describe_exported(program: Any) -> Program:
    """What is called, and what it takes and answers.

    Args:
        program: a `torch.export.ExportedProgram`.

    Raises:
        ProgramError: nested inputs, training mode, or an output that is no tensor.
    """
    import torch

    check_evaluation(program)
    tensors = [*program.state_dict.values(), *program.constants.values()]
    tensors = [t for t in tensors if isinstance(t, torch.Tensor)]
    call = program.module()
    targets = _targets(program.graph_module)
    quantized = [str(target) for target in targets if str(target).startswith("quantized")]
    return Program(
        call=call,
        form="exported program",
        parameters=tuple(_parameters(program)),
        answers=tuple(_answers(program)),
        is_thread_safe=_is_pure(program, targets, call),
        bounds=_bounds(program),
        facts={"precision": describe_precision(tensors, quantized)},
    )


def check_evaluation(program: Any) -> None:
    """Refuse a program that was exported in training mode.

    Raises:
        ProgramError: it has a dropout that drops, or a normalisation by the batch that has
            statistics of its own.
    """
    for node in program.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if node.op != "call_function" or schema is None:
            continue
        given = {a.name: value for a, value in zip(schema.arguments, node.args, strict=False)}
        given.update(node.kwargs)
        if trains(str(schema.name), given):
            raise ProgramError(
                f"the program was exported in training mode (node {node.name!r} of {schema.name}): "
                "call model.eval() before torch.export.export",
                code="admission.training_mode",
            )


def trains(operator: str, given: Mapping[str, Any]) -> bool:
    """Whether an operator with these arguments does what it does in training alone."""
    operator = operator.partition("::")[2]
    if "dropout" in operator:
        return given.get(_TRAINS) is True and given.get("p") not in (0, None)
    if operator in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        return given.get(_TRAINS) is True and given.get("dropout") not in (0, None)
    if "batch_norm" in operator:
        return given.get("training") is True and given.get("running_mean") is not None
    return False


def _targets(module: Any) -> list[Any]:
    return [n.target for n in module.graph.nodes if n.op == "call_function"]


def _is_pure(program: Any, targets: list[Any], call: Any) -> bool:
    """Whether it writes to nothing that it is given or keeps.

    A program whose graph is functional may list what it changes among its outputs; its module then
    copies that back.
    """
    signature = program.graph_signature
    kinds = {spec.kind.name for spec in signature.output_specs}
    takes = {spec.kind.name for spec in signature.input_specs}
    return (
        kinds <= _ANSWERS
        and takes <= _GIVEN
        and all(_is_functional(target) for target in (*targets, *_targets(call)))
    )


def _is_functional(target: Any) -> bool:
    schema = getattr(target, "_schema", None)
    if schema is not None:
        return not schema.is_mutable
    return target.__class__ is type(len) and target.__name__ in _PLAIN


def _parameters(program: Any) -> Iterator[Parameter]:
    spec = program.call_spec.in_spec
    args, kwargs = spec.children() if callable(spec.children) else spec.children_specs
    nested = [child for part in (args, kwargs) for child in _children(part) if not child.is_leaf()]
    if nested:
        raise ProgramError(
            "the program takes dicts, lists or tuples of tensors; inputs are paired by name, so "
            "export a wrapper whose forward takes each tensor by itself"
        )
    signature = program.module_call_graph[0].signature
    names = getattr(signature, "forward_arg_names", None)
    keywords = list(kwargs.context or [])
    inputs = [s for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    if names is None:
        names = [*(s.arg.name for s in inputs[: len(inputs) - len(keywords)]), *keywords]
    values = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
    for name, spec_ in zip(names, inputs, strict=True):
        by_keyword = name in keywords
        value = values.get(spec_.arg.name)
        if type(spec_.arg).__name__ == "ConstantArgument":
            constant = spec_.arg.value
            yield Parameter(name, "any", True, by_keyword, fixed=(constant,))
        elif hasattr(value, "dtype"):
            yield _tensor(name, value, by_keyword=by_keyword)
        else:
            kind = {"SymInt": "int", "SymFloat": "float", "SymBool": "bool"}
            takes: Any = kind.get(type(value).__name__, "any")
            yield Parameter(name, takes, False, by_keyword)


def _tensor(name: str, value: Any, *, by_keyword: bool) -> Parameter:
    return Parameter(name, "tensor", False, by_keyword, name_of(value.dtype), _dims(value.shape))


def _children(spec: Any) -> list[Any]:
    return list(spec.children() if callable(spec.children) else spec.children_specs)


def _answers(program: Any) -> Iterator[Answer]:
    import torch
    from torch.utils import _pytree

    output = next(node for node in program.graph.nodes if node.op == "output")
    count = len(program.graph_signature.user_outputs)
    leaves = list(output.args[0])[-count:] if count else []
    tree = _pytree.tree_unflatten(leaves, program.call_spec.out_spec)
    for name, node in named(tree).items():
        value: Any = getattr(node, "meta", {}).get("val")
        if value is None or not isinstance(value, torch.Tensor):
            raise ProgramError(
                f"output {name!r} of the program is a {type(node).__name__} and no tensor; "
                "export it without"
            )
        yield Answer(name, name_of(value.dtype), _dims(value.shape))


def _dims(shape: Any) -> tuple[Dim, ...]:
    return tuple(d if isinstance(d, int) else str(d) for d in shape)


def _bounds(program: Any) -> dict[str, tuple[int, int]]:
    """Sizes that a symbol may have, as far as they are numbers."""
    bounds = {}
    for symbol, found in program.range_constraints.items():
        low, high = (_number(found.lower, 0), _number(found.upper, 2**62))
        bounds[str(symbol)] = (low, high)
    return bounds


def _number(value: Any, default: int) -> int:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError, AttributeError):
        return default
