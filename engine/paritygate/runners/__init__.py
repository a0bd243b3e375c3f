"""Whatever maps a batch of inputs to named outputs, on one protocol.

What authors of kinds need is named here; docs/runners.md says how.
"""

from paritygate.core.digest import Watched, canonical_json, sha256_file, watch
from paritygate.core.errors import RunnerError, RunnerLoadError
from paritygate.core.ragged import Ragged
from paritygate.core.tensors import Array, Batch, ColumnSpec, TensorSpec
from paritygate.runners.base import (
    Finding,
    Lease,
    Limits,
    PrepareContext,
    Runner,
    RunnerSession,
    RunnerSpec,
    describe_batch,
)
from paritygate.runners.options import RunnerOptions
from paritygate.runners.registry import KINDS, infer_kind, parse_runner, prepare, prepare_all

__all__ = [
    "KINDS",
    "Array",
    "Batch",
    "ColumnSpec",
    "Finding",
    "Lease",
    "Limits",
    "PrepareContext",
    "Ragged",
    "Runner",
    "RunnerError",
    "RunnerLoadError",
    "RunnerOptions",
    "RunnerSession",
    "RunnerSpec",
    "TensorSpec",
    "Watched",
    "canonical_json",
    "describe_batch",
    "infer_kind",
    "parse_runner",
    "prepare",
    "prepare_all",
    "sha256_file",
    "watch",
]
