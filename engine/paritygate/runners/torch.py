"""Kind `torch`: TorchScript, exported programs, and modules that a factory makes.

A module is put into evaluation mode and called in inference mode. Nothing is unpickled but tensors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, cast

from paritygate.admission.errors import AdmissionError
from paritygate.core.digest import canonical_json
from paritygate.core.errors import RunnerError, RunnerLoadError
from paritygate.runners.base import (
    Finding,
    Limits,
    PrepareContext,
    Runner,
    RunnerSession,
    RunnerSpec,
)
from paritygate.runners.torch_device import stayable
from paritygate.runners.torch_load import describe_object
from paritygate.runners.torch_options import Options
from paritygate.runners.torch_program import Program, ProgramError
from paritygate.runners.torch_session import Caller, TorchSession
from paritygate.runners.torch_settings import Settings, SettingsError, acquire, describe_build
from paritygate.runners.torch_source import load_source
from paritygate.runners.torch_wiring import TorchWiring, described_inputs, wire_program

__all__ = ["Options", "TorchRunner", "prepare", "runner_of_object"]


class TorchRunner(Runner):
    """A program of torch that all threads share."""

    def __init__(
        self,
        name: str,
        program: Program,
        wiring: TorchWiring,
        limits: Limits,
        settings: Settings,
        held: ExitStack,
        device: str,
    ) -> None:
        super().__init__(
            name,
            "torch",
            limits=limits,
            inputs=wiring.base.inputs,
            outputs=wiring.base.outputs if program.answers is not None else None,
        )
        self._caller: Caller | None = Caller(
            program, wiring, limits.device, settings, is_thread_safe=limits.thread_safe
        )
        self._seen = self._caller
        self._wiring = wiring
        self._held = held
        self.layout = wiring.base.layout
        is_declared = program.answers is not None
        self.can_stay = stayable(device, wiring.base, is_declared=is_declared)

    def describe(self, identity: str, facts: dict[str, object]) -> None:
        """Set what it is and what is known of it."""
        self._identity = identity
        self._facts = facts

    def final_findings(self) -> tuple[Finding, ...]:
        """All findings, with what the first batch has shown."""
        return (*self.findings, *self._seen.findings)

    def session(self) -> RunnerSession:
        """A session for the calling thread."""
        if self._caller is None:
            raise RunnerError(f"runner {self.name!r} is closed")
        return TorchSession(self, self._caller, self._wiring)

    def close(self) -> None:
        """Let go of the program and put the process's settings back."""
        self._caller = None
        self._held.close()


def prepare(spec: RunnerSpec, context: PrepareContext) -> TorchRunner:
    """Load a program, and match it with the pack.

    Raises:
        RunnerLoadError: torch isn't there, the file isn't what can be loaded without unpickling,
            or the plan contradicts the program; `is_plan_fault` says on whose side the fault is.
    """
    options = cast(Options, spec.options)
    torch = import_torch(spec.name)
    with ExitStack() as held:
        settings = _hold_settings(spec.name, options, held)
        _check_device(spec.name, torch, options.device)
        try:
            program, source, what = load_source(spec.name, options, context, held)
            program.call.to(options.device)
            wiring = wire_program(spec.name, what, options, program, context)
        except ProgramError as e:
            raise _refuse(spec.name, options, e) from None
        except AdmissionError as e:
            raise RunnerLoadError(
                spec.name,
                f"runner {spec.name!r}: {e}",
                is_plan_fault=e.is_machine_fault,
                code=e.code,
            ) from None
        runner = _make(spec.name, program, wiring, options, settings, held.pop_all())
    runner.watched = tuple(w for file in source.files for w in file.watched)
    runner.constant_names = frozenset(f.ours for f in wiring.fed if f.constant is not None)
    told = {**_settings(torch, options, settings, wiring), "form": program.form}
    text = canonical_json(["torch", source.unique, told])
    facts = {**source.facts, **told, **program.facts, **_described(wiring)}
    runner.describe(hashlib.sha256(text).hexdigest(), facts)
    return runner


