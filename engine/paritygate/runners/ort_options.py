"""Options of `onnxruntime` runners, and the session config keys that ONNX Runtime documents.

ONNX Runtime accepts an unknown config key in silence, so a key is checked against the list here:
those of its header of session option keys that its released builds (up to 1.31) contain.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, StrictInt, StrictStr, field_validator, model_validator

from paritygate.core.problems import did_you_mean
from paritygate.runners.options import RunnerOptions, check_mapping

CPU = "CPUExecutionProvider"

CONFIG_KEYS = frozenset(
    {
        "ep.context_embed_mode",
        "ep.context_enable",
        "ep.context_file_path",
        "ep.context_model_external_initializers_file_name",
        "ep.context_node_name_prefix",
        "ep.cuda.fpa_intb_gemm",
        "ep.cuda.fpa_intb_profile_m",
        "ep.cuda.gqa_workspace_max_total_sequence_length",
        "ep.enable_weightless",
        "ep.share_ep_contexts",
        "ep.stop_share_ep_contexts",
        "mlas.disable_kleidiai",
        "mlas.enable_gemm_fastmath_arm64_bfloat16",
        "mlas.kleidiai.conv_igemm_max_work",
        "mlas.nchwc_depthwise_sliding",
        "mlas.nchwc_pointwise_conv_max_input_channel_batch",
        "mlas.qnbit.force_fp32",
        "mlas.use_lut_gemm",
        "optimization.constant_folding_max_output_size_in_bytes",
        "optimization.disable_specified_optimizers",
        "optimization.enable_cast_chain_elimination",
        "optimization.enable_gelu_approximation",
        "optimization.minimal_build_optimizations",
        "session.allow_released_opsets_only",
        "session.debug_layout_transformation",
        "session.disable_aot_function_inlining",
        "session.disable_cpu_ep_fallback",
        "session.disable_double_qdq_remover",
        "session.disable_model_compile",
        "session.disable_prepacking",
        "session.disable_qdq_constant_folding",
        "session.disable_quant_qdq",
        "session.dynamic_block_base",
        "session.enable_dq_matmulnbits_fusion",
        "session.enable_quant_qdq_cleanup",
        "session.fail_on_suboptimal_compiled_model",
        "session.force_spinning_stop",
        "session.function_expansion_byte_limit",
        "session.function_expansion_node_limit",
        "session.gqa_value_layout",
        "session.graph_optimizations_loop_level",
        "session.inter_op.allow_spinning",
        "session.inter_op.spin_backoff_max",
        "session.inter_op.spin_duration_us",
        "session.intra_op.allow_spinning",
        "session.intra_op.spin_backoff_max",
        "session.intra_op.spin_duration_us",
        "session.intra_op_thread_affinities",
        "session.layer_assignment_settings",
        "session.load_model_format",
        "session.max_shape_override",
        "session.name_based_layer_assignment",
        "session.node_partition_config_file",
        "session.prepack.enable_parallel",
        "session.qdq_matmulnbits_accuracy_level",
        "session.qdq_matmulnbits_block_size",
        "session.qdqisint8allowed",
        "session.record_ep_graph_assignment_info",
        "session.resource_cuda_partitioning_settings",
        "session.set_denormal_as_zero",
        "session.strict_shape_type_inference",
        "session.use_deterministic_compute",
        "session.use_device_allocator_for_initializers",
        "session.use_env_allocators",
        "session.x64quantprecision",
    }
)

# Keys that exist but don't belong in `session_options`, and what to do instead.
RESERVED = {
    "optimization.disable_specified_optimizers": "use disabled_optimizers = [...]",
    "session.graph_optimization_level": "use graph_optimization_level",
    "session.intra_op_num_threads": "use intra_op_num_threads",
    "session.inter_op_num_threads": "use inter_op_num_threads",
    "session.execution_mode": "use execution_mode",
    "session.record_ep_graph_assignment_info": "it is set wherever it tells something",
    "session.model_external_initializers_file_folder_path": (
        "external data is read from the model's own folder"
    ),
}
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_DENORMALS = "session.set_denormal_as_zero"
SPINNING = ("session.intra_op.allow_spinning", "session.inter_op.allow_spinning")


class Provider(RunnerOptions):
    """An execution provider: its name and its options, as text."""

    name: StrictStr
    options: dict[StrictStr, StrictStr] = Field(default={})

    @field_validator("options", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        return _texts(value)

    @model_validator(mode="after")
    def _no_cpu_options(self) -> Provider:
        if self.name == CPU and self.options:
            raise ValueError(
                f"{CPU} takes no options (it would ignore {sorted(self.options)} in silence); "
                "use session_options or the runner's own keys"
            )
        return self


class CustomOpLibrary(RunnerOptions):
    """A library of operators: its code runs in this process, so the plan says which bytes."""

    path: Annotated[StrictStr, Field(min_length=1)]
    sha256: StrictStr = ""

    @field_validator("sha256")
    @classmethod
    def _digest(cls, value: str) -> str:
        if not _SHA256.fullmatch(value):
            raise ValueError("is the library's digest, 64 hexadecimal digits as sha256sum prints")
        return value.lower()

    @model_validator(mode="after")
    def _pinned(self) -> CustomOpLibrary:
        if not self.sha256:
            raise ValueError(
                "needs sha256 = the library's digest: its code runs in this process, so the plan "
                "says which bytes (sha256sum prints them)"
            )
        return self


class Options(RunnerOptions):
    """`[runners.NAME]` of kind `onnxruntime`.

    Attributes:
        model: path of the ONNX file.
        providers: execution providers in order of preference.
        batch_size: rows of a batch; None: the model's fixed batch, or else 256.
        graph_optimization_level: as in production; it is part of what is judged.
        intra_op_num_threads: threads inside a node; 0 lets ONNX Runtime decide.
        inter_op_num_threads: threads across nodes, in parallel execution mode.
        execution_mode: of the nodes.
        session_options: config entries by their full key.
        disabled_optimizers: optimisers that are left out, by name.
        custom_op_libraries: shared libraries of operators, each with its digest.
        inputs: our name -> the model's, where they differ.
        outputs: our name -> the model's, where they differ.
        allowed_fallback: op types and names of nodes that may run on another provider than the
            first.
        placement: "observed": one batch is run again, profiled, in a process beside the run;
            "assigned": what the session says of itself, and no more; "auto": observed, unless
            the model has more than 1 GiB.
    """

    model: Annotated[StrictStr, Field(min_length=1)]
    providers: tuple[Provider, ...] = (Provider(name=CPU),)
    batch_size: Annotated[StrictInt, Field(ge=1)] | None = None
    graph_optimization_level: Literal["disable", "basic", "extended", "layout", "all"] = "all"
    intra_op_num_threads: Annotated[StrictInt, Field(ge=0)] = 1
    inter_op_num_threads: Annotated[StrictInt, Field(ge=0)] = 1
    execution_mode: Literal["sequential", "parallel"] = "sequential"
    session_options: dict[StrictStr, StrictStr] = Field(default={})
    disabled_optimizers: tuple[StrictStr, ...] = ()
    custom_op_libraries: tuple[CustomOpLibrary, ...] = ()
    inputs: dict[StrictStr, StrictStr] = Field(default={})
    outputs: dict[StrictStr, StrictStr] = Field(default={})
    allowed_fallback: tuple[StrictStr, ...] = ()
    placement: Literal["auto", "observed", "assigned"] = "auto"

    @field_validator("providers", mode="before")
    @classmethod
    def _tables(cls, value: Any) -> Any:
        entries = [value] if isinstance(value, str) else value
        if not isinstance(entries, list | tuple):
            return value
        return tuple({"name": e} if isinstance(e, str) else e for e in entries)

    @field_validator("providers")
    @classmethod
    def _distinct(cls, value: tuple[Provider, ...]) -> tuple[Provider, ...]:
        names = [p.name for p in value]
        if not names:
            raise ValueError(f"name at least one provider, such as {CPU}")
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise ValueError(f"{', '.join(twice)} is named twice")
        return value

    @field_validator("session_options", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        return _texts(value)

    @field_validator("session_options")
    @classmethod
    def _known_keys(cls, value: dict[str, str]) -> dict[str, str]:
        problems = [p for p in (_key_problem(k, v) for k, v in value.items()) if p]
        if problems:
            raise ValueError("; ".join(problems))
        return value

    @field_validator("allowed_fallback")
    @classmethod
    def _named(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if "" in value:
            raise ValueError("name op types or nodes; nodes without a name go by their op type")
        return value

    @field_validator("inputs", "outputs")
    @classmethod
    def _one_to_one(cls, value: dict[str, str]) -> dict[str, str]:
        check_mapping(value, "tensor of the model")
        return value

    @property
    def flushes_denormals(self) -> bool:
        """Whether a session flushes denormals to zero, in its whole process."""
        return self.session_options.get(_DENORMALS) == "1"

    def config_entries(self) -> dict[str, str]:
        """Session config entries in force: those of the plan, and spinning off unless it says."""
        return {**dict.fromkeys(SPINNING, "0"), **self.session_options}


def _texts(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {k: _text(v) for k, v in value.items()}


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return "1" if value else "0"
    return repr(value) if isinstance(value, int | float) else value


def _key_problem(key: str, value: str) -> str | None:
    if key in RESERVED:
        return f"{key!r} doesn't belong here: {RESERVED[key]}"
    if key not in CONFIG_KEYS:
        return f"{key!r} isn't a session option that ONNX Runtime documents" + did_you_mean(
            key, sorted(CONFIG_KEYS)
        )
    if key == _DENORMALS and value not in ("0", "1"):
        return f"{key!r} is 0 or 1 (found {value!r})"
    return None
