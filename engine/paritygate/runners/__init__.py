"""Whatever maps a batch of inputs to named outputs, on one protocol."""

from paritygate.runners.base import (
    Finding,
    Lease,
    Limits,
    PrepareContext,
    Runner,
    RunnerSession,
    RunnerSpec,
)
from paritygate.runners.registry import KINDS, infer_kind, parse_runner, prepare, prepare_all

__all__ = [
    "KINDS",
    "Finding",
    "Lease",
    "Limits",
    "PrepareContext",
    "Runner",
    "RunnerSession",
    "RunnerSpec",
    "infer_kind",
    "parse_runner",
    "prepare",
    "prepare_all",
]