def runner_of_object(
    name: str,
    given: Any,
    outputs: tuple[str, ...],
    batch_size: int | None,
    context: PrepareContext,
) -> TorchRunner:
    """A runner of an `nn.Module`, a `ScriptModule` or an `ExportedProgram` as it is.

    It runs where its parameters are; its training flags are put back when the runner is closed.

    Raises:
        RunnerLoadError: the inputs aren't what it takes, or it can't be judged.
    """
    import torch

    options = Options(factory="verify:module", batch_size=batch_size, outputs=outputs)
    with ExitStack() as held:
        settings = _hold_settings(name, options, held)
        try:
            program = describe_object(given, held)
            what = program.form
            wiring = wire_program(name, what, options, program, context)
        except ProgramError as e:
            raise _refuse(name, options, e) from None
        device = next((str(t.device) for t in _tensors(given)), "cpu")
        options = options.model_copy(update={"device": device})
        runner = _make(name, program, wiring, options, settings, held.pop_all())
    told = {**_settings(torch, options, settings, wiring), "form": program.form}
    text = canonical_json(["torch", id(given), told])
    runner.describe(
        hashlib.sha256(text).hexdigest(),
        {"call": program.form, **told, **program.facts, **_described(wiring)},
    )
    return runner


def process_wide(options: Options) -> tuple[str, ...]:
    """What torch sets for the whole process, as `name=value`."""
    return _settings_of(options).told()


def _settings_of(options: Options) -> Settings:
    return Settings(options.intra_op_num_threads, options.deterministic, options.tf32, options.seed)


def import_torch(runner: str) -> Any:
    """The torch module.

    Raises:
        RunnerLoadError: there is none.
    """
    try:
        import torch
    except Exception as e:  # a broken build raises anything
        raise RunnerLoadError(
            runner,
            f"runner {runner!r} needs torch, which can't be imported ({e}); install "
            "'paritygate[torch]'",
            is_plan_fault=True,
        ) from None
    return torch


def _hold_settings(runner: str, options: Options, held: ExitStack) -> Settings:
    settings = _settings_of(options)
    try:
        held.callback(acquire(settings))
    except SettingsError as e:
        raise RunnerLoadError(
            runner,
            f"runner {runner!r}: settings of torch hold for the whole process, and another runner "
            f"of it needs others ({e}); give both the same",
            is_plan_fault=True,
        ) from None
    return settings


def _check_device(runner: str, torch: Any, device: str) -> None:
    kind, _, number = device.partition(":")
    if kind != "cuda":
        return
    there = int(torch.cuda.device_count()) if torch.cuda.is_available() else 0
    if int(number or 0) >= there:
        raise RunnerLoadError(
            runner,
            f"runners.{runner}.device: {device!r} isn't there: torch {torch.__version__} sees "
            f'{there} CUDA devices; install a build of torch for CUDA, or say device = "cpu"',
            is_plan_fault=True,
            code="placement.unavailable",
        )


def _refuse(runner: str, options: Options, error: ProgramError) -> RunnerLoadError:
    what = options.model or options.factory
    return RunnerLoadError(
        runner,
        f"runner {runner!r} ({what}): {error}",
        is_plan_fault=error.is_plan_fault,
        code=error.code or None,
    )


def _make(
    name: str,
    program: Program,
    wiring: TorchWiring,
    options: Options,
    settings: Settings,
    held: ExitStack,
) -> TorchRunner:
    is_safe = program.is_thread_safe if options.thread_safe is None else options.thread_safe
    is_fixed = wiring.base.fixed_batch is not None
    limits = Limits(
        (wiring.batch_size,),
        thread_safe=is_safe,
        device=options.device.partition(":")[0],
        process_wide=settings.told(),
        is_fixed=is_fixed,
    )
    return TorchRunner(name, program, wiring, limits, settings, held, options.device)


def _settings(
    torch: Any, options: Options, settings: Settings, wiring: TorchWiring
) -> dict[str, object]:
    """Everything besides the program that can change an answer."""
    return {
        **describe_build(torch),
        "device": options.device,
        "device_name": _device_name(torch, options.device),
        "intra_op_num_threads": settings.threads or int(torch.get_num_threads()),
        "deterministic": settings.deterministic,
        "tf32": settings.tf32,
        "seed": settings.seed,
        "batch_size": wiring.batch_size,
        "feeds": {f.ours: f.parameter.name for f in wiring.fed},
        "defaults": list(wiring.left_out),
        "outputs_named": (
            dict(wiring.names) if isinstance(wiring.names, Mapping) else list(wiring.names)
        ),
    }


def _device_name(torch: Any, device: str) -> str:
    return str(torch.cuda.get_device_name(device)) if device.startswith("cuda") else "cpu"


def _described(wiring: TorchWiring) -> dict[str, object]:
    moved = wiring.base.layout
    return {
        "inputs": list(described_inputs(wiring)),
        "outputs": [str(spec) for spec in wiring.base.outputs.values()],
        **({"sample_axes": {**moved.inputs, **moved.outputs}} if moved.is_moved else {}),
    }


def _tensors(given: Any) -> list[Any]:
    if hasattr(given, "state_dict") and not callable(given.state_dict):
        return list(given.state_dict.values())
    return [*given.parameters(), *given.buffers()]
