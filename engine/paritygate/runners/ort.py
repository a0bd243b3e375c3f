"""Kind `onnxruntime`: a model under ONNX Runtime, with any execution provider."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, cast

from msgspec.structs import asdict, replace

from paritygate.admission.staging import staging_facts
from paritygate.core.digest import canonical_json
from paritygate.core.errors import RunnerError
from paritygate.core.tensors import Array
from paritygate.runners.base import (
    DEFAULT_BATCH_SIZE,
    Finding,
    Limits,
    PrepareContext,
    Runner,
    RunnerSession,
    RunnerSpec,
)
from paritygate.runners.ort_admit import Artifacts, admit
from paritygate.runners.ort_answer import Answerer
from paritygate.runners.ort_device import stayable
from paritygate.runners.ort_load import Loaded, load_session
from paritygate.runners.ort_options import Options
from paritygate.runners.ort_probe import BatchProbe
from paritygate.runners.ort_raw import run_raw
from paritygate.runners.ort_session import AnswerSession, OrtSession
from paritygate.runners.ort_watch import PlacementWatch
from paritygate.runners.ort_wiring import Wiring, wire_model

__all__ = ["Options", "OrtRunner", "admit", "prepare"]


class OrtRunner(Runner):
    """A model under ONNX Runtime; one inference session that all threads share."""

    def __init__(
        self,
        name: str,
        loaded: Loaded,
        wiring: Wiring,
        limits: Limits,
        watch: PlacementWatch,
    ) -> None:
        super().__init__(
            name,
            "onnxruntime",
            limits=limits,
            inputs=wiring.inputs,
            outputs=wiring.declared,
            findings=loaded.findings,
        )
        self.let_go: Callable[[], None] = lambda: None
        self._inference: Any = loaded.session
        self._wiring = wiring
        self._watch = watch
        self.layout = wiring.layout
        self._answer = Answerer(wiring)
        self._probe = BatchProbe(wiring, limits.device, self._answer)

    @property
    def facts(self) -> Mapping[str, object]:
        """What is known of it; with the keys of maps, as far as batches have shown them."""
        keys, facts = self.class_keys, {**self._facts, **self._watch.facts}
        return {**facts, "class_keys": keys} if keys else facts

    @property
    def class_keys(self) -> Mapping[str, list[int | str]]:
        """Output made of maps -> their keys in the order of its columns, as far as seen."""
        return {output: list(found) for output, found in sorted(self._answer.keys.items())}

    def final_findings(self) -> tuple[Finding, ...]:
        """All findings, with those on where its nodes ran."""
        return (*self.findings, *self._watch.conclude(self._inference).findings)

    def describe(self, identity: str, facts: dict[str, object]) -> None:
        """Set what it is and what is known of it."""
        self._identity = identity
        self._facts = facts

    def session(self) -> RunnerSession:
        """A session for the calling thread, with buffers of its own."""
        if self._inference is None:
            raise RunnerError(f"runner {self.name!r} is closed")
        if self._wiring.is_bound:
            return OrtSession(self, self._inference, self._wiring, self._probe, self._watch)
        return AnswerSession(
            self, self._inference, self._wiring, self._probe, self._watch, self._answer
        )

    def answer_raw(self, inputs: Mapping[str, Array]) -> Mapping[str, Any]:
        """Give the session any inputs; see `run_raw`."""
        return run_raw(self._inference, self._wiring, inputs)

    def close(self) -> None:
        """Let go of the model; sessions that are still open keep it."""
        self._inference = None
        self.let_go()


def process_wide(options: Options) -> tuple[str, ...]:
    """What ONNX Runtime sets for the whole process: the first session decides on denormals."""
    return ("denormals=flushed",) if options.flushes_denormals else ()


def prepare(spec: RunnerSpec, context: PrepareContext) -> OrtRunner:
    """Copy, identify, check and load a model, and match it with the pack.

    What another process admitted (`context.admitted`) is loaded as it is.

    Raises:
        RunnerLoadError: see `admit`, `load_session` and `wire_model`.
    """
    given = context.admitted
    if isinstance(given, Artifacts):
        return _prepare(spec, context, given)
    held = admit(spec, context)
    try:
        runner = _prepare(spec, context, held.value)
    except BaseException:
        held.close()
        raise
    runner.let_go = held.close
    return runner


def _prepare(spec: RunnerSpec, context: PrepareContext, artifacts: Artifacts) -> OrtRunner:
    options = cast(Options, spec.options)
    model = artifacts.model
    loaded = load_session(spec.name, artifacts, options)
    wiring = wire_model(spec.name, options, loaded, context)
    size = options.batch_size or wiring.fixed_batch or DEFAULT_BATCH_SIZE
    is_fixed = wiring.fixed_batch is not None
    concerns = model.inspection.concerns
    loaded = replace(
        loaded,
        findings=(*loaded.findings, *(Finding(c.code, c.message, c.next) for c in concerns)),
    )
    limits = Limits(
        (size,),
        loaded.is_thread_safe,
        loaded.device,
        process_wide=process_wide(options),
        is_fixed=is_fixed,
    )
    watch = PlacementWatch(spec.name, options, loaded, model, wiring)
    runner = OrtRunner(spec.name, loaded, wiring, limits, watch)
    runner.constant_names = frozenset(
        ours for ours in context.constants if options.inputs.get(ours, ours) in wiring.fixed
    )
    runner.can_stay = stayable(loaded, wiring)
    runner.watched = artifacts.watched
    settings = _settings(options, loaded, wiring, size)
    settings["custom_op_libraries"] = [library.sha256 for library in artifacts.libraries]
    text = canonical_json(["onnxruntime", model.identity.digest, settings])
    facts = {**settings, **_file_facts(options, artifacts), **loaded.facts}
    facts["precision"] = model.precision
    facts["admission"] = model.inspection.to_json()
    facts["inputs"] = [str(spec) for spec in wiring.inputs.values()]
    facts["outputs"] = [str(spec) for spec in wiring.outputs.values()]
    moved = wiring.layout
    facts |= {"sample_axes": {**moved.inputs, **moved.outputs}} if moved.is_moved else {}
    runner.describe(hashlib.sha256(text).hexdigest(), facts)
    return runner


def _settings(
    options: Options, loaded: Loaded, wiring: Wiring, batch_size: int
) -> dict[str, object]:
    """Everything besides the model that can change an answer."""
    return {
        "runtime": "onnxruntime",
        "runtime_version": loaded.version,
        "runtime_build": loaded.build,
        "providers_requested": [p.model_dump() for p in options.providers],
        "providers_in_force": list(loaded.in_force),
        "provider_options": loaded.provider_options,
        "batch_size": batch_size,
        "graph_optimization_level": options.graph_optimization_level,
        "intra_op_num_threads": options.intra_op_num_threads,
        "inter_op_num_threads": options.inter_op_num_threads,
        "execution_mode": options.execution_mode,
        "session_options": options.config_entries(),
        "disabled_optimizers": sorted(options.disabled_optimizers),
        "feeds": dict(wiring.feeds),
        "fetches": dict(wiring.fetches),
    }


def _file_facts(options: Options, artifacts: Artifacts) -> dict[str, object]:
    model, libraries = artifacts.model, artifacts.libraries
    identity = model.identity
    beside = sum(file.bytes for file in identity.files)
    loaded = sum(library.bytes for library in libraries)
    return {
        "model": {
            "path": options.model,
            "digest": identity.digest,
            "sha256": identity.sha256,
            "semantic_digest": identity.semantic,
            "graph_digest": identity.graph,
            "bytes": identity.bytes,
            "external_data": [asdict(file) for file in identity.files],
            **model.facts.to_json(),
        },
        "custom_op_libraries": [
            {"path": named.path, "sha256": library.sha256, "bytes": library.bytes}
            for named, library in zip(options.custom_op_libraries, libraries, strict=True)
        ],
        "staging": staging_facts(
            identity.bytes + beside + loaded,
            model.seconds + sum(library.seconds for library in libraries),
            is_clone=model.is_clone,
        ),
    }
