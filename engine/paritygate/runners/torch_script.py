"""TorchScript: loaded, and what it takes.

Its archive is unpickled by TorchScript's own reader, which makes nothing but values of TorchScript,
and its code is interpreted. What of that code calls an operator that touches files or other
machines is refused, in the text before it is loaded and in the graphs before it is called. Its
operators are native code all the same: who doesn't know where a file comes from isolates it.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from paritygate.runners.torch_export import trains
from paritygate.runners.torch_operators import check_graphs, check_text
from paritygate.runners.torch_program import (
    Parameter,
    Program,
    ProgramError,
    Takes,
    describe_precision,
)

_TAKES: dict[str, Takes] = {
    "Tensor": "tensor",
    "int": "int",
    "float": "float",
    "bool": "bool",
    "str": "str",
}
_NO_SCHEMA = "(no schema)"
_OPTIONAL = re.compile(r"Optional\[(.*)\]")


def load_script(path: Path, submodule: str | None, reset: str | None) -> Program:
    """Load TorchScript for evaluation.

    Args:
        path: of the file.
        submodule: dotted name of the module that is judged; None: the whole.
        reset: method that is called before every batch.

    Raises:
        ProgramError: torch doesn't load it, it touches files, or was traced in training mode.
    """
    import torch

    try:
        _check_code(torch, str(path))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            module = torch.jit.load(str(path), map_location="cpu")
    except ProgramError:
        raise
    except Exception as e:  # of many kinds
        message = f"torch {torch.__version__} doesn't load the TorchScript: {tell_torch(e)}"
        raise ProgramError(message) from None
    check_graphs(module)
    module.eval()
    return describe_script(find_submodule(module, submodule), reset)


def describe_script(module: Any, reset: str | None) -> Program:
    """What is called, and what it takes.

    Args:
        module: a `ScriptModule`.
        reset: method that is called before every batch.

    Raises:
        ProgramError: training mode, an input that can't be paired, or no such method.
    """
    if not hasattr(module, "forward"):
        raise ProgramError("the TorchScript has no forward", is_plan_fault=True)
    graph = module.inlined_graph
    nodes = list(_nodes(graph))
    _check_evaluation(nodes)
    kinds = {str(node.kind()) for node in nodes}
    tensors = [*module.parameters(), *module.buffers()]
    quantized = [kind for kind in kinds if kind.startswith("quantized::")]
    writes = any(kind == "prim::SetAttr" for kind in kinds) or _writes(nodes)
    return Program(
        call=module,
        form="TorchScript",
        parameters=tuple(_parameters(module.forward.schema)),
        is_thread_safe=not writes and reset is None,
        reset=find_reset(module, reset),
        facts={"precision": describe_precision(tensors, quantized)},
    )


def find_submodule(module: Any, name: str | None) -> Any:
    """The module itself, or the one of that dotted name in it.

    Raises:
        ProgramError: there is none.
    """
    if name is None:
        return module
    there = dict(module.named_modules())
    if name not in there:
        known = ", ".join(n for n in there if n and "." not in n)
        message = f"there is no submodule {name!r}; there is {known or 'none'}"
        raise ProgramError(message, is_plan_fault=True)
    return there[name]


def find_reset(module: Any, name: str | None) -> Any:
    """The method of that name; None where none is named.

    Raises:
        ProgramError: there is none.
    """
    if name is None:
        return None
    method = getattr(module, name, None)
    if not callable(method):
        raise ProgramError(f"there is no method {name!r} to reset it", is_plan_fault=True)
    return method


def tell_torch(error: BaseException) -> str:
    """What torch raised; of TorchScript the message, without its own tracebacks."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if "TorchScript" in str(error) and lines:
        lines = lines[-1:]
    return f"{type(error).__name__}: {' '.join(lines)[:600]}"


def _check_code(torch: Any, path: str) -> None:
    """Look through all code of the archive; its reader finds records whatever their case."""
    reader = torch._C.PyTorchFileReader(path)
    for record in map(str, reader.get_all_records()):
        if record.lower().startswith("code/") and record.lower().endswith(".py"):
            check_text(reader.get_record(record).decode("utf-8", "replace"), record)


def _nodes(block: Any) -> Iterator[Any]:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes(inner)


def _writes(nodes: list[Any]) -> bool:
    """Whether an operator writes to what it is given, which may be kept from call to call."""
    import torch

    schemas = {str(node.schema()) for node in nodes} - {_NO_SCHEMA}
    return any(bool(torch._C.parse_schema(schema).is_mutable) for schema in schemas)


def _check_evaluation(nodes: list[Any]) -> None:
    import torch

    for node in nodes:
        schema = node.schema()
        if schema == _NO_SCHEMA or not re.search(r"dropout|lstm|gru|rnn|batch_norm", schema):
            continue
        parsed = torch._C.parse_schema(schema)
        given = {
            argument.name: _constant(value)
            for argument, value in zip(parsed.arguments, node.inputs(), strict=False)
        }
        if trains(str(parsed.name), given):
            raise ProgramError(
                f"the TorchScript was made in training mode (it has {parsed.name} with training "
                "on for good): call model.eval() before torch.jit.trace",
                code="admission.training_mode",
            )


def _constant(value: Any) -> Any:
    """The value where the code fixes it; else something that equals nothing."""
    if str(value.type()) == "NoneType":
        return None
    return value.toIValue() if str(value.node().kind()) == "prim::Constant" else object()


def _parameters(schema: Any) -> Iterator[Parameter]:
    for argument in schema.arguments[1:]:
        kind = str(argument.type)
        has_default = bool(argument.has_default_value())
        optional = _OPTIONAL.fullmatch(kind)
        takes = _TAKES.get(optional.group(1) if optional else kind)
        if takes is None and not has_default:
            raise ProgramError(
                f"the TorchScript takes {argument.name!r} of type {kind}; inputs are tensors, "
                "numbers and texts, paired by name: script a wrapper that takes each by itself"
            )
        if takes is not None:
            yield Parameter(str(argument.name), takes, has_default)
