"""The files of an `onnxruntime` runner: admitted once, then loaded here or in other processes."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from paritygate.admission.admit import Admitted, admit_model
from paritygate.admission.errors import AdmissionError
from paritygate.admission.staging import Held
from paritygate.core.digest import Watched
from paritygate.core.errors import RunnerLoadError
from paritygate.runners.base import PrepareContext, RunnerSpec
from paritygate.runners.ort_options import Options


@dataclass(frozen=True)
class Artifacts:
    """What a session is made from, picklable.

    Attributes:
        model: the model's copy, with what is known of it.
    """

    model: Admitted

    @property
    def watched(self) -> tuple[Watched, ...]:
        """All original files as they were when they were copied."""
        return self.model.watched


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
            model = stack.enter_context(admit_model(path, check=context.check_models))
        except AdmissionError as e:
            raise RunnerLoadError(
                spec.name,
                f"runner {spec.name!r}: {e}",
                is_plan_fault=e.is_machine_fault,
                code=e.code,
            ) from None
        return Held(Artifacts(model.value), stack.pop_all().close)
    raise AssertionError("unreachable")


def _no_file(path: Path) -> str:
    """What is wrong with a path that isn't a file's; empty for a file's."""
    try:
        if path.is_file():
            return ""
        return "isn't a file" if path.exists() else "no such file"
    except OSError as e:  # a name that is too long
        return f"can't be read ({e.strerror or e})"
