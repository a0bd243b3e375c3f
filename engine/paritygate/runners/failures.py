"""Batches of which some samples, or all, have no answer for a reason of their own."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from paritygate.core.errors import RunnerError
from paritygate.runners.base import Lease


class SampleFailure(Struct, frozen=True):
    """Why a sample has no answer: a rule of `SAMPLE_RULES`, and a sentence."""

    rule: str
    text: str


class PartialError(RunnerError):
    """A batch of which some samples have no answer; the others' answers are in the lease.

    Attributes:
        lease: rows without an answer hold nothing of meaning; whoever catches this releases it.
        failures: row of the batch -> why it has no answer; at least one.
    """

    def __init__(self, lease: Lease, failures: Mapping[int, SampleFailure]) -> None:
        super().__init__(next(iter(failures.values())).text)
        self.lease = lease
        self.failures = failures


class StoppedError(RunnerError):
    """A runner that isn't run any more: its process ended too often."""

    rule = "runner.stopped"
