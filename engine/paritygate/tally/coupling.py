"""A runner against itself at other batch sizes, and a reference against what was recorded."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from paritygate.core.policy import Tolerance
from paritygate.tally.output import OutputTally


class Measured(Struct, frozen=True):
    """One output, measured twice over some samples.

    Attributes:
        allowed: by what it is judged; exact where the plan gives no budget.
        tally: the statistics.
        scaled: the same by the tolerance of a stage that compares this output, for the size of the
            effect; None where there is none.
        stage: that stage.
        first: ids of the first few samples that differ by more than is allowed.
        layouts: what the two answers are, where that differs.
    """

    allowed: Tolerance
    tally: OutputTally | None = None
    scaled: OutputTally | None = None
    stage: str | None = None
    first: tuple[int | str, ...] = ()
    layouts: tuple[str, str] | None = None

    @property
    def is_good(self) -> bool:
        """Whether every element was compared and found good."""
        if self.layouts is not None or self.tally is None:
            return False
        return self.tally.samples > 0 and self.tally.failing_samples == 0


class SelfCheck(Struct, frozen=True):
    """A runner at the batch size of the run and at others.

    Attributes:
        size: rows of a batch in the run.
        others: further approved sizes that it was run at.
        outputs: (other size, output) -> what was measured.
        errors: other size -> what was raised.
        why_not: why it was not run at any other size; "" where it was.
        again: what it raised on being run again as in the run; "" where it answered.
    """

    size: int | None
    others: tuple[int, ...] = ()
    outputs: Mapping[tuple[int, str], Measured] = field(default_factory=dict)
    errors: Mapping[int, str] = field(default_factory=dict)
    why_not: str = ""
    again: str = ""


class Consistency(Struct, frozen=True):
    """What was found out about the runners by themselves.

    Attributes:
        samples: samples that were run again.
        runners: name -> the runner against itself.
        drift: (stage, output) -> the reference's answers against the pack's recorded outputs.
        notes: what was not measured though it could have been.
    """

    samples: int = 0
    runners: Mapping[str, SelfCheck] = field(default_factory=dict)
    drift: Mapping[tuple[str, str], Measured] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
