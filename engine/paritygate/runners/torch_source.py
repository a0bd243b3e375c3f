"""Where a program of torch comes from: a file, or a factory with its weights."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from paritygate.admission.staging import StagedFile, stage_file, staging_facts
from paritygate.core.digest import canonical_json
from paritygate.core.errors import RunnerLoadError
from paritygate.runners.base import PrepareContext
from paritygate.runners.python_identity import digest_of_module, identify_function
from paritygate.runners.python_import import find_function, is_interrupt, tell_error
from paritygate.runners.torch_load import describe_any, load_file
from paritygate.runners.torch_module import load_weights
from paritygate.runners.torch_options import Options
from paritygate.runners.torch_program import Program
from paritygate.runners.torch_script import find_submodule

_MAKING = threading.Lock()


class Source:
    """What a program was loaded from.

    Attributes:
        unique: what makes it the same thing as another.
        files: that were staged.
        facts: of JSON types.
    """

    def __init__(
        self, unique: list[object], files: list[StagedFile], facts: dict[str, object]
    ) -> None:
        self.unique = unique
        self.files = files
        self.facts = facts
        if files:
            self.facts["staging"] = staging_facts(
                sum(file.bytes for file in files),
                sum(file.seconds for file in files),
                is_clone=all(file.is_clone for file in files),
            )


def load_source(
    runner: str, options: Options, context: PrepareContext, held: ExitStack
) -> tuple[Program, Source, str]:
    """The program of a model file, or the module that a factory makes, with its weights.

    Args:
        runner: its name.
        options: the runner's.
        context: whose folder paths and modules are looked up in.
        held: lets go of the copies of files.

    Returns:
        The program, what it was loaded from, and its name for errors.

    Raises:
        RunnerLoadError: no such file or function, or what it returned is no module.
        ProgramError: it can't be loaded or judged.
        AdmissionError: a file that can't be copied, or that has another digest.
    """
    if options.model is not None:
        file = _stage(runner, "model", options.model, options.sha256, context.folder, held)
        program = load_file(file.path, options.submodule, options.reset)
        facts: dict[str, object] = {"model": _file_facts(options.model, file)}
        unique: list[object] = [file.sha256, options.submodule, options.reset]
        return program, Source(unique, [file], facts), options.model
    assert options.factory is not None
    where = f"runners.{runner}.factory"
    found = find_function(runner, where, options.factory, context.folder)
    module = _call(runner, where, found.function, options.seed)
    source = digest_of_module(found.module)
    facts = {"call": options.factory, "source_sha256": source}
    files = []
    if options.weights is not None:
        file = _stage(runner, "weights", options.weights, options.sha256, context.folder, held)
        load_weights(module, file.path, options.weights_key)
        files.append(file)
        parts = canonical_json([source, file.sha256, options.weights_key])
        facts["weights"] = _file_facts(options.weights, file)
        facts["digest"] = hashlib.sha256(parts).hexdigest()
        facts["model"] = {"path": options.factory, "digest": facts["digest"]}
    unique = [
        *identify_function(found.module, found.attribute, found.function),
        [[file.sha256 for file in files], options.weights_key, options.submodule, options.reset],
    ]
    module.eval()
    program = describe_any(find_submodule(module, options.submodule), options.reset)
    return program, Source(unique, files, facts), options.factory


def _stage(
    runner: str, key: str, name: str, sha256: str | None, folder: Path, held: ExitStack
) -> StagedFile:
    path = folder / name
    try:
        is_file = path.is_file()
        problem = "" if is_file else "isn't a file" if path.exists() else "no such file"
    except OSError as e:  # a name that is too long
        problem = f"can't be read ({e.strerror or e})"
    if problem:
        told = f"runner {runner!r}: {key} {path}: {problem}"
        raise RunnerLoadError(runner, told, is_plan_fault=True)
    staged = stage_file(path, sha256)
    held.callback(staged.close)
    return staged.value


def _call(runner: str, where: str, function: Callable[..., Any], seed: int) -> Any:
    import torch

    try:
        with _MAKING:  # weights that are drawn are those of the seed, whoever else draws
            had = torch.get_default_dtype()
            torch.manual_seed(seed)
            module = function()
            found = torch.get_default_dtype()
            torch.set_default_dtype(had)
    except BaseException as e:  # whatever a user's function raises
        if is_interrupt(e):
            raise
        raise RunnerLoadError(runner, f"{where}: {tell_error(e)}") from None
    if found != had:
        raise RunnerLoadError(
            runner,
            f"{where}: set torch's default dtype to {found}, which holds for the whole process; "
            "convert the module instead, as by .double()",
            is_plan_fault=True,
        )
    if not isinstance(module, torch.nn.Module):
        raise RunnerLoadError(
            runner,
            f"{where}: returned a {type(module).__name__}, not an nn.Module",
            is_plan_fault=True,
        )
    return module


def _file_facts(path: str, file: StagedFile) -> dict[str, object]:
    return {"path": path, "digest": file.sha256, "sha256": file.sha256, "bytes": file.bytes}
