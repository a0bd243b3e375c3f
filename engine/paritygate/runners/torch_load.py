"""A program of a file, or of an object: which of the kinds it is."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from paritygate.admission.torch_file import form_of_file, pickled_names
from paritygate.runners.torch_export import describe_exported, load_exported
from paritygate.runners.torch_module import describe_module
from paritygate.runners.torch_program import Program, ProgramError
from paritygate.runners.torch_script import describe_script, load_script, tell_torch

_HOW = (
    "save the whole program by torch.export.save(torch.export.export(model.eval(), inputs), "
    "'model.pt2') or as TorchScript, or the weights by torch.save(model.state_dict(), "
    "'weights.pt') and say factory = 'module:function', weights = 'weights.pt'"
)
_FACTORY = "factory = 'module:function', weights = {name!r}"


def load_file(path: Path, submodule: str | None, reset: str | None) -> Program:
    """Load the program of a file, by what is in it.

    Args:
        path: of the file.
        submodule: dotted name of the module that is judged; of TorchScript alone.
        reset: method that is called before every batch; of TorchScript alone.

    Raises:
        ProgramError: it isn't one that can be loaded without unpickling.
    """
    try:
        return _load(path, submodule, reset)
    except (ProgramError, OSError):
        raise
    except Exception as e:  # what a file that is made by hand can lead to has no bounds
        raise ProgramError(f"{path.name} can't be made use of: {tell_torch(e)}") from None


def _load(path: Path, submodule: str | None, reset: str | None) -> Program:
    form = form_of_file(path)
    factory = _FACTORY.format(name=path.name)
    if form == "torchscript":
        return load_script(path, submodule, reset)
    if form == "exported":
        for key, value in (("submodule", submodule), ("reset", reset)):
            if value is not None:
                message = f"{key} = {value!r}: an exported program has no modules or methods"
                raise ProgramError(message, is_plan_fault=True)
        return load_exported(path)
    if form in ("weights", "safetensors"):
        raise ProgramError(
            f"{path.name} holds weights without the program that they belong to: say {factory}",
            is_plan_fault=True,
        )
    if form == "pickle":
        names = ", ".join(pickled_names(path)[:4])
        raise ProgramError(
            f"{path.name} is a pickle ({names}), as torch.save(model) writes it, and unpickling "
            f"runs whatever such a file says, so it isn't done: {_HOW}",
            code="admission.unsafe_model",
        )
    raise ProgramError(
        f"{path.name} is no file of torch: neither TorchScript nor an exported program",
        code="admission.invalid_model",
    )


def is_program(given: object) -> bool:
    """Whether it is a module or an exported program; torch is not imported to find out."""
    torch, export = sys.modules.get("torch"), sys.modules.get("torch.export")
    kinds = [getattr(getattr(torch, "nn", None), "Module", None)]
    kinds.append(getattr(export, "ExportedProgram", None))
    return any(isinstance(kind, type) and isinstance(given, kind) for kind in kinds)


def is_tensor(given: object) -> bool:
    """Whether it is a tensor of torch, which is not imported to find out."""
    kind = getattr(sys.modules.get("torch"), "Tensor", None)
    return isinstance(kind, type) and isinstance(given, kind)


def describe_object(given: Any, held: ExitStack) -> Program:
    """The program of a module or an exported program that was handed over.

    Args:
        given: an `nn.Module`, a `ScriptModule` or an `ExportedProgram`.
        held: puts the training flags back.

    Raises:
        ProgramError: it can't be judged.
    """
    import torch

    if isinstance(given, torch.export.ExportedProgram):
        return describe_exported(given)
    flags = [(module, module.training) for module in given.modules() if hasattr(module, "training")]
    held.callback(_put_back, flags)
    given.eval()
    return describe_any(given, None)


def describe_any(module: Any, reset: str | None) -> Program:
    """The program of a module in evaluation mode, scripted or not.

    Args:
        module: an `nn.Module` or a `ScriptModule`.
        reset: method that is called before every batch.

    Raises:
        ProgramError: it can't be judged.
    """
    import torch

    is_script = isinstance(module, torch.jit.ScriptModule)
    return describe_script(module, reset) if is_script else describe_module(module, reset)


def _put_back(flags: list[tuple[Any, bool]]) -> None:
    for module, training in flags:
        module.training = training
