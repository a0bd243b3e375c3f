"""What a run answers: the verdict, why, the summary, the folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paritygate.core.errors import ParityError, PlanError
from paritygate.core.text import clean
from paritygate.core.verdict import Reason, Verdict
from paritygate.runfolder import SCHEMA_VERSION

if TYPE_CHECKING:
    from paritygate.pipeline.execute import Outcome


class HoldError(AssertionError):
    """A run that does not release; its text names every reason.

    Attributes:
        result: the run.
    """

    def __init__(self, result: RunResult) -> None:
        self.result = result
        super().__init__(result.explain())

    def __reduce__(self) -> tuple[Any, ...]:
        """With the run itself, whose text is long."""
        return HoldError, (self.result,)


@dataclass(frozen=True)
class RunResult:
    """A finished run.

    Attributes:
        verdict: release, hold or incomplete.
        reasons: why it does not release; empty for a release.
        not_judged: what the verdict does not cover.
        summary: the same as `summary.json`.
        folder: the run folder; None where none was asked for.
    """

    verdict: Verdict
    reasons: tuple[Reason, ...]
    not_judged: tuple[str, ...]
    summary: Mapping[str, Any]
    folder: Path | None

    @staticmethod
    def of(outcome: Outcome) -> RunResult:
        """The result of a finished run."""
        judgement = outcome.judgement
        return RunResult(
            judgement.verdict,
            judgement.reasons,
            judgement.not_judged,
            outcome.summary,
            outcome.folder,
        )

    @property
    def exit_code(self) -> int:
        """What a command ends with: 0 release, 1 hold, 3 incomplete."""
        return self.verdict.exit_code

    def explain(self) -> str:
        """The verdict and its reasons, a line each; control characters escaped."""
        lines = [
            f"{self.verdict.value}: {len(self.reasons)} reason(s)"
            if self.reasons
            else self.verdict.value
        ]
        for reason in self.reasons:
            stage = f" [{reason.stage}]" if reason.stage else ""
            lines.append(f"  {reason.code}{stage}: {clean(reason.message)}")
            if reason.ids:
                lines.append(f"    ids: {', '.join(map(clean, reason.ids))}")
            if reason.next:
                lines.append(f"    next: {clean(reason.next)}")
        return "\n".join(lines)

    def raise_for_hold(self) -> RunResult:
        """Return itself for a release.

        Raises:
            HoldError: any other verdict, an AssertionError with every reason.
        """
        if self.verdict is not Verdict.RELEASE:
            raise HoldError(self)
        return self


def unjudged_summary(error: ParityError) -> dict[str, Any]:
    """The summary of a run that could not judge: verdict `unjudged` and the reason."""
    if isinstance(error, PlanError):
        reasons = [{"code": error.code, "message": str(p)} for p in error.problems]
    else:
        detail = getattr(error, "detail", "")
        told = {"code": error.code, "message": str(error)}
        reasons = [{**told, "detail": detail} if detail else told]
    return {
        "schema_version": SCHEMA_VERSION,
        "verdict": Verdict.UNJUDGED.value,
        "reasons": reasons,
    }
