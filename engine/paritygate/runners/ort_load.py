"""Make an ONNX Runtime session as the options say, and find out what is really in force."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from paritygate.admission.admit import Admitted
from paritygate.core.errors import RunnerLoadError
from paritygate.runners.base import Finding
from paritygate.runners.ort_admit import Artifacts
from paritygate.runners.ort_options import CPU, Options
from paritygate.runners.ort_text import shorten, whole_text

# Concurrent creation of sessions isn't documented as safe.
_CREATING = threading.Lock()
# With this variable set, a model's metadata would choose session options.
_CONFIG_FROM_MODEL = "ORT_LOAD_CONFIG_FROM_MODEL"
_RECORD_PLACEMENT = "session.record_ep_graph_assignment_info"
_NOT_THREAD_SAFE = ("DmlExecutionProvider", "WebGpuExecutionProvider", "JsExecutionProvider")
_DEVICES = {
    CPU: "cpu",
    "CUDAExecutionProvider": "cuda",
    "TensorrtExecutionProvider": "cuda",
    "NvTensorRTRTXExecutionProvider": "cuda",
}
_EXTRAS = {
    "CUDAExecutionProvider": "paritygate[gpu]",
    "TensorrtExecutionProvider": "paritygate[gpu]",
    "OpenVINOExecutionProvider": "paritygate[openvino]",
}


@dataclass(frozen=True)
class Loaded:
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
    with _CREATING:
        removed = os.environ.pop(_CONFIG_FROM_MODEL, None)
        if removed is not None:
            facts["environment_ignored"] = [f"{_CONFIG_FROM_MODEL}={removed}"]
        session = _create(runner, ort, artifacts.model, options)
    in_force = tuple(session.get_providers())
    nodes = _nodes_by_provider(session) if _wants_placement(options) else None
    if nodes is not None:
        facts["nodes"] = nodes
    return Loaded(
        session=session,
        version=str(ort.__version__),
        build=str(ort.get_build_info()) if hasattr(ort, "get_build_info") else "",
        in_force=in_force,
        provider_options={
            name: dict(sorted(found.items()))
            for name, found in sorted(session.get_provider_options().items())
        },
        device=_device(in_force, nodes),
        is_thread_safe=_is_thread_safe(in_force, options),
        findings=_find_downgrades(options, in_force, nodes),
        facts=facts,
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


def _create(runner: str, ort: Any, model: Admitted, options: Options) -> Any:
    keywords: dict[str, Any] = {}
    if options.disabled_optimizers:
        keywords["disabled_optimizers"] = list(options.disabled_optimizers)
    try:
        session = ort.InferenceSession(
            os.fspath(model.path),
            _session_options(ort, options),
            providers=[(p.name, dict(p.options)) for p in options.providers],
            enable_fallback=0,
            **keywords,
        )
        session.disable_fallback()
    except Exception as e:  # onnxruntime's classes have no common base of their own
        text = model.in_words_of_the_plan(whole_text(e))
        is_option = "provider option" in text.lower()
        code = "placement.downgraded" if "fallback to CPU EP has been" in text else None
        raise RunnerLoadError(
            runner,
            f"runner {runner!r}: ONNX Runtime {ort.__version__} doesn't load {model.source}: "
            f"{shorten(text)}",
            is_plan_fault=is_option,
            code=code,
            detail=text,
        ) from None
    return session


def _session_options(ort: Any, options: Options) -> Any:
    levels = ort.GraphOptimizationLevel
    modes = ort.ExecutionMode
    made = ort.SessionOptions()
    made.graph_optimization_level = {
        "disable": levels.ORT_DISABLE_ALL,
        "basic": levels.ORT_ENABLE_BASIC,
        "extended": levels.ORT_ENABLE_EXTENDED,
        "layout": getattr(levels, "ORT_ENABLE_LAYOUT", levels.ORT_ENABLE_ALL),
        "all": levels.ORT_ENABLE_ALL,
    }[options.graph_optimization_level]
    made.intra_op_num_threads = options.intra_op_num_threads
    made.inter_op_num_threads = options.inter_op_num_threads
    made.execution_mode = {
        "sequential": modes.ORT_SEQUENTIAL,
        "parallel": modes.ORT_PARALLEL,
    }[options.execution_mode]
    made.log_severity_level = 4  # what is raised says it, and says it once
    for key, value in options.config_entries().items():
        made.add_session_config_entry(key, value)
    if _wants_placement(options):
        made.add_session_config_entry(_RECORD_PLACEMENT, "1")
    return made


def _wants_placement(options: Options) -> bool:
    return any(p.name != CPU for p in options.providers)


def _nodes_by_provider(session: Any) -> dict[str, int] | None:
    """Nodes that each provider took; None where this version can't tell."""
    try:
        parts = session.get_provider_graph_assignment_info()
    except Exception:  # absent before 1.24, or refused
        return None
    counts: dict[str, int] = {}
    for part in parts:
        counts[part.ep_name] = counts.get(part.ep_name, 0) + len(part.get_nodes())
    return dict(sorted(counts.items()))


def _find_downgrades(
    options: Options, in_force: Sequence[str], nodes: Mapping[str, int] | None
) -> tuple[Finding, ...]:
    requested = [p.name for p in options.providers]
    found = []
    for rank, name in enumerate(requested):
        if name == CPU:
            continue
        preferred = set(requested[: rank + 1])
        below = {k: n for k, n in (nodes or {}).items() if n and k not in preferred}
        if name not in in_force:
            what = f"isn't in force; the model runs on {', '.join(in_force)}"
        elif nodes is not None and not nodes.get(name) and below:
            taken = ", ".join(f"{n} on {k}" for k, n in below.items())
            what = f"took none of the model's nodes ({taken})"
        else:
            continue
        found.append(
            Finding(
                "placement.downgraded",
                f"{name} was asked for but {what}",
                "the libraries that the provider needs (`paritygate doctor`), and whether it "
                "supports the model's operators",
            )
        )
    return tuple(found)


def _device(in_force: Sequence[str], nodes: Mapping[str, int] | None) -> str:
    busy = [n for n in in_force if nodes is None or nodes.get(n)] or list(in_force)
    name = busy[0] if busy else CPU
    return _DEVICES.get(name, name.removesuffix("ExecutionProvider").lower())


def _is_thread_safe(in_force: Sequence[str], options: Options) -> bool:
    graphs = any(p.options.get("enable_cuda_graph") in ("1", "True") for p in options.providers)
    return not graphs and not set(in_force) & set(_NOT_THREAD_SAFE)
