"""Make an ONNX Runtime session as the options say, and find out what is really in force."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from paritygate.admission.staging import StagedFile
from paritygate.core.errors import RunnerLoadError
from paritygate.runners.base import Finding
from paritygate.runners.ort_admit import Artifacts
from paritygate.runners.ort_libraries import why_not_in_force
from paritygate.runners.ort_observe import CONFIG_FROM_MODEL
from paritygate.runners.ort_operators import advise_on_operators
from paritygate.runners.ort_options import CPU, Options
from paritygate.runners.ort_placement import AssignedNode, find_misplaced
from paritygate.runners.ort_text import shorten, whole_text

_LOG = logging.getLogger("paritygate.runners")
# Concurrent creation of sessions isn't documented as safe.
_CREATING = threading.Lock()
RECORD_PLACEMENT = "session.record_ep_graph_assignment_info"
_NOT_THREAD_SAFE = ("DmlExecutionProvider", "WebGpuExecutionProvider", "JsExecutionProvider")
_DEVICES = {
    CPU: "cpu",
    "CUDAExecutionProvider": "cuda",
    "TensorrtExecutionProvider": "cuda",
    "NvTensorRTRTXExecutionProvider": "cuda",
}
_LEVELS = {
    "disable": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "layout": "ORT_ENABLE_LAYOUT",
    "all": "ORT_ENABLE_ALL",
}
_MODES = {"sequential": "ORT_SEQUENTIAL", "parallel": "ORT_PARALLEL"}
_EXTRAS = {
    "CUDAExecutionProvider": "paritygate[gpu]",
    "TensorrtExecutionProvider": "paritygate[gpu]",
    "OpenVINOExecutionProvider": "paritygate[openvino]",
}


class Loaded(Struct, frozen=True):
    """A session and what is in force in it.

    Attributes:
        session: `onnxruntime.InferenceSession`.
        version: of onnxruntime.
        build: what the build says of itself.
        in_force: providers in force, in order of preference.
        provider_options: their options in force, by provider.
        device: where most of the work is meant to be done.
        is_thread_safe: several threads may run at once.
        findings: a provider that was asked for but does nothing.
        facts: further facts of JSON types.
        assigned: the node that each provider took; None where the runtime can't tell.
        request: the same session, for the process that observes another of its kind.
        load_s: seconds that its creation took.
    """

    session: Any
    version: str
    build: str
    in_force: tuple[str, ...]
    provider_options: Mapping[str, Mapping[str, str]]
    device: str
    is_thread_safe: bool
    findings: tuple[Finding, ...] = ()
    facts: Mapping[str, object] = field(default_factory=dict)
    assigned: tuple[AssignedNode, ...] | None = None
    request: Mapping[str, Any] = field(default_factory=dict)
    load_s: float = 0.0


def load_session(runner: str, artifacts: Artifacts, options: Options) -> Loaded:
    """Load the copy of a model by its path.

    Raises:
        RunnerLoadError: onnxruntime isn't there, a provider isn't in its build, an option is
            unknown to its provider (all three faults of plan or machine); or the model doesn't
            load.
    """
    ort = import_onnxruntime(runner)
    _check_providers(runner, ort, [p.name for p in options.providers])
    facts: dict[str, object] = {}
    started = time.perf_counter()
    with _CREATING:
        removed = os.environ.pop(CONFIG_FROM_MODEL, None)
        if removed is not None:
            facts["environment_ignored"] = [f"{CONFIG_FROM_MODEL}={removed}"]
        session = _create(runner, ort, artifacts, options)
    load_s = time.perf_counter() - started
    in_force = tuple(session.get_providers())
    assigned = _assigned_nodes(session)
    requested = [p.name for p in options.providers]
    libraries = Path(ort.__file__).parent / "capi"
    findings = find_misplaced(
        runner,
        requested,
        in_force,
        assigned,
        options.allowed_fallback,
        lambda provider: why_not_in_force(provider, libraries),
    )
    for finding in findings:
        if finding.code == "placement.downgraded":
            _LOG.warning("runner %r: %s; the run holds for that", runner, finding.message)
    return Loaded(
        session=session,
        version=str(ort.__version__),
        build=str(ort.get_build_info()) if hasattr(ort, "get_build_info") else "",
        in_force=in_force,
        provider_options={
            name: dict(sorted(found.items()))
            for name, found in sorted(session.get_provider_options().items())
        },
        device=_device(in_force, assigned),
        is_thread_safe=_is_thread_safe(in_force, options),
        findings=findings,
        facts=facts,
        assigned=assigned,
        request=_request(artifacts, ort, options),
        load_s=load_s,
    )


def import_onnxruntime(runner: str) -> Any:
    """The onnxruntime module.

    Raises:
        RunnerLoadError: there is none, or what is there is broken.
    """
    try:
        import onnxruntime
    except ImportError as e:
        raise RunnerLoadError(
            runner,
            f"runner {runner!r} needs onnxruntime, which can't be imported ({e}); install "
            "'paritygate[cpu]' or 'paritygate[gpu]', one of them",
            is_plan_fault=True,
        ) from None
    if not hasattr(onnxruntime, "InferenceSession"):
        raise RunnerLoadError(
            runner,
            f"runner {runner!r}: onnxruntime is installed but broken (it has no InferenceSession), "
            "as after removing one of two distributions that share its folder; uninstall all of "
            "them and install one",
            is_plan_fault=True,
        )
    return onnxruntime


def _check_providers(runner: str, ort: Any, requested: Sequence[str]) -> None:
    available = list(ort.get_available_providers())
    absent = [name for name in requested if name not in available]
    if not absent:
        return
    extras = sorted({_EXTRAS[name] for name in absent if name in _EXTRAS})
    mend = f"install {' or '.join(extras)} (in place of any other), " if extras else ""
    raise RunnerLoadError(
        runner,
        f"runners.{runner}.providers: {', '.join(absent)} isn't in this build of onnxruntime "
        f"{ort.__version__}, which has {', '.join(available)}; {mend}or name one that it has",
        is_plan_fault=True,
        code="placement.unavailable",
    )


def _create(runner: str, ort: Any, artifacts: Artifacts, options: Options) -> Any:
    model = artifacts.model
    keywords: dict[str, Any] = {}
    if options.disabled_optimizers:
        keywords["disabled_optimizers"] = list(options.disabled_optimizers)
    try:
        session = ort.InferenceSession(
            os.fspath(model.path),
            _session_options(ort, options, artifacts.libraries),
            providers=[(p.name, dict(p.options)) for p in options.providers],
            enable_fallback=0,
            **keywords,
        )
        session.disable_fallback()
    except Exception as e:  # onnxruntime's classes have no common base of their own
        text = model.in_words_of_the_plan(whole_text(e))
        is_option = "provider option" in text.lower()
        code = "placement.downgraded" if "fallback to CPU EP has been" in text else None
        advice = advise_on_operators(runner, text, artifacts)
        raise RunnerLoadError(
            runner,
            f"runner {runner!r}: ONNX Runtime {ort.__version__} doesn't load {model.source}: "
            f"{shorten(text)}{advice}",
            is_plan_fault=is_option,
            code=code,
            detail=text,
        ) from None
    return session


def _session_options(ort: Any, options: Options, libraries: Sequence[StagedFile]) -> Any:
    made = ort.SessionOptions()
    made.graph_optimization_level = getattr(ort.GraphOptimizationLevel, _level(ort, options))
    made.intra_op_num_threads = options.intra_op_num_threads
    made.inter_op_num_threads = options.inter_op_num_threads
    made.execution_mode = getattr(ort.ExecutionMode, _MODES[options.execution_mode])
    made.log_severity_level = 4  # what is raised says it, and says it once
    for key, value in options.config_entries().items():
        made.add_session_config_entry(key, value)
    for library in libraries:
        made.register_custom_ops_library(os.fspath(library.path))
    made.add_session_config_entry(RECORD_PLACEMENT, "1")
    return made


def _assigned_nodes(session: Any) -> tuple[AssignedNode, ...] | None:
    """The nodes that each provider took; None where this version can't tell."""
    try:
        parts = session.get_provider_graph_assignment_info()
    except Exception:  # absent before 1.24, or refused
        return None
    return tuple(
        AssignedNode(part.ep_name, node.name, node.domain, node.op_type)
        for part in parts
        for node in part.get_nodes()
    )


