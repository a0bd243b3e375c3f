"""Verdicts, reasons with stable codes, exit codes."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Verdict(StrEnum):
    """What a run ends with."""

    RELEASE = "release"
    HOLD = "hold"
    UNJUDGED = "unjudged"
    INCOMPLETE = "incomplete"

    @property
    def exit_code(self) -> int:
        """Exit code of a command that ends with this verdict."""
        return {"release": 0, "hold": 1, "unjudged": 2, "incomplete": 3}[self.value]


# Rules that can fail a sample. The value is the bit in `rules` arrays of the compiled kernels.
SAMPLE_RULES = {
    "tolerance.exceeded": 1,
    "tolerance.hard_cap": 2,
    "nonfinite.candidate": 4,
    "nonfinite.reference": 8,
    "nonfinite.mismatch": 16,
    "shape.mismatch": 32,
    "dtype.mismatch": 64,
    "decision.flip": 128,
    "runner.error": 256,
    "sample.missing": 512,
    "output.missing": 1024,
    "decision.error": 2048,
    "runner.crashed": 4096,
    "runner.timeout": 8192,
    "runner.stopped": 16384,
    "runner.disagreement": 32768,
}


def rule_names(bits: int) -> list[str]:
    """Names of the rules set in a bit mask, in the order of the table."""
    return [name for name, bit in SAMPLE_RULES.items() if bits & bit]


class Reason(Struct, frozen=True):
    """Why a run does not release.

    Attributes:
        code: stable dotted code.
        message: one sentence with the worst case: both values and the bound.
        stage, output, decision: where, if it belongs to one.
        count: samples (or elements, see `message`) concerned; None where it isn't counted.
        ids: the first few sample ids.
        next: what to look at next.
        detail: all that a runtime said, where the message is shorter; for the summary only.
    """

    code: str
    message: str
    stage: str | None = None
    output: str | None = None
    decision: str | None = None
    count: int | None = None
    ids: tuple[int | str, ...] = ()
    next: str = ""
    detail: str = ""
