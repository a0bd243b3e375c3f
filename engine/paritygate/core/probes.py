"""Probes: what can't be a row of a pack, tried against the contract and against every runner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

ProbeName = Literal[
    "batch_zero", "batch_over", "rank", "dtype", "name", "missing", "dim_over", "dim_zero"
]
Outcome = Literal["refused", "accepted", "crashed", "late", "not_tried"]


class Tried(Struct, frozen=True):
    """What became of a probe: refused with the reason, or accepted with what was answered."""

    outcome: Outcome
    text: str


class ProbeResult(Struct, frozen=True):
    """One probe.

    Attributes:
        probe: its name.
        what: what was given, in words.
        contract: what the contract said to it, before any runner was called.
        runners: what each runner did with it, outside of the contract.
    """

    probe: ProbeName
    what: str
    contract: Tried
    runners: Mapping[str, Tried] = field(default_factory=dict)


class Probes(Struct, frozen=True):
    """All probes of a run.

    Attributes:
        is_asked: the plan asks for them.
        results: in the order in which they were tried.
        left_out: probes that can't be made here, with the reason.
    """

    is_asked: bool = False
    results: tuple[ProbeResult, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
