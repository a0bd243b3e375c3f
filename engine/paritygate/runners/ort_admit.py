"""The files of an `onnxruntime` runner: admitted once, then loaded here or in other processes."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import cast

from msgspec import Struct

from paritygate.admission.admit import Admitted, admit_model
from paritygate.admission.errors import AdmissionError
from paritygate.admission.staging import Held, StagedFile, stage_file
from paritygate.core.digest import Watched
from paritygate.core.errors import RunnerLoadError
from paritygate.runners.base import PrepareContext, RunnerSpec
from paritygate.runners.ort_options import CustomOpLibrary, Options


class Artifacts(Struct, frozen=True):
    """What a session is made from, picklable.

    Attributes:
        model: the model's copy, with what is known of it.
        libraries: copies of the libraries of custom operators, as the plan orders them.
    """

    model: Admitted
    libraries: tuple[StagedFile, ...] = ()

    @property
    def watched(self) -> tuple[Watched, ...]:
        """All original files as they were when they were copied."""
        of_libraries = (watched for library in self.libraries for watched in library.watched)
        return (*self.model.watched, *of_libraries)


def admit(spec: RunnerSpec, context: PrepareContext) -> Held[Artifacts]:
    """Copy, digest and check all that a runner loads.

    Raises:
        RunnerLoadError: a file isn't fit to be loaded; the code is an `admission.*` one.
    """
    options = cast(Options, spec.options)
    path = context.folder / options.model
    what = _no_file(path)
    if what:
        raise RunnerLoadError(
            spec.name, f"runner {spec.name!r}: model {path}: {what}", is_plan_fault=True
        )
    with ExitStack() as stack:
        try:
            libraries = [
                stack.enter_context(_stage_library(context.folder, library))
                for library in options.custom_op_libraries
            ]
            model = stack.enter_context(admit_model(path, check=context.check_models))
        except AdmissionError as e:
            raise RunnerLoadError(
                spec.name,
                f"runner {spec.name!r}: {e}",
                is_plan_fault=e.is_machine_fault,
                code=e.code,
            ) from None
        found = Artifacts(model.value, tuple(held.value for held in libraries))
        return Held(found, stack.pop_all().close)
    raise AssertionError("unreachable")


def _stage_library(folder: Path, library: CustomOpLibrary) -> Held[StagedFile]:
    try:
        return stage_file(folder / library.path, library.sha256)
    except AdmissionError as e:
        code = RunnerLoadError.code if e.code == AdmissionError.code else e.code
        text = f"custom operator library {e}"
        raise AdmissionError(text, code, is_machine_fault=True) from None


def _no_file(path: Path) -> str:
    """What is wrong with a path that isn't a file's; empty for a file's."""
    try:
        if path.is_file():
            return ""
        return "isn't a file" if path.exists() else "no such file"
    except OSError as e:  # a name that is too long
        return f"can't be read ({e.strerror or e})"
