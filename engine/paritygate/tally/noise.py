"""A reference against itself: what differs where nothing but the circumstances did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from paritygate.tally.extremes import Extreme
from paritygate.tally.stage import StageTally

Cause = Literal["repetition", "batch_size", "position", "threads"]
CAUSES: tuple[Cause, ...] = ("repetition", "batch_size", "position", "threads")


class Varied(Struct, frozen=True):
    """One circumstance that was changed.

    Attributes:
        cause: what it is.
        at: how often it was run, batch size, or threads; None where the cause says it all.
        was: the same in the run; None likewise.
        stages: stage -> the reference against itself by its rules.
        error: what was raised; "" where it answered.
    """

    cause: Cause
    at: int | None = None
    was: int | None = None
    stages: Mapping[str, StageTally] = field(default_factory=dict)
    error: str = ""

    def __str__(self) -> str:
        match self.cause:
            case "repetition":
                return f"run {self.at} on the same batches"
            case "batch_size":
                return f"batch size {self.at}" + (f", not {self.was}" if self.was else "")
            case "position":
                return "batches in reverse order"
            case "threads":
                return f"{self.at} threads, not {self.was}"


class ReferenceNoise(Struct, frozen=True):
    """One reference.

    Attributes:
        samples: that were run again.
        varied: what was changed.
        why_not: cause -> why it was not.
        error: what it raised on being run again as in the run; "" where it answered.
        left_out: samples that had no answer on being run again so, and are in no figure.
    """

    samples: int = 0
    varied: tuple[Varied, ...] = ()
    why_not: Mapping[str, str] = field(default_factory=dict)
    error: str = ""
    left_out: int = 0

    def floor(self, stage: str, output: str) -> tuple[Extreme, Varied] | None:
        """The largest error of an output, and what caused it; None: there was none to measure."""
        found: tuple[Extreme, Varied] | None = None
        for varied in self.varied:
            tally = varied.stages.get(stage)
            measured = tally.outputs.get(output) if tally is not None else None
            worst = measured.max_abs_error if measured is not None else None
            if worst is not None and (found is None or worst.value > found[0].value):
                found = worst, varied
        return found


class Noise(Struct, frozen=True):
    """All references.

    Attributes:
        is_asked: whether the plan or the command asks for it.
        references: name -> what was measured.
    """

    is_asked: bool = False
    references: Mapping[str, ReferenceNoise] = field(default_factory=dict)