def _level(ort: Any, options: Options) -> str:
    name = _LEVELS[options.graph_optimization_level]
    return name if hasattr(ort.GraphOptimizationLevel, name) else "ORT_ENABLE_ALL"


def _request(artifacts: Artifacts, ort: Any, options: Options) -> dict[str, Any]:
    """The session once more, in the words of `_observe.py`."""
    return {
        "model": str(artifacts.model.path.absolute()),
        "level": _level(ort, options),
        "mode": _MODES[options.execution_mode],
        "intra": options.intra_op_num_threads,
        "inter": options.inter_op_num_threads,
        "entries": {**options.config_entries(), RECORD_PLACEMENT: "1"},
        "providers": [[p.name, dict(p.options)] for p in options.providers],
        "disabled": list(options.disabled_optimizers),
        "libraries": [str(library.path.absolute()) for library in artifacts.libraries],
    }


def _device(in_force: Sequence[str], assigned: Sequence[AssignedNode] | None) -> str:
    taken = None if assigned is None else {node.provider for node in assigned}
    busy = [n for n in in_force if taken is None or n in taken] or list(in_force)
    name = busy[0] if busy else CPU
    return _DEVICES.get(name, name.removesuffix("ExecutionProvider").lower())


def _is_thread_safe(in_force: Sequence[str], options: Options) -> bool:
    graphs = any(p.options.get("enable_cuda_graph") in ("1", "True") for p in options.providers)
    return not graphs and not set(in_force) & set(_NOT_THREAD_SAFE)
