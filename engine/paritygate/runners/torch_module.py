"""Modules: made by a factory, given weights, and what their forward takes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from paritygate.admission.torch_file import form_of_file, pickled_names
from paritygate.core.problems import did_you_mean
from paritygate.runners.torch_program import (
    Parameter,
    Program,
    ProgramError,
    Takes,
    describe_precision,
)
from paritygate.runners.torch_script import find_reset, tell_torch

_TAKES: dict[Any, Takes] = {
    int: "int",
    float: "float",
    bool: "bool",
    str: "str",
    "int": "int",
    "float": "float",
    "bool": "bool",
    "str": "str",
}
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def describe_module(module: Any, reset: str | None) -> Program:
    """What is called, and what its forward takes.

    Args:
        module: an `nn.Module`.
        reset: method that is called before every batch.

    Raises:
        ProgramError: no such method, or inputs without names.
    """
    tensors = [*module.parameters(), *module.buffers()]
    return Program(
        call=module,
        form=f"nn.Module {type(module).__name__}",
        parameters=tuple(_parameters(module)),
        reset=find_reset(module, reset),
        facts={"precision": describe_precision(tensors, ())},
    )


def _parameters(module: Any) -> Iterator[Parameter]:
    try:
        signature = inspect.signature(module.forward)
    except (TypeError, ValueError):
        raise ProgramError("the names of what forward takes can't be told") from None
    for name, given in signature.parameters.items():
        if given.kind is inspect.Parameter.VAR_KEYWORD:
            continue
        has_default = given.default is not inspect.Parameter.empty
        if given.kind not in _NAMED:
            if has_default:
                continue
            raise ProgramError(
                f"forward takes {'*' if given.kind is inspect.Parameter.VAR_POSITIONAL else ''}"
                f"{name} without a name; inputs are paired by name, so wrap the module in one "
                "whose forward names each"
            )
        yield Parameter(name, _TAKES.get(given.annotation, "any"), has_default)


def load_weights(module: Any, path: Path, key: str | None) -> None:
    """Load all of a module's parameters and buffers, none left out and none cast.

    Args:
        module: an `nn.Module`.
        path: safetensors, or what `torch.save(module.state_dict(), path)` writes.
        key: of the state dict in a file that holds more than it.

    Raises:
        ProgramError: a file that isn't one of these, or that doesn't belong to the module.
    """
    state = read_weights(path, key)
    own = module.state_dict()
    cast = [
        f"{name} is {_name(tensor)} in the file and {_name(own[name])} in the module"
        for name, tensor in state.items()
        if name in own and hasattr(own[name], "dtype") and tensor.dtype != own[name].dtype
    ]
    if cast:
        raise ProgramError(
            f"{path.name}: {cast[0]} ({len(cast)} such); nothing is cast, so let the factory "
            "convert the module (.half(), .to(torch.bfloat16), .float()), or the weights"
        )
    try:
        module.load_state_dict(state, strict=True)
    except Exception as e:
        raise ProgramError(f"{path.name} doesn't belong to the module: {tell_torch(e)}") from None


def _name(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def read_weights(path: Path, key: str | None) -> Mapping[str, Any]:
    """Tensors by name, without unpickling anything but tensors.

    Raises:
        ProgramError: the file holds something else.
    """
    form = form_of_file(path)
    if form == "safetensors":
        if key is not None:
            raise ProgramError("weights_key is of a file of torch.save", is_plan_fault=True)
        return _read_safetensors(path)
    if form in ("torchscript", "exported"):
        raise ProgramError(
            f"{path.name} is a whole program: say model = {path.name!r} without a factory",
            is_plan_fault=True,
        )
    if form == "other":
        raise ProgramError(f"{path.name} holds no weights: neither safetensors nor of torch.save")
    return _read_pickled(path, key)


def _read_safetensors(path: Path) -> dict[str, Any]:
    try:
        from safetensors.torch import load_file
    except ImportError as e:
        raise ProgramError(
            f"reading {path.name} needs safetensors, which can't be imported ({e}); install "
            "'paritygate[torch]'",
            is_plan_fault=True,
        ) from None
    try:
        return dict(load_file(str(path), device="cpu"))
    except Exception as e:  # of the package's own kinds
        raise ProgramError(f"{path.name} can't be read: {tell_torch(e)}") from None


def _read_pickled(path: Path, key: str | None) -> Mapping[str, Any]:
    import torch

    if tuple(int(n) for n in str(torch.__version__).split(".")[:2]) < (2, 6):
        raise ProgramError(
            f"torch {torch.__version__} is too old to read pickled weights safely; install 2.6 or "
            "newer, or write safetensors",
            is_plan_fault=True,
        )
    try:
        state = torch.load(str(path), map_location="cpu", weights_only=True)
    except Exception:  # its message advises to unpickle without a guard
        names = ", ".join(pickled_names(path)[:4])
        raise ProgramError(
            f"{path.name} holds more than tensors ({names}), and nothing else is unpickled: write "
            "torch.save(model.state_dict(), path), or safetensors",
            code="admission.unsafe_model",
        ) from None
    return _state_dict(path, state, key)


def _state_dict(path: Path, state: Any, key: str | None) -> Mapping[str, Any]:
    import torch

    if key is not None:
        if not isinstance(state, Mapping) or key not in state:
            known = sorted(map(str, state)) if isinstance(state, Mapping) else []
            hint = did_you_mean(key, known)
            raise ProgramError(f"{path.name} has no {key!r}{hint}", is_plan_fault=True)
        state = state[key]
    if not isinstance(state, Mapping):
        raise ProgramError(f"{path.name} holds a {type(state).__name__}, not a state dict")
    inner = [k for k, v in state.items() if isinstance(v, Mapping)]
    if inner and not any(isinstance(v, torch.Tensor) for v in state.values()):
        raise ProgramError(
            f"{path.name} holds {', '.join(map(repr, state))}: say which is the state dict, as in "
            f"weights_key = {str(inner[0])!r}",
            is_plan_fault=True,
        )
    return state  # with its versions of modules, which load_state_dict reads
